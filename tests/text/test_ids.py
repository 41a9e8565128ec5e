"""test_ids.py - ids and decoded texts equal those of PyPI tokenizers, all of them.

    pip install pytest tokenizers==0.23.3
    pytest tests/text/test_ids.py           (build/release/text_tool must be built)

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random

import oracle
import pytest
from oracle import Tool
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

N_CASES = 1500
FAMILIES = {"smollm2": oracle.smollm2, "llama3": oracle.llama3, "qwen2": oracle.qwen2,
            "tekken": oracle.tekken, "deepseek": oracle.deepseek,
            "llama2": lambda: oracle.sentencepiece(True), "gemma": lambda: oracle.sentencepiece(False),
            "mistral": lambda: oracle.metaspace("first", False),
            "metaspace_always": lambda: oracle.metaspace("always", True),
            "metaspace_never": lambda: oracle.metaspace("never", True), "odd_added": oracle.odd_added}


def open_tool(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer if isinstance(tokenizer, str) else tokenizer.to_str(), encoding="utf-8")
    return Tool("cases", str(path))


def same(got, want, what):
    """An assertion that does not spend minutes on explaining two long lists."""
    if got != want:
        n = min(len(got), len(want))
        i = next((i for i in range(n) if got[i] != want[i]), n)
        pytest.fail(f"{what}: differ at {i}: {got[i:i + 8]}, not {want[i:i + 8]}")


def check(tokenizer, tool, texts, seed):
    rng = random.Random(seed)
    size = tokenizer.get_vocab_size()
    n_checked = 0
    for data in texts:
        text = data.decode("utf-8", errors="replace")
        for add_special in (False, True):
            want = tokenizer.encode(text, add_special_tokens=add_special).ids
            same(tool.encode(data, add_special, True), want, ascii(text))
        tokenizer.encode_special_tokens = True
        want = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        same(tool.encode(data, False, False), want, ascii(text))
        noise = [rng.randrange(size + 3) for _ in range(rng.randrange(12))]
        for ids in (want, noise):
            for skip in (False, True):
                # What Python hands over is valid, so it compares as text.
                expected = tokenizer.decode(ids, skip_special_tokens=skip).encode()
                whole, streamed = tool.decode(ids, skip)
                same(whole, expected, (ids, skip))
                same(streamed, expected, (ids, skip))
        n_checked += 1
    return n_checked


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family, tmp_path):
    tokenizer = FAMILIES[family]()
    tool = open_tool(tokenizer, tmp_path)
    assert check(tokenizer, tool, oracle.texts(N_CASES, family), family) == N_CASES
    tool.close()


@pytest.mark.parametrize("first", [[], ["#version: 0.2"]])
@pytest.mark.parametrize("family", ["smollm2", "llama3"])
def test_merges_as_strings(family, first, tmp_path):
    tokenizer = FAMILIES[family]()
    saved = json.loads(tokenizer.to_str())
    saved["model"]["merges"] = first + [" ".join(m) for m in saved["model"]["merges"]]
    tool = open_tool(json.dumps(saved), tmp_path)
    check(tokenizer, tool, oracle.texts(300, family), family)
    tool.close()


REAL = os.environ.get("GLYD_TOKENIZER",
                      os.path.join(oracle.ROOT, "model/SmolLM2-135M-Instruct/tokenizer.json"))


@pytest.mark.skipif(not os.path.exists(REAL), reason=f"{REAL} is not there")
def test_real_vocabulary(tmp_path):
    tokenizer = Tokenizer.from_file(REAL)
    tool = open_tool(tokenizer, tmp_path)
    check(tokenizer, tool, oracle.texts(N_CASES, "real"), "real")
    tool.close()


def byte_model():
    return oracle.trained_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))


BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
PATTERNS = [" ", "a", "\\s+", "\\s", r"\p{N}{1,3}", r"\p{N}{1,3}+", r"\p{N}{2}?", r"\p{N}{2,}+", r"x{,3}y?",
            r"^", r"$", r"^\s*", r"\b", r"\B", r"\w+", r"\W+", r"\d", r"\D+", r"\h+", r"\S", r"[^\s]+",
            r"[\S\n]+", r"(?m:.)+", r".+", r"(?i:the|k|'s)", r"(?i)[a-k]+", r"(a|b|cd)*?e", r"(?<=o)w?",
            r"(?<!\s)\s", r"\p{Lu}\p{Ll}*", r"[\p{L}\p{M}]+", r"\P{L}+", r"\p{^L}", r"\p{S}|\p{P}", r"[a-z]*",
            r"(?>a+)b|.", r"\x41|\x{e9}|\u0301", r"\e|\a|\f|\v|\t", r"[\-\]\[^]", r"{", r"a{b", r"]|}",
            r"a|", r"(?:)", r"(?=\p{N})", r"\A.|.\z|.\Z", r"[!-~]+(?=\s|\z)", r"\p{Zs}+", r"\p{Cf}|\p{Co}",
            r"\p{No}|\p{Nl}", r"[^\r\n\p{L}\p{N}]?+\p{L}++|.", oracle.LLAMA3, oracle.QWEN2, oracle.TEKKEN,
            oracle.DEEPSEEK]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern, tmp_path):
    """The translated pattern cuts where Oniguruma cuts, in every way of cutting."""
    tokenizer = byte_model()
    texts = oracle.texts(250, "patterns")
    for behavior in BEHAVIORS:
        for invert in (False, True):
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(pattern), behavior, invert),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
            tool = open_tool(tokenizer, tmp_path)
            for data in texts:
                text = data.decode("utf-8", errors="replace")
                same(tool.encode(data, False, True), tokenizer.encode(text).ids, ascii(text))
            tool.close()


def characters(step):
    """Every code point, of the large blocks without structure every step-th."""
    large = [(0x3400, 0xa000), (0xac00, 0xd7a4), (0xe000, 0xf900), (0x17000, 0x18d00),
             (0x20000, 0x2f800), (0x2fa20, 0xe0000), (0xe0200, 0x110000)]
    bulk = {c for a, b in large for c in range(a, b) if (c - a) % step and b - c > 2}
    return [chr(c) for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000 and c not in bulk]


def test_every_character(tmp_path):
    """Each code point, in each class that patterns and Digits tell apart."""
    tokenizer = byte_model()
    points = "".join("x" + c for c in characters(13))
    parts = [points[i:i + 20000] for i in range(0, len(points), 20000)]
    splits = [pre_tokenizers.Digits(individual_digits=i) for i in (False, True)]
    splits += [pre_tokenizers.Split(Regex(p), "isolated")
               for p in (r"\p{L}+", r"\p{N}", r"\s", r"\w+", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Lo}",
                         r"\p{Lu}", r"\p{Ll}", r"\p{Lm}", r"\p{Lt}")]
    for split in splits:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(
            add_prefix_space=False, use_regex=False)])
        tool = open_tool(tokenizer, tmp_path)
        for part in parts:
            same(tool.encode(part.encode(), False, True), tokenizer.encode(part).ids, split)
        tool.close()


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normal_forms(form, tmp_path):
    tokenizer = byte_model()
    tokenizer.normalizer = getattr(normalizers, form)()
    tool = open_tool(tokenizer, tmp_path)
    points = characters(13)
    for i in range(0, len(points), 4000):
        for template in ("{}", "a\u0301{}\u0316{}"):
            part = "".join(template.format(c, c) for c in points[i:i + 4000])
            same(tool.encode(part.encode(), False, True), tokenizer.encode(part).ids, hex(i))
    check(tokenizer, tool, oracle.texts(500, form), form)
    tool.close()


@pytest.mark.parametrize("space", [False, True])
def test_other_blocks(space, tmp_path):
    """A prefix space, Replace by pattern, a ByteLevel in the middle, no decoder."""
    tokenizer = byte_model()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(Regex(r"\s{2,}"), " "),
                                                 normalizers.Replace("o", "00"), normalizers.NFC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(" ", "merged_with_next"),
        pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=True),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    tool = open_tool(tokenizer, tmp_path)
    check(tokenizer, tool, oracle.texts(400, "other"), "other")
    tool.close()
    saved = json.loads(tokenizer.to_str())
    saved["decoder"] = None
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tool = open_tool(tokenizer, tmp_path)
    check(tokenizer, tool, oracle.texts(300, "plain"), "plain")
    tool.close()


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("unknown", [None, "?"])
def test_unknown(fuse, fallback, unknown, tmp_path):
    """Characters that are not in the vocabulary."""
    vocab = {t: i for i, t in enumerate(["?", "a", "b", "ab", "é", "<0xC3>", "<0x9F>", "<0x21>", "?a"])}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b"), ("?", "a")], unk_token=unknown, fuse_unk=fuse,
                                     byte_fallback=fallback))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Strip("b", 0, 1),
                                           decoders.Strip("é", 1, 0)])
    tool = open_tool(tokenizer, tmp_path)
    rng = random.Random(7)
    texts = ["".join(rng.choice("abéßc!d") for _ in range(rng.randrange(50))).encode()
             for _ in range(600)]
    check(tokenizer, tool, texts, "unknown")
    tool.close()


REFUSED = {r"[\p{L}&&[^a]]": "intersection", r"[[:alpha:]]": "POSIX", r"[a[b]]": "class inside",
           r"\p{Han}": "property", r"(?<n>a)": "group", r"(a)\1": "escape", r"(?i:ß)": "(?i)",
           r"(?i:mass)": "(?i)", r"(?i:\p{Lu})": "(?i)", r"a**": "repeat", r"\R": "escape",
           r"a(?i)b|c": "group", r"a{3,2}": "bounds", r"(?x:a)": "group", r"\K": "escape",
           r"a{1,2000}": "repeat", r"(?<=a+)b": "lookbehind", r"(a": "without", r"a)": "without",
           r"[b-a]": "range", r"[a": "unfinished", r"\p{L": "property", r"(?C1)": "group",
           r"(?R)": "group", r"(*FAIL)": "repeat"}


@pytest.mark.parametrize("pattern", REFUSED)
def test_refused_patterns(pattern):
    tool = Tool("regex")
    status, text = tool.regex(pattern)
    tool.close()
    assert status in (11, 12, 21) and REFUSED[pattern] in text, (status, text)
