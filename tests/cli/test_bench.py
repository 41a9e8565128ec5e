"""bench: what is timed, and that the figures are of it.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re

QUICK = ["--prompt-tokens", 40, "-n", 8, "--rounds", 2, "-t", 2]


def test_of_a_save(glyd, save):
    done = glyd("bench", "--json", *QUICK, save)
    assert (done.err, done.code) == ("", 0)
    bench = json.loads(done.out)
    assert (bench["family"], bench["threads"], bench["rounds"]) == ("llama", 2, 2)
    assert (bench["prompt_tokens"], bench["answer_tokens"]) == (40, 8)
    assert bench["read_bytes_a_second"] > 1e8
    assert [(row["parallel"], row["layout"]) for row in bench["results"]] == [
        (1, "mma12"), (1, "bf16"), (8, "mma12"), (8, "bf16")]
    packed, bf16 = bench["results"][:2]
    assert packed["weight_bytes"] < bf16["weight_bytes"]
    for row in bench["results"]:
        assert row["prompt_tokens_a_second"] > 0 and row["decode_tokens_a_second"] > 0


def test_of_a_bf16_model(glyd, model):
    bench = json.loads(glyd("bench", "--json", *QUICK, "--parallel", 3, model).out)
    assert [(row["parallel"], row["layout"]) for row in bench["results"]] == [(3, "bf16")]
    assert bench["results"][0]["weight_bytes"] == 287360 * 2


def test_as_text(glyd, save):
    done = glyd("bench", *QUICK, "--parallel", 2, save)
    assert (done.err, done.code) == ("", 0)
    lines = done.out.splitlines()
    assert re.fullmatch(r".*save: llama, cpu \(\w+\), 2 threads; prompts of 40 tokens, answers of 8, "
                        r"median of 2", lines[0])
    assert lines[1].split()[:3] == ["parallel", "layout", "weights"]
    assert [line.split()[:2] for line in lines[2:4]] == [["2", "mma12"], ["2", "bf16"]]
    assert re.fullmatch(r" +2  packed against bf16 +\d+\.\d\dx +\d+\.\d\dx", lines[4])
    ratio = float(lines[2].split()[-2]) / float(lines[3].split()[-2])
    assert abs(float(lines[4].split()[-1][:-1]) - ratio) < 0.01 * ratio + 0.01
    assert re.fullmatch(r"memory is read at \d+\.\d\d GB/s", lines[5])


def test_refused(glyd, model, tmp_path):
    glyd("bench", tmp_path / "nothing").is_error(1, "nothing")
    glyd("bench", "--parallel", 0, model).is_error(2, "--parallel", "from 1 to 256")
    glyd("bench", "-n", 1, model).is_error(2, "--answer-tokens")
    glyd("bench", "--prompt-tokens", 400, model).is_error(1, "464", "256")
