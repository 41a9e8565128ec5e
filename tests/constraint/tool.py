"""tool.py - talks to constraint_tool (tests/constraint/glyd_constraint_tool.c).

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.environ.get("GLYD_CONSTRAINT_TOOL", os.path.join(ROOT, "build/release/constraint_tool"))
MODEL = os.environ.get("GLYD_SMOLLM2", os.path.join(ROOT, "model/SmolLM2-135M-Instruct"))


class Refused(Exception):
    """A grammar that is not held: the text of the error, and its status."""
    def __init__(self, text, status):
        super().__init__(text)
        self.status = status


class Tool:
    def __init__(self, vocabulary):
        self.process = subprocess.Popen([TOOL, vocabulary], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the tool ended with {self.process.wait()} on {request}"
        return json.loads(line)

    def grammar(self, part, **options):
        answer = self.ask(grammar=part, **options)
        if "error" in answer:
            raise Refused(answer["error"], answer["status"])

    def walk(self, seed, soft=30, text=b"", most=1000):
        """Feed what is accepted of `text`, then draw tokens to the end; the whole text, or None
        where `most` tokens have led to no end."""
        request = {"walk": seed, "soft": soft, "most": most}
        if text:
            request["text"] = text.hex()
        answer = self.ask(**request)
        assert "error" not in answer, answer
        return bytes.fromhex(answer["hex"]) if answer["ended"] else None

    def accepts(self, text, seed=0):
        """How many bytes were taken, and whether that was all and the text may end."""
        answer = self.ask(text=text.hex(), seed=seed)
        assert "error" not in answer, answer
        return answer["accepted"], answer["accepted"] == len(text) and answer["may_end"]
