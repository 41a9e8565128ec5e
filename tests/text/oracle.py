"""oracle.py - tokenizers of the families glyd reads, texts to try them on, and the C side's answers.

Needs PyPI tokenizers 0.23. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random
import struct
import subprocess

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.environ.get("GLYD_TEXT_TOOL", os.path.join(ROOT, "build/release/text_tool"))

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

CORPUS = """The quick brown fox jumps over the lazy dog. It's 12345 o'clock, isn't it? We'll see.
int main(void) { return printf("%d\\n", 42) < 0; }   // comment    with   spaces
Größe, naïve café, Übermut; Việt Nam, Tiếng Việt; Привет, мир! Как дела? العربية שלום नमस्ते दुनिया
日本語のテキスト。漢字とかな。 中文文本，测试一下。 한국어 텍스트 ไทย ภาษา 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 😀😁
def f(x):\n\treturn x ** 2\r\n\r\n# tabs\t\tand CRLF\r\n1234567890 3.14159 1e-7 0xFF 100,000
I'm YOU'RE we've he'd They'LL don'T   trailing   \n\n\n  indented\n    more
""" * 8


def byte_level(pattern=None, digits=False):
    parts = []
    if digits:
        parts.append(pre_tokenizers.Digits(individual_digits=True))
    if pattern:
        parts.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    return pre_tokenizers.Sequence(parts) if len(parts) > 1 else parts[0]


def train(tokenizer, vocab_size, **options):
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, **options)
    tokenizer.train_from_iterator(CORPUS.splitlines(keepends=True), trainer)
    return tokenizer


def trained_bytes(pre_tokenizer, normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    return train(tokenizer, 900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def smollm2():
    t = trained_bytes(byte_level(digits=True))
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>"])
    return t


def llama3():
    t = trained_bytes(byte_level(LLAMA3), ignore_merges=True)
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
             "<|eot_id|>", "<|eom_id|>"]
    t.add_special_tokens(names + [f"<|reserved_special_token_{i}|>" for i in range(20)])
    bos = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                      pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", bos)])])
    # Words that only ignore_merges finds: they are in the vocabulary, but no merge makes them.
    saved = json.loads(t.to_str())
    for token in ("ĠViá»ĩtáº", "zqzq"):
        saved["model"]["vocab"][token] = len(saved["model"]["vocab"])
    shift = 2
    for added in saved["added_tokens"]:
        added["id"] += shift
    for entry in saved["post_processor"]["processors"]:
        for special in entry.get("special_tokens", {}).values():
            special["ids"] = [i + shift for i in special["ids"]]
    return Tokenizer.from_str(json.dumps(saved))


def qwen2():
    t = trained_bytes(byte_level(QWEN2), normalizer=normalizers.NFC())
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>"])
    t.add_tokens([AddedToken(name, normalized=False)
                  for name in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def tekken():
    return trained_bytes(byte_level(TEKKEN), ignore_merges=True)


def deepseek():
    parts = [pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
             pre_tokenizers.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
             pre_tokenizers.Split(Regex(DEEPSEEK), "isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return trained_bytes(pre_tokenizers.Sequence(parts))


def sentencepiece(first=True):
    """Llama 2, Mistral up to 0.3: one piece, spaces as U+2581, bytes for unknown characters."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence(
        ([normalizers.Prepend("▁")] if first else []) + [normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    train(t, 900, special_tokens=names, limit_alphabet=60)
    saved = json.loads(t.to_str())
    saved["pre_tokenizer"] = None
    saved["added_tokens"] = saved["added_tokens"][:3]
    saved["decoder"] = json.loads(decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()] +
        ([decoders.Strip(" ", 1, 0)] if first else [])).__getstate__())
    return Tokenizer.from_str(json.dumps(saved))


def metaspace(scheme, split):
    """The same families as newer files write them."""
    saved = json.loads(sentencepiece().to_str())
    saved["normalizer"] = None
    saved["added_tokens"][1]["normalized"] = True
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme, split)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", scheme),
                                           decoders.Fuse()])
    return tokenizer


def odd_added():
    """Every flag that an added token can have, with tokens that begin alike."""
    t = trained_bytes(byte_level(), normalizer=normalizers.NFKC())
    t.add_tokens([AddedToken("<a>", lstrip=True, normalized=False),
                  AddedToken("<b>", rstrip=True, normalized=False),
                  AddedToken("<ab>", lstrip=True, rstrip=True, normalized=True),
                  AddedToken("word", single_word=True, normalized=False),
                  AddedToken("words", normalized=False), AddedToken("ﬁx", normalized=True),
                  AddedToken("  ", normalized=False), AddedToken("    ", normalized=False),
                  AddedToken("日本", single_word=True, normalized=True), AddedToken("Ġx y")])
    t.add_special_tokens([AddedToken("<s>", lstrip=True), AddedToken("<s>>"), "w"])
    return t


PIECES = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<think>",
          "</think>", "<tool_call>", "<|im_", "<|reserved_special_token_1|>",
          "<|reserved_special_token_19|>", "<s>", "</s>", "<unk>", "<0x41>", "▁", "\u180e", "'\u017f",
          "'S", "'ll", "'LL", "\u212a", "ß", "ẞ", "ﬁ", "e\u0301", "\u0301\u0316\u0301", "Å", "\u1e9b\u0323",
          "각", "\u1100\u1161\u11a8", "日本語", "漢字", "ไทย", "नमस्ते", "שלום", "العربية",
          "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "1234567890", "١٢٣", "½", "Ⅷ", "\u0bf0", " ", "  ", "    ", "\t", "\n",
          "\r\n", "\r", "\n\n\n", "\u00a0", "\u2028", "\u3000", "\x00", "\x01", "\x1f", "\x7f", "\u0085",
          "\u200b", "\u200d", "\ufeff", "\ufffd", "\U00010d40", "\ua7cb", "\u1c89", "\U0002ebf0", "\U00031350",
          "\U0001e4d0", "\U00011f04", "\u0cf3", "\u0ece", "\U000105c0", "\U00011938", "\u08d4\u0316",
          "\U00011de0", "\u0378", "\U000e0041", "\U0010ffff", "\ue000", "ᾳ", "ǆ", "ǅ", "hello", "Hello",
          "world", "The", " the", "zqzq", " Việtạ", "word", "words", "<a>", "<b>", "<ab>", "ﬁx", "fix",
          "w", "<s>>", "Ġx y", "_", "-", "...", "!?", "(", "{}", "/", "\\", "\"", "#", "don't", "x=1;"]
BROKEN = [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5", b"\x80\x80"]


def texts(n, seed):
    """n byte strings: fixed ones first, then mixtures."""
    rng = random.Random(seed)
    fixed = [b"", b" ", b"a", b"9" * 1000, b" " * 300 + b"x", "漢".encode() * 200, b"\r\n" * 50,
             b"a" * 3000, "é".encode() * 70, CORPUS[:1500].encode(), b"\x00\x00", "\u0301".encode() * 40,
             ("a" + "\u0301\u0316" * 30).encode()]
    fixed += [p.encode() for p in PIECES] + BROKEN
    fixed += [(a + b).encode() for a, b in zip(PIECES, PIECES[1:] + PIECES[:1])]
    out = fixed[:n]
    scripts = [(0x20, 0x7f), (0xa0, 0x24f), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700),
               (0x900, 0xe00), (0x1ab0, 0x1b00), (0x2000, 0x2c00), (0x3000, 0x3100), (0x4e00, 0x9fff),
               (0xa000, 0xac00), (0xac00, 0xd7a4), (0xf900, 0xfb50), (0x10000, 0x12000),
               (0x1d400, 0x1d800), (0x1f300, 0x1fb00), (0x1, 0xd800), (0xe000, 0x110000)]
    while len(out) < n:
        text = b""
        for _ in range(rng.randrange(1, 14)):
            kind = rng.random()
            if kind < 0.55:
                text += rng.choice(PIECES).encode() * rng.choice([1, 1, 1, 2])
            elif kind < 0.75:
                at = rng.randrange(len(CORPUS) - 40)
                text += CORPUS[at:at + rng.randrange(1, 40)].encode()
            elif kind < 0.95:
                low, high = rng.choice(scripts)
                text += "".join(chr(rng.randrange(low, high))
                                for _ in range(rng.randrange(1, 9))).encode()
            else:
                text += rng.choice(BROKEN)
        out.append(text)
    return out


class Tool:
    """A running text_tool for one tokenizer.json."""

    def __init__(self, mode, *arguments):
        self.process = subprocess.Popen([TOOL, mode, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, kind, data):
        self.process.stdin.write(struct.pack("<II", kind, len(data)) + data)
        self.process.stdin.flush()

    def answer(self, size):
        status, n = struct.unpack("<II", self.process.stdout.read(8))
        data = self.process.stdout.read(n * size)
        assert len(data) == n * size
        return status, data

    def encode(self, text, add_special, parse_special):
        self.ask(add_special + 2 * parse_special, text)
        status, data = self.answer(4)
        assert status == 0, f"status {status}"
        return list(struct.unpack(f"<{len(data) // 4}i", data))

    def decode(self, ids, skip_special):
        """The text, and the text streamed."""
        self.ask(16 + skip_special, struct.pack(f"<{len(ids)}i", *ids))
        whole, streamed = self.answer(1), self.answer(1)
        assert whole[0] == 0 and streamed[0] == 0, f"status {whole[0]}, {streamed[0]}"
        return whole[1], streamed[1]

    def regex(self, pattern):
        self.ask(0, pattern.encode())
        status, data = self.answer(1)
        return status, data.decode()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait() == 0
