"""measure.py - what the server adds to the engine: rates, first bytes, idle connections.

Prompts are made-up ids, a prompt of its own for every user, and are read before anything is timed,
as in `glyd bench`; so both time the same steps. The client is one thread that only counts bytes.
SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import random
import re
import resource
import selectors
import subprocess
import time
from pathlib import Path

from serving import PROGRAM

PROMPT_TOKENS, VOCAB = 128, 49152


def request(server, body, name):
    """A connection on which the request has just been sent, and when that was."""
    data = json.dumps(body).encode()
    sock = server.connect()
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n"
                 b"Connection: close\r\nContent-Length: %d\r\n\r\n" % (name.encode(), len(data))
                 + data)
    return sock, time.monotonic()


def bodies(users, tokens, seed):
    rng = random.Random(seed)
    return [{"prompt": [rng.randrange(VOCAB) for _ in range(PROMPT_TOKENS)], "max_tokens": tokens,
             "temperature": 0, "ignore_eos": True, "stream": True} for _ in range(users)]


def streams(server, users, tokens, seed):
    """[(sent, first event, last event, all bytes)] of as many streams at once, and their ids."""
    asked = bodies(users, tokens, seed)
    for body in asked:
        assert server.post("/v1/completions", {**body, "max_tokens": 1, "stream": False}).status == 200
    names = [f"measure-{seed}-{i}" for i in range(users)]
    selector, state = selectors.DefaultSelector(), []
    for body, name in zip(asked, names):
        sock, sent = request(server, body, name)
        state.append([sent, None, None, bytearray()])
        selector.register(sock, selectors.EVENT_READ, state[-1])
    while selector.get_map():
        for key, _ in selector.select(60):
            piece, now, own = key.fileobj.recv(65536), time.monotonic(), key.data
            if not piece:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                continue
            own[3] += piece
            if b"data: {" in piece:
                own[1] = own[1] or now
                own[2] = now
    for own in state:
        assert own[3].count(b"data: [DONE]") == 1, bytes(own[3][-300:])
    return state, names


def served_rate(server, users, tokens, seed):
    """Tokens a second, from when all have begun to the last token: `glyd bench`'s figure."""
    state, _ = streams(server, users, tokens, seed)
    return users * (tokens - 1) / (max(s[2] for s in state) - max(s[1] for s in state))


def thread_times(pid):
    """Seconds on a core, by thread."""
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9
            for task in Path(f"/proc/{pid}/task").iterdir()}


def time_beside_engine(server, users, tokens, seed):
    """Time on cores of the server's threads as a part of the engine's, while streams run. The
    engine's threads are those, as many as the settings line says, that work most by far. Other
    programs stretch neither, so this can be told on a machine that is not quiet."""
    n = int(re.search(r" (\d+) threads?, http", server.settings)[1])
    before = thread_times(server.process.pid)
    streams(server, users, tokens, seed)
    after = thread_times(server.process.pid)
    times = sorted((after[t] - before.get(t, 0) for t in after), reverse=True)
    return sum(times[n:]) / sum(times[:n])


def bench_rate(model, users, tokens, *options):
    """The same of `glyd bench`."""
    done = subprocess.run([PROGRAM, "bench", "--json", "--parallel", str(users), "-n", str(tokens),
                           "--prompt-tokens", str(PROMPT_TOKENS), "--rounds", "1", *options,
                           str(model)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["results"][0]["decode_tokens_a_second"]


def first_bytes(server, users, tokens, seed):
    """Seconds from a token's making to its arrival at the client, of each stream's first: from the
    client's sending to the arrival, less the server's own time from request to token (its log). So
    the way of the request is counted too: none is more than what it says."""
    state, names = streams(server, users, tokens, seed)
    out = []
    for own, name in zip(state, names):
        made = float(re.search(r"first token ([0-9.]+) ms", log_line(server, name))[1]) / 1e3
        out.append(own[1] - own[0] - made)
    return out


def log_line(server, name):
    """The log's line of a request, which it gets once all its work is over."""
    deadline = time.monotonic() + 30
    while not (line := [x for x in server.log if f" {name} " in x]):
        assert time.monotonic() < deadline, f"{name} is not in the log"
        time.sleep(0.002)
    return line[0]


def work_after_leaving(server, body, wait):
    """Ask, `wait()`, close. Returns for how many seconds after that the server had to do with the
    request, by its log, and how far that had come. The log's time begins when the header has
    arrived, which is not counted here."""
    name = f"leaves-{time.monotonic_ns()}"
    sock, sent = request(server, body, name)
    wait()
    left = time.monotonic()
    sock.close()
    line = log_line(server, name)
    took = float(re.search(r" bytes ([0-9.]+) ms", line)[1]) / 1e3
    return took - (left - sent), re.search(r"client left \((\w+)\)", line)[1]


def resident_kb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def idle_bytes(server, count):
    """What `count` connections cost the server's process once each has been answered and is kept
    open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * count)), hard))
    server.get("/health")
    before, idle = resident_kb(server.process.pid), []
    for _ in range(count):
        idle.append(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60))
        idle[-1].request("GET", "/v1/models")
        reply = idle[-1].getresponse()
        assert reply.status == 200 and not reply.will_close
        reply.read()
    after = resident_kb(server.process.pid)
    descriptors = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    assert descriptors >= count, "the connections are not open"
    for connection in idle:  # they still serve
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b""
        connection.close()
    return 1024 * (after - before)
