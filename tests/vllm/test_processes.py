"""Engines of several processes: tensor parallel, and `vllm serve` with a client.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import answers
import pytest

HERE = Path(__file__).resolve().parent
START_S = 240


def run(folder, out, **settings):
    environment = {**os.environ, "VLLM_HOST_IP": "127.0.0.1"}
    subprocess.run([sys.executable, HERE / "answers.py", folder, json.dumps(settings), out],
                   check=True, env=environment, timeout=START_S, capture_output=True)
    return json.loads(out.read_text())


def test_tensor_parallel(models, tmp_path):
    """A vocabulary that is padded and cut, from a save: equal to bf16's on two ranks."""
    two = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    bf16 = run(models("qwen3-odd"), tmp_path / "bf16", **two)
    packed = run(models("qwen3-odd", "mma"), tmp_path / "packed", **two)
    assert packed == bf16


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def serving(command, port, log):
    environment = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:
        deadline = time.monotonic() + START_S
        while True:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()


SMALL = ["--enforce-eager", "--max-model-len", "256", "--max-num-seqs", "4",
         "--max-num-batched-tokens", "256"]


@pytest.mark.parametrize("how", ["vllm", "glyd"])
def test_serve(how, models, expected, tmp_path):
    """A save's folder alone says what it is; `glyd serve --backend vllm` serves a checkpoint."""
    from openai import OpenAI
    port = free_port()
    if how == "vllm":
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve",
                   models("qwen3", "mma"), "--port", str(port), "--served-model-name", "tiny",
                   "--dtype", "bfloat16", *SMALL]
    else:
        from conftest import PROGRAM
        command = [PROGRAM, "serve", models("qwen3"), "--backend", "vllm", "--port", str(port),
                   "--served-model-name", "tiny", "--context", "256", "--parallel", "4", "--",
                   "--enforce-eager", "--max-num-batched-tokens", "256"]
        os.environ["GLYD_PYTHON"] = sys.executable
    log = tmp_path / "log"
    with serving([str(part) for part in command], port, log) as url, \
            OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for ids, (tokens, *_) in zip(answers.PROMPTS, expected("qwen3")):
            answer = client.completions.create(
                model="tiny", prompt=ids, temperature=0, max_tokens=answers.TOKENS,
                extra_body={"ignore_eos": True, "return_token_ids": True})
            assert answer.choices[0].token_ids == tokens
    assert "matrices packed" in log.read_text()
