"""glyd.pack_tensor, unpack_tensor, verify and Packed, with numpy and with torch.

SPDX-License-Identifier: Apache-2.0
"""
import copy
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import glyd
import numpy as np
import pytest
import torch
from glyd import _lib, errors

ROOT = Path(__file__).resolve().parents[2]

SHAPES = [(1, 1), (16, 64), (17, 65), (300, 200), (128, 2048), (40, 4096)]


def ordinary(rng, rows, cols):
    values = rng.standard_normal((rows, cols)).astype(np.float32) * 0.02
    return (values.view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["auto", "mma", "mma12", "bf16"])
def test_round_trip(rng, shape, layout):
    for bits in (ordinary(rng, *shape), rng.integers(0, 1 << 16, shape).astype(np.uint16)):
        packed = glyd.pack_tensor(bits, layout)
        glyd.verify(packed)
        assert packed.shape == shape and packed.device is None
        assert np.array_equal(glyd.unpack_tensor(packed), bits)
        for start, stop in ((0, 1), (shape[0] // 2, shape[0]), (shape[0], shape[0])):
            assert np.array_equal(glyd.unpack_tensor(packed, start, stop), bits[start:stop])
        assert all(offset % 256 == 0 for offset in packed.offsets)
        assert packed.buffer.ctypes.data % 256 == 0


def test_size(rng):
    bits = ordinary(rng, 512, 2048)
    assert glyd.pack_tensor(bits).bits < 10.9
    assert 12 <= glyd.pack_tensor(bits, "mma12").bits < 12.1
    noise = glyd.pack_tensor(rng.integers(0, 1 << 16, (64, 256)).astype(np.uint16))
    assert noise.layout == "bf16" and noise.bits == 16


def test_torch_is_the_same_as_numpy(rng):
    bits = ordinary(rng, 100, 300)
    tensor = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    for layout in ("mma", "mma12"):
        a, b = glyd.pack_tensor(bits, layout), glyd.pack_tensor(tensor, layout)
        assert b.device == torch.device("cpu") and a.sizes == b.sizes
        assert np.array_equal(a.buffer, b.buffer.numpy())
        assert torch.equal(glyd.unpack_tensor(b).view(torch.int16), tensor.view(torch.int16))
        assert np.shares_memory(b.numpy().buffer, b.buffer.numpy())  # zero copy


def test_rows_apart_and_other_strides(rng):
    bits = ordinary(rng, 64, 256)
    tensor = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    for whole, part in ((bits, np.s_[:, 32:160]), (bits, np.s_[::2]), (bits.T, np.s_[:])):
        packed = glyd.pack_tensor(whole[part])
        assert np.array_equal(glyd.unpack_tensor(packed), whole[part])
    for view in (tensor[:, 32:160], tensor[::2], tensor.t()):
        assert torch.equal(glyd.unpack_tensor(glyd.pack_tensor(view)), view)


def test_out(rng):
    bits = ordinary(rng, 64, 256)
    packed = glyd.pack_tensor(bits)
    whole = np.zeros((64, 512), np.uint16)
    view = whole[:, 128:384]
    assert glyd.unpack_tensor(packed, out=view) is view
    assert np.array_equal(view, bits) and not whole[:, :128].any() and not whole[:, 384:].any()
    tensors = packed.to("cpu")
    out = torch.empty(8, 256, dtype=torch.bfloat16)
    assert glyd.unpack_tensor(tensors, 8, 16, out=out) is out
    assert np.array_equal(out.view(torch.int16).numpy().view(np.uint16), bits[8:16])
    read_only = np.zeros((64, 256), np.uint16)
    read_only.flags.writeable = False
    for wrong in (np.zeros((64, 255), np.uint16), np.zeros((64, 256), np.int16), read_only,
                  np.zeros((256, 64), np.uint16).T, torch.empty(64, 256, dtype=torch.bfloat16)):
        with pytest.raises(errors.ArgumentError):
            glyd.unpack_tensor(packed, out=wrong)


@pytest.mark.parametrize("wrong, kind", [
    (np.zeros((2, 2), np.float32), errors.ArgumentError),
    (np.zeros(4, np.uint16), errors.ArgumentError),
    (torch.zeros(2, 2), errors.ArgumentError),
    (torch.zeros(2, 2, dtype=torch.float16), errors.ArgumentError),
    (torch.zeros(2, 2, 2, dtype=torch.bfloat16), errors.ArgumentError),
    (torch.zeros(2, 2, dtype=torch.bfloat16, device="meta"), errors.UnsupportedError),
    ("a name", errors.ArgumentError),
])
def test_what_is_refused(wrong, kind):
    with pytest.raises(kind):
        glyd.pack_tensor(wrong)
    assert issubclass(kind, glyd.GlydError)


def test_wrong_layout_and_rows(rng):
    packed = glyd.pack_tensor(ordinary(rng, 20, 64))
    with pytest.raises(ValueError, match="no layout 'mma8'"):
        glyd.pack_tensor(ordinary(rng, 20, 64), "mma8")
    for start, stop in ((-1, 2), (0, 21), (5, 4)):
        with pytest.raises(ValueError, match="rows"):
            glyd.unpack_tensor(packed, start, stop)
    with pytest.raises(ValueError, match="verify takes"):
        glyd.verify(3)


def test_a_changed_buffer_is_corrupt(rng):
    packed = glyd.pack_tensor(ordinary(rng, 64, 512))
    found = 0
    for name, array in packed.arrays().items():
        if name == "sm":
            continue  # any sign and mantissa is one
        before = array.copy()
        array[array.nbytes // 2:] = 0xFF
        with pytest.raises(errors.CorruptError):
            glyd.verify(packed)
        array[:] = before
        found += 1
    assert found >= 4
    glyd.verify(packed)


def test_packed_refuses_what_cannot_be(rng):
    packed = glyd.pack_tensor(ordinary(rng, 64, 512))
    meta = packed.meta()
    glyd.Packed(**meta, buffer=packed.buffer)
    for change, buffer in (({"layout": "mma9"}, packed.buffer), ({"sizes": [1, 2]}, packed.buffer),
                           ({}, packed.buffer[:-256]), ({}, packed.buffer.view(np.uint16))):
        with pytest.raises(errors.ArgumentError):
            glyd.Packed(**{**meta, **change}, buffer=buffer)


def test_pickle_and_deepcopy(rng):
    bits = ordinary(rng, 64, 512)
    for packed in (glyd.pack_tensor(bits), glyd.pack_tensor(bits).to("cpu")):
        for again in (pickle.loads(pickle.dumps(packed)), copy.deepcopy(packed)):
            assert again.meta() == packed.meta() and type(again.buffer) is type(packed.buffer)
            unpacked = glyd.unpack_tensor(again)
            if isinstance(unpacked, torch.Tensor):
                unpacked = unpacked.view(torch.int16).numpy().view(np.uint16)
            assert np.array_equal(unpacked, bits)
    damaged = glyd.pack_tensor(bits)
    damaged.arrays()["bases"][:] = 255
    with pytest.raises(errors.CorruptError):
        pickle.loads(pickle.dumps(damaged))


def test_every_status_has_its_exception():
    header = (ROOT / "include/glyd/status.h").read_text()
    statuses = {int(value) for value in re.findall(r"X\(E_\w+, (\d+),", header)}
    assert statuses == set(errors.BY_STATUS)
    assert all(kind("text").status == status for status, kind in errors.BY_STATUS.items())
    assert str(errors.of_status(99, "new")) == "new"


def test_fork(rng):
    """A child has none of the parent's worker threads."""
    program = ("import os, numpy as np, glyd\n"
               "w = np.full((512, 512), 0x3c00, np.uint16)\n"
               "glyd.pack_tensor(w)\n"
               "pid = os.fork()\n"
               "if not pid: os._exit(0 if (glyd.unpack_tensor(glyd.pack_tensor(w)) == w).all() else 1)\n"
               "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, timeout=60)
    assert done.returncode == 0


def test_no_library(tmp_path, monkeypatch):
    monkeypatch.setenv("GLYD_LIBRARY_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="GLYD_LIBRARY_DIR"):
        _lib.library_file("glyd")


def test_the_gpu_library_loads_without_a_gpu():
    try:
        gpu = _lib.gpu()
    except errors.NotFoundError:
        pytest.skip("built without nvcc")
    assert gpu.glyd_gpu_version() == _lib.cpu().glyd_version()
