# A thin front for CMake and the test runners; `make help` lists what there is.
PRESET ?= release
BUILD = build/$(PRESET)

.PHONY: all help deps quickstart check lint fuzz asan tsan soak bench check-gpu bench-gpu format clean

all: ## build glyd and its libraries into build/release
	cmake --preset $(PRESET) >/dev/null
	cmake --build $(BUILD)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

deps: ## install the packages that the build and the tests need (Debian, as root or with sudo)
	tools/deps.sh

quickstart: ## from a fresh machine to a packed model that answers
	tools/quickstart.sh

check: ## build, lint, and run every test that needs no GPU
	tools/check.sh

lint: ## the direction law, sizes, banned calls, formatting
	tests/lint/lint.py

asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	tools/sanitize.sh asan

tsan: ## the tests under ThreadSanitizer
	tools/sanitize.sh tsan

fuzz: ## each fuzz target for SECONDS_EACH (default 60)
	tools/fuzz.sh

soak: ## the server under 64 clients, half of whom leave at random, for SOAK_SECONDS (default 300)
	.venv/bin/python tests/server/soak.py $(or $(SOAK_SECONDS),300)

bench: ## the CPU figures, appended to bench/results
	tools/bench.sh

check-gpu: ## kcheck and the sanitizer runs, on a machine with an NVIDIA GPU
	tools/check_gpu.sh

bench-gpu: ## products from packed weights against cuBLAS
	tools/bench_gpu.sh

format: ## format every C and CUDA file
	git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

clean: ## remove build/
	rm -rf build
