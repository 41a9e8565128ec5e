#!/bin/sh
# tools/sanitize.sh asan|tsan: builds the C tests with a sanitizer and runs them, then the program,
# which the server's tests ask.
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
# ThreadSanitizer makes the real model too slow to wait for: the tiny ones alone are asked there.
if [ "$1" = tsan ]; then
    set -- tests/server/test_guards.py tests/server/test_lifecycle.py
    set -- "$@" tests/server/test_bug_classes.py::test_03_client_of_many_choices_gone
    set -- "$@" tests/server/test_bug_classes.py::test_05_reasoning_effort
    set -- "$@" tests/server/test_bug_classes.py::test_08_bytes_of_split_characters
    export GLYD_PROGRAM="$PWD/build/tsan/glyd"
else
    set -- tests/server/test_guards.py tests/server/test_lifecycle.py
    set -- "$@" tests/server/test_responses.py tests/server/test_messages.py
    set -- "$@" tests/server/test_openai_client.py tests/server/test_bug_classes.py
    export GLYD_PROGRAM="$PWD/build/asan/glyd"
fi
.venv/bin/python -m pytest -q "$@"
