#!/bin/sh
# `make quickstart`: from a fresh Debian 12 machine to a real model that is packed, verified and
# answering. Everything it makes is in build/, .venv/ and model/.
set -eu
cd "$(dirname "$0")/.."
folder=model/SmolLM2-135M-Instruct
glyd=build/release/glyd
question="What is the capital of France?"

echo "== 1. packages and build"
tools/deps.sh
make

echo "== 2. a real model: SmolLM2-135M-Instruct as a bf16 Hugging Face folder"
tools/venv.sh quickstart
.venv-quickstart/bin/python tools/make_smollm2.py --if-missing $folder

echo "== 3. pack, then verify every tensor"
rm -rf $folder-glyd
$glyd pack $folder $folder-glyd
$glyd verify $folder-glyd

echo "== 4. the same logits, bit for bit"
bf16=$($glyd run $folder --prompt "$question" --logits-hash)
packed=$($glyd run $folder-glyd --prompt "$question" --logits-hash)
echo "bf16    $bf16"
echo "packed  $packed"
[ "$bf16" = "$packed" ] || { echo "the logits differ" >&2 && exit 1; }

echo "== 5. an answer from the packed weights"
echo "> $question"
$glyd run $folder-glyd --prompt "$question" --temperature 0 --max-tokens 60

echo
echo "Chat with it:  $glyd run $folder-glyd"
