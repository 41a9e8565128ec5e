#!/bin/sh
# tools/sanitize.sh asan|tsan: builds the C tests with a sanitizer and runs them, then the program,
# which the server tests of guards, tools and responses ask.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in asan | tsan) ;; *) echo "usage: $0 asan|tsan" >&2 && exit 2 ;; esac
cmake --preset "$1" >/dev/null
cmake --build "build/$1"
# The order of thread ends is the system's; a leak or a race is a failure.
ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1 ctest --test-dir "build/$1" --output-on-failure
tools/venv.sh
.venv/bin/python tools/make_smollm2.py --if-missing model/SmolLM2-135M-Instruct
GLYD_PROGRAM="$PWD/build/$1/glyd" .venv/bin/python -m pytest -q tests/server/test_guards.py \
    tests/server/test_responses.py tests/server/test_messages.py
