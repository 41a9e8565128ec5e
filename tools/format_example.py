#!/usr/bin/env python3
"""The worked example of docs/FORMAT.md, from two golden matrices' own bytes.

    tools/format_example.py              print it
    tools/format_example.py --check      fail unless docs/FORMAT.md holds it

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import struct
import sys

import decoder

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "matrix"


def word(data, index):
    return struct.unpack_from("<I", data, 4 * index)[0]


def explain_weight(arrays, blocks, row, col):
    """A weight of an mma12 matrix, from its bits."""
    tile, block, g, x = row // 16, col // 64, row % 8, col % 16
    lane, j, r, h = g * 4 + x % 8 // 2, col % 64 // 16, x // 8 * 2 + row % 16 // 8, x % 2
    at = (tile * blocks + block) * 256 + j // 2 * 128 + lane * 4 + j % 2 * 2 + r // 2
    sm = word(arrays["sm"], at)
    half = sm >> 16 * h & 0xFFFF
    own = (half >> 8 | half << 8 & 0xFFFF if r % 2 else half) & 0x807F
    code_at = (tile * blocks + block) * 128 + lane * 4 + j
    codes, bit = word(arrays["codes"], code_at), 16 * h + 4 * r
    code, base = codes >> bit & 15, arrays["bases"][row]
    return [
        f"row {row}, column {col}: tile {tile}, block {block},"
        f" lane {lane} (g = {g}, t = {lane % 4}), group {j}, register {r}, half {h}",
        f"  sm     word {at} = {sm:08x}, half {h} = {half:04x}"
        + (", its bytes exchanged" if r % 2 else "")
        + f", & 807f = {own:04x}",
        f"  codes  word {code_at} = {codes:08x}, bits {bit + 3}..{bit} = {code}",
        f"  bases  [{row}] = {base}, so the exponent is {base} + {code} = {base + code}",
        f"  weight {own:04x} | {base + code} << 7 = {own | base + code << 7:04x}",
    ], own | base + code << 7


def explain_escape(arrays, n):
    escape = word(arrays["escapes"], n)
    block, position, exponent = escape >> 18, escape >> 8 & 1023, escape & 255
    lane, j, r, h = position >> 5, position >> 3 & 3, position >> 1 & 3, position & 1
    return [
        f"escape {n} = {escape:08x}: block {block}, position {position}, exponent {exponent}",
        f"  lane {lane}, group {j}, register {r}, half {h}: row {lane // 4 + r % 2 * 8},"
        f" column {block * 64 + j * 16 + lane % 4 * 2 + r // 2 * 8 + h}",
    ]


def explain_stream(arrays, lane, n):
    """The first n pairs of a lane of the first run."""
    table = decoder.read_table(arrays["table"])
    counts = struct.unpack("<16H", arrays["table"][:32])
    first_bit_first = lambda bits, code: f"{code:0{bits}b}"[::-1]  # noqa: E731
    lines = [
        "counts " + ", ".join(f"{c} of {b} bits" for b, c in enumerate(counts) if c),
        "codes, first bit first: "
        + ", ".join(f"{first_bit_first(*code)} = {symbol:02x}" for code, symbol in table.items()),
    ]
    words = [word(arrays["codes"], lane), word(arrays["codes"], 32 + lane)]
    lines.append(f"lane {lane}: words {lane} and {32 + lane} = {words[0]:08x} {words[1]:08x}")
    buffer, taken = words[0] | words[1] << 32, []
    for _ in range(n):
        bits = next(b for b in range(1, 12) if (b, buffer & (1 << b) - 1) in table)
        code = bits, buffer & (1 << bits) - 1
        taken.append(f"{first_bit_first(*code)} = {table[code]:02x}")
        buffer >>= bits
    lines.append("  from the low end: " + ", ".join(taken))
    return lines


def example():
    fields, arrays = decoder.read_golden(GOLDEN / "mma12-31x120.matrix")
    row, col = 9, 70
    lines, value = explain_weight(arrays, decoder.ceil_div(int(fields["cols"]), 64), row, col)
    at = 2 * (row * int(fields["cols"]) + col)
    assert struct.unpack_from("<H", arrays["values"], at)[0] == value
    lines = ["tests/golden/matrix/mma12-31x120.matrix"] + lines + explain_escape(arrays, 0)
    _, arrays = decoder.read_golden(GOLDEN / "mma-two-30x190.matrix")
    lines += ["", "tests/golden/matrix/mma-two-30x190.matrix"] + explain_stream(arrays, 5, 10)
    return "\n".join(lines)


def main():
    if sys.argv[1:] == ["--check"]:
        found = example() in (ROOT / "docs" / "FORMAT.md").read_text()
        sys.exit(None if found else "docs/FORMAT.md does not hold what format_example.py prints")
    print(example())


if __name__ == "__main__":
    main()
