"""Damaged saves: every bit counts. What is wrong is named, the exit code is 3, nothing is written.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import random
import shutil
import struct

import pytest
import tiny

SHARD = "glyd-00001-of-00001.safetensors"
GATE = "model.layers.0.mlp.gate_proj.weight"


@pytest.fixture(scope="module")
def saves(glyd, tmp_path_factory):
    """A save of each layout, with rows and columns that need padding, and with escapes."""
    folder = tmp_path_factory.mktemp("saves")
    config = tiny.config(hidden=184, head_dim=46, ffn=200)
    weights = tiny.tensors(config)
    weights[GATE].flat[::997] ^= 0x4000  # far from their rows: escapes
    tiny.make(folder / "model", config, weights)
    for layout in ("mma", "mma12"):
        assert glyd("pack", "-l", layout, folder / "model", folder / layout).code == 0
    return folder


@pytest.fixture
def work(saves, tmp_path):
    """A function that gives a fresh copy of a save to damage."""
    def copy(layout):
        out = tmp_path / "work"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(saves / layout, out)
        return out
    return copy


def flip(path, byte, bit=0):
    with open(path, "r+b") as file:
        file.seek(byte)
        old = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([old ^ 1 << bit]))


def arrays_of(folder):
    """{array name: (first byte in the shard, bytes)}"""
    data = (folder / SHARD).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    return {name: (8 + n + e["data_offsets"][0], e["data_offsets"][1] - e["data_offsets"][0])
            for name, e in header.items() if name != "__metadata__"}


def refused(glyd, folder, tmp_path, *texts):
    glyd("verify", folder).is_error(3, *texts)
    out = tmp_path / "back"
    glyd("unpack", folder, out).is_error(3, *texts)
    assert not out.exists() and not list(tmp_path.glob(".back*"))


ARRAYS = {"mma12": ["sm", "codes", "bases", "escape_index", "escapes", "crc"],
          "mma": ["sm", "codes", "bases", "escape_index", "escapes", "entries", "table", "crc"]}


@pytest.mark.parametrize("layout,array", [(k, a) for k, v in ARRAYS.items() for a in v])
def test_flipped_bit_in_an_array(glyd, work, tmp_path, layout, array):
    folder = work(layout)
    start, size = arrays_of(folder)[f"{GATE}.{array}"]
    # First and last bytes (the last are padding in most arrays), and some between.
    for at in sorted({0, 1, size // 3, size // 2, size - 2, size - 1}):
        for bit in (0, 7):
            flip(folder / SHARD, start + at, bit)
            refused(glyd, folder, tmp_path, f"tensor {GATE} is damaged: ")
            flip(folder / SHARD, start + at, bit)
    assert glyd("verify", folder).code == 0


def test_names_the_bit_and_the_block(glyd, work):
    folder = work("mma12")
    arrays = arrays_of(folder)
    start, _ = arrays[f"{GATE}.sm"]
    flip(folder / SHARD, start + 3 * 1024 * 5 + 1024 * 1 + 77, 3)  # 3 blocks a tile of 184 columns
    glyd("verify", folder).is_error(
        3, f"tensor {GATE} is damaged: one bit of byte 16461 of its array sm is flipped, in tile 5, "
        "block 1 (rows from 80, columns from 64)")
    flip(folder / SHARD, start + 3 * 1024 * 5 + 1024 * 1 + 78, 3)
    glyd("verify", folder).is_error(
        3, "bytes 16384 to 32767 of its array sm are not what was saved, in tiles 5 to 10")


@pytest.mark.parametrize("layout,array,at,text", [
    ("mma12", "codes", 512 * 3 * 2, "in tile 2, block 0 (rows from 32, columns from 0)"),
    ("mma12", "bases", 16 * 7 + 3, "in tile 7"),
    ("mma", "sm", 0, "in tile 0, block 0 (rows from 0, columns from 0)"),
    ("mma", "codes", 0, "in tile 0, block 0 (rows from 0, columns from 0)"),
    ("mma", "bases", 199, "in tile 12"),
])
def test_names_the_tile(glyd, work, layout, array, at, text):
    folder = work(layout)
    flip(folder / SHARD, arrays_of(folder)[f"{GATE}.{array}"][0] + at, 2)
    done = glyd("verify", folder)
    done.is_error(3, f"one bit of byte {at} of its array {array} is flipped, {text}\n")


def test_names_the_run_of_a_stream(glyd, work):
    folder = work("mma")
    arrays = arrays_of(folder)
    data = (folder / SHARD).read_bytes()
    start, size = arrays[f"{GATE}.entries"]
    entries = struct.unpack(f"<{size // 4}I", data[start:start + size])
    flip(folder / SHARD, arrays[f"{GATE}.codes"][0] + 16 * entries[9] - 17)
    glyd("verify", folder).is_error(3, "in tile 8, block 0 (rows from 128, columns from 0)")


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.1.input_layernorm.weight"])
def test_flipped_bit_in_a_vector(glyd, work, tmp_path, name):
    folder = work("mma")
    start, size = arrays_of(folder)[name]
    flip(folder / SHARD, start + size // 2)
    refused(glyd, folder, tmp_path, f"tensor {name} is damaged: its weights do not have the SHA-256")


@pytest.mark.parametrize("at", [0, 3, 7, 8, 9, 200, -1])
def test_flipped_bit_in_a_shard_header(glyd, work, tmp_path, at):
    folder = work("mma")
    n = struct.unpack("<Q", (folder / SHARD).read_bytes()[:8])[0]
    flip(folder / SHARD, at if at >= 0 else 8 + n - 1)
    refused(glyd, folder, tmp_path, SHARD)


def test_flipped_bit_anywhere_in_the_manifest(glyd, work, tmp_path):
    folder = work("mma")
    size = (folder / "glyd.json").stat().st_size
    places = [0, 1, 5, 20, 60, size - 80, size - 70, size - 40, size - 3, size - 2, size - 1]
    for at in places + random.Random(3).sample(range(size), 20):
        flip(folder / "glyd.json", at, at % 8)
        refused(glyd, folder, tmp_path)
        flip(folder / "glyd.json", at, at % 8)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                  "generation_config.json", "config.json"])
def test_flipped_bit_in_another_file(glyd, work, tmp_path, name):
    folder = work("mma")
    flip(folder / name, (folder / name).stat().st_size // 2)
    refused(glyd, folder, tmp_path, f"{name} was changed since the model was packed")


@pytest.mark.parametrize("layout", ["mma", "mma12"])
def test_flipped_bits_at_random(glyd, work, layout):
    folder = work(layout)
    size = (folder / SHARD).stat().st_size
    for at in random.Random(7).sample(range(size), 60):
        flip(folder / SHARD, at, at % 8)
        assert glyd("verify", folder).code == 3, at
        flip(folder / SHARD, at, at % 8)


@pytest.mark.parametrize("name", ["tokenizer.json", SHARD, "config.json"])
def test_missing_file(glyd, work, name):
    folder = work("mma")
    (folder / name).unlink()
    glyd("verify", folder).is_error(1, f"has no {name}")


@pytest.mark.parametrize("keep", [0, 7, 1000, 100_000, -1])
def test_cut_shard(glyd, work, tmp_path, keep):
    folder = work("mma")
    size = (folder / SHARD).stat().st_size
    os.truncate(folder / SHARD, keep if keep >= 0 else size - 1)
    refused(glyd, folder, tmp_path, SHARD)


def test_longer_shard(glyd, work, tmp_path):
    folder = work("mma")
    with open(folder / SHARD, "ab") as file:
        file.write(b"\0")
    refused(glyd, folder, tmp_path, SHARD)


def test_swapped_shards(glyd, saves, tmp_path):
    out = tmp_path / "two"
    assert glyd("pack", "--shard-size", "0.0004", saves / "model", out).code == 0
    a, b = sorted(out.glob("*.safetensors"))[:2]
    a.rename(tmp_path / "x")
    b.rename(a)
    (tmp_path / "x").rename(b)
    refused(glyd, out, tmp_path, "glyd-00001-of-0000")


def test_shard_of_another_save(glyd, saves, work, tmp_path):
    folder = work("mma")
    tiny.make(tmp_path / "other", tiny.config(hidden=184, head_dim=46, ffn=200), seed=2)
    glyd("pack", tmp_path / "other", tmp_path / "othersave")
    shutil.copy(tmp_path / "othersave" / SHARD, folder / SHARD)
    refused(glyd, folder, tmp_path, SHARD)


# --- manifests that are whole but lie ---

def sign(folder, change):
    """Change the manifest and give it the checksum that it then must have."""
    text = (folder / "glyd.json").read_text()
    manifest = json.loads(text)
    del manifest["sha256"]
    change(manifest)
    body = json.dumps(manifest)[:-1] + ",\n"
    digest = hashlib.sha256(body.encode()).hexdigest()
    (folder / "glyd.json").write_text(f'{body}"sha256": "{digest}"}}\n')


def tensor(manifest, name=GATE):
    return next(t for t in manifest["tensors"] if t["name"] == name)


LIES = {
    "nothing": (lambda m: None, None),
    "array bytes": (lambda m: tensor(m)["arrays"].update(sm=64), "glyd.json says 64"),
    "array and crc bytes": (lambda m: tensor(m)["arrays"].update(bases=512), "glyd.json says 512"),
    "array odd": (lambda m: tensor(m)["arrays"].update(sm=100), "not a multiple of 64"),
    "array huge": (lambda m: tensor(m)["arrays"].update(sm=2**62), "checksums; its arrays need"),
    "array negative": (lambda m: tensor(m)["arrays"].update(sm=-64), '"sm" is -64'),
    "array unknown": (lambda m: tensor(m)["arrays"].update(extra=64), "has an unknown array"),
    "array missing": (lambda m: tensor(m)["arrays"].pop("bases"), "holds arrays that glyd.json does not"),
    "no arrays": (lambda m: tensor(m).pop("arrays"), f"tensor {GATE} has no arrays"),
    "shape": (lambda m: tensor(m).update(shape=[184, 200]), "is not in the list of tensors"),
    "dtype": (lambda m: tensor(m).update(dtype="F16"), "cannot be packed with its dtype and shape"),
    "no columns": (lambda m: tensor(m).update(shape=[200, 0]), "cannot be packed with its dtype and"),
    "layout": (lambda m: tensor(m).update(layout="mma12"), f"tensor {GATE}"),
    "layout unknown": (lambda m: tensor(m).update(layout="zip"), "unknown layout zip"),
    "layout bf16": (lambda m: tensor(m).update(layout="bf16"), "unknown layout bf16"),
    "layout as_is": (lambda m: tensor(m).update(layout="as_is"), f"lacks {GATE}"),
    "run_blocks": (lambda m: tensor(m).update(run_blocks=2), f"tensor {GATE}"),
    "run_blocks 0": (lambda m: tensor(m).update(run_blocks=0), f"tensor {GATE}"),
    "sha256": (lambda m: tensor(m).update(sha256="0" * 64), "do not have the SHA-256 that was saved"),
    "sha256 short": (lambda m: tensor(m).update(sha256="0"), '"sha256" is no SHA-256'),
    "shard": (lambda m: tensor(m).update(shard=1), '"shard" is 1'),
    "name": (lambda m: tensor(m).update(name="x"), "is not in the list of tensors"),
    "name twice": (lambda m: m["tensors"].append(dict(tensor(m))), "is in no file of the checkpoint"),
    "tensor left out": (lambda m: m["tensors"].remove(tensor(m)), "is not in the list of tensors"),
    "same as itself": (lambda m: tensor(m).update(same_as=GATE), "holds arrays that glyd.json does not"),
    "shard bytes": (lambda m: m["shards"][0].update(bytes=5), "glyd.json says 5"),
    "shard name": (lambda m: m["shards"][0].update(file="../x"), "is not the name of a file"),
    "shard twice": (lambda m: m["shards"].append(m["shards"][0]), "is listed twice"),
    "shard missing": (lambda m: m["shards"].append(dict(m["shards"][0], file="y")), "has no y"),
    "no shards": (lambda m: m.pop("shards"), '"shards" must be a list'),
    "file bytes": (lambda m: m["files"][0].update(bytes=5), "was changed since the model was packed"),
    "file path": (lambda m: m["files"][0].update(file="/etc/passwd"), "is not the name of a file"),
    "header": (lambda m: m["checkpoint"][0].update(header="{}"), "is in no file of the checkpoint"),
    "header broken": (lambda m: m["checkpoint"][0].update(header="{"), "model.safetensors: line 1"),
    "header empty": (lambda m: m["checkpoint"][0].update(header=""), "no safetensors file"),
    "checkpoint path": (lambda m: m["checkpoint"][0].update(file="a/b"), "is not the name of a file"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lying_manifest(glyd, work, tmp_path, lie):
    change, text = LIES[lie]
    folder = work("mma")
    sign(folder, change)
    if text is None:
        assert glyd("verify", folder).code == 0
        return
    code = 1 if text.startswith("has no") else 3
    glyd("verify", folder).is_error(code, text)
    if lie not in ("file bytes",):
        glyd("unpack", folder, tmp_path / "back").is_error(code, text)
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("name", [f"glyd-v{i}" for i in range(1, 6)] + ["glyd-2", "other"])
def test_save_of_another_tool(glyd, work, tmp_path, name):
    folder = work("mma")
    (folder / "glyd.json").write_text(json.dumps({"format": name, "tensors": []}))
    text = (f"this save has the format {name}, made by another tool; glyd-1 is read here: pack the "
            "bf16 checkpoint again with glyd pack")
    glyd("verify", folder).is_error(3, text)
    glyd("unpack", folder, tmp_path / "x").is_error(3, text)
    glyd("plan", folder).is_error(3, text)
    glyd("pack", folder, tmp_path / "y").is_error(3, text)


@pytest.mark.parametrize("text,words", [("", "glyd.json: line"), ("[]", "names no format"),
                                        ('{"format": 1}', "names no format"),
                                        ('{"format": "glyd-1"}', "was changed or cut")])
def test_manifest_is_none(glyd, work, text, words):
    folder = work("mma")
    (folder / "glyd.json").write_text(text)
    glyd("verify", folder).is_error(3, words)


def test_corrupt_streams_with_right_checksums(glyd, work, tmp_path):
    """Arrays whose checksums were made to fit: the codec's own check must end it."""
    folder = work("mma")
    arrays = arrays_of(folder)
    start, size = arrays[f"{GATE}.table"]
    crc_start, _ = arrays[f"{GATE}.crc"]
    data = bytearray((folder / SHARD).read_bytes())
    data[start:start + size] = bytes(size)
    pieces = [n for a in ARRAYS["mma"][:-1] for n in range(-(-arrays[f"{GATE}.{a}"][1] // 16384))]
    data[crc_start + 4 * (len(pieces) - 1):crc_start + 4 * len(pieces)] = struct.pack(
        "<I", crc32c(bytes(size)))
    (folder / SHARD).write_bytes(data)
    refused(glyd, folder, tmp_path, f"tensor {GATE}: ")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_first_fault_is_named(glyd, work):
    """Whatever the threads find first, the first tensor in the checkpoint's order is named."""
    folder = work("mma")
    arrays = arrays_of(folder)
    names = ["model.layers.1.mlp.up_proj.weight", "model.embed_tokens.weight", GATE]
    for name in names:
        flip(folder / SHARD, arrays[f"{name}.sm"][0])
    for threads in (1, 2, 4):
        glyd("verify", "-t", threads, folder).is_error(3, "tensor model.embed_tokens.weight is damaged")
