"""llm-comply: replies against the schemas of the Open Responses specification.

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = ["basic-response", "system-prompt", "multi-turn", "tool-calling"]


@pytest.mark.parametrize("check", CHECKS)
def test_open_responses(server, check):
    program = Path(sys.executable).with_name("llm-comply")
    done = subprocess.run([program, "--format", "open-responses", "-u", server.url + "/v1", "-m",
                           "smol", "-k", "none", "--json", "-f", check],
                          capture_output=True, text=True, timeout=120)
    results = json.loads(done.stdout)["results"]
    assert [(r["id"], r["status"]) for r in results] == [(check, "passed")], done.stdout
