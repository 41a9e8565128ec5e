"""glyd run on a terminal, with the chat page and the API beside it.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import http.client
import json
import os
import re
import select
import socket
import threading
import time

import pytest
from terminal import Terminal
from test_run import ANSWER, CAPITAL, REAL

pytestmark = pytest.mark.skipif(not REAL.exists(), reason=f"there is no {REAL}")
PORTS = range(8000, 8010)
STORY = "Write a very long story about the sea."


@pytest.fixture(scope="module")
def packed(glyd, tmp_path_factory):
    save = tmp_path_factory.mktemp("run_page") / "save"
    assert glyd("pack", "-q", REAL, save).code == 0
    return save


@pytest.fixture
def start(packed):
    """start(options...): a chat whose page's port is in `port`; it ends with the test."""
    with contextlib.ExitStack() as stack:
        def make(*args, page=True, env=None):
            t = Terminal("run", packed, "--temperature", 0, *args, env=env)
            stack.callback(t.close)
            if page:
                t.wait_for(r"chat page http://127\.0\.0\.1:(?P<port>\d+)(?P<why>[^,]*), API \S+/v1\r\n")
                t.port, t.why = int(t.found["port"]), t.found["why"]
            t.prompt()
            return t
        yield make


def ask(port, method, path, body=None, timeout=120, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, json.dumps(body) if body else None,
                           {"Content-Type": "application/json", **headers})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def chat(port, text, **fields):
    status, body = ask(port, "POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": text}], "temperature": 0, **fields})
    assert status == 200, body
    return json.loads(body)["choices"][0]["message"]["content"]


def quiet(t, seconds=0.5):
    """Nothing is written to the terminal for a while."""
    return not select.select([t.fd], [], [], seconds)[0]


def leave(t):
    t.send("/bye\r")
    t.leaves()


def test_page_and_terminal_at_the_same_time(glyd, packed, start):
    """Each answer equals its answer alone, both ways, and the model is held once."""
    questions = [CAPITAL, "Name three colours.", "What is two plus two?"]
    alone = {q: glyd("run", packed, "--temperature", 0, "-n", 40, "-p", q).out.strip() for q in questions}
    t = start("--port", 0, "-n", 40)
    page, models = ask(t.port, "GET", "/"), ask(t.port, "GET", "/v1/models")
    assert page[0] == 200 and "<title>glyd</title>" in page[1]
    assert models[0] == 200 and json.loads(models[1])["data"][0]["max_model_len"] == 8192
    got = {}
    threads = [threading.Thread(target=lambda q=q: got.update({q: chat(t.port, q, max_tokens=40)}))
               for q in questions[1:]]
    t.send(CAPITAL + "\r")
    for thread in threads:
        thread.start()
    t.wait_for(re.escape(alone[CAPITAL]).replace(r"\n", r"\s+"))
    t.prompt()
    for thread in threads:
        thread.join()
    assert got == {q: alone[q] for q in questions[1:]}
    leave(t)


def test_a_conversation_goes_on_beside_others(glyd, packed, start):
    """The terminal's answers are those of its own conversation, whatever the API is asked."""
    lines = ["My name is Ada.", "What is my name?"]
    alone = glyd("run", packed, "--temperature", 0, "-n", 30, input="\n".join(lines)).out
    t = start("--port", 0, "-n", 30)
    for line in lines:
        t.send(line + "\r")
        t.prompt()
        chat(t.port, "My name is Bob.", max_tokens=20)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", t.seen).replace("\r", "")
    answers = [re.search(re.escape(line) + r"\n(.*?\n)> ", shown, re.S)[1] for line in lines]
    assert "".join(answers) == alone
    leave(t)


def test_what_is_asked_over_http_does_not_break_the_line(start):
    t = start("--port", 0)
    t.send("/he")
    t.wait_for("/he")
    assert chat(t.port, CAPITAL) == ANSWER.strip()
    assert ask(t.port, "GET", "/nothing")[0] == 404
    assert ask(t.port, "POST", "/v1/chat/completions", {"messages": 3})[0] == 400
    assert ask(t.port, "GET", "/", Host="evil.example")[0] == 421
    with socket.create_connection(("127.0.0.1", t.port)) as sock:
        sock.sendall(b"nonsense\r\n\r\n")
    assert quiet(t)
    t.send("lp\r")
    t.wait_for("this list")
    t.prompt()
    leave(t)


def test_a_paused_terminal_holds_nobody_up(start):
    t = start("--port", 0, "-n", 300)
    t.send(STORY + "\r")
    t.wait_for(r"about the sea\.\r\n.*[a-z]")
    t.send("\x13")  # Ctrl-S
    while not quiet(t):
        os.read(t.fd, 65536)
    assert chat(t.port, CAPITAL, timeout=60) == ANSWER.strip()
    t.send("\x11")  # Ctrl-Q
    t.wait_for(r"[a-z]+ [a-z]+ [a-z]+.*\r\n(?=> )")
    t.prompt()
    leave(t)


@contextlib.contextmanager
def taken(ports):
    """Ports that others listen on: these, or whoever has them already."""
    with contextlib.ExitStack() as stack:
        for port in ports:
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                sock.bind(("127.0.0.1", port))
                sock.listen()
        yield


def test_the_next_port_that_is_free(start):
    with taken(PORTS[:2]):
        t = start()
        assert t.port in PORTS[2:] and t.why == " (port 8000 is in use)"
        assert ask(t.port, "GET", "/health")[0] == 200
        leave(t)


def test_no_port_is_free(start):
    with taken(PORTS):
        t = start(page=False)
        assert "glyd: no chat page: ports 8000 to 8009 are in use" in t.seen
        t.send(CAPITAL + "\r")
        t.wait_for("is Paris")
        t.prompt()
        leave(t)


def test_the_port_that_was_asked_for(packed):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        t = Terminal("run", packed, "--port", sock.getsockname()[1])
        try:
            t.wait_for(r"glyd: port \d+ of 127\.0\.0\.1 is in use")
            t.leaves(1)
        finally:
            t.close()


def test_wrong_port(glyd, packed):
    glyd("run", packed, "--port", "99999").is_error(2, "--port 99999")
    for other in (["--no-page"], ["-p", "hello"]):
        glyd("run", packed, "--port", "0", *other).is_error(2, "--port")


def test_without_a_page(start):
    t = start("--no-page", page=False)
    assert "http://" not in t.seen
    leave(t)


def test_a_prompt_or_a_pipe_serves_no_page(glyd, packed):
    done = glyd("run", packed, "--temperature", 0, input=CAPITAL + "\n")
    assert (done.code, done.out) == (0, ANSWER) and "http://" not in done.err
    done = glyd("run", packed, "--temperature", 0, "-p", CAPITAL)
    assert (done.code, done.out, done.err) == (0, ANSWER, "")


def test_key_of_the_environment(start):
    t = start("--port", 0, env={"GLYD_API_KEY": "open sesame"})
    assert ask(t.port, "GET", "/v1/models")[0] == 401
    assert ask(t.port, "GET", "/v1/models", Authorization="Bearer open sesame")[0] == 200
    leave(t)


class Stream:
    """A long answer over HTTP that is being read."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = {"messages": [{"role": "user", "content": STORY}], "stream": True, "temperature": 0}
        self.connection.request("POST", "/v1/chat/completions", json.dumps(body))
        self.reply = self.connection.getresponse()
        assert self.reply.readline().startswith(b"data: ")

    def rest(self):
        try:
            return self.reply.read().decode()
        finally:
            self.connection.close()


@pytest.mark.parametrize("how", ["/bye", "Ctrl-D", "Ctrl-C"])
def test_the_end_cuts_off_who_is_being_answered(start, how):
    t = start("--port", 0)
    stream = Stream(t.port)
    begun = time.monotonic()
    if how == "Ctrl-C":
        t.interrupt()
        t.prompt()
        t.interrupt()
    else:
        t.send("/bye\r" if how == "/bye" else "\x04")
    rest = stream.rest()
    assert '"error"' in rest, rest[-300:]
    t.wait_for("glyd: 1 answer of the chat page was cut off")
    t.leaves()
    assert time.monotonic() - begun < 20
    with pytest.raises(OSError):
        ask(t.port, "GET", "/health")


def test_control_c_stops_the_terminals_answer_alone(start):
    t = start("--port", 0)
    t.send(STORY + "\r")
    t.wait_for(r"about the sea\.\r\n.*[a-z]{3,} [a-z]+")
    stream = Stream(t.port)
    t.interrupt()
    t.prompt()
    line = stream.reply.readline() + stream.reply.readline()
    assert b"data: " in line, line
    stream.reply.close()
    stream.connection.close()
    leave(t)
