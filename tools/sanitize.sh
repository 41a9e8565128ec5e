#!/bin/sh
# tools/sanitize.sh asan|tsan: builds the C tests with a sanitizer and runs them.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in asan | tsan) ;; *) echo "usage: $0 asan|tsan" >&2 && exit 2 ;; esac
cmake --preset "$1" >/dev/null
cmake --build "build/$1"
# The order of thread ends is the system's; a leak or a race is a failure.
ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1 ctest --test-dir "build/$1" --output-on-failure
