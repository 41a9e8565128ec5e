"""llm-comply: replies against the schemas of OpenAI's, Anthropic's and Open Responses' APIs.

The model answers greedily, so that its answers end and are the same each time. What is left out:
images, which are refused; /responses/compact, which is not served; and reasoning, for which the
checks want a model of a certain name.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Server

CHECKS = {
    "openai-chat": ["chat-basic-response", "chat-system-prompt", "chat-multi-turn",
                    "chat-tool-calling", "chat-streaming-response", "chat-streaming-usage"],
    "anthropic": ["anth-basic-response", "anth-system-prompt", "anth-multi-turn",
                  "anth-tool-calling", "anth-streaming-response", "anth-streaming-usage",
                  "anth-error-handling"],
    "open-responses": ["basic-response", "system-prompt", "multi-turn", "tool-calling",
                       "streaming-response", "streaming-usage", "assistant-phase",
                       "response-output-phase-schema"]}


# Tokens a sequence may have: Anthropic's checks ask for answers of 1,024, and the model, made to
# call a tool, calls on and on.
CONTEXT = {"openai-chat": 512, "anthropic": 1200, "open-responses": 512}
CALLS_ON = ("-i", "got 'length',got 'max_tokens'")


@pytest.fixture
def greedy(packed, tmp_path, form):
    folder = tmp_path / "smol"
    shutil.copytree(packed, folder, copy_function=os.link)
    config = folder / "generation_config.json"
    wanted = {**json.loads(config.read_text()), "do_sample": True, "temperature": 1.0, "top_k": 1,
              "repetition_penalty": 1.15}
    config.unlink()
    config.write_text(json.dumps(wanted))
    with Server(folder, "--context", CONTEXT[form], "--parallel", 2) as running:
        yield running


def results_of(server, form, *options):
    program = Path(sys.executable).with_name("llm-comply")
    done = subprocess.run([program, "--format", form, "-u", server.url + "/v1", "-m", "smol", "-k",
                           "none", "--json", *options], capture_output=True, text=True, timeout=300)
    return {r["id"]: r for r in json.loads(done.stdout)["results"]}


@pytest.mark.parametrize("form", CHECKS)
def test_suite(greedy, form):
    found = results_of(greedy, form, *CALLS_ON, "-f", ",".join(CHECKS[form]))
    assert [name for name, r in found.items() if r["status"] == "passed"] == CHECKS[form], found
    assert not any(r.get("warnings") for r in found.values()), found


@pytest.mark.parametrize("form,check", [("openai-chat", "chat-error-handling"),
                                        ("open-responses", "error-handling")])
def test_a_missing_model_is_no_error(greedy, form, check):
    """The check leaves `model` out and wants a 400. As in vLLM, that is the model that is served."""
    found = results_of(greedy, form, "-f", check)[check]
    assert found["errors"] == ["HTTP 200 (expected [400, 422])"]
