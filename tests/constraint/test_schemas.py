"""test_schemas.py - masks of JSON schemas against json and PyPI jsonschema.

Soundness: whatever is drawn from the masks, from the start or from any accepted start of another
text, ends as JSON that is valid. Completeness: valid documents pass in every spelling that
constraint.h promises, cut into tokens at random. Invalid ones do not.

    pytest tests/constraint          (build/release/constraint_tool must be built)

SPDX-License-Identifier: Apache-2.0
"""
import json
import random

import jsonschema
import pytest
from schemas import CORPUS, REFUSED
from tool import Refused

N_WALKS, N_MUTANTS = 10, 20


def validator(schema):
    return jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def parse(text):
    def refuse(name):
        raise ValueError(name)
    return json.loads(text.decode("utf-8"), parse_constant=refuse)


def needs_luck(schema):
    return schema is not True and schema.get("pattern") in ("abc", "abc$", "^x|y$", "^\\w+@\\w+\\.com$")


def most_tokens(schema):
    return 50 if needs_luck(schema) else 1000


def is_valid(check, text):
    """A walk without an end (None) has nothing to check."""
    if text is None:
        return True
    try:
        return check.is_valid(parse(text))
    except ValueError:
        return False


def spellings(value):
    for options in ({}, {"separators": (",", ":")}, {"indent": 2}, {"indent": "\t"}):
        yield json.dumps(value, ensure_ascii=False, **options).encode()


def has_free_strings(schema):
    """Whether any string of it may be written with any escapes."""
    text = json.dumps(schema)
    return not any(word in text for word in ("pattern", "format", "enum", "const", "properties"))


def test_corpus_is_large_and_right():
    assert len(CORPUS) >= 100
    for schema, good, bad in CORPUS:
        check = validator(schema)
        text = json.dumps(schema)
        for value in good:
            assert check.is_valid(value), (schema, value)
        if '"format"' not in text:  # jsonschema checks formats only in part
            for value in bad:
                assert not check.is_valid(value), (schema, value)


@pytest.mark.parametrize("index", range(len(CORPUS)))
def test_schema(tool, index):
    schema, good, bad = CORPUS[index]
    check = validator(schema)
    rng = random.Random(index)
    tool.grammar({"schema": schema})
    for seed in range(N_WALKS):
        text = tool.walk(seed + 1, rng.choice((0, 5, 40, 200)), most=most_tokens(schema))
        assert text is not None or needs_luck(schema), schema
        assert is_valid(check, text), (schema, text)
    for value in good:
        texts = list(spellings(value))
        if schema is not True and ("enum" in schema or "const" in schema):
            texts = texts[1:2]  # only compact
        if has_free_strings(schema):
            texts.append(json.dumps(value).encode())
        for text in texts:
            for seed in range(3):
                assert tool.accepts(text, seed) == (len(text), True), (schema, text)
            for _ in range(N_MUTANTS // len(texts)):
                check_mutant(tool, schema, check, text, rng)
    for value in bad:
        for text in spellings(value):
            assert not tool.accepts(text, 1)[1], (schema, text)
            assert is_valid(check, end(tool, schema, text, 3)), (schema, text)


def end(tool, schema, text, seed):
    """The accepted start of a text with an end drawn from the masks; None where it takes luck to
    draw what a pattern looks for."""
    ended = tool.walk(seed, 10, text, most_tokens(schema))
    assert ended is not None or needs_luck(schema)
    return ended


def check_mutant(tool, schema, check, text, rng):
    """A text with one change: refused unless it is valid still, and what was taken can be ended."""
    data = bytearray(text)
    at = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        data[at] = rng.choice(b'0123456789-.eE"\\/{}[]:, \n\x00\xc3\xa9ax')
    elif kind == 1:
        data.insert(at, rng.choice(b'0123456789-.eE"\\u{}[]:, \n\x00\xc3\xa9ax'))
    elif kind == 2:
        del data[at]
    else:
        data = data[:at]
    mutant = bytes(data)
    if tool.accepts(mutant, rng.randrange(100))[1]:
        assert is_valid(check, mutant), mutant
    ended = end(tool, schema, mutant, rng.randrange(1, 100))
    assert is_valid(check, ended), (mutant, ended)


@pytest.mark.parametrize("schema, status, says", REFUSED)
def test_refused(tool, schema, status, says):
    with pytest.raises(Refused) as caught:
        tool.grammar({"schema": schema})
    assert status is None or caught.value.status == status, str(caught.value)
    assert says in str(caught.value)


def test_escapes_of_strings(tool):
    tool.grammar({"schema": {"type": "string"}})
    for text in (rb'"\u00e9"', rb'"\ud83d\ude00"', rb'"\uD83D\uDE00"', rb'"\/\b\f\n\r\t\"\\"', rb'"\u0000"'):
        assert tool.accepts(text) == (len(text), True)
    for text, taken in ((rb'"\ud83d"', 7), (rb'"\ude00"', 4), (rb'"\ud83dx', 7), (rb'"\x"', 2), (b'"\n"', 1),
                        (b'"\xff"', 1), (b'"\xc0\x80"', 1), (b'"\xed\xa0\x80"', 2), (b'"\xf4\x90\x80\x80"', 2)):
        assert tool.accepts(text)[0] <= taken, text
        json.loads(tool.walk(1, 5, text))


def test_surrogate_pair_is_one_character(tool):
    tool.grammar({"schema": {"type": "string", "maxLength": 1}})
    assert tool.accepts(rb'"\ud83d\ude00"')[1]
    assert not tool.accepts(rb'"\ud83d\ude00a"')[1]


def test_a_listed_name_cannot_be_spelled_otherwise(tool):
    tool.grammar({"schema": {"properties": {"ab": {"type": "string"}},
                             "additionalProperties": {"type": "integer"}}})
    assert tool.accepts(b'{"ac":1}')[1]
    assert tool.accepts(b'{"ab":""}')[1]
    for text in (b'{"ab":1}', rb'{"a\u0062":1}', rb'{"\u0061b":1}'):
        assert not tool.accepts(text)[1]


def test_whitespace_is_bounded(tool):
    tool.grammar({"object": True})
    assert tool.accepts(b"{" + b" " * 32 + b"}")[1]
    assert tool.accepts(b"{" + b" " * 33 + b"}")[0] <= 33
    assert tool.accepts(b" {}")[0] == 0
    tool.grammar({"object": True}, whitespace=0)
    assert tool.accepts(b'{"a":[1,2]}')[1]
    assert not tool.accepts(b'{"a": [1,2]}')[1]


def test_nesting_is_bounded_and_says_so(tool):
    tool.grammar({"schema": True})
    assert tool.accepts(b"[" * 600 + b"]" * 600)[1]
    taken, done = tool.accepts(b"[" * 100000)
    assert not done and 600 < taken < 3000


def test_nullable(tool):
    tool.grammar({"schema": {"type": "string", "nullable": True}})
    assert tool.accepts(b"null")[1] and tool.accepts(b'"a"')[1] and not tool.accepts(b"1")[1]
