"""Who may ask, and what a hostile client can do: raw sockets against a small model.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import socket
import subprocess
import time
import urllib.parse

import pytest
from serving import PROGRAM, Server

KEY = "a-key-for-tests"
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


@pytest.fixture(scope="module")
def guarded(tiny_folder):
    with Server(tiny_folder, "--api-key", KEY, "--allowed-origins", "https://app.example",
                "--allowed-hosts", "box.example", "--served-model-name", "first,second") as running:
        yield running


@pytest.fixture(scope="module")
def small(tiny_folder):
    with Server(tiny_folder, "--parallel", 2) as running:
        yield running


@pytest.mark.parametrize("headers,status", [
    ({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": f"Bearer {KEY}x"}, 401),
    ({"Authorization": KEY}, 401), ({"Authorization": f"Bearer {KEY}"}, 200),
    ({"X-Api-Key": KEY}, 200), ({"Authorization": f"bearer  {KEY}"}, 200)])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_key(guarded, path, headers, status):
    reply = guarded.post(path, CHAT, **headers)
    assert reply.status == status
    if status == 401:
        assert reply.json == {"error": "Unauthorized"}


def test_key_guards_what_vllm_guards(guarded):
    assert guarded.get("/v1/models").status == 401
    assert guarded.get("/v1/nothing").status == 401
    for path in ("/health", "/version", "/metrics", "/load", "/ping"):
        assert guarded.get(path).status == 200, path
    assert guarded.post("/tokenize", {"prompt": "a"}).status == 200
    assert guarded.ask("OPTIONS", "/v1/models").status == 204


def test_key_from_the_environment(tiny_folder):
    with Server(tiny_folder, env={"GLYD_API_KEY": "other"}) as server:
        assert server.get("/v1/models").status == 401
        assert server.get("/v1/models", Authorization="Bearer other").status == 200


def test_an_open_address_needs_a_key(tiny_folder):
    done = subprocess.run([PROGRAM, "serve", str(tiny_folder), "--host", "0.0.0.0", "--port", "0"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--api-key" in done.stderr


@pytest.mark.parametrize("host,status", [
    ("127.0.0.1", 200), ("localhost:8000", 200), ("LOCALHOST", 200), ("a.localhost", 200),
    ("[::1]:80", 200), ("192.168.1.7:8000", 200), ("box.example:1", 200), ("box.example.", 200),
    ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421),
    ("box.example.evil", 421), ("", 421), ("a:b", 421), ("[::1", 421)])
def test_host(guarded, host, status):
    assert guarded.get("/health", Host=host).status == status


@pytest.mark.parametrize("origin,status", [
    ("https://app.example", 200), ("https://evil.example", 403), ("null", 403),
    ("http://app.example", 403), ("https://app.example.evil", 403)])
def test_origin(guarded, origin, status):
    reply = guarded.get("/v1/models", Origin=origin, Authorization=f"Bearer {KEY}")
    assert reply.status == status
    allowed = reply.headers.get("Access-Control-Allow-Origin")
    assert allowed == (origin if status == 200 else None)
    assert "Access-Control-Allow-Credentials" not in reply.headers


def test_own_origin(guarded):
    own = f"127.0.0.1:{guarded.port}"
    assert guarded.get("/health", Host=own, Origin="http://" + own).status == 200
    assert guarded.get("/health", Host=own, Origin="http://localhost:1").status == 403


def test_served_names(guarded):
    auth = {"Authorization": f"Bearer {KEY}"}
    assert [m["id"] for m in guarded.get("/v1/models", **auth).json["data"]] == ["first", "second"]
    for model in ("first", "second", "", None):
        reply = guarded.post("/v1/chat/completions", {**CHAT, "model": model}, **auth)
        assert reply.status == 200 and reply.json["model"] == "first"
    reply = guarded.post("/v1/chat/completions", {**CHAT, "model": "third"}, **auth)
    assert reply.status == 404 and reply.error == "The model `third` does not exist."


def test_one_model(guarded):
    auth = {"Authorization": f"Bearer {KEY}"}
    cards = guarded.get("/v1/models", **auth).json["data"]
    for card in cards:
        assert guarded.get(f"/v1/models/{card['id']}", **auth).json == card
        assert guarded.get(f"/models/{card['id']}/", **auth).status == 200
    reply = guarded.get("/v1/models/third", **auth)
    assert reply.status == 404 and reply.error == "The model `third` does not exist."
    assert guarded.get("/v1/models/first").status == 401
    assert guarded.ask("DELETE", "/v1/models/first", headers=auth).status == 405


def test_a_model_whose_name_has_a_slash(tiny_folder):
    name = "org/a model" + "x" * 200
    with Server(tiny_folder, "--served-model-name", name) as server:
        assert server.get("/v1/models/" + urllib.parse.quote(name)).json["id"] == name
        assert server.get("/v1/models/org/a%20model").status == 404


def test_paths_and_methods(small):
    assert small.get("/nothing").status == 404 and small.get("/nothing").error == "Not Found"
    assert small.get("/v1/chat/completions").status == 405
    assert small.ask("HEAD", "/health").status == 200
    assert small.get("/models/").status == 200
    assert small.ask("DELETE", "/v1/models").status == 405
    assert small.get("/" + "a" * 5000).status == 404


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"1", b'"a"', b"\xff\xfe", b'{"messages": "\xff"}',
    b'{"messages": [{"role": "user", "content": "\\ud800"}]}', b"[" * 100000, b'{"a":' * 5000,
    b'{"messages": null}', b'{"messages": []}', b'{"messages": [null]}', b'{"messages": {}}',
    b'{"messages": [{}]}', b'{"messages": [{"role": 1}]}', b'{"messages": [{"role": "god"}]}',
    b'{"messages": [{"role": "user", "content": 5}]}',
    b'{"messages": [{"role": "user", "content": [{"type": "text"}]}]}',
    b'{"messages": [{"role": "user", "content": "a"}], "n": 1e99}',
    b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 99999999999999999999999}'])
def test_bodies_that_are_none(small, body):
    reply = small.ask("POST", "/v1/chat/completions", body)
    assert reply.status == 400 and reply.error


@pytest.mark.parametrize("fields,param", [
    ({"temperature": "hot"}, "temperature"), ({"top_p": 0}, "top_p"), ({"n": 0}, "n"),
    ({"n": 1.5}, "n"), ({"seed": "x"}, "seed"), ({"stop": ""}, "stop"), ({"stop": [1]}, "stop"),
    ({"stop": ["a"] * 17}, "stop"), ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"999999": 1}}, "logit_bias"), ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"), ({"tools": []}, "tools"),
    ({"tools": [{"type": "function"}]}, "tools"), ({"tool_choice": "auto"}, "tool_choice"),
    ({"response_format": {"type": "xml"}}, "response_format"), ({"max_tokens": 0}, "max_tokens"),
    ({"guided_json": {}}, "guided_json"), ({"use_beam_search": True}, "use_beam_search"),
    ({"best_of": 2}, "best_of"), ({"bad_words": ["x"]}, "bad_words"),
    ({"allowed_token_ids": [1]}, "allowed_token_ids"),
    ({"truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
    ({"documents": [{"text": "a"}]}, "documents"), ({"reasoning_effort": "x"}, "reasoning_effort"),
    ({"chat_template_kwargs": 1}, "chat_template_kwargs"), ({"min_p": 2}, "min_p")])
def test_fields_out_of_range(small, fields, param):
    reply = small.chat("hi", **{"max_tokens": 1, **fields})
    assert reply.status == 400 and reply.json["error"]["param"] == param, reply.body


def test_images_are_refused_plainly(small):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    reply = small.chat([{"role": "user", "content": [{"type": "text", "text": "a"}, part]}])
    assert reply.status == 400 and "image_url" in reply.error and "text alone" in reply.error


def test_a_large_body(small):
    announced = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a.localhost\r\n" \
                b"Content-Length: 40000000\r\n\r\n"
    assert small.raw(announced).startswith(b"HTTP/1.1 413 ")
    chunked = b"POST /v1/completions HTTP/1.1\r\nHost: a.localhost\r\nConnection: close\r\n" \
              b"Transfer-Encoding: chunked\r\n\r\n"
    block = b"%x\r\n" % (1 << 20) + b"a" * (1 << 20) + b"\r\n"
    assert small.raw(chunked + 34 * block + b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    assert small.get("/health").status == 200


def test_bodies_of_many(small):
    """Long bodies share their room; short ones always have some."""
    def begin(announced):
        sock = small.connect()
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: %d\r\n\r\n" % announced)
        return sock

    long = 31 << 20
    held = [begin(long) for _ in range(5)]
    for sock in held[:4]:
        sock.sendall(b"[" + b" " * (long - 2))
    held[4].sendall(b"[" * long)
    assert held[4].recv(4096).startswith(b"HTTP/1.1 503 ")
    reply = small.ask("POST", "/v1/completions", b" " * (8 << 20))
    assert reply.status == 503 and reply.headers["Retry-After"]
    for _ in range(3):
        assert small.complete("a" * 400, max_tokens=2).status == 200
    held[0].sendall(b"]")
    assert held[0].recv(4096).startswith(b"HTTP/1.1 400 ")
    for sock in held:
        sock.close()
    deadline = time.monotonic() + 10
    while small.ask("POST", "/v1/completions", b" " * (32 << 20)).status != 400:
        assert time.monotonic() < deadline


def test_a_large_header(small):
    reply = small.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 100000 +
                      b"\r\n\r\n")
    assert reply == b"" or reply.split()[1] in (b"431", b"413", b"400")
    many = b"".join(b"H%d: a\r\n" % i for i in range(5000))
    reply = small.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")
    assert reply == b"" or reply.split()[1] in (b"431", b"413", b"400")
    assert small.get("/health").status == 200


@pytest.mark.parametrize("data", [
    b"\r\n\r\n", b"garbage\r\n\r\n", b"GET\r\n\r\n", b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n",
    b"GET /health HTTP/1.1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"])
def test_what_is_not_http(small, data):
    with small.connect() as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(10)
        reply = sock.recv(4096)
    assert not reply or reply.startswith(b"HTTP/1.") and reply.split()[1] >= b"400"
    assert small.get("/health").status == 200


TWO_BODIES = (b"{}   GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")


@pytest.mark.parametrize("headers", [
    b"Content-Length: 5\r\nContent-Length: 50", b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Content-Length: 0\r\ncontent-length: 0", b"Host: evil.example\r\nContent-Length: 5",
    b"Origin: http://localhost\r\nOrigin: http://evil.example\r\nContent-Length: 5"])
def test_ambiguous_headers(small, headers):
    """Nothing after such a header is taken for another request."""
    reply = small.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + headers +
                      b"\r\n\r\n" + TWO_BODIES)
    assert reply.startswith(b"HTTP/1.1 400 ") and reply.count(b"HTTP/1.1") == 1
    assert b"Connection: close" in reply and b"Only one of" in reply


def test_nul_characters(small):
    for name, value in (("model", "tiny\0"), ("reasoning_effort", "low\0"), ("chat_template", "a\0b")):
        reply = small.chat("hi", max_tokens=1, **{name: value})
        assert reply.status == 400 and reply.json["error"]["param"] == name
    assert small.chat("a\0b", max_tokens=1, stop="\0").status == 200
    assert small.post("/tokenize", {"prompt": "a\0b"}).json["count"] == 3

    def length(text):
        reply = small.post("/v1/responses", {"input": "a", "instructions": text, "max_output_tokens": 1})
        return reply.json["usage"]["input_tokens"]

    assert length("a\0bc") == length("abcd")
    assert small.post("/v1/responses", {"input": "a", "instructions": 5}).status == 400


def test_slow_clients_hold_no_worker(small):
    half = [small.connect() for _ in range(50)]
    for i, sock in enumerate(half):
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n")
        if i % 2:
            sock.sendall(b"Content-Length: 100\r\n\r\n{")
    start = time.monotonic()
    assert small.complete("a", max_tokens=2).status == 200
    assert time.monotonic() - start < 5
    for sock in half:
        sock.close()


def test_keep_alive(small):
    with small.connect() as sock:
        for _ in range(3):
            body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(body) + body)
            reply = b""
            while b"\r\n\r\n" not in reply or not reply.endswith(b"}"):
                reply += sock.recv(4096)
            assert reply.startswith(b"HTTP/1.1 200 ")


def test_the_log_cannot_be_forged(tiny_folder):
    """What a client writes stays on its line, and plain."""
    with Server(tiny_folder) as server:
        for path in ("/a%0d%0a2026-12-01%20forged", "/%1b%5b2J", "/%c2%9b%ff", "/a%2541", "/b c"):
            server.raw(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
                       b"Connection: close\r\n\r\n")
        server.raw(b"G\x1bT\xff /method HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        server.stop()
        log = "".join(server.log)
        assert len(re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [0-9a-f]{32} G", log, re.M)) == log.count(" bytes ")
        assert not re.search("^2026-12-01 forged", log, re.M)
        assert re.fullmatch(r"[\n\x20-\x7e]*", log)
        for path in ("/a%0D%0A2026-12-01%20forged 404", "/%1B[2J 404", "/%C2%9B%FF 404", "/a%2541 404"):
            assert path in log, log


def test_nothing_said_is_logged(tiny_folder):
    with Server(tiny_folder) as server:
        server.chat("a secret word", max_tokens=1)
        server.get("/health?word=secret")
        server.stop()
        assert "secret" not in "".join(server.log)
        assert "POST /v1/chat/completions 200" in "".join(server.log)
    with Server(tiny_folder, "--log-prompts") as server:
        server.chat("a secret word", max_tokens=1)
        server.stop()
        assert "a secret word" in "".join(server.log)
