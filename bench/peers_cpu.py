#!/usr/bin/env python3
"""Decode and prompt speed beside llama.cpp on the same bf16 weights, in one run.

    python3 -m venv .venv-peers
    CMAKE_ARGS=-DGGML_NATIVE=ON .venv-peers/bin/pip install --no-binary llama-cpp-python \\
        llama-cpp-python gguf numpy
    .venv-peers/bin/python bench/peers_cpu.py SMOLLM2_FOLDER     (made by tools/make_smollm2.py)
    .venv-peers/bin/python bench/peers_cpu.py --random WORK_FOLDER

For each folder: writes a bf16 GGUF of it, packs it with `glyd pack`, then times llama.cpp, glyd on
bf16 and glyd on the packed save in turn, round after round, for each number of threads. Prints
lines `id value unit`: medians of the rounds, and ratios of glyd's median to llama.cpp's.
With --cpu-time (one thread only) seconds are of processor time, so that a busy machine spoils less.
--random first makes a folder with random weights in the shape of a 1.24-billion-weight Llama.
"""
import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"

RANDOM_CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
    "max_position_embeddings": 8192, "rope_theta": 500000.0, "rope_scaling": None,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1}

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


# --- models ---------------------------------------------------------------------------------------

def random_shapes(c):
    hidden, ffn = c["hidden_size"], c["intermediate_size"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], hidden),
              "model.norm.weight": (hidden,)}
    for i in range(c["num_hidden_layers"]):
        for name, shape in {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
                            "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (kv, hidden),
                            "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, hidden),
                            "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden),
                            "mlp.down_proj": (hidden, ffn)}.items():
            shapes[f"model.layers.{i}.{name}.weight"] = shape
    return shapes


def make_random(folder):
    """Normal weights of deviation 0.02, norms of one."""
    folder.mkdir(parents=True)
    shapes, header, offset = random_shapes(RANDOM_CONFIG), {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(1)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            if len(shape) == 1:
                f.write(np.full(shape, 0x3F80, np.uint16).tobytes())
                continue
            for start in range(0, shape[0], 4096):
                rows = min(4096, shape[0] - start)
                w = rng.standard_normal((rows, shape[1]), dtype=np.float32) * np.float32(0.02)
                f.write(((w.view(np.uint32) + 0x8000) >> 16).astype(np.uint16).tobytes())
    (folder / "config.json").write_text(json.dumps(RANDOM_CONFIG, indent=1))
    (folder / "generation_config.json").write_text("{}")


def tensors_of(folder):
    """Name and uint16 array of each tensor of a single-file bf16 checkpoint."""
    path = folder / "model.safetensors"
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
    data = np.memmap(path, np.uint8, "r", offset=8 + size)
    for name, t in header.items():
        if name == "__metadata__":
            continue
        if t["dtype"] != "BF16":
            sys.exit(f"{path}: {name} is {t['dtype']}, not BF16")
        start, end = t["data_offsets"]
        yield name, data[start:end].view(np.uint16).reshape(t["shape"])


def gguf_name(name):
    special = {"model.embed_tokens.weight": "token_embd.weight",
               "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in special:
        return special[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def interleave(w, heads):
    """llama.cpp rotates neighbours, Hugging Face halves: the rows of q and k change places."""
    rows, cols = w.shape
    return w.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def write_gguf(folder, path):
    import gguf
    c = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(c["rope_theta"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_tokenizer_model("none")
    for name, w in tensors_of(folder):
        if name.endswith("q_proj.weight"):
            w = interleave(w, c["num_attention_heads"])
        elif name.endswith("k_proj.weight"):
            w = interleave(w, c["num_key_value_heads"])
        if w.ndim == 1:
            writer.add_tensor(gguf_name(name), (w.astype(np.uint32) << 16).view(np.float32))
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(w).view(np.uint8),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- runs -----------------------------------------------------------------------------------------

class Llama:
    """llama.cpp through its C interface: no tokenizer, no sampler, only the model's steps."""

    def __init__(self, path, n_context):
        import llama_cpp
        self.api = llama_cpp
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        self.quiet = quiet
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = n_context
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama.cpp cannot use {path}")
        vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)

    def step(self, ids):
        array = (self.api.llama_token * len(ids))(*ids)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(ids))):
            sys.exit("llama_decode failed")
        logits = self.api.llama_get_logits_ith(self.context, -1)
        return int(np.argmax(np.ctypeslib.as_array(logits, (self.n_vocab,))))

    def run(self, threads, ids, n_tokens, clock=time.perf_counter):
        """Tokens a second of the prompt and of the greedy answer."""
        self.api.llama_set_n_threads(self.context, threads, threads)
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        start = clock()
        token = self.step(ids)
        middle = clock()
        for _ in range(n_tokens - 1):
            token = self.step([token])
        return len(ids) / (middle - start), (n_tokens - 1) / (clock() - middle)


def run_glyd(folder, threads, n_prompt, n_tokens, prefix):
    out = subprocess.run([BUILD / "bench_decode", folder, "--threads", str(threads), "--prompt",
                          str(n_prompt), "--tokens", str(n_tokens)],
                         check=True, capture_output=True, text=True).stdout
    values = [line.split()[1] for line in out.splitlines() if line.startswith(prefix)]
    return float(values[0]), float(values[1])


def measure(name, folder, work, o):
    path, packed = work / f"{name}.gguf", work / f"{name}-{o.layout}"
    if not path.exists():
        write_gguf(folder, path)
    if not packed.exists():
        subprocess.run([BUILD / "glyd", "pack", folder, packed, "--layout", o.layout], check=True)
    llama = Llama(path, o.prompt + o.tokens + 8)
    rng = np.random.default_rng(2)
    clock, prefix = (time.process_time, "cpu.") if o.cpu_time else (time.perf_counter, "run.")
    for threads in o.threads:
        runs = {"llama.cpp": [], "glyd-bf16": [], f"glyd-{o.layout}": []}
        llama.run(threads, [1] * o.prompt, 4)
        for _ in range(o.rounds):
            ids = rng.integers(0, llama.n_vocab, o.prompt).tolist()
            runs["llama.cpp"].append(llama.run(threads, ids, o.tokens, clock))
            runs["glyd-bf16"].append(run_glyd(folder, threads, o.prompt, o.tokens, prefix))
            runs[f"glyd-{o.layout}"].append(run_glyd(packed, threads, o.prompt, o.tokens, prefix))
        for i, part in enumerate(("prompt", "decode")):
            base = statistics.median(r[i] for r in runs["llama.cpp"])
            for who, results in runs.items():
                value = statistics.median(r[i] for r in results)
                print(f"peers.{name}.{part}.t{threads}.{who} {value:.2f} tokens/s")
                if who != "llama.cpp":
                    print(f"peers.{name}.{part}.t{threads}.{who}.ratio {value / base:.2f} x")
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a bf16 Llama folder, in one file")
    parser.add_argument("--random", type=Path, metavar="FOLDER", help="made where it is missing")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "peers",
                        help="for GGUF files and saves (default: build/peers)")
    parser.add_argument("--layout", default="mma12")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true")
    o = parser.parse_args()
    if o.cpu_time:
        o.threads = [1]
    o.work.mkdir(parents=True, exist_ok=True)
    if o.folder:
        measure("smollm2", o.folder, o.work, o)
    if o.random:
        if not (o.random / "config.json").exists():
            make_random(o.random)
        measure("llama1b", o.random, o.work, o)


main()
