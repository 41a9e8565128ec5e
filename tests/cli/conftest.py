"""Fixtures of the command-line tests: the program, and model folders to run it on.

GLYD_PROGRAM names another program than build/release/glyd.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
from pathlib import Path

import pytest
import tiny

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GLYD_PROGRAM", str(ROOT / "build/release/glyd"))


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def is_error(self, code, *texts):
        """One line on stderr with all of `texts`, nothing on stdout, this exit code."""
        assert self.out == ""
        assert re.fullmatch(r"glyd: [^\n]+\n", self.err), self.err
        for text in texts:
            assert text in self.err
        assert self.code == code, self.err


def run(*args, **options):
    return Result(subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True,
                                 timeout=120, **options))


@pytest.fixture(scope="session")
def glyd():
    assert os.path.exists(PROGRAM), f"build first: there is no {PROGRAM}"
    return run


@pytest.fixture
def model(tmp_path):
    """A tiny llama checkpoint in tmp_path/model."""
    tiny.make(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def save(glyd, model, tmp_path):
    """Its save, in tmp_path/save."""
    done = glyd("pack", model, tmp_path / "save")
    assert done.code == 0, done.err
    return tmp_path / "save"


def tree(folder):
    """{name: bytes} of the files in a folder."""
    return {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.is_file()}
