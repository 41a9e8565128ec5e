"""tiny_tokenizer.py - a byte-level tokenizer without merges: a token a byte.

SPDX-License-Identifier: Apache-2.0
"""
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
TEMPLATE = """{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""


def tokenizer():
    """Id 0 is </s>, then a token for each byte."""
    others = [b for b in range(256) if b not in PRINTABLE]
    vocab = {"</s>": 0}
    for char in [chr(b) for b in PRINTABLE] + [chr(256 + i) for i in range(len(others))]:
        vocab[char] = len(vocab)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    return {"version": "1.0", "normalizer": None, "pre_tokenizer": level, "post_processor": None,
            "decoder": level,
            "added_tokens": [{"id": 0, "content": "</s>", "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True}],
            "model": {"type": "BPE", "vocab": vocab, "merges": []}}
