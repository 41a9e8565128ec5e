"""test_patterns.py - regular expressions against Python's re, and parts put together.

SPDX-License-Identifier: Apache-2.0
"""
import json
import random
import re

import pytest
from schemas import PATTERNS
from tool import Refused

ATOMS = ["a", "b", "c", "é", "😀", ".", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "[ab]", "[^a]", "[a-cx]", "[^\\d]",
         "\\.", "-", "[é-ü]", "[\\w-]", "\\x61", "\\u00e9"]
ALPHABET = "abcxé😀.1_ -\n\tü"


def random_pattern(rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 2)
    if kind < 2:
        return rng.choice(ATOMS)
    if kind < 4:
        return "".join(random_pattern(rng, depth + 1) for _ in range(rng.randrange(1, 4)))
    if kind == 4:
        return "(" + "|".join(random_pattern(rng, depth + 1) for _ in range(rng.randrange(1, 4))) + ")"
    inner = "(?:" + random_pattern(rng, depth + 1) + ")"
    return inner + rng.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "{0,2}"])


def matcher(pattern):
    """Python's answer, in the dialect that constraint.h describes: ASCII classes, `.` without line
    ends."""
    return re.compile(pattern, re.ASCII)


def same_dialect(text):
    """\\s and \\S differ on spaces outside ASCII, `.` on line ends; texts here have none but these."""
    return not set(text) & set("\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") and \
        not any("\u2000" <= c <= "\u200a" for c in text)


@pytest.mark.parametrize("seed", range(60))
def test_random_pattern(tool, seed):
    rng = random.Random(seed)
    pattern = random_pattern(rng)
    want = matcher(pattern)
    tool.grammar({"regex": pattern})
    for i in range(20):
        text = tool.walk(i + 1, soft=5, most=100)
        if text is not None and same_dialect(text.decode()):
            assert want.fullmatch(text.decode()), (pattern, text)
    for i in range(60):
        text = "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(6)))
        data = text.encode()
        expected = bool(want.fullmatch(text))
        assert tool.accepts(data, i)[1] == expected, (pattern, text)
        ended = tool.walk(i + 1, 5, data, most=100)
        if ended is not None and same_dialect(ended.decode()):
            assert want.fullmatch(ended.decode()), (pattern, text, ended)


@pytest.mark.parametrize("pattern, good, bad", [p for p in PATTERNS if p[0][0] == "^" and p[0][-1] == "$" and p[0] != "^x|y$"])
def test_anchored_patterns_as_texts(tool, pattern, good, bad):
    """^ and $ at the ends change nothing where a whole text must match."""
    tool.grammar({"regex": pattern})
    for text in good:
        assert tool.accepts(text.encode())[1], text
    for text in bad:
        assert not tool.accepts(text.encode())[1], text


def test_errors_name_the_offset(tool):
    for pattern, says in (("ab(?=c)", "offset 4: lookahead"), ("a\\b", "offset 2"), ("a**", "nothing to repeat"),
                          ("[a", "not closed"), ("a{2}{3}", "nothing to repeat"), ("{2}", "nothing")):
        with pytest.raises(Refused) as caught:
            tool.grammar({"regex": pattern})
        assert says in str(caught.value)


def test_costly_pattern(tool):
    """Here each text is a place of its own, of up to 300 pairs: slower, and still right."""
    tool.grammar({"regex": ".*a.{300}b"})
    for text, ends in ((b"a" * 150 + b"x" * 300 + b"b", True), (b"xa" + b"ab" * 150 + b"b", True),
                       (b"a" + b"x" * 299 + b"b", False)):
        assert tool.accepts(text) == (len(text), ends)


def test_choice(tool):
    texts = ["yes", "no", "yesterday", "ye", "n", "é", "yes"]
    tool.grammar({"choice": [{"literal": t} for t in texts]})
    seen = {tool.walk(seed + 1, soft=100).decode() for seed in range(200)}
    assert seen == set(texts)
    for text in ("yest", "y", "", "nope"):
        assert not tool.accepts(text.encode())[1]


def call(name, schema):
    return {"sequence": [{"literal": f'<tool_call>\n{{"name": "{name}", "arguments": '}, {"schema": schema},
                         {"literal": "}\n</tool_call>"}]}


def test_forced_tool_calls(tool):
    f = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    g = {"type": "object", "properties": {"city": {"type": "string"}, "deep": {"$ref": "#"}}, "required": ["city"]}
    tool.grammar({"sequence": [{"choice": [call("f", f), call("g", g)]},
                               {"sequence": [{"literal": "\n"}, {"choice": [call("f", f), call("g", g)]}],
                                "min": 0, "max": 2}]})
    pattern = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.S)
    names, counts = set(), set()
    for seed in range(40):
        text = tool.walk(seed + 1, soft=60 if seed % 2 else 600).decode()
        calls = [json.loads(c) for c in pattern.findall(text)]
        counts.add(len(calls))
        for c in calls:
            names.add(c["name"])
            assert set(c) == {"name", "arguments"}
            assert isinstance(c["arguments"]["x" if c["name"] == "f" else "city"], (int, str))
    assert names == {"f", "g"} and counts <= {1, 2, 3} and len(counts) > 1
    one = b'<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    assert tool.accepts(one)[1] and tool.accepts(one + b"\n" + one)[1]
    assert not tool.accepts(b"\n".join([one] * 4))[1]
    assert tool.accepts(one.replace(b'"f"', b'"h"'))[0] < 30


def test_until(tool):
    tool.grammar({"sequence": [{"until": "</think>"}, {"literal": "\n\n"}, {"schema": {"type": "integer"}}]})
    for text in ("</think>\n\n1", "some thought < </ </thin </think>\n\n-20", "<</think>\n\n3", "é{\"a\"}</think>\n\n4"):
        assert tool.accepts(text.encode(), 3)[1], text
    for text in ("thought\n\n1", "</think>1", "</think></think>\n\n1"):
        assert not tool.accepts(text.encode())[1], text


def test_repetition(tool):
    tool.grammar({"regex": "[ab]", "min": 2, "max": -1})
    for text, ok in (("a", False), ("ab", True), ("abab" * 50, True), ("abc", False)):
        assert tool.accepts(text.encode())[1] == ok


def test_special_tokens_match_only_by_id(tool):
    if tool.ask(ids=[]) and tool.process.args[1] == "bytes":
        pytest.skip("has no special tokens")
    special = 1  # <|im_start|>
    tool.grammar({"literal": "<|im_start|>"})
    assert tool.ask(ids=[special])["accepted"] == 0
    assert tool.accepts(b"<|im_start|>")[1]
    tool.grammar({"sequence": [{"token": special}, {"literal": "x"}]})
    assert tool.ask(ids=[special])["accepted"] == 1
    assert tool.accepts(b"<|im_start|>x")[0] == 0
    tool.grammar({"until": "x"})
    assert tool.ask(ids=[special])["accepted"] == 0


@pytest.mark.parametrize("part", [{"literal": ""}, {"sequence": []}, {"choice": []}, {"token": -1},
                                  {"literal": "a", "min": 3, "max": 2}])
def test_parts_without_what_they_need(tool, part):
    with pytest.raises(Refused) as caught:
        tool.grammar(part)
    assert caught.value.status == 10
