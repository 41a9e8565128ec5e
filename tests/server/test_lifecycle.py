"""Start, overload, figures and the end of a server.

SPDX-License-Identifier: Apache-2.0
"""
import re
import signal
import subprocess
import threading
import time

import pytest
from serving import PROGRAM, Server


def test_metrics(tiny_server):
    tiny_server.complete("abc", max_tokens=5, ignore_eos=True)
    text = tiny_server.get("/metrics").body.decode()
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) vllm:\w+ .+|vllm:\w+\{[^{}]*\} [-+0-9.eE]+|vllm:\w+\{.*le="\+Inf"\} \d+', line), line
    assert tiny_server.metric("prompt_tokens_total") == 3
    assert tiny_server.metric("generation_tokens_total") == 5
    assert 'finished_reason="length"} 1' in text
    assert tiny_server.metric("time_to_first_token_seconds_count") == 1
    assert tiny_server.metric("inter_token_latency_seconds_count") == 4
    assert tiny_server.metric("request_prompt_tokens_sum") == 3
    assert tiny_server.metric("iteration_tokens_total_sum") == 3 + 4
    assert tiny_server.metric("iteration_tokens_total_count") == 5
    sizes = re.findall(r'vllm:iteration_tokens_total_bucket{.*le="(.*)"} (\d+)', text)
    assert sizes[:3] == [("1", "4"), ("8", "5"), ("16", "5")]
    assert sizes[-2:] == [("16384", "5"), ("+Inf", "5")]
    buckets = [int(n) for n in re.findall(r"vllm:e2e_request_latency_seconds_bucket{.*} (\d+)", text)]
    assert buckets == sorted(buckets) and buckets[-1] == 1


def test_request_ids(tiny_server):
    reply = tiny_server.post("/v1/completions", {"prompt": "a", "max_tokens": 1},
                             **{"X-Request-Id": "my-id"})
    assert reply.json["id"] == "cmpl-my-id" and reply.headers["X-Request-Id"] == "my-id"
    reply = tiny_server.post("/v1/completions", {"prompt": "a", "max_tokens": 1},
                             **{"X-Request-Id": "two words"})
    assert re.fullmatch("cmpl-[0-9a-f]{32}", reply.json["id"])


def test_a_full_queue_is_told(tiny_folder):
    with Server(tiny_folder, "--parallel", 1, "--queue", 2) as server:
        replies = []

        def ask():
            replies.append(server.complete("a", max_tokens=400, ignore_eos=True))

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused = [r for r in replies if r.status != 200]
        assert 0 < len(refused) < 12
        for reply in refused:
            assert reply.status == 503 and int(reply.headers["Retry-After"]) > 0
        assert server.complete("a", max_tokens=1).status == 200


def test_more_prompts_than_the_queue_holds(tiny_folder):
    with Server(tiny_folder, "--parallel", 1, "--queue", 2) as server:
        reply = server.complete([f"prompt {i}" for i in range(20)], max_tokens=2, ignore_eos=True)
        assert [c["index"] for c in reply.json["choices"]] == list(range(20))
        assert reply.json["usage"]["completion_tokens"] == 40
        assert server.complete("a", n=20, max_tokens=1).status == 200


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_end_finishes_what_runs(tiny_folder, how):
    with Server(tiny_folder) as server:
        replies = []
        thread = threading.Thread(target=lambda: replies.append(
            server.complete("a", n=64, max_tokens=100, ignore_eos=True)))
        thread.start()
        server.wait_running()
        assert server.stop(how) == 0
        thread.join()
        assert replies[0].status == 200 and replies[0].json["usage"]["completion_tokens"] == 64 * 100
        assert "cut off" not in "".join(server.log)


def test_what_cannot_begin_any_more_is_told(tiny_folder):
    """Most of a request's sequences wait outside the full queue when the end comes."""
    with Server(tiny_folder, "--parallel", 1, "--queue", 1) as server:
        replies = []
        thread = threading.Thread(target=lambda: replies.append(
            server.complete("a", n=64, max_tokens=400, ignore_eos=True)))
        thread.start()
        server.wait_running()
        assert server.stop() == 0
        thread.join()
        assert replies[0].status == 503 and "was cut off" in replies[0].error


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_cut_off_is_told(tiny_folder, stream):
    with Server(tiny_folder, "--drain", 0) as server:
        replies = []
        thread = threading.Thread(target=lambda: replies.append(
            server.complete("a", n=64, max_tokens=500, ignore_eos=True, stream=stream)))
        thread.start()
        server.wait_running()
        assert server.stop() == 0
        thread.join()
        error = (replies[0].events[-1] if stream else replies[0].json)["error"]
        assert error["code"] == 503 and "cut off" in error["message"]
        assert "cut off" in "".join(server.log)


def test_idle_connections_do_not_hold_the_end_up(tiny_folder):
    with Server(tiny_folder) as server:
        sock = server.connect()
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        start = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - start < 5
        sock.close()


def test_a_port_in_use(tiny_folder, tiny_server):
    done = subprocess.run([PROGRAM, "serve", str(tiny_folder), "--port", str(tiny_server.port)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "in use" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("args,text", [(["--port", "x"], "--port"), (["--host", "nowhere"], "address"),
                                       (["--parallel", "0"], "--parallel"),
                                       (["--tool-call-parser", "x"], "hermes"),
                                       (["--context", "100000"], "512")])
def test_wrong_options(tiny_folder, args, text):
    done = subprocess.run([PROGRAM, "serve", str(tiny_folder), *args], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode in (1, 2) and text in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_model_without_a_template(tiny_folder, tmp_path):
    import shutil
    folder = tmp_path / "plain"
    shutil.copytree(tiny_folder, folder)
    (folder / "chat_template.jinja").unlink()
    with Server(folder) as server:
        assert "no chat template" in server.settings
        assert server.complete("a", max_tokens=1).status == 200
        reply = server.chat("a")
        assert reply.status == 400 and "chat template" in reply.error
