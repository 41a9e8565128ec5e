"""Fixtures: the tool over single bytes, and over the tokenizer of SmolLM2.

SPDX-License-Identifier: Apache-2.0
"""
import os

import pytest
from tool import MODEL, Tool


@pytest.fixture(scope="session", params=["bytes", "smollm2"])
def tool(request):
    name = request.param if request.param == "bytes" else os.path.join(MODEL, "tokenizer.json")
    made = Tool(name)
    yield made
    made.close()
