#!/bin/sh
# Checks every GPU operation bit for bit, then a reduced grid under compute-sanitizer's four tools.
# usage: tools/check_gpu.sh [FOLDER WITH kcheck]     (default build/release)
set -eu
kcheck=${1:-build/release}/kcheck
"$kcheck"
for tool in memcheck racecheck initcheck synccheck; do
    if command -v compute-sanitizer >/dev/null; then
        echo "compute-sanitizer $tool"
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$kcheck" -r
    fi
done
