#!/usr/bin/env python3
"""soak.py [SECONDS] [CLIENTS]: many clients at once for long, half of whom leave at random.

Passes where no answer is wrong (each greedy answer is the one that it was alone), memory stays flat
(within 5 %), no descriptor and no request is left, and /health answers at all times. The model is
that of the tests (serving.py).
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

from serving import PROGRAM, REAL, Server

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 300
CLIENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 64
PROMPTS = [f"{i} is a number that" for i in range(16)]
WARM_UP = 0.2  # part of the time after which memory must be flat


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def body(i, stream):
    return {"prompt": PROMPTS[i], "temperature": 0, "max_tokens": 12 + i % 5, "ignore_eos": True,
            "stream": stream}


def text_of(reply, stream):
    if stream:
        return "".join(e["choices"][0]["text"] for e in reply.events)
    return reply.json["choices"][0]["text"]


class Soak:
    def __init__(self, server):
        self.server, self.end = server, time.monotonic() + SECONDS
        self.answered = self.left = self.refused = 0
        self.wrong, self.lock, self.health = [], threading.Lock(), []
        self.alone = [text_of(server.post("/v1/completions", body(i, False)), False)
                      for i in range(len(PROMPTS))]

    def leave(self, rng, i, stream):
        """Ask, and hang up before the answer is whole."""
        data = json.dumps(body(i, stream)).encode()
        with self.server.connect() as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                         b"%d\r\n\r\n" % len(data) + data)
            time.sleep(rng.random() * 2)
        with self.lock:
            self.left += 1

    def work(self, number):
        rng = random.Random(number)
        while time.monotonic() < self.end:
            i, stream = rng.randrange(len(PROMPTS)), rng.random() < 0.5
            if number % 2:
                self.leave(rng, i, stream)
                continue
            reply = self.server.post("/v1/completions", body(i, stream))
            with self.lock:
                if reply.status == 503:
                    self.refused += 1
                elif reply.status != 200 or text_of(reply, stream) != self.alone[i]:
                    self.wrong.append((i, reply.status, reply.body[:200]))
                else:
                    self.answered += 1

    def watch(self):
        pid, warm, first = self.server.process.pid, time.monotonic() + WARM_UP * SECONDS, None
        while time.monotonic() < self.end:
            start = time.monotonic()
            assert self.server.get("/health").status == 200
            self.health.append(time.monotonic() - start)
            if first is None and time.monotonic() > warm:
                first = resident(pid)
            time.sleep(0.05)
        return first


def main():
    with tempfile.TemporaryDirectory() as folder:
        save = f"{folder}/save"
        subprocess.run([PROGRAM, "pack", "-q", str(REAL), save], check=True)
        with Server(save, "--context", 1024, "--quiet") as server:
            soak = Soak(server)
            idle = descriptors(server.process.pid)
            threads = [threading.Thread(target=soak.work, args=(n,)) for n in range(CLIENTS)]
            for thread in threads:
                thread.start()
            warm = soak.watch()
            for thread in threads:
                thread.join()
            server.wait_idle(30)
            time.sleep(3)
            last, left = resident(server.process.pid), descriptors(server.process.pid)
            load = server.get("/load").json["server_load"]
            code = server.stop()
    soak.health.sort()
    print(f"{soak.answered} answered, {soak.left} left, {soak.refused} refused, "
          f"{len(soak.wrong)} wrong; resident {warm} kB warm, {last} kB at the end; descriptors "
          f"{idle} before, {left} after; /health p99 "
          f"{1e3 * soak.health[int(0.99 * len(soak.health))]:.1f} ms; exit code {code}")
    for wrong in soak.wrong[:5]:
        print("wrong:", wrong)
    assert soak.answered > 0 and soak.left > 0 and not soak.wrong
    assert last < 1.05 * warm, "memory grew"
    assert left <= idle and load == 0 and code == 0


if __name__ == "__main__":
    main()
