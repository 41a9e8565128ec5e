#!/usr/bin/env python3
"""Seconds, speed and peak memory of glyd pack, verify and unpack on a model folder.

    bench/saves.py FOLDER

Prints lines `id value unit`. Peak memory is the process's largest resident set less what of it is
the mapped checkpoint; `limit` is what packing may take: the largest tensor's bf16 and packed bytes
and 64 MB. `verify` is beside SHA-256 of the same bf16 bytes, on two threads against one.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GLYD = ROOT / "build/release/glyd"
ROUNDS = 5


def private_peak(pid, stop, peak):
    """Watch RssAnon: memory of the process's own, mapped files aside."""
    while not stop.is_set():
        try:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak[0] = max(peak[0], int(line.split()[1]) * 1024)
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.002)


def timed(*args):
    start = time.perf_counter()
    process = subprocess.Popen([GLYD, *map(str, args)], stdout=subprocess.DEVNULL)
    stop, peak = threading.Event(), [0]
    watcher = threading.Thread(target=private_peak, args=(process.pid, stop, peak))
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    stop.set()
    watcher.join()
    if code:
        sys.exit(f"glyd {args[0]} failed")
    return seconds, peak[0]


def largest_tensor(folder):
    largest = 0
    for shard in folder.glob("*.safetensors"):
        with open(shard, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        for name, tensor in header.items():
            if name != "__metadata__":
                begin, end = tensor["data_offsets"]
                largest = max(largest, end - begin)
    return largest


def sha256_seconds(folder):
    data = b"".join(shard.read_bytes() for shard in sorted(folder.glob("*.safetensors")))
    start = time.perf_counter()
    hashlib.sha256(data).hexdigest()
    return time.perf_counter() - start


def main():
    folder = Path(sys.argv[1])
    n_bytes = sum(shard.stat().st_size for shard in folder.glob("*.safetensors"))
    figures = {}
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        for layout in ("mma12", "mma"):
            for _ in range(ROUNDS):
                save, back = Path(work, "save"), Path(work, "back")
                seconds, peak = timed("pack", "-q", "-t", 1, "--layout", layout, folder, save)
                figures.setdefault(f"save.pack.{layout}", []).append(n_bytes / seconds / 1e6)
                figures.setdefault(f"save.pack_peak.{layout}", []).append(peak / 1e6)
                seconds, _ = timed("verify", "-q", "-t", 2, save)
                figures.setdefault(f"save.verify.{layout}", []).append(n_bytes / seconds / 1e6)
                seconds, _ = timed("unpack", "-q", "-t", 1, save, back)
                figures.setdefault(f"save.unpack.{layout}", []).append(n_bytes / seconds / 1e6)
                figures.setdefault("save.sha256", []).append(
                    n_bytes / sha256_seconds(folder) / 1e6)
                shutil.rmtree(save)
                shutil.rmtree(back)
    for name, values in figures.items():
        unit = "MB" if "peak" in name else "MB/s"
        print(f"{name} {statistics.median(values):.1f} {unit} {len(values)} {min(values):.1f} "
              f"{max(values):.1f}")
    largest = largest_tensor(folder)
    print(f"save.pack_peak.limit {(largest * 1.76 + 64e6) / 1e6:.1f} MB")


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    main()
