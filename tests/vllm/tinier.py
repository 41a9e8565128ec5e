"""The tiny models of these tests, by name; vLLM's CPU attention wants heads of 32 at least.

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import tiny

MODELS = {
    "llama": {"family": "llama", "tied": False},
    "llama-tied": {"family": "llama", "tied": True},              # lm_head.tie_weights()
    "qwen2": {"family": "qwen2", "tied": True},                   # biases
    "qwen3": {"family": "qwen3", "tied": False},
    "qwen3-tied": {"family": "qwen3", "tied": True},              # lm_head = embed_tokens
    "qwen3-odd": {"family": "qwen3", "tied": False, "vocab": 333},  # padded to 384
    "qwen3-odd-tied": {"family": "qwen3", "tied": True, "vocab": 333},
    "moe": {"family": "qwen3_moe", "tied": False},
    "moe-tied": {"family": "qwen3_moe", "tied": True},            # lm_head.weight = embed's
}
EXPERTS, EXPERT_FFN = 4, 64


def config(name):
    cfg = tiny.config(**MODELS[name])
    if cfg["model_type"] == "qwen3_moe":
        cfg |= {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": EXPERTS,
                "num_experts_per_tok": 2, "moe_intermediate_size": EXPERT_FFN,
                "decoder_sparse_step": 1, "norm_topk_prob": True, "mlp_only_layers": []}
    return cfg


def tensors(cfg):
    if cfg["model_type"] != "qwen3_moe":
        return tiny.tensors(cfg)
    out = {name: bits for name, bits in tiny.tensors({**cfg, "model_type": "qwen3"}).items()
           if ".mlp." not in name}
    rng = np.random.default_rng(3)
    hidden = cfg["hidden_size"]
    for i in range(cfg["num_hidden_layers"]):
        mlp = f"model.layers.{i}.mlp."
        shapes = {"gate.weight": (EXPERTS, hidden)}
        for e in range(EXPERTS):
            shapes |= {f"experts.{e}.gate_proj.weight": (EXPERT_FFN, hidden),
                       f"experts.{e}.up_proj.weight": (EXPERT_FFN, hidden),
                       f"experts.{e}.down_proj.weight": (hidden, EXPERT_FFN)}
        for name, shape in shapes.items():
            out[mlp + name] = tiny.to_bf16(rng.standard_normal(shape) * 0.05)
    return dict(sorted(out.items()))


def make(folder, name, without=()):
    """`without`: names of tensors that the checkpoint shall lack."""
    cfg = config(name)
    weights = tensors(cfg)
    for left_out in without:
        del weights[left_out]
    tiny.make(folder, cfg, weights)
    tiny.write_json(folder / "tokenizer.json", tiny.byte_tokenizer())
    tiny.write_json(folder / "generation_config.json", {})
