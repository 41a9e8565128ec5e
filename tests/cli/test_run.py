"""glyd run on a real model: one answer, a conversation, and what it refuses.

The model is SmolLM2-135M-Instruct (GLYD_TEST_MODEL, or model/SmolLM2-135M-Instruct as
tools/make_smollm2.py makes it); its save is packed here.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAM, ROOT
from terminal import Terminal

REAL = Path(os.environ.get("GLYD_TEST_MODEL", ROOT / "model/SmolLM2-135M-Instruct"))
CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris.\n"

pytestmark = pytest.mark.skipif(not REAL.exists(), reason=f"there is no {REAL}")


@pytest.fixture(scope="module")
def packed(glyd, tmp_path_factory):
    save = tmp_path_factory.mktemp("run") / "save"
    assert glyd("pack", "-q", REAL, save).code == 0
    return save


@pytest.mark.parametrize("threads", [1, 2])
def test_one_answer(glyd, packed, threads):
    for model in (REAL, packed):
        done = glyd("run", model, "-t", threads, "--temperature", 0, "--prompt", CAPITAL)
        assert (done.code, done.out, done.err) == (0, ANSWER, "")


def test_prompt_from_standard_input(glyd, packed):
    done = glyd("run", packed, "--temperature", 0, "-p", "-", input=CAPITAL + "\n")
    assert (done.code, done.out) == (0, ANSWER)


def test_same_logits(glyd, packed):
    hashes = {glyd("run", model, "-t", threads, "-p", CAPITAL, "--logits-hash").out
              for model in (REAL, packed) for threads in (1, 2)}
    hashes |= {glyd("run", packed, "--layout", layout, "-p", CAPITAL, "--logits-hash").out
               for layout in ("auto", "mma", "mma12", "bf16")}
    assert len(hashes) == 1
    assert re.fullmatch(r"[0-9a-f]{64}\n", hashes.pop())


def test_seed_decides(glyd, packed):
    def answer(seed):
        return glyd("run", packed, "-p", "Tell me a story.", "--temperature", 1.5, "-s", seed,
                    "-n", 24).out
    assert answer(1) == answer(1)
    assert len({answer(seed) for seed in (1, 2, 3)}) > 1


def test_max_tokens(glyd, packed):
    done = glyd("run", packed, "-p", "Count to one hundred.", "--temperature", 0, "-n", 5)
    assert done.code == 0 and len(done.out.split()) <= 5


def test_long_prompt_is_refused_with_both_numbers(glyd, packed):
    done = glyd("run", packed, "-c", 64, "-p", "word " * 100)
    assert done.code == 1 and done.out == ""
    numbers = [int(n) for n in re.findall(r"\d+", done.err)]
    assert 64 in numbers and any(n > 100 for n in numbers), done.err


@pytest.mark.parametrize("args,text", [
    (["--temperature", "-1"], "temperature"), (["--top-p", "2"], "top-p"),
    (["--context", "x"], "context"), (["--backend", "abacus"], "abacus"),
    (["--logits-hash"], "--prompt"), (["--nonsense"], "--nonsense")])
def test_wrong_usage(glyd, packed, args, text):
    glyd("run", packed, *args).is_error(2, text)


@pytest.mark.parametrize("layout", ["mma", "mma12"])
def test_layout_that_is_not_there(glyd, layout):
    glyd("run", REAL, "--layout", layout, "-p", "x").is_error(1, "are bf16", layout)


def test_not_a_model(glyd, tmp_path):
    glyd("run", tmp_path / "nothing", "-p", "x").is_error(1, "nothing")


def test_conversation(glyd, packed):
    script = f"{CAPITAL}\n/help\n/think\n/think\n/clear\n/nonsense\n{CAPITAL}\n/bye\nnever read\n"
    done = glyd("run", packed, "--temperature", 0, input=script)
    assert done.code == 0
    assert done.out == ANSWER + ANSWER
    for text in ("/clear", "thinking is on", "thinking is off", "forgotten", "no such command"):
        assert text in done.err


def test_output_that_cannot_be_written_ends_the_answer(packed):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "run", packed, "-p", "Count to one hundred."], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "glyd: cannot write the result to standard output\n"


def with_change(tmp_path, name, change):
    """The real model with one of its JSON files changed."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in REAL.iterdir():
        if path.suffix == ".json":
            (folder / path.name).write_bytes(path.read_bytes())
        else:
            shutil.copy(path, folder)
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))
    return folder


def test_unknown_tokenizer_block_is_named(glyd, tmp_path):
    def change(tokenizer):
        tokenizer["pre_tokenizer"] = {"type": "UnicodeScripts"}
    folder = with_change(tmp_path, "tokenizer.json", change)
    glyd("run", folder, "-p", "x").is_error(1, "tokenizer.json", "UnicodeScripts", "not supported")


@pytest.mark.parametrize("template,code,text", [
    ("{% include 'other' %}", 1, "include"),
    ("{{ messages | frobnicate }}", 3, "frobnicate"),
    ("{% for m in messages %}", 3, "line 1"),
    ("{{ raise_exception('no, thank you') }}", 1, "no, thank you"),
    ("{% for i in range(10 ** 9) %}{% endfor %}", 3, "Range too big"),
    ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", 1, "steps")])
def test_bad_template_is_refused(glyd, tmp_path, template, code, text):
    def change(config):
        config["chat_template"] = template
    folder = with_change(tmp_path, "tokenizer_config.json", change)
    glyd("run", folder, "-p", "x").is_error(code, text)


def test_an_interrupted_answer_is_not_done(packed):
    process = subprocess.Popen([PROGRAM, "run", packed, "-p", "Write a very long story.",
                                "--temperature", "0"], stdout=subprocess.PIPE)
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.wait(60) == 1


@pytest.fixture
def chat(packed):
    """A conversation on a terminal, that ends with the test."""
    t = Terminal("run", packed, "--temperature", 0, "--port", 0)
    yield t
    t.close()


def test_terminal_history_and_bye(chat):
    t = chat
    t.prompt()
    t.send(CAPITAL + "\r")
    t.wait_for("is Paris")
    t.prompt()
    t.send("/clear\r")
    t.wait_for("forgotten")
    t.prompt()
    t.send("\x1b[A\x1b[A")  # up, up: the question again
    t.wait_for("capital of France")
    t.send("\r")
    t.wait_for("is Paris")
    t.prompt()
    t.send("/bye\r")
    t.leaves()


def test_control_c_stops_the_answer_and_twice_leaves(chat):
    t = chat
    t.prompt()
    t.send("Write a very long story about the sea.\r")
    t.wait_for("story about the sea.*[a-z]{3,} [a-z]+")
    t.interrupt()
    t.prompt()
    t.send("Write another very long story.\r")
    t.wait_for("another very long story.*[a-z]{3,} [a-z]+")
    t.interrupt()
    t.prompt()
    t.interrupt()
    t.leaves()


def test_control_c_at_the_prompt_drops_the_line_and_twice_leaves(chat):
    t = chat
    t.prompt()
    t.send("half a line")
    t.wait_for("half a line")
    t.interrupt()
    t.prompt()
    t.send("/help\r")
    t.wait_for("/clear")
    t.prompt()
    t.interrupt()
    t.prompt()
    t.interrupt()
    t.leaves()


def test_control_d_leaves(chat):
    t = chat
    t.prompt()
    t.send("\x04")
    t.leaves()


def test_characters_beyond_ascii_can_be_edited(chat):
    t = chat
    t.prompt()
    t.send("naïve 東京\x7f\x7f café 🙂")
    t.wait_for("🙂")
    t.send("\x01\x0b/bye\r")  # to the start of the line, and away with it
    t.leaves()
