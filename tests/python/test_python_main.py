"""python -m glyd, and fit.

SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
from pathlib import Path

import glyd
import pytest
from glyd import __main__ as program
from glyd import errors, plan

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
import tiny  # noqa: E402


@pytest.fixture
def model(tmp_path):
    tiny.make(tmp_path / "model")
    return tmp_path / "model"


def test_pack_and_verify(model, tmp_path, capsys):
    assert program.main(["pack", str(model), str(tmp_path / "save"), "--layout", "mma12"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("20 tensors, 15 of them packed (mma12): ")
    assert program.main(["verify", str(tmp_path / "save")]) == 0
    assert "all as they were" in capsys.readouterr().out
    assert program.main(["pack", str(model), str(tmp_path / "save")]) == 1
    assert "exists" in capsys.readouterr().err
    shard = next((tmp_path / "save").glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-100] ^= 1
    shard.write_bytes(data)
    assert program.main(["verify", str(tmp_path / "save")]) == 3
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("glyd: ") and captured.err.count("\n") == 1


def test_wrong_usage(capsys):
    for arguments in ([], ["unknown"], ["pack"], ["pack", "a", "b", "--layout", "mma9"]):
        with pytest.raises(SystemExit) as ended:
            program.main(arguments)
        assert ended.value.code == 2
    assert program.main(["fit", "/nowhere/at-all", "--gpu", "many"]) == 2
    capsys.readouterr()


def test_fit(model, tmp_path, capsys):
    found = glyd.fit(model, gpu="1MB", context=64)
    config = json.loads((model / "config.json").read_text())
    assert found.model_type == "llama" and found.memory_bytes == 10**6
    assert found.context_model == config["max_position_embeddings"]
    # keys and values of 2 heads of 32 in 2 layers, bf16
    assert found.kv_bytes_a_token == 2 * 2 * 32 * 2 * 2
    assert found.weight_bytes["bf16"] > found.weight_bytes["mma12"] > found.weight_bytes["mma"]
    room = int(10**6 * 0.97) - found.weight_bytes["bf16"]
    assert found.context["bf16"] == min(256, room // found.kv_bytes_a_token)
    assert found.fits["mma"] == (found.context["mma"] >= 64)
    small = glyd.fit(model, gpu=1000)
    assert not any(small.fits.values()) and set(small.context.values()) == {-1}
    assert "do not fit" in str(small)
    assert program.main(["fit", str(model), "--gpu", "24GB", "--context", "100"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("llama, ") and "mma12" in out
    program.main(["pack", str(model), str(tmp_path / "save")])
    save = glyd.fit(tmp_path / "save", gpu="24GB", context=100)
    assert save.fits["mma"] and save.weight_bytes["mma"] is not None


def test_sizes():
    for text, value in (("24GB", 24 * 10**9), ("1.5 GiB", 3 << 29), ("7", 7), (5, 5),
                        ("2kib", 2048)):
        assert plan.bytes_of(text) == value
    for text in ("", "GB", "1.2.3GB", "5XB", "-3GB"):
        with pytest.raises(errors.ArgumentError):
            plan.bytes_of(text)


def test_fit_refuses(tmp_path, model):
    for options in ({"gpu": 0}, {"context": -1}):
        with pytest.raises(errors.ArgumentError):
            glyd.fit(model, **options)
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.NotFoundError):
        glyd.fit(tmp_path / "empty")
