"""terminal.py - the program on a pseudo-terminal: type, wait for what it shows, interrupt.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

from conftest import PROGRAM


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, *args, env=None):
        self.fd, inner = pty.openpty()
        self.process = subprocess.Popen([PROGRAM, *map(str, args)], stdin=inner, stdout=inner,
                                        stderr=inner, start_new_session=True,
                                        env={**os.environ, "TERM": "xterm", **(env or {})}, close_fds=True)
        os.close(inner)
        self.text = ""  # what was not waited for yet
        self.seen = ""  # all of it
        self.found = None  # the last match

    def is_editing(self):
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def prompt(self):
        """Wait for the prompt, and for the editor behind it: it shows first and listens then."""
        self.wait_for("> ")
        end = time.monotonic() + 60
        while not self.is_editing():
            assert time.monotonic() < end
            time.sleep(0.01)

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text, re.S):
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], \
                f"no {pattern!r} in {self.text!r}"
            try:
                read = os.read(self.fd, 65536).decode(errors="replace")
            except OSError:  # the program has left
                break
            self.text += read
            self.seen += read
        found = re.search(pattern, self.text, re.S)
        assert found, f"no {pattern!r} in {self.text!r}"
        self.text = self.text[found.end():]
        self.found = found

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def leaves(self, code=0):
        assert self.process.wait(60) == code

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)
