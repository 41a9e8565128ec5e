"""test_cancel.py - a cancelled request ends within 100 ms, whatever it is doing and beside whom.

On a real model, in GLYD_TEST_MODEL or model/SmolLM2-135M-Instruct: a tiny one's steps are too short
to tell. The median counts, since a busy machine may stop any process for a while.
SPDX-License-Identifier: Apache-2.0
"""
import os
import statistics
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("GLYD_BUILD", ROOT / "build/release")) / "cancel_tool"
REAL = Path(os.environ.get("GLYD_TEST_MODEL", ROOT / "model/SmolLM2-135M-Instruct"))


def test_cancelled_within_100_ms():
    if not (REAL / "config.json").exists():
        pytest.skip(f"no model in {REAL}")
    done = subprocess.run([TOOL, REAL, "2", "5"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    phases = {line.split()[0]: [float(x) for x in line.split()[1:]]
              for line in done.stdout.splitlines()}
    assert set(phases) == {"prompt", "prompt-beside", "answer", "answer-beside", "queue"}
    for name, times in phases.items():
        assert len(times) == 5 and statistics.median(times) < 100, (name, times)
