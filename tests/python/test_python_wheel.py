"""pip builds a wheel of python/, and it works in environments with and without torch.

The wheel is built without libglyd_gpu, whose build takes minutes and belongs to `make`.
SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]
PIP = ["-m", "pip", "--disable-pip-version-check", "-q"]
# Without the variables by which tests find the package in the tree.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "GLYD_LIBRARY_DIR")}


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          timeout=600, env={**ENVIRONMENT, **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, *PIP, "wheel", "--no-deps", "-C", "cmake.define.GLYD_CUDA=OFF", "-w", folder,
        ROOT / "python")
    (file,) = folder.glob("*.whl")
    return file


def test_what_the_wheel_holds(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "glyd/lib/libglyd.so" in names and "-py3-none-linux_" in wheel.name
    sources = {p.name for p in (ROOT / "python/glyd").glob("*.py")}
    assert {f"glyd/{name}" for name in sources} <= set(names)
    assert not [name for name in names if name.startswith(("include/", "bin/", "lib/"))]


WITHOUT_TORCH = """
import sys, numpy, glyd
assert "site-packages" in glyd.__file__
values = numpy.random.default_rng(1).standard_normal((100, 300)).astype(numpy.float32)
bits = (values.view(numpy.uint32) >> 16).astype(numpy.uint16)
packed = glyd.pack_tensor(bits)
glyd.verify(packed)
assert numpy.array_equal(glyd.unpack_tensor(packed), bits) and packed.bits < 16
assert "torch" not in sys.modules
try:
    glyd.compress
except ModuleNotFoundError as error:
    assert error.name == "torch"
else:
    raise SystemExit("there is torch")
"""


def test_without_torch(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    run(python, *PIP, "install", f"numpy=={numpy.__version__}", wheel)
    run(python, "-c", WITHOUT_TORCH)
    usage = subprocess.run([python, "-m", "glyd", "fit"], capture_output=True, text=True,
                           env=ENVIRONMENT)
    assert usage.returncode == 2 and "usage" in usage.stderr


WITH_TORCH = """
import glyd, torch
assert {folder!r} in glyd.__file__
layer = torch.nn.Linear(256, 300).bfloat16()
x = torch.randn(3, 256).bfloat16()
want = layer(x)
assert torch.equal(glyd.compress(layer)(x), want)
assert type(layer) is glyd.nn.Linear
"""


def test_with_torch(wheel, tmp_path):
    run(sys.executable, *PIP, "install", "--no-deps", "--target", tmp_path / "site", wheel)
    run(sys.executable, "-c", WITH_TORCH.format(folder=str(tmp_path / "site")),
        PYTHONPATH=str(tmp_path / "site"))
