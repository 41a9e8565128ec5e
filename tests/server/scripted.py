"""A server that answers the chat page by a script, in real chunks: for what no small model can be
made to say or do when it is wanted. The page and its headers come from a real server.

What a test with it proves is what the page does with an answer, not that glyd would send it.
SPDX-License-Identifier: Apache-2.0
"""
import http.server
import json
import threading
import time


class Answer:
    """One answer. `pieces`: texts, or {"reasoning": ...}; an Event among them is waited for, and a
    number is a pause in seconds. `status` with `message` is an error instead. `ends`: False
    breaks the connection off after the last piece."""

    def __init__(self, *pieces, status=200, message="", finish="stop", ends=True, prompt=10,
                 total=None):
        self.pieces, self.status, self.message = pieces, status, message
        self.finish, self.ends, self.prompt, self.total = finish, ends, prompt, total


class Scripted:
    """Serves until the `with` block ends. `script`: Answers, in the order they are asked for;
    `bodies`: what was asked. `key`: what the Authorization header has to carry."""

    def __init__(self, server, *script, context=2048, name="scripted", key=None):
        page = server.get("/")
        self.page = page.body
        self.headers = {name: value for name, value in page.headers.items() if name in
                        ("Content-Type", "Content-Security-Policy", "Referrer-Policy")}
        self.script, self.bodies = list(script), []
        self.context, self.name, self.key = context, name, key
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def handler(self):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self, status, kind, body, headers=()):
                self.send_response(status)
                for name, value in {"Content-Type": kind, **dict(headers)}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def fail(self, status, message):
                error = {"message": message, "type": "BadRequestError", "param": None,
                         "code": status}
                self.reply(status, "application/json", json.dumps({"error": error}).encode())

            def has_key(self):
                return not fake.key or self.headers["Authorization"] == f"Bearer {fake.key}"

            def do_GET(self):
                if self.path == "/":
                    self.reply(200, "text/html", fake.page, fake.headers)
                elif not self.has_key():
                    self.fail(401, "Invalid API key.")
                else:
                    card = {"id": fake.name, "max_model_len": fake.context,
                            "glyd": {"layout": "mma12", "weight_bytes": 182e6, "bits": 12.03}}
                    self.reply(200, "application/json", json.dumps({"data": [card]}).encode())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.has_key():
                    self.fail(401, "Invalid API key.")
                    return
                fake.bodies.append(body)
                answer = fake.script.pop(0) if fake.script else Answer("no more answers")
                if answer.status != 200:
                    self.fail(answer.status, answer.message)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    self.stream(answer)
                except OSError:
                    pass  # the page has stopped it

            def event(self, data):
                text = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                self.wfile.flush()

            def stream(self, answer):
                n = 0
                for piece in answer.pieces:
                    if isinstance(piece, threading.Event):
                        piece.wait(60)
                        continue
                    if isinstance(piece, (int, float)):
                        time.sleep(piece)
                        continue
                    n += 1
                    delta = piece if isinstance(piece, dict) else {"content": piece}
                    usage = {"prompt_tokens": answer.prompt, "completion_tokens": n,
                             "total_tokens": answer.prompt + n}
                    self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}],
                                "usage": usage})
                if not answer.ends:
                    self.close_connection = True
                    return
                self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]})
                self.event({"choices": [], "usage": {
                    "prompt_tokens": answer.prompt, "completion_tokens": n,
                    "total_tokens": answer.total or answer.prompt + n}})
                self.event("[DONE]")
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *args):
                pass

        return Handler
