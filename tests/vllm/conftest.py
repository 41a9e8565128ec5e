"""vLLM on the CPU, with and without glyd: tools/venv_vllm.sh makes the environment for it.

Engines run in this process, one after the other. Where vLLM is not installed, as in the environment
of the other tests, nothing here is collected but what needs no vLLM.
SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

if importlib.util.find_spec("vllm") is None:
    collect_ignore_glob = ["test_*.py"]
else:  # before vLLM is imported: no network, little memory, one process, nothing compiled
    os.environ.update(VLLM_TARGET_DEVICE="cpu", VLLM_CPU_KVCACHE_SPACE="1",
                      VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_ENABLE_V1_MULTIPROCESSING="0",
                      VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1",
                      TORCHDYNAMO_DISABLE="1")
    os.environ.setdefault("GLYD_LIBRARY_DIR", str(ROOT / "build/release"))
PROGRAM = Path(os.environ.get("GLYD_PROGRAM", ROOT / "build/release/glyd"))


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """models(NAME) is the folder of a tiny model; models(NAME, layout) that of its save."""
    import tinier
    root = tmp_path_factory.mktemp("models")

    def folder(name, layout=None):
        bf16 = root / name
        if not bf16.exists():
            tinier.make(bf16, name)
        if layout is None:
            return bf16
        save = root / f"{name}-{layout}"
        if not save.exists():
            subprocess.run([PROGRAM, "pack", "-q", "--any", "--layout", layout, bf16, save],
                           check=True, capture_output=True)
        return save
    return folder


@pytest.fixture(scope="session")
def expected(models):
    """expected(NAME): what vLLM answers with the bf16 model, computed once."""
    import answers
    known = {}

    def of(name):
        if name not in known:
            known[name] = answers.of(models(name))
        return known[name]
    return of
