#!/usr/bin/env python3
"""Does vLLM with packed weights give the bits of vLLM with bf16 weights? On a GPU:

    python3 tests/vllm/gpu_same_bits.py [--shape qwen3-8b] [--layouts mma12,mma] [--eager]

Two engines on the same random model, compiled and with CUDA graphs as users run them: every
log-probability of prompts of 1 to 3,000 tokens and of 32 greedy steps after them, alone and in
batches of 8 and 32, must be equal. Prints a line a case; exit status 1 where one differs.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

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
    parser.add_argument("--shape", default="qwen3-8b", choices=gpu_engine.SHAPES)
    parser.add_argument("--layouts", default="mma12")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--kv-bytes", type=int, default=8 << 30)
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        def start(name, **more):
            return stack.enter_context(gpu_engine.Running(
                name, Path(folder) / name, args.logs / f"{args.shape}-{name}.log", args.shape,
                eager=args.eager, kv_bytes=args.kv_bytes, **more))
        engines = [start("bf16")]
        engines += [start(layout, quantization="glyd", options={"layout": layout})
                    for layout in args.layouts.split(",")]
        for engine in engines:
            print(f"{args.shape} {engine.name}: started in {engine.wait()['started_s']:.1f} s, "
                  f"{engine.ask('memory')}", flush=True)
        equal = [compare(engines[0], packed) for packed in engines[1:]]
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
