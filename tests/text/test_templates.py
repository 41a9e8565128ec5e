"""Chat templates: byte for byte what jinja2 gives in the environment that transformers sets up.

    pytest tests/text/test_templates.py        needs jinja2 3.1; GLYD_BUILD names the build folder

Errors are compared too: where jinja2 fails, glyd fails; where the text is Jinja's own
(raise_exception, undefined values), it is the same text.

SPDX-License-Identifier: Apache-2.0
"""
import datetime
import json
import os
import pathlib
import subprocess

import jinja2
import pytest
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock
from jinja2.sandbox import ImmutableSandboxedEnvironment

import template_cases as cases

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")
HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("GLYD_BUILD", HERE.parent.parent / "build" / "release"))
NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)
E_ARG, E_UNSUPPORTED, E_LIMIT, E_FORMAT = 10, 11, 12, 21


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


ENV = environment()


def oracle(template, context):
    context = json.loads(json.dumps(context))  # `list|indent` changes the list before it fails
    variables = {**context["special_tokens"], **context["extra"]}
    for name in ("messages", "tools", "documents", "add_generation_prompt"):
        variables[name] = context[name]
    variables["tools"] = variables["tools"] or None  # an empty list never reaches the template
    try:
        return {"text": ENV.from_string(template).render(**variables)}
    except Exception as error:  # noqa: BLE001 - whatever it is, glyd must fail too
        return {"error": str(error), "type": type(error).__name__}


def glyd(requests):
    """Render all (template, context) pairs in one run of the tool."""
    lines = [json.dumps({"template": t, "input": c}) for t, c in requests]
    run = subprocess.run([BUILD / "template_tool"], input="\n".join(lines) + "\n", capture_output=True,
                         text=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.split("\n") if line]
    assert len(answers) == len(requests)
    return answers


def difference(template, context, answer):
    """None where glyd's answer is as good as the oracle's, else what differs."""
    wanted = oracle(template, context)
    if answer.get("status") == E_LIMIT and "64 bits" in answer["error"]:
        return None  # Python's integers grow, glyd's end here
    if "text" in wanted or "text" in answer:
        return None if wanted == answer else (wanted, answer)
    if wanted["type"] == "TemplateError":  # raise_exception
        same = answer["status"] == E_ARG and answer["error"] == wanted["error"].replace("\t", " ")
    elif wanted["type"] in ("UndefinedError", "SecurityError"):
        same = answer["status"] == E_FORMAT and answer["error"].split(": ", 1)[1] == wanted["error"]
    else:
        same = answer["status"] == E_FORMAT
    return None if same else (wanted, answer)


def check(requests):
    wrong = []
    for (template, context), answer in zip(requests, glyd(requests)):
        found = difference(template, context, answer)
        if found:
            wrong.append((template if len(template) < 300 else template[:80] + "...", *found))
    assert not wrong, f"{len(wrong)} of {len(requests)} differ:\n" + "\n".join(map(repr, wrong[:20]))


@pytest.mark.parametrize("path", sorted((HERE / "templates").glob("*.jinja")), ids=lambda p: p.stem)
def test_templates(path):
    template = path.read_text(encoding="utf-8")
    check([(template, context) for context in cases.CONTEXTS.values()])


def test_enough_cases_succeed():
    """Most of the grid renders: errors on both sides would prove little."""
    paths = list((HERE / "templates").glob("*.jinja"))
    results = [oracle(p.read_text(encoding="utf-8"), c) for p in paths for c in cases.CONTEXTS.values()]
    assert sum("text" in r for r in results) >= 300
    assert sum(r.get("type") == "TemplateError" for r in results) >= 10


def smollm2_template():
    folder = BUILD.parent.parent / "model" / "SmolLM2-135M-Instruct"
    if (folder / "chat_template.jinja").exists():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    config = folder / "tokenizer_config.json"
    return json.loads(config.read_text(encoding="utf-8"))["chat_template"] if config.exists() else None


def test_smollm2():
    """The template of a real checkpoint, where `make check` has built its folder."""
    template = smollm2_template()
    if template is None:
        pytest.skip("no model/SmolLM2-135M-Instruct")
    check([(template, context) for context in cases.CONTEXTS.values()])


def values():
    return cases.context(cases.HELLO, **cases.VALUES)


def test_expressions():
    requests = [("{{ [%s] }}" % line, values()) for line in cases.split_cases(cases.GOOD)]
    assert all("text" in oracle(*r) for r in requests), [r[0] for r in requests if "text" not in oracle(*r)]
    check(requests)


def test_failing_expressions():
    requests = [("one\ntwo {{ %s }}" % e, values()) for e in cases.split_cases(cases.BAD)]
    check(requests)


def test_random_expressions():
    requests = [("{{ %s }}" % e, values()) for e in cases.random_expressions(4000)]
    check(requests)


def test_random_templates():
    requests = [(template, values()) for template in cases.random_templates(2000)]
    check(requests)
