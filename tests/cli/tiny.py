"""tiny.py - tiny model folders made by hand: bf16 weights, config and tokenizer files.

The weights are drawn like a trained model's (normal, with row scales) from a fixed seed, so that
packing makes them smaller. Nothing but numpy is needed.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import struct

import numpy as np

FAMILIES = {
    "llama": {"architectures": ["LlamaForCausalLM"]},
    "mistral": {"architectures": ["MistralForCausalLM"], "sliding_window": None},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "attention_bias": False},
}


def to_bf16(values):
    """float32 to bf16 bits, rounded to nearest even."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def config(family="llama", tied=True, hidden=128, layers=2, heads=4, kv_heads=2, head_dim=32,
           ffn=192, vocab=320, **more):
    return {
        "model_type": family, "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "eos_token_id": 2,
        "bos_token_id": 1, "tie_word_embeddings": tied, "torch_dtype": "bfloat16",
        **FAMILIES.get(family, {}), **more,
    }


def tensors(cfg, seed=1):
    """{name: bf16 bits} for a configuration, in the order of a saved checkpoint (by name)."""
    rng = np.random.default_rng(seed)
    hidden, ffn, vocab = cfg["hidden_size"], cfg["intermediate_size"], cfg["vocab_size"]
    q = cfg["num_attention_heads"] * cfg["head_dim"]
    kv = cfg["num_key_value_heads"] * cfg["head_dim"]

    def matrix(rows, cols):
        scale = rng.uniform(0.6, 1.4, (rows, 1))
        return to_bf16(rng.standard_normal((rows, cols)) * scale * 0.02)

    def vector(n, around):
        return to_bf16(rng.standard_normal(n) * 0.05 + around)

    out = {"model.embed_tokens.weight": matrix(vocab, hidden), "model.norm.weight": vector(hidden, 1)}
    if not cfg["tie_word_embeddings"]:
        out["lm_head.weight"] = matrix(vocab, hidden)
    for i in range(cfg["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out[p + "input_layernorm.weight"] = vector(hidden, 1)
        out[p + "post_attention_layernorm.weight"] = vector(hidden, 1)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            out[p + f"self_attn.{name}_proj.weight"] = matrix(rows, hidden)
            if cfg["model_type"] == "qwen2":
                out[p + f"self_attn.{name}_proj.bias"] = vector(rows, 0)
            if cfg["model_type"] == "qwen3" and name != "v":
                out[p + f"self_attn.{name}_norm.weight"] = vector(cfg["head_dim"], 1)
        out[p + "self_attn.o_proj.weight"] = matrix(hidden, q)
        out[p + "mlp.gate_proj.weight"] = matrix(ffn, hidden)
        out[p + "mlp.up_proj.weight"] = matrix(ffn, hidden)
        out[p + "mlp.down_proj.weight"] = matrix(hidden, ffn)
    return dict(sorted(out.items()))


DTYPES = {np.dtype(np.uint16): "BF16", np.dtype(np.float16): "F16", np.dtype(np.float32): "F32",
          np.dtype(np.int64): "I64", np.dtype(np.uint8): "F8_E4M3"}


def header(arrays, metadata={"format": "pt"}):
    entries, at = {"__metadata__": dict(metadata)} if metadata else {}, 0
    for name, array in arrays.items():
        entries[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape),
                         "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    return entries


def write_safetensors(path, arrays, head=None):
    """`head`: a header other than the right one (an object or bytes)."""
    text = header(arrays) if head is None else head
    if not isinstance(text, bytes):
        text = json.dumps(text, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def make(folder, cfg=None, weights=None, shards=1, seed=1):
    """A whole model folder. Returns its weights."""
    cfg = config() if cfg is None else cfg
    weights = tensors(cfg, seed) if weights is None else weights
    os.makedirs(folder)
    write_json(os.path.join(folder, "config.json"), cfg)
    write_json(os.path.join(folder, "generation_config.json"),
               {"bos_token_id": 1, "eos_token_id": [2, 3], "temperature": 0.6, "top_p": 0.9})
    write_json(os.path.join(folder, "tokenizer_config.json"), {"model_max_length": 256})
    write_json(os.path.join(folder, "tokenizer.json"), {"version": "1.0", "model": {"type": "BPE"}})
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write("{% for m in messages %}{{ m.content }}{% endfor %}\n")
    if shards == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), weights)
        return weights
    names, weight_map = list(weights), {}
    for i in range(shards):
        part = names[i * len(names) // shards:(i + 1) * len(names) // shards]
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(os.path.join(folder, file), {n: weights[n] for n in part})
        weight_map.update({n: file for n in part})
    total = sum(a.nbytes for a in weights.values())
    write_json(os.path.join(folder, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": weight_map})
    return weights


BYTES_AS_THEY_ARE = [*range(33, 127), *range(161, 173), *range(174, 256)]


def byte_tokenizer():
    """A byte-level tokenizer.json without merges: id 0 is </s>, then a token for each byte."""
    others = [b for b in range(256) if b not in BYTES_AS_THEY_ARE]
    vocab = {"</s>": 0}
    for char in [chr(b) for b in BYTES_AS_THEY_ARE] + [chr(256 + i) for i in range(len(others))]:
        vocab[char] = len(vocab)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    return {"version": "1.0", "normalizer": None, "pre_tokenizer": level, "post_processor": None,
            "decoder": level,
            "added_tokens": [{"id": 0, "content": "</s>", "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True}],
            "model": {"type": "BPE", "vocab": vocab, "merges": []}}

# A chat template that writes every message out.
PLAIN_TEMPLATE = """{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""
