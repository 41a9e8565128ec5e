#!/usr/bin/env python3
"""soak.py [SECONDS] [CLIENTS]: many clients at once for long, half of whom leave at random.

Clients who stay compare each greedy answer with the one that they got when they were alone; those
who leave do so in the queue, in the prompt and in the answer (the server's log says where each was
caught), by a close, a reset or a half-close. /health is asked by a process of its own, memory and
descriptors are looked at all the time. What is wrong is listed, and the exit code is 1.
SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from serving import PROGRAM, REAL, Server

CONTEXT, PARALLEL = 512, 4
MEMORY_GROWTH = 1.05   # of the size after the warm-up,
ANONYMOUS_KB = 4096    # and in kB of what is no file: a leak hides behind a model's five percent
WARM_UP = 0.2          # part of the time, after which memory must be flat
HEALTH_P99_S = 0.010
SAMPLE_S, HEALTH_EVERY_S = 0.2, 0.02
PHASES = ("queue", "prompt", "answer")
WORDS = "one two red blue house river stone cloud paper green table seven music north".split()


def memory(pid):
    """(resident, of it not mapped from files) in kB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return tuple(int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("VmRSS", "RssAnon"))


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads_of(pid):
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def questions():
    """[(path, body)]: short ones for those who stay, longer answers at the end."""
    greedy = {"temperature": 0, "ignore_eos": True}
    short = [("/v1/completions", {"prompt": f"{i} is a number that", "max_tokens": 8 + i % 5,
                                  **greedy}) for i in range(12)]
    chat = [("/v1/chat/completions", {"messages": [{"role": "user", "content": text}],
                                      "max_tokens": 12, **greedy})
            for text in ("What is the capital of France?", "Say hello.", "Count to ten.")]
    long = [("/v1/completions", {"prompt": f"{text}:", "max_tokens": 48, **greedy})
            for text in ("A story", "A poem", "A letter")]
    return short + chat, long


def text_of(reply):
    """The text of an answer, whole or streamed, and of a part of a stream."""
    if reply.startswith(b"{"):
        choice = json.loads(reply)["choices"][0]
        return choice.get("text") or choice["message"]["content"]
    out = ""
    for line in reply.split(b"\n"):
        if line.startswith(b"data: {"):
            choice = json.loads(line[6:])["choices"][0]
            out += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return out


class Health:
    """A process that asks /health now and then; its GIL is its own."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, __file__, "--health", str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def stop(self):
        """The times it took, in seconds, sorted; raises what the process failed of."""
        out, _ = self.process.communicate(timeout=30)
        if self.process.returncode != 0:
            raise RuntimeError("/health was not answered")
        return sorted(json.loads(out))


def ask_health(port):
    times = []
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    while not stopped.wait(HEALTH_EVERY_S):
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
        times.append(time.monotonic() - start)
    print(json.dumps(times))


class Soak:
    def __init__(self, server, seconds, clients):
        self.server, self.seconds, self.clients = server, seconds, clients
        self.lock = threading.Lock()
        self.count, self.wrong, self.asked = Counter(), [], set()
        self.samples, self.memory = [], []
        self.n_asked = 0
        self.first_s = 1.0  # from request to first token, lately
        self.short, self.long = questions()
        self.alone = {json.dumps(q): self.ask(q, False) for q in self.short + self.long}
        for i in range(2 * PARALLEL):  # every page of the KV cache has then been written to
            self.ask(self.new_prompt(random.Random(i)), False)

    def ask(self, question, stream):
        path, body = question
        reply = self.server.post(path, {**body, "stream": stream})
        assert reply.status == 200, reply.body
        return text_of(reply.body)

    def new_prompt(self, rng):
        """A prompt that no cache has, of some 400 tokens."""
        return "/v1/completions", {"prompt": " ".join(rng.choices(WORDS, k=400)), "max_tokens": 8,
                                   "temperature": 0}

    def fail(self, text):
        with self.lock:
            self.wrong.append(text)

    def name(self, number, kind):
        """An id for the log, which must have it unless the client leaves before it is read."""
        with self.lock:
            self.n_asked += 1
            text = f"{kind}-{number}-{self.n_asked}"
            if kind != "blink":
                self.asked.add(text)
        return text

    # --- those who stay ---

    def stay(self, rng, number, connection):
        question, stream = rng.choice(self.short), rng.random() < 0.5
        path, body = question
        start = time.monotonic()
        connection.request("POST", path, json.dumps({**body, "stream": stream}),
                           {"X-Request-Id": self.name(number, "stay")})
        reply = connection.getresponse()
        data = reply.readline() if stream else b""
        if stream:
            self.first_s = 0.8 * self.first_s + 0.2 * (time.monotonic() - start)
        data += reply.read()
        if reply.status != 200:
            self.fail(f"{reply.status}: {data[:200]}")
        elif text_of(data) != self.alone[json.dumps(question)]:
            self.fail(f"{body}: {text_of(data)!r}, alone {self.alone[json.dumps(question)]!r}")
        elif stream and not data.endswith(b"data: [DONE]\n\n"):
            self.fail(f"a stream without its end: {data[-200:]}")
        self.count["answered"] += 1

    # --- those who leave ---

    def hang_up(self, rng, sock):
        how = rng.choice(("close", "reset", "half"))
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half":
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(20)
            try:
                while sock.recv(65536):
                    pass
            except ConnectionResetError:
                pass
        sock.close()

    def leave(self, rng, number):
        in_answer, in_a_blink = rng.random() < 0.4, rng.random() < 0.1
        question = rng.choice(self.long) if in_answer else self.new_prompt(rng)
        body = json.dumps({**question[1], "stream": in_answer or rng.random() < 0.5}).encode()
        name = self.name(number, "blink" if in_a_blink and not in_answer else "leave")
        with self.server.connect() as sock:
            sock.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n"
                         b"Content-Length: %d\r\n\r\n"
                         % (question[0].encode(), name.encode(), len(body)) + body)
            got = b""
            if in_answer:
                while b"data: {" not in got:
                    piece = sock.recv(65536)
                    if not piece:
                        self.fail(f"no answer to {question}: {got[:200]}")
                        return
                    got += piece
                time.sleep(rng.random() * 0.3)
            elif not in_a_blink:
                time.sleep(0.2 + self.first_s * rng.uniform(0.0, 1.3))
            self.hang_up(rng, sock)
        lines = got[:got.rfind(b"\n") + 1]
        if not self.alone.get(json.dumps(question), "").startswith(text_of(lines)):
            self.fail(f"{question}: {text_of(lines)!r} is not how its answer begins")
        self.count["left"] += 1

    def work(self, number):
        rng = random.Random(number)
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
            while time.monotonic() < self.end:
                if number % 2:
                    self.leave(rng, number)
                else:
                    self.stay(rng, number, connection)
            connection.close()
        except Exception as error:  # of a client's thread, which would end unseen
            self.fail(f"client {number}: {error!r}")

    # --- the run ---

    def run(self):
        pid = self.server.process.pid
        time.sleep(1)  # the connections so far are closed
        before = descriptors(pid), threads_of(pid)
        self.end = time.monotonic() + self.seconds
        health = Health(self.server.port)
        threads = [threading.Thread(target=self.work, args=(n,)) for n in range(self.clients)]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.end:
            self.samples.append((*memory(pid), descriptors(pid)))
            time.sleep(SAMPLE_S)
        self.health = health.stop()
        for thread in threads:
            thread.join()
        self.server.wait_idle(30)
        time.sleep(3)  # half-closed connections are ended by the watcher's tick
        self.after(before, (descriptors(pid), threads_of(pid)))

    def after(self, before, now):
        load = self.server.get("/load").json["server_load"]
        code = self.server.stop()
        self.caught = self.read_log()
        warm = self.samples[int(WARM_UP * len(self.samples)):]
        if before != now:
            self.fail(f"descriptors, threads: {before} before, {now} after")
        for i, kind in enumerate(("resident", "anonymous")):
            first = statistics.median(s[i] for s in warm[:max(1, len(warm) // 10)])
            most = max(s[i] for s in warm)
            self.memory.append(f"{kind} {first:.0f} to {most} kB")
            if most > min(MEMORY_GROWTH * first, first + (ANONYMOUS_KB if i else most)):
                self.fail(f"memory grew: {self.memory[-1]}")
        if load != 0 or code != 0:
            self.fail(f"/load {load}, exit code {code}")
        for phase in PHASES:
            if not self.caught[phase]:
                self.fail(f"nobody left in the {phase}")
        if self.count["answered"] < self.clients // 2:
            self.fail("hardly an answer")

    def read_log(self):
        """Where clients were when they left. Each request must have one line, and who stayed 200."""
        seen, caught = Counter(), Counter()
        for line in self.server.log:
            match = re.search(r" ((stay|leave)-\d+-\d+) POST \S+ (\d+) .*ms(.*)$", line)
            if not match:
                continue
            seen[match[1]] += 1
            left = re.search(r", client left \((\w+)\)", match[4])
            caught[left[1] if left else match[2] + " to the end"] += 1
            if match[2] == "stay" and (match[3] != "200" or left):
                self.fail(line)
        for name in self.asked ^ set(seen) | {n for n in seen if seen[n] > 1}:
            self.fail(f"{name}: {seen[name]} lines in the log")
        return caught

    def p99(self):
        return self.health[int(0.99 * len(self.health))]

    def report(self):
        return (f"{self.seconds:g} s, {self.clients} clients: "
                + ", ".join(f"{n} {what}" for what, n in sorted(self.count.items()))
                + f"; {dict(self.caught)}; {', '.join(self.memory)}; /health {len(self.health)} times, median "
                f"{1e3 * statistics.median(self.health):.2f} ms, p99 {1e3 * self.p99():.2f} ms, "
                f"longest {1e3 * self.health[-1]:.1f} ms; {len(self.wrong)} wrong")


def soak(save, seconds, clients):
    with Server(save, "--context", CONTEXT, "--parallel", PARALLEL) as server:
        made = Soak(server, seconds, clients)
        made.run()
        return made


def main():
    if sys.argv[1:2] == ["--health"]:
        ask_health(int(sys.argv[2]))
        return 0
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 300
    clients = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    with tempfile.TemporaryDirectory() as folder:
        save = f"{folder}/save"
        subprocess.run([PROGRAM, "pack", "-q", str(REAL), save], check=True)
        made = soak(save, seconds, clients)
    if made.p99() > HEALTH_P99_S:
        made.fail(f"/health took {1e3 * made.p99():.1f} ms at p99")
    print(made.report())
    for wrong in made.wrong[:10]:
        print("wrong:", wrong)
    return 1 if made.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
