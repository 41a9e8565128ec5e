"""pack, verify, unpack: what comes back is what went in, and what is printed.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import struct
import subprocess

import numpy as np
import pytest
import tiny
from conftest import PROGRAM, tree


def shape_of(done):
    """stdout with the seconds and the speed blanked."""
    return re.sub(r"time .*", "time", done.out)


def read_shard(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), 8 + n, len(data)


@pytest.mark.parametrize("layout", ["mma", "mma12"])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("shards", [1, 3])
def test_round_trip(glyd, tmp_path, family, layout, shards):
    tiny.make(tmp_path / "model", tiny.config(family, tied=shards == 1), shards=shards)
    done = glyd("pack", "--layout", layout, "--shard-size", "0.0003", tmp_path / "model",
                tmp_path / "save")
    assert (done.code, done.err) == (0, "")
    done = glyd("verify", tmp_path / "save")
    assert (done.code, done.err) == (0, "")
    done = glyd("unpack", tmp_path / "save", tmp_path / "back")
    assert (done.code, done.err) == (0, "")
    assert tree(tmp_path / "back") == tree(tmp_path / "model")


def test_prints_what_it_did(glyd, model, tmp_path):
    done = glyd("pack", "-l", "mma12", model, tmp_path / "save")
    text = ("tensors     20, 15 of them packed as mma12\n"
            "checkpoint  0.000575 GB of weights\n"
            "save        0.000436 GB of weights, 12.14 bits each\n"
            "other files 5\n"
            "time\n")
    assert (shape_of(done), done.err, done.code) == (text, "", 0)
    done = glyd("verify", tmp_path / "save")
    assert (shape_of(done), done.err, done.code) == (text, "", 0)
    done = glyd("unpack", tmp_path / "save", tmp_path / "back")
    assert (shape_of(done), done.err, done.code) == (text, "", 0)


def test_json(glyd, model, tmp_path):
    report = json.loads(glyd("pack", "--json", model, tmp_path / "save").out)
    weights = sum(a.size for a in tiny.tensors(tiny.config()).values())
    assert report["weights"] == weights and report["bytes_checkpoint"] == 2 * weights
    assert report["layout"] == "mma" and report["tensors"] == 20 and report["files"] == 5
    shards = [read_shard(p)[0] for p in (tmp_path / "save").glob("*.safetensors")]
    stored = sum(e["data_offsets"][1] - e["data_offsets"][0]
                 for s in shards for n, e in s.items() if n != "__metadata__")
    assert report["bytes_save"] == stored
    assert report["bits_a_weight"] == pytest.approx(8 * stored / weights)
    again = json.loads(glyd("verify", "--json", tmp_path / "save").out)
    drop = ("seconds", "out")
    assert {k: v for k, v in again.items() if k not in drop} == \
        {k: v for k, v in report.items() if k not in drop}


def test_save_is_a_model_folder(glyd, model, save):
    before, after = tree(model), tree(save)
    weights = before.pop("model.safetensors")
    assert {n: after.pop(n) for n in before} == before
    manifest = json.loads(after.pop("glyd.json"))
    assert manifest["format"] == "glyd-1" and manifest["layout"] == "mma"
    assert manifest["source"] == {"name": "model", "revision": None}
    assert [s["file"] for s in manifest["shards"]] == sorted(after)
    assert sum(map(len, after.values())) < len(weights)
    roles = {t["name"]: (t["role"], t.get("layer")) for t in manifest["tensors"]}
    assert roles["model.layers.1.self_attn.q_proj.weight"] == ("attn_q", 1)
    assert roles["model.embed_tokens.weight"] == ("embed", None)
    assert all(t["why"] == "not a matrix" for t in manifest["tensors"] if t["layout"] == "as_is")


def test_shards_are_valid_safetensors(glyd, tmp_path):
    tiny.make(tmp_path / "model", tiny.config("qwen2"))
    glyd("pack", "--shard-size", "0.0002", tmp_path / "model", tmp_path / "save")
    files = sorted((tmp_path / "save").glob("*.safetensors"))
    assert [f.name for f in files] == [f"glyd-{i + 1:05}-of-{len(files):05}.safetensors"
                                       for i in range(len(files))]
    assert len(files) > 2
    for file in files:
        header, start, total = read_shard(file)
        assert start % 64 == 0
        header.pop("__metadata__")
        spans = sorted(tuple(e["data_offsets"]) for e in header.values())
        assert spans[0][0] == 0 and spans[-1][1] == total - start
        assert all(a[1] == b[0] for a, b in zip(spans, spans[1:]))
        for name, entry in header.items():
            if entry["dtype"] == "U8":
                assert entry["data_offsets"][0] % 64 == 0, name


@pytest.mark.parametrize("layout", ["mma", "mma12"])
def test_threads_change_nothing(glyd, model, tmp_path, layout):
    trees = []
    for threads in (1, 2, 3):
        out = tmp_path / f"save{threads}"
        assert glyd("pack", "-l", layout, "-t", threads, model, out).code == 0
        trees.append(tree(out))
    assert trees[0] == trees[1] == trees[2]


def test_tied_head_written_out_is_kept_once(glyd, tmp_path):
    weights = tiny.tensors(tiny.config())
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    tiny.make(tmp_path / "model", weights=weights)
    tiny.make(tmp_path / "plain")
    report = json.loads(glyd("pack", "--json", tmp_path / "model", tmp_path / "save").out)
    plain = json.loads(glyd("pack", "--json", tmp_path / "plain", tmp_path / "plainsave").out)
    assert report["bytes_save"] == plain["bytes_save"] and report["weights"] == plain["weights"]
    assert glyd("verify", tmp_path / "save").code == 0
    assert glyd("unpack", tmp_path / "save", tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == tree(tmp_path / "model")


def test_any_shape_and_bits(glyd, tmp_path):
    rng = np.random.default_rng(5)
    bits = lambda *shape: rng.integers(0, 65536, shape, dtype=np.uint16)  # noqa: E731
    normal = lambda *shape: tiny.to_bf16(rng.standard_normal(shape))  # noqa: E731
    weights = {
        "a.one": bits(1, 1), "b.row": normal(1, 3000), "c.column": normal(3000, 1),
        "d.odd": normal(117, 165), "e.noise": bits(64, 128), "f.nan": np.full((40, 200), 0x7FC1, np.uint16),
        "g.zero": np.zeros((40, 200), np.uint16), "h.empty": np.zeros((0, 7), np.uint16),
        "i.scalar": normal(), "j.cube": normal(3, 4, 5), "k.ids": np.arange(7, dtype=np.int64),
        "l.mixed": np.where(rng.random((200, 300)) < 0.01, bits(200, 300), normal(200, 300)),
        "m.denormal": rng.integers(0, 128, (80, 80), dtype=np.uint16), "n.float": np.ones(3, np.float32),
    }
    weights = {n: np.asarray(a, a.dtype) for n, a in weights.items()}
    tiny.make(tmp_path / "model", tiny.config("gpt_odd"), weights)
    done = glyd("pack", "--any", tmp_path / "model", tmp_path / "save")
    assert (done.code, done.err) == (0, "")
    assert glyd("verify", tmp_path / "save").code == 0
    assert glyd("unpack", tmp_path / "save", tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == tree(tmp_path / "model")
    why = {t["name"]: t.get("why") for t in
           json.loads((tmp_path / "save" / "glyd.json").read_text())["tensors"]}
    assert why["e.noise"] == "packing would not make it smaller"
    assert why["k.ids"] == "not bf16" and why["h.empty"] == "empty" and why["d.odd"] is None


def test_header_comes_back_as_it_was(glyd, model, tmp_path):
    """Names in another order than the bytes, spaces, metadata, escapes: kept byte for byte."""
    weights = tiny.tensors(tiny.config())
    entries = tiny.header(weights, {"format": "pt", "note": "caf\u00e9 \"quoted\" \u2028"})
    text = json.dumps(dict(reversed(entries.items())), indent=1).encode() + b" " * 5
    tiny.write_safetensors(model / "model.safetensors", weights, text)
    if (8 + len(text)) % 2:
        tiny.write_safetensors(model / "model.safetensors", weights, text + b" ")
    assert glyd("pack", model, tmp_path / "save").code == 0
    assert glyd("unpack", tmp_path / "save", tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == tree(model)


def test_hub_cache_layout(glyd, tmp_path):
    repo = tmp_path / "models--org--tiny-model"
    tiny.make(tmp_path / "plain")
    snapshot = repo / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    for i, file in enumerate(sorted((tmp_path / "plain").iterdir())):
        os.rename(file, repo / "blobs" / f"blob{i}")
        os.symlink(f"../../blobs/blob{i}", snapshot / file.name)
    done = glyd("pack", snapshot, tmp_path / "save")
    assert (done.code, done.err) == (0, "")
    manifest = json.loads((tmp_path / "save" / "glyd.json").read_text())
    assert manifest["source"] == {"name": "org/tiny-model", "revision": "0123abc"}
    assert glyd("verify", tmp_path / "save").code == 0
    assert not any(p.is_symlink() for p in (tmp_path / "save").iterdir())


def test_other_weights_and_folders_are_left_out(glyd, model, tmp_path):
    (model / "pytorch_model.bin").write_bytes(b"x")
    (model / ".cache").mkdir()
    (model / "onnx").mkdir()
    report = json.loads(glyd("pack", "--json", model, tmp_path / "save").out)
    assert report["left_out"] == 3
    manifest = json.loads((tmp_path / "save" / "glyd.json").read_text())
    assert manifest["left_out"] == [".cache", "onnx", "pytorch_model.bin"]


def test_note_on_files_that_are_not_part_of_it(glyd, save):
    (save / "README.md").write_text("mine")
    done = glyd("verify", save)
    assert done.code == 0 and done.err == f"glyd: note: files in {save} that are not part of the save: 1\n"


def test_slash_at_the_end(glyd, model, tmp_path):
    assert glyd("pack", f"{model}/", f"{tmp_path}/save//").code == 0
    assert glyd("verify", f"{tmp_path}/save/").code == 0


def test_relative_paths(glyd, model, tmp_path):
    assert glyd("pack", "model", "save", cwd=tmp_path).code == 0
    assert glyd("unpack", ".", "../back", cwd=tmp_path / "save").code == 0
    assert tree(tmp_path / "back") == tree(model)


def test_progress_only_on_a_terminal(glyd, model, tmp_path):
    done = glyd("pack", model, tmp_path / "a")
    assert done.err == ""
    script = subprocess.run(["script", "-qec", f"{PROGRAM} pack {model} {tmp_path}/b >/dev/null",
                             "/dev/null"], capture_output=True, text=True, timeout=60)
    assert "packing [" in script.stdout and "\x1b" not in script.stdout
    quiet = subprocess.run(["script", "-qec", f"{PROGRAM} pack -q {model} {tmp_path}/c >/dev/null",
                            "/dev/null"], capture_output=True, text=True, timeout=60)
    assert "packing [" not in quiet.stdout
