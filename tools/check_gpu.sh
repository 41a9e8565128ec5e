#!/bin/sh
# Checks every GPU operation bit for bit, what the library refuses, and reduced grids under
# compute-sanitizer's four tools; against PyTorch's F.linear where python3 has it.
# usage: tools/check_gpu.sh [FOLDER WITH THE PROGRAMS]     (default build/release)
set -eu
programs=${1:-build/release}
tests=$(dirname "$0")/../tests/gpu

# racecheck does not follow the code planes of few_streams.cuh (docs/SPEED.md, "Checks"): a write
# there is let pass, any other race is not.
check_races() {
    races=$(mktemp)
    trap 'rm -f "$races"' EXIT
    compute-sanitizer --tool racecheck --print-limit 100000 "$@" >"$races" 2>&1 ||
        { tail -n 30 "$races"; exit 1; }
    grep -E '^kcheck:|RACECHECK SUMMARY' "$races"
    ! grep 'Race reported' "$races" | grep -v 'in few_streams\.cuh:' || exit 1
    rm -f "$races"
}

"$programs/kcheck"
"$programs/pcheck"
"$programs/bad_input"
echo "no device"
CUDA_VISIBLE_DEVICES="" "$programs/bad_input" -n
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
        echo "compute-sanitizer $tool"
        if [ "$tool" = racecheck ]; then
            check_races "$programs/kcheck" -r
        else
            compute-sanitizer --tool "$tool" --error-exitcode 1 "$programs/kcheck" -r
        fi
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$programs/pcheck" -r
    done
    echo "compute-sanitizer memcheck"
    compute-sanitizer --report-api-errors no --error-exitcode 1 "$programs/bad_input"
fi
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    python3 "$tests/plan_search.py" --library "$programs/libglyd_gpu.so" --csv /dev/null \
        --models Qwen3-0.6B,Qwen2.5-0.5B --tokens 1,2,3,8,17,64,100,256,1024
fi
