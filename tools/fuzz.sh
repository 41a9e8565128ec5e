#!/bin/sh
# Runs each fuzz target for SECONDS_EACH (default 60) from its committed corpus. New inputs go to
# build/fuzz/corpus; a finding ends the run and leaves its input in build/fuzz.
set -eu
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-60}
cmake --preset fuzz >/dev/null
cmake --build build/fuzz
cd build/fuzz
for target in fuzz_*; do
    [ -x "$target" ] && [ -f "$target" ] || continue
    mkdir -p "corpus/$target"
    echo "== $target, $seconds s"
    "./$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
        "corpus/$target" "../../tests/fuzz/corpus/$target" 2>"$target.log" ||
        { tail -40 "$target.log" && exit 1; }
    grep -E 'number_of_executed_units|new_units_added' "$target.log"
done
