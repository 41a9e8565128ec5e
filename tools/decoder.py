#!/usr/bin/env python3
"""A second decoder of the format glyd-1, written from docs/FORMAT.md to be read, not to be fast.

    decoder.py matrix FILE...     decode golden matrices (tests/golden/matrix) and compare
    decoder.py save FOLDER        decode every tensor of a save and compare its SHA-256
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import struct
import sys


class Corrupt(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Corrupt(text)


def ceil_div(a, b):
    return -(-a // b)


def u32(data):
    return struct.unpack(f"<{len(data) // 4}I", data)


# --- FORMAT.md section 1: the packed matrix ---
def read_table(table):
    """The prefix code as {(bits, code with its first bit lowest): symbol}."""
    count = struct.unpack("<16H", table[:32])
    need(count[0] == 0 and not any(count[12:]), "table: a code of 0 or more than 11 bits")
    need(sum(n << (11 - bits) for bits, n in enumerate(count[:12])) == 1 << 11, "table: incomplete")
    need(len(set(table[32 : 32 + sum(count)])) == sum(count), "table: a symbol comes twice")
    symbols, code, codes = iter(table[32:]), 0, {}
    for bits in range(1, 12):
        for _ in range(count[bits]):
            codes[bits, int(f"{code:0{bits}b}"[::-1], 2)] = next(symbols)
            code += 1
        code <<= 1
    return codes


def decode_run(words, blocks, streams, codes):
    """A run's words to pairs[block][lane][group][register] = symbol."""
    pairs = [[[[0] * 4 for _ in range(4)] for _ in range(32)] for _ in range(blocks)]
    need(len(words) >= 2 * streams, "codes: a run is shorter than its streams' first words")
    buffer = [words[k] | words[streams + k] << 32 for k in range(streams)]
    held = [64] * streams
    a_block = 256 // streams
    dealt, steps = 2 * streams, blocks * a_block
    for step in range(steps):
        for k in range(streams):
            for second in range(2):
                bits = 1
                while (bits, buffer[k] & ((1 << bits) - 1)) not in codes:
                    bits += 1
                group, register = step % 4, k // 32 + 2 * second
                if streams == 32:
                    group, register = step // 2 % 4, step % 2 * 2 + second
                symbol = codes[bits, buffer[k] & ((1 << bits) - 1)]
                pairs[step // a_block][k % 32][group][register] = symbol
                buffer[k] >>= bits
                held[k] -= bits
        refill = 21 if step + 2 == steps else 30 if step + a_block >= steps else 62
        for k in range(streams):
            if step + 1 < steps and held[k] <= refill:
                need(dealt < len(words), "codes: a run ends early")
                buffer[k] |= words[dealt] << held[k]
                held[k] += 32
                dealt += 1
    need(len(words) == ceil_div(dealt, 4) * 4, "codes: a run is longer than its codes")
    need(not any(buffer) and not any(words[dealt:]), "codes: bits after the last code")
    return pairs


def tile_codes(layout, tile, blocks, arrays, run_blocks):
    """codes[block][lane][group][register] = (code of half 0, code of half 1)."""
    if layout == "mma12":
        plane = u32(arrays["codes"][tile * blocks * 512 : (tile + 1) * blocks * 512])
        return [
            [
                [
                    [(word >> 4 * r & 15, word >> 16 + 4 * r & 15) for r in range(4)]
                    for word in plane[block * 128 + lane * 4 : block * 128 + lane * 4 + 4]
                ]
                for lane in range(32)
            ]
            for block in range(blocks)
        ]
    table = read_table(arrays["table"])
    runs, result = ceil_div(blocks, run_blocks), []
    entries = u32(arrays["entries"])[tile * runs : (tile + 1) * runs + 1]
    for run in range(runs):
        n = min(run_blocks, blocks - run * run_blocks)
        need(entries[run] <= entries[run + 1] <= len(arrays["codes"]) // 16, "entries: no order")
        words = u32(arrays["codes"][entries[run] * 16 : entries[run + 1] * 16])
        for block in decode_run(words, n, 64 if blocks >= 32 else 32, table):
            result.append([[[(s & 15, s >> 4) for s in group] for group in lane] for lane in block])
    return result


def decode_matrix(layout, rows, cols, arrays, run_blocks):
    """The weights, row by row, as a list of rows * cols 16-bit integers."""
    if layout == "bf16":
        need(len(arrays["sm"]) == 2 * rows * cols, "sm: wrong size")
        return list(struct.unpack(f"<{rows * cols}H", arrays["sm"]))
    tiles, blocks = ceil_div(rows, 16), ceil_div(cols, 64)
    need(len(arrays["sm"]) == tiles * blocks * 1024, "sm: wrong size")
    need(layout == "mma" or len(arrays["codes"]) == tiles * blocks * 512, "codes: wrong size")
    need(max(arrays["bases"]) <= 240, "bases: more than 240")
    index, escapes = u32(arrays["escape_index"]), u32(arrays["escapes"])
    weights = [0] * (rows * cols)
    for tile in range(tiles):
        need(index[tile] <= index[tile + 1] <= len(escapes), "escape_index: no order")
        own = escapes[index[tile] : index[tile + 1]]
        exponents = {escape >> 8: escape & 255 for escape in own}
        need([e >> 8 for e in own] == sorted(exponents), "escapes: no order")
        codes = tile_codes(layout, tile, blocks, arrays, run_blocks)
        for block in range(blocks):
            sm = u32(arrays["sm"][(tile * blocks + block) * 1024 :][:1024])
            for position in range(1024):
                lane, j, r, h = position >> 5, position >> 3 & 3, position >> 1 & 3, position & 1
                half = sm[j // 2 * 128 + lane * 4 + j % 2 * 2 + r // 2] >> 16 * h & 0xFFFF
                if r % 2:
                    half = half >> 8 | (half & 0xFF) << 8
                row = tile * 16 + lane // 4 + r % 2 * 8
                col = block * 64 + j * 16 + lane % 4 * 2 + r // 2 * 8 + h
                code, escape = codes[block][lane][j][r][h], exponents.get(block << 10 | position)
                if row < rows and col < cols:
                    exponent = arrays["bases"][row] + code if escape is None else escape
                    weights[row * cols + col] = half & 0x807F | exponent << 7
                else:
                    need(not half & 0x807F and not code and escape is None, "beyond the edge")
        need(all(place >> 10 < blocks for place in exponents), "escapes: beyond the edge")
    return weights


# --- FORMAT.md section 2: a save ---
def need_sha256(data, digest, what):
    need(hashlib.sha256(data).hexdigest() == digest, f"{what}: another SHA-256")


def read_save(folder):
    """{name: bytes in the checkpoint} of all tensors."""
    names = ("sm", "codes", "bases", "escape_index", "escapes", "entries", "table")
    text = open(f"{folder}/glyd.json", "rb").read()
    manifest, shards, tensors = json.loads(text), [], {}
    need(manifest["format"] == "glyd-1", "glyd.json: another format")
    need_sha256(text[:-78], manifest["sha256"], "glyd.json")
    for shard in manifest["shards"]:
        data = open(f"{folder}/{shard['file']}", "rb").read()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        need_sha256(data[:start], shard["header_sha256"], shard["file"])
        spans = {n: e.get("data_offsets", (0, 0)) for n, e in json.loads(data[8:start]).items()}
        shards.append({n: data[start + begin : start + end] for n, (begin, end) in spans.items()})
    for t in sorted(manifest["tensors"], key=lambda t: "same_as" in t):
        data = tensors[t["same_as"]] if "same_as" in t else shards[t["shard"]].get(t["name"])
        if "arrays" in t:
            arrays = {a: shards[t["shard"]].get(f"{t['name']}.{a}", b"") for a in names}
            weights = decode_matrix(t["layout"], *t["shape"], arrays, t["run_blocks"])
            data = struct.pack(f"<{len(weights)}H", *weights)
        need_sha256(data, t["sha256"], t["name"])
        tensors[t["name"]] = data
    return tensors


# --- golden matrices: lines `name value` up to an empty one, then the arrays' bytes ---
def read_golden(path):
    data = open(path, "rb").read()
    head, _, body = data.partition(b"\n\n")
    fields = dict(line.split(" ") for line in head.decode().splitlines())
    arrays, names = {}, list(fields)
    for name in names[names.index("sm") :]:
        arrays[name], body = body[: int(fields[name])], body[int(fields[name]) :]
    return fields, arrays


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "save":
        sys.exit(print(f"{len(read_save(sys.argv[2]))} tensors, all as they were"))
    if len(sys.argv) < 3 or sys.argv[1] != "matrix":
        sys.exit(__doc__)
    failed = 0
    for path in sys.argv[2:]:
        fields, arrays = read_golden(path)
        shape = int(fields["rows"]), int(fields["cols"])
        try:
            weights = decode_matrix(fields["layout"], *shape, arrays, int(fields["run_blocks"]))
            found = "ok" if struct.pack(f"<{len(weights)}H", *weights) == arrays["values"] else "other"
        except Corrupt as error:
            found = f"corrupt {error}"
        if found.split(" ")[0] != fields["status"]:
            print(f"{path}: {found}, not {fields['status']}")
            failed += 1
    print(f"{len(sys.argv) - 2} matrices, {failed} not as they should be")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
