#!/bin/sh
# `make check`: installs what the tests need, builds, and runs every test that needs no GPU.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh
tools/venv.sh
tools/venv_vllm.sh
make
python=.venv/bin/python
tests/lint/lint.py
ctest --test-dir build/release --output-on-failure -j"$(nproc)"
$python tools/make_smollm2.py --if-missing model/SmolLM2-135M-Instruct
$python -m pytest -q tests
.venv-vllm/bin/python -m pytest -q tests/vllm
