#!/usr/bin/env python3
"""Appends figures to bench/results/cpu.csv.

    some-benchmark | bench/record.py [--prefix run.smollm2]

Reads lines `id value unit [n p10 p90]`, prints them again, and adds the machine, the commit and the
date: columns id,value,unit,n,p10,p90,machine,commit,date. Lines of another shape pass through.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ["id", "value", "unit", "n", "p10", "p90", "machine", "commit", "date"]
FIGURE = re.compile(r"^([a-z0-9_]+(?:[.\-x][a-z0-9_]+)+)\s+(-?[0-9.]+(?:e[-+]?\d+)?)\s+(\S+)"
                    r"(?:\s+(\d+)\s+(-?[0-9.e+-]+)\s+(-?[0-9.e+-]+))?\s*$", re.I)


def machine():
    text = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*:\s*(.*)", text).group(1).strip()
    flags = re.search(r"flags\s*:\s*(.*)", text).group(1).split()
    best = "avx512" if "avx512bw" in flags else "avx2" if "avx2" in flags else "c"
    return f"{name}, {os.cpu_count()} cores, {best}"


def commit():
    def git(*args):
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True).stdout
    dirty = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "--short", "HEAD").strip() + dirty


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", default="")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/cpu.csv")
    args = parser.parse_args()
    where = [machine(), commit(), datetime.date.today().isoformat()]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    fresh = not args.out.exists()
    with open(args.out, "a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(COLUMNS)
        for line in sys.stdin:
            sys.stdout.write(line)
            match = FIGURE.match(line)
            if match:
                name, *rest = (field or "" for field in match.groups())
                writer.writerow([".".join(filter(None, (args.prefix, name))), *rest, *where])


if __name__ == "__main__":
    main()
