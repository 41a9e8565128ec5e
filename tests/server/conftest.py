"""Fixtures of the server tests: running servers, on the real model and on tiny ones.

SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys
from pathlib import Path

import pytest
from serving import PROGRAM, REAL, Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    """The save of the real model."""
    if not REAL.exists():
        pytest.skip(f"there is no {REAL}")
    save = tmp_path_factory.mktemp("serve") / "smol"
    subprocess.run([PROGRAM, "pack", "-q", str(REAL), str(save)], check=True, capture_output=True)
    return save


@pytest.fixture(scope="session")
def server(packed):
    """One server on the real model for all tests that leave it as it was."""
    with Server(packed, "--parallel", 4, "--context", 2048) as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    from openai import OpenAI
    with OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A model with random weights, a token a byte, and a template that writes messages out."""
    import tiny
    folder = tmp_path_factory.mktemp("tiny") / "tiny"
    tiny.make(folder, {**tiny.config(), "max_position_embeddings": 512, "eos_token_id": 0})
    tiny.write_json(folder / "tokenizer.json", tiny.byte_tokenizer())
    tiny.write_json(folder / "generation_config.json", {"eos_token_id": 0})
    (folder / "chat_template.jinja").write_text(tiny.PLAIN_TEMPLATE)
    return folder


@pytest.fixture
def tiny_server(tiny_folder):
    """A fresh server on it, for tests that leave marks."""
    with Server(tiny_folder, "--parallel", 2) as running:
        yield running


@pytest.fixture(scope="session")
def page_server(tiny_folder):
    """A server whose page the scripted ones hand on."""
    with Server(tiny_folder, "--parallel", 1, "-q") as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for a module; each server has a port of its own, and so a storage of its own."""
    from webdriver import Browser
    made = Browser(downloads=tmp_path_factory.mktemp("downloads"))
    yield made
    made.close()
