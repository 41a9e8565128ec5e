#!/bin/sh
# `make bench`: the CPU figures, printed and appended to bench/results/cpu.csv. Takes about a
# quarter of an hour and needs a quiet machine. PEERS=1 also builds llama.cpp and compares with it.
set -eu
cd "$(dirname "$0")/.."
tools/venv.sh
make
python=.venv/bin/python
build=build/release
model=model/SmolLM2-135M-Instruct

$build/bench_codec | bench/record.py
$python bench/minilm.py | bench/record.py
$build/bench_linear | bench/record.py
$python tools/make_smollm2.py --if-missing $model
[ -d $model-glyd ] || $build/glyd pack -q $model $model-glyd
$python bench/saves.py $model | bench/record.py
if [ "${PEERS:-0}" = 1 ]; then
    [ -x .venv-peers/bin/python ] || python3 -m venv .venv-peers
    CMAKE_ARGS=-DGGML_NATIVE=ON .venv-peers/bin/pip install -q --no-binary llama-cpp-python \
        llama-cpp-python gguf numpy
    .venv-peers/bin/python bench/peers_cpu.py $model | bench/record.py
    .venv-peers/bin/python bench/peers_cpu.py --random build/random-1b | bench/record.py
else
    for layout in "" -glyd; do
        for threads in 1 2; do
            $build/bench_decode $model$layout --threads $threads --rounds 5 |
                bench/record.py --prefix "run.smollm2$layout"
        done
    done
fi
