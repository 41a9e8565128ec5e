"""glyd run on tiny models made here, for what the real one does not do by itself.

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import pytest
import tiny

@pytest.fixture
def make_model(tmp_path):
    def make(weights=None, **changes):
        folder = tmp_path / "tiny"
        tiny.make(folder, {**tiny.config(), **changes}, weights)
        tiny.write_json(folder / "tokenizer.json", tiny.byte_tokenizer())
        tiny.write_json(folder / "generation_config.json", {"eos_token_id": 0})
        return folder
    return make


def test_an_answer_without_text(glyd, make_model):
    """All logits are 0, so that the first token is the lowest id: the end."""
    zeros = {n: np.zeros_like(a) for n, a in tiny.tensors(tiny.config()).items()}
    model = make_model(zeros, eos_token_id=0)
    done = glyd("run", model, "-p", "hello")
    assert (done.code, done.out, done.err) == (0, "\n", "")
    done = glyd("run", model, input="hello\nhello\n")
    assert (done.code, done.out) == (0, "\n\n") and "UTF-8" not in done.err


ALTERNATE = """{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}"""


def test_a_failed_answer_takes_its_question_back(glyd, make_model):
    weights = tiny.tensors(tiny.config())
    weights["model.norm.weight"][:] = 0x7FC0  # NaN
    model = make_model(weights)
    (model / "chat_template.jinja").write_text(ALTERNATE)
    done = glyd("run", model, input="hello\nhello\n")
    assert done.err.count("a logit is not a finite number") == 2 and "alternate" not in done.err


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja", "tokenizer_config.json"])
@pytest.mark.parametrize("target,text", [("/etc/passwd", "outside of the model folder"),
                                         ("nowhere", "leads to nothing")])
def test_links_do_not_lead_out(glyd, make_model, name, target, text):
    model = make_model()
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(target)
    glyd("run", model, "-p", "hello").is_error(3, name, text)
