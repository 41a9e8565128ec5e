"""schemathesis: requests made up from openapi.json, right and wrong; no 5xx, no break of a schema.

SPDX-License-Identifier: Apache-2.0
"""
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = 15
TIME_S = 40


def test_schemathesis(tiny_server, tmp_path):
    program = Path(sys.executable).with_name("schemathesis")
    checks = "not_a_server_error,status_code_conformance,content_type_conformance," \
             "response_schema_conformance"
    done = subprocess.run([program, "run", tiny_server.url + "/openapi.json", "--checks", checks,
                           "--max-examples", str(EXAMPLES), "--phases", "examples,fuzzing",
                           "--seed", "1", "--max-time", str(TIME_S), "--no-color",
                           "--request-timeout", "20"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=4 * TIME_S)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    tried = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert int(tried[1]) == int(tried[2]) >= 100, done.stdout
    assert tiny_server.get("/health").status == 200
