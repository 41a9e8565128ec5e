"""plan and help: exact text.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re

import pytest

PLAN = """\
model  llama, 287360 weights, a bf16 checkpoint
memory 1.00 GB as asked
bf16   0.000575 GB, context 256 of 256
mma12  about 0.000435 GB (76 % of bf16), context 256 of 256
mma    about 0.000388 GB (68 % of bf16), context 256 of 256
KV     1024 bytes a token, 0.000262 GB for the whole context
"""


def test_plan(glyd, model):
    done = glyd("plan", "-m", "1", model)
    assert (done.err, done.code) == ("", 0)
    # What run takes depends on the number of cores in its last digits.
    *plan, taken = done.out.splitlines(keepends=True)
    assert "".join(plan) == PLAN
    assert re.fullmatch(r"run    0\.00\d+ GB on this CPU: weights 0\.000575 GB held as bf16, "
                        r"KV cache 0\.000262 GB for a context of 256\n", taken)


def test_plan_of_a_save(glyd, model, save):
    plan = json.loads(glyd("plan", "--json", save).out)
    report = json.loads(glyd("verify", "--json", save).out)
    assert plan["layouts"]["mma"] == {"weight_bytes": report["bytes_save"], "exact": True,
                                      "context_fits": 256}
    assert plan["layouts"]["bf16"]["weight_bytes"] == report["bytes_checkpoint"]
    assert not plan["layouts"]["mma12"]["exact"] and plan["is_save"]
    assert plan["kv_bytes_a_token"] == 2 * 2 * 2 * 32 * 4
    assert plan["memory_available"] > 0


def test_plan_where_little_fits(glyd, model):
    """1 MB: the KV cache of some tokens beside the weights. Then not even the weights."""
    plan = json.loads(glyd("plan", "--json", "-m", "0.001", model).out)
    for layout in plan["layouts"].values():
        assert layout["context_fits"] == min(256, (1_000_000 - layout["weight_bytes"]) // 1024)
    config = json.loads((model / "config.json").read_text())
    assert config["max_position_embeddings"] == 256


def test_plan_reads_no_weight(glyd, model):
    """The weights may be a hole of any content: only headers are read."""
    before = glyd("plan", "-m", "1", model).out
    path = model / "model.safetensors"
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    path.write_bytes(data[:start] + bytes(len(data) - start))
    assert glyd("plan", "-m", "1", model).out == before


PACK_HELP = """\
usage: glyd pack [options] MODEL OUT

pack a bf16 model and save it

MODEL is a Hugging Face model folder with bf16 safetensors. OUT is a new folder: the same
model with its weights packed, every one of them decoded again and compared.

options
  -h, --help                 show this help
"""


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["a", "b", "--help"]])
def test_pack_help(glyd, args):
    done = glyd("pack", *args)
    assert (done.err, done.code) == ("", 0)
    assert done.out.startswith(PACK_HELP)
    for option in ("layout", "threads", "shard-size", "any", "json", "quiet"):
        assert f"--{option}" in done.out


@pytest.mark.parametrize("command", ["verify", "unpack", "plan", "bench"])
def test_help_of_each_command(glyd, command):
    done = glyd(command, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: glyd {command} [options] ")
    assert "--layout" not in done.out and "--json" in done.out


def test_help_lists_what_is_built(glyd):
    done = glyd("--help")
    assert done.code == 0 and done.err == ""
    for command in ("pack MODEL OUT", "verify SAVE", "unpack SAVE OUT", "plan MODEL",
                    "bench MODEL"):
        assert f"  {command} " in done.out
    assert "doctor" not in done.out


def test_version(glyd):
    done = glyd("--version")
    assert re.fullmatch(r"glyd \d+\.\d+\.\d+\n", done.out) and done.code == 0
