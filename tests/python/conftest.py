"""The Python package from the tree, with the libraries that `make` built.

GLYD_LIBRARY_DIR names another folder than build/release.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("GLYD_LIBRARY_DIR", str(ROOT / "build/release"))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def weights():
    """Makes bf16 matrices like a trained model's: normal, rows scaled by 0.6 to 1.4."""
    torch = pytest.importorskip("torch")

    def make(rows, cols, seed=1):
        generator = torch.Generator().manual_seed(seed)
        scale = torch.rand(rows, 1, generator=generator) * 0.8 + 0.6
        return (torch.randn(rows, cols, generator=generator) * scale * 0.02).bfloat16()
    return make
