"""Golden saves: read by every later program, and by the second decoder, alike.

SPDX-License-Identifier: Apache-2.0
"""
import json
import struct
import subprocess
import sys

import pytest
from conftest import ROOT

SAVES = ROOT / "tests/golden/saves"
sys.path.insert(0, str(ROOT / "tools"))
import decoder  # noqa: E402


def read_weights(folder):
    """{name: bytes} of all safetensors of a folder."""
    tensors = {}
    for file in folder.glob("*.safetensors"):
        data = file.read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = data[start + begin:start + end]
    return tensors


@pytest.mark.parametrize("layout", ["mma", "mma12"])
def test_both_decoders_read_it(glyd, tmp_path, layout):
    folder = SAVES / layout
    assert glyd("verify", folder).code == 0
    assert glyd("unpack", folder, tmp_path / "back").code == 0
    assert decoder.read_save(folder) == read_weights(tmp_path / "back")
    tensors = json.loads((folder / "glyd.json").read_text())["tensors"]
    assert {t.get("layout", "same_as") for t in tensors} == {layout, "as_is", "same_as"}
    assert any("escapes" in t.get("arrays", ()) for t in tensors)


@pytest.mark.parametrize("layout", ["mma", "mma12"])
def test_decoder_on_a_larger_save(glyd, model, tmp_path, layout):
    assert glyd("pack", "-l", layout, model, tmp_path / "save").code == 0
    assert decoder.read_save(tmp_path / "save") == read_weights(model)
    done = subprocess.run([sys.executable, ROOT / "tools/decoder.py", "save", tmp_path / "save"],
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "20 tensors, all as they were\n")


def test_decoder_finds_damage(model, save):
    shard = save / "glyd-00001-of-00001.safetensors"
    data = bytearray(shard.read_bytes())
    data[8 + struct.unpack("<Q", data[:8])[0] + 100] ^= 1
    shard.write_bytes(data)
    with pytest.raises(decoder.Corrupt):
        decoder.read_save(save)
