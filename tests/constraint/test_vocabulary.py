"""test_vocabulary.py - the bytes of tokens against PyPI tokenizers, over the families glyd reads.

What tokens add to a text must be what decoding says: the literal of a text, and nothing else, is
spelled by its ids.

SPDX-License-Identifier: Apache-2.0
"""
import os
import random
import sys

import pytest
from tool import ROOT, Tool

sys.path.append(os.path.join(ROOT, "tests/text"))
import oracle  # noqa: E402

FAMILIES = {"smollm2": oracle.smollm2, "llama3": oracle.llama3, "qwen2": oracle.qwen2,
            "llama2": lambda: oracle.sentencepiece(True), "gemma": lambda: oracle.sentencepiece(False),
            "mistral": lambda: oracle.metaspace("first", False),
            "metaspace_always": lambda: oracle.metaspace("always", True)}
TEXTS = ["hello", " hello", "Größe, naïve", "日本語 漢字", "👩‍👩‍👧‍👦 🏳️‍🌈", "{\"a\": [1, 2.5]}\n", "x  y   z", "\t\n\r\n",
         "नमस्ते שלום", "▁", "\U0010ffff\ue000", "don't   trailing   ", "<0x41>", "\x01\x7f"]


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_spell_their_text(family, tmp_path):
    tokenizer = FAMILIES[family]()
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_str(), encoding="utf-8")
    tool = Tool(str(path))
    before = tokenizer.encode("a", add_special_tokens=False).ids
    start = tokenizer.decode(before)
    rng = random.Random(family)
    n_checked = 0
    for text in TEXTS + ["".join(rng.choice(oracle.PIECES) for _ in range(4)) for _ in range(40)]:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        added = tokenizer.decode(before + ids, skip_special_tokens=False)[len(start):]
        special = any(tokenizer.get_added_tokens_decoder().get(i) is not None and
                      tokenizer.get_added_tokens_decoder()[i].special for i in ids)
        if special or not added or "\ufffd" in added:
            continue
        tool.grammar({"literal": added})
        answer = tool.ask(ids=ids)
        assert answer == {"accepted": len(ids), "may_end": True}, (text, added, ids)
        for at in range(0, len(ids), 3):
            wrong = list(ids)
            wrong[at] = rng.randrange(tokenizer.get_vocab_size())
            if tokenizer.decode(before + wrong[:at + 1], skip_special_tokens=False) != \
                    tokenizer.decode(before + ids[:at + 1], skip_special_tokens=False) and \
                    len(tokenizer.decode(before + wrong[:at + 1])) >= len(start + added):
                assert not (tool.ask(ids=wrong)["may_end"]), (text, wrong)
        n_checked += 1
    assert n_checked >= 10
    tool.close()
