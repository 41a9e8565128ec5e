#!/bin/sh
# Times products from packed weights against cuBLAS and appends to bench/results/gpu_products.csv.
# usage: tools/bench_gpu.sh [FOLDER WITH glyd_gpu_bench]     (default build/release)
set -eu
bench=${1:-build/release}/glyd_gpu_bench
commit=$(git rev-parse --short HEAD 2>/dev/null || echo -)
mkdir -p bench/results
exec "$bench" -l mma12,mma -u -k "$commit" -c bench/results/gpu_products.csv
