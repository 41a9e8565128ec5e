#!/usr/bin/env python3
"""Does vLLM with packed weights give the bits of vLLM with bf16 weights? On a GPU:

    python3 tests/vllm/gpu_same_bits.py [--shape qwen3-8b] [--layouts mma12,mma] [--eager]
                                        [--timed-choices]

Two engines on the same random model, compiled and with CUDA graphs: every log-probability of
prompts of 1 to 3,000 tokens and of 32 greedy steps after them, alone and in batches of 8 and 32,
must be equal. Prints a line a case; exit status 1 where one differs.

Inductor times several kernels for a norm of more than 2,048 columns and takes the fastest; they add
in different orders, so two engines compiled on their own may differ in bits, whatever their weights
are held in. TORCHINDUCTOR_DETERMINISTIC=1 has it choose without timing, and is set here.
--timed-choices leaves it out and starts a second bf16 engine, which shows what is due to that.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import sys

import gpu_engine


def compare(bf16, packed, out=sys.stdout):
    """Whether all cases are equal."""
    expected, found = bf16.ask("bits"), packed.ask("bits")
    again = bf16.ask("bits")
    for case, (digest, n, tokens) in expected.items():
        verdict = "equal" if found[case] == expected[case] else f"DIFFERS {found[case]}"
        steady = "" if again[case] == expected[case] else ", bf16 DIFFERS FROM ITSELF"
        print(f"{packed.name} {case}: {n} log-probabilities {verdict}{steady} {digest} {tokens}",
              file=out, flush=True)
    return found == expected


def main():
    parser = argparse.ArgumentParser()
    gpu_engine.add_options(parser, kv_bytes=8 << 30)
    parser.add_argument("--layouts", default="mma12")
    parser.add_argument("--timed-choices", action="store_true")
    args = parser.parse_args()
    environment = {} if args.timed_choices else {"TORCHINDUCTOR_DETERMINISTIC": "1"}
    with gpu_engine.side_by_side(args, environment) as start:
        engines = [start("bf16")]
        engines += [start("bf16-again")] if args.timed_choices else []
        engines += [start(layout, quantization="glyd", options={"layout": layout})
                    for layout in args.layouts.split(",")]
        for engine in engines:
            print(f"{args.shape} {engine.name}: started in {engine.wait()['started_s']:.1f} s, "
                  f"{engine.ask('memory')}", flush=True)
        equal = [compare(engines[0], packed) for packed in engines[1:]]
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
