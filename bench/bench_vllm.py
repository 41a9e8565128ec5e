#!/usr/bin/env python3
"""vLLM with packed weights against vLLM with bf16 weights, on a GPU, side by side in one run.

    python3 bench/bench_vllm.py [--shape qwen3-8b] [--layout mma12] [--bits] [--csv FILE]

Both engines are up at once, each in a process of its own, on the same random model, compiled and
with CUDA graphs. Each measurement is taken with one, then with the other, round by round, after a
round that is not counted; a ratio is that of the medians, bf16's time to glyd's. --bits first
compares every log-probability as tests/vllm/gpu_same_bits.py does.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import datetime
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/vllm"))
import gpu_engine
import gpu_same_bits

DECODES = [(1, 128), (8, 128), (32, 128), (64, 1024)]  # sequences, tokens of each
PROMPTS = [128, 512, 2048, 8192]
REQUESTS, REQUEST_TOKENS, ANSWER_TOKENS = 256, 1024, 128


class Table:
    def __init__(self, shape, layout, commit):
        self.shape, self.layout, self.commit = shape, layout, commit
        self.machine = ""
        self.rows = []

    def add(self, what, value, unit, values=()):
        values = sorted(values)
        tenth = len(values) // 10
        p10, p90 = (values[tenth], values[-1 - tenth]) if values else ("", "")
        self.rows.append([f"vllm.{self.shape}.{what}", value, unit, len(values) or 1, p10, p90])

    def compare(self, what, unit, bf16, packed, faster_is_more=False):
        """Add both and the ratio, and print them."""
        medians = statistics.median(bf16), statistics.median(packed)
        ratio = medians[1] / medians[0] if faster_is_more else medians[0] / medians[1]
        self.add(f"{what}.bf16", round(medians[0], 4), unit, [round(v, 4) for v in bf16])
        self.add(f"{what}.{self.layout}", round(medians[1], 4), unit, [round(v, 4) for v in packed])
        self.add(f"{what}.{self.layout}.ratio", round(ratio, 4), "bf16 = 1")
        print(f"{what}: bf16 {medians[0]:.3f} {unit}, {self.layout} {medians[1]:.3f}, "
              f"ratio {ratio:.3f}", flush=True)

    def write(self, path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow("id,value,unit,n,p10,p90,machine,commit,date".split(","))
            for row in self.rows:
                writer.writerow([*row, self.machine, self.commit, datetime.date.today().isoformat()])


def rounds(engines, n, do, **arguments):
    """n values of each engine, taken in turn, after one that is not counted."""
    values = [[] for _ in engines]
    for i in range(n + 1):
        for engine, into in zip(engines, values):
            value = engine.ask(do, seed=1000 + i, **arguments)
            if i:
                into.append(value)
    return values


def measure(engines, table, args):
    for n, tokens in DECODES:
        values = rounds(engines, args.rounds, "decode", n_prompts=n, prompt_tokens=tokens, steps=64)
        table.compare(f"decode.{n}x{tokens}", "ms", *([1e3 * v for v in vs] for vs in values))
    for tokens in PROMPTS:
        values = rounds(engines, args.rounds + 2, "generate", n_prompts=1, prompt_tokens=tokens,
                        answer_tokens=1)
        table.compare(f"prompt.{tokens}", "ms", *([1e3 * v for v in vs] for vs in values))
    if args.requests:
        values = rounds(engines, 2, "generate", n_prompts=REQUESTS, prompt_tokens=REQUEST_TOKENS,
                        answer_tokens=ANSWER_TOKENS)
        table.compare(f"requests.{REQUESTS}x{REQUEST_TOKENS}+{ANSWER_TOKENS}", "requests/s",
                      *([REQUESTS / v for v in vs] for vs in values), faster_is_more=True)


def main():
    parser = argparse.ArgumentParser()
    gpu_engine.add_options(parser, kv_bytes=45 * 10**9)
    parser.add_argument("--layout", default="mma12")
    parser.add_argument("--bits", action="store_true")
    parser.add_argument("--requests", type=int, default=1, help="0: leave the requests out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit", default="")
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    table = Table(args.shape, args.layout, args.commit)
    with gpu_engine.side_by_side(args) as start:
        engines = [start("bf16"), start(args.layout, quantization="glyd",
                                        options={"layout": args.layout})]
        for engine in engines:
            print(f"{engine.name}: started in {engine.wait()['started_s']:.1f} s", flush=True)
        held = [engine.ask("memory") for engine in engines]
        table.machine = held[0]["device"]
        table.compare("weights", "GB", *([h["weights"] / 1e9] for h in held))
        equal = not args.bits or gpu_same_bits.compare(*engines)
        try:
            measure(engines, table, args)
        finally:
            if args.csv:
                table.write(args.csv)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
