"""serving.py - a glyd server for tests: start, ask, stop.

GLYD_PROGRAM names another program than build/release/glyd, GLYD_TEST_MODEL another model folder
than model/SmolLM2-135M-Instruct.
SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GLYD_PROGRAM", str(ROOT / "build/release/glyd"))
REAL = Path(os.environ.get("GLYD_TEST_MODEL", ROOT / "model/SmolLM2-135M-Instruct"))
START_S = 60
ASK_S = 600  # sanitizers make prompts of thousands of tokens take minutes


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The message of an error in OpenAI's form, which is checked."""
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert error["code"] == self.status
        return error["message"]

    @property
    def events(self):
        """The JSON objects of an event stream; "[DONE]" must end it."""
        data = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        assert data[-1] == "[DONE]"
        return [json.loads(text) for text in data[:-1]]


class Server:
    """A running `glyd serve`; stops when the `with` block ends."""

    def __init__(self, model, *args, env=None):
        command = [PROGRAM, "serve", str(model), "--port", "0", *map(str, args)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                        errors="backslashreplace",
                                        env={**os.environ, **(env or {})})
        self.log, self.port = [], None
        self.started = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.started.wait(START_S) or self.port is None:
            self.process.kill()
            self.reader.join()
            raise RuntimeError("glyd serve did not start: " + "".join(self.log))

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"http://\S+:(\d+)$", line.strip())
            if found and self.port is None:
                self.port = int(found.group(1))
                self.started.set()
        self.started.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self):
        return self.log[0]

    def stop(self, how=signal.SIGTERM):
        """Returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(60)
        self.reader.join()
        told = [line for line in self.log if "Sanitizer:" in line or "runtime error:" in line]
        assert not told, "".join(self.log[self.log.index(told[0]):][:60])
        return code

    def ask(self, method, path, body=None, headers=None, timeout=ASK_S):
        """One request on a connection of its own. `body`: bytes, or what JSON can say."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        try:
            connection.request(method, path, body,
                               {"Content-Type": "application/json", **(headers or {})})
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body, **headers):
        return self.ask("POST", path, body, headers)

    def chat(self, content, **fields):
        messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
        return self.post("/v1/chat/completions", {"messages": messages, "temperature": 0, **fields})

    def complete(self, prompt, **fields):
        return self.post("/v1/completions", {"prompt": prompt, "temperature": 0, **fields})

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def raw(self, data):
        """What comes back on a connection that sends these bytes and then only listens."""
        with self.connect() as sock:
            sock.sendall(data)
            sock.settimeout(20)
            out = b""
            try:
                while piece := sock.recv(65536):
                    out += piece
            except OSError:
                pass
            return out

    def metric(self, name):
        """The sum of a metric's samples."""
        text = self.get("/metrics").body.decode()
        values = re.findall(rf"^vllm:{name}{{.*}} (\S+)$", text, re.M)
        assert values, name
        return sum(map(float, values))

    def wait_running(self, timeout=20):
        """Wait until the engine works on a request."""
        start = time.monotonic()
        while self.metric("num_requests_running") == 0:
            assert time.monotonic() - start < timeout, "the engine never began"
            time.sleep(0.005)

    def wait_idle(self, timeout=10):
        """Wait until the engine has nothing to do; returns how long that took, in seconds."""
        start = time.monotonic()
        while self.metric("num_requests_running") + self.metric("num_requests_waiting") > 0:
            assert time.monotonic() - start < timeout, "the engine is still busy"
            time.sleep(0.005)
        return time.monotonic() - start


def text_of(events):
    """The whole text of a chat stream's only choice."""
    return "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
