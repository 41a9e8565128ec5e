#!/usr/bin/env python3
"""What the server adds to the engine, on a save.

    bench/server.py [--busy] SAVE [ROUNDS] | bench/record.py

Prints lines `id value unit n p10 p90`. A round asks the server and `glyd bench` one right after the
other, in turns, and `overhead` is the median of the rounds' ratios: what disturbs the machine
disturbs both, if it lasts. `beside` is the time on cores of the server's own threads as a part of
the engine's, which hardly depends on what else runs. `first_byte` is the time from a token's making
to its arrival, and the way of the request. --busy leaves out what a busy machine makes worthless.
SPDX-License-Identifier: Apache-2.0
"""
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/server"))

from measure import (  # noqa: E402
    bench_rate,
    first_bytes,
    idle_bytes,
    served_rate,
    time_beside_engine,
)
from serving import Server  # noqa: E402

TOKENS = 96


def show(name, values, unit, digits):
    ordered = sorted(values)
    low, high = (ordered[int(q * (len(ordered) - 1) + 0.5)] for q in (0.1, 0.9))
    print(f"server.{name} {statistics.median(values):.{digits}f} {unit} {len(values)} "
          f"{low:.{digits}f} {high:.{digits}f}", flush=True)


def main():
    args = [a for a in sys.argv[1:] if a != "--busy"]
    is_quiet = len(args) == len(sys.argv) - 1
    save, rounds = args[0], int(args[1]) if len(args) > 1 else 7
    with Server(save, "--context", 1024, "--parallel", 8) as server:
        served_rate(server, 8, TOKENS, 1)  # pages are faulted in
        for users in (1, 8):
            ours, engine, first, beside = [], [], [], []
            for seed in range(2, 2 + rounds):
                beside.append(time_beside_engine(server, users, TOKENS, 2000 + seed))
                if is_quiet:
                    ours.append(served_rate(server, users, TOKENS, seed))
                    engine.append(bench_rate(save, users, TOKENS))
                    first += first_bytes(server, users, 4, 1000 + seed)
            show(f"beside.users{users}", [100 * x for x in beside], "%", 2)
            if not is_quiet:
                continue
            show(f"decode.users{users}", ours, "tokens/s", 2)
            show(f"decode.users{users}.bench", engine, "tokens/s", 2)
            show(f"overhead.users{users}", [100 * (1 - a / b) for a, b in zip(ours, engine)], "%", 2)
            show(f"first_byte.users{users}", [1e3 * t for t in first], "ms", 2)
    with Server(save, "--context", 1024) as server:
        show("idle.1000", [idle_bytes(server, 1000) / 1e6], "MB", 2)


if __name__ == "__main__":
    main()
