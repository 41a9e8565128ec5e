"""A vLLM engine in a process of its own, on a random model made where it runs: for gpu_same_bits.py
and bench/bench_vllm.py, which hold a bf16 engine and a packed one side by side on one GPU.

As a program it reads a line of JSON, {"do": NAME, ...}, and answers with one on the descriptor
that --answers names. Weights are Gaussian with a scale a row, as trained models' are, so packed
sizes are true; they are drawn on the device from a seed of each tensor's name, the same in every
process.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import hashlib
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

SHAPES = {  # family, hidden, ffn, layers, heads, key-value heads, head size, vocabulary, tied
    "qwen3-8b": ("qwen3", 4096, 12288, 36, 32, 8, 128, 151936, False),
    "qwen3-0.6b": ("qwen3", 1024, 3072, 28, 16, 8, 128, 151936, True),
    "qwen2-1.5b": ("qwen2", 1536, 8960, 28, 12, 2, 128, 151936, True),
    "tiny": ("qwen3", 256, 768, 2, 4, 2, 64, 2048, False),
}
FAMILIES = {"qwen3": "Qwen3ForCausalLM", "qwen2": "Qwen2ForCausalLM"}


def config(shape):
    family, hidden, ffn, layers, heads, kv_heads, head_dim, vocab, tied = SHAPES[shape]
    return {"architectures": [FAMILIES[family]], "model_type": family, "hidden_size": hidden,
            "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab,
            "tie_word_embeddings": tied, "hidden_act": "silu", "max_position_embeddings": 16384,
            "rms_norm_eps": 1e-6, "rope_theta": 1000000, "torch_dtype": "bfloat16",
            "eos_token_id": vocab - 1, "bos_token_id": vocab - 2}


def shapes_of(cfg):
    """(name, shape) of each tensor."""
    hidden, ffn, vocab = cfg["hidden_size"], cfg["intermediate_size"], cfg["vocab_size"]
    head = cfg["head_dim"]
    rows = {"q": cfg["num_attention_heads"] * head, "k": cfg["num_key_value_heads"] * head,
            "v": cfg["num_key_value_heads"] * head}
    yield "model.embed_tokens.weight", (vocab, hidden)
    yield "model.norm.weight", (hidden,)
    for i in range(cfg["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for x, n in rows.items():
            yield f"{p}self_attn.{x}_proj.weight", (n, hidden)
            if cfg["model_type"] == "qwen2":
                yield f"{p}self_attn.{x}_proj.bias", (n,)
            elif x != "v":
                yield f"{p}self_attn.{x}_norm.weight", (head,)
        yield f"{p}self_attn.o_proj.weight", (hidden, rows["q"])
        yield f"{p}mlp.gate_proj.weight", (ffn, hidden)
        yield f"{p}mlp.up_proj.weight", (ffn, hidden)
        yield f"{p}mlp.down_proj.weight", (hidden, ffn)
        yield f"{p}input_layernorm.weight", (hidden,)
        yield f"{p}post_attention_layernorm.weight", (hidden,)
    if not cfg["tie_word_embeddings"]:
        yield "lm_head.weight", (vocab, hidden)


def tensors(cfg, device):
    """(name, tensor) of the model, drawn in one buffer: allocating is what takes the time."""
    import torch
    rng = torch.Generator(device=device)
    buffer = torch.empty(max(math.prod(shape) for _, shape in shapes_of(cfg)), device=device,
                         dtype=torch.float32)
    for name, shape in shapes_of(cfg):
        rng.manual_seed(zlib.crc32(name.encode()))
        draw = buffer[:math.prod(shape)].view(shape).normal_(generator=rng)
        if len(shape) == 1:
            draw.mul_(0.05).add_(0 if name.endswith("bias") else 1)
        else:
            scale = 0.6 + 0.8 * torch.rand(shape[0], 1, generator=rng, device=device,
                                           dtype=torch.float32)
            draw.mul_(scale * (1.5 / shape[1] ** 0.5))
        yield name, draw.bfloat16()


def register_loader(cfg):
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    @register_model_loader("random")
    class RandomLoader(BaseModelLoader):
        def download_model(self, model_config):
            pass

        def load_weights(self, model, model_config):
            # vLLM's default device is the host here, and drawing on it takes minutes.
            model.load_weights(tensors(cfg, next(p.device for p in model.parameters()
                                                 if not p.is_meta)))


class Engine:
    def __init__(self, folder, shape, quantization, eager, options, kv_bytes):
        from vllm import LLM
        self.cfg = config(shape)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.cfg))
        register_loader(self.cfg)
        more = {"kv_cache_memory_bytes": kv_bytes} if kv_bytes else {}
        if options:
            more["additional_config"] = {"glyd": options}
        self.llm = LLM(model=str(folder), load_format="random", skip_tokenizer_init=True,
                       dtype="bfloat16", max_model_len=min(9216, self.cfg["max_position_embeddings"]),
                       gpu_memory_utilization=0.3, enforce_eager=eager, enable_prefix_caching=False,
                       disable_log_stats=True, quantization=quantization, **more)
        self.rng = random.Random(5)

    def prompt(self, n):
        return {"prompt_token_ids": [self.rng.randrange(100, self.cfg["vocab_size"] - 100)
                                     for _ in range(n)]}

    def params(self, n, **more):
        from vllm import SamplingParams
        return SamplingParams(temperature=0, max_tokens=n, min_tokens=n, ignore_eos=True,
                              detokenize=False, **more)

    def do_bits(self):
        """{case: a hash over every log-probability of prompt and answer, and the first tokens}."""
        self.rng.seed(5)
        cases = {f"one{n}": [self.prompt(n)] for n in (1, 5, 17, 128, 600, 3000)}
        cases["batch8"] = [self.prompt(40 + 7 * i) for i in range(8)]
        cases["batch32"] = [self.prompt(100 + 3 * i) for i in range(32)]
        found = {}
        for name, prompts in cases.items():
            answers = self.llm.generate(prompts, self.params(32, logprobs=1, prompt_logprobs=1),
                                        use_tqdm=False)
            digest = hashlib.sha256()
            n = 0
            for answer in answers:
                for step in [*answer.prompt_logprobs[1:], *answer.outputs[0].logprobs]:
                    for token in sorted(step):
                        digest.update(struct.pack("<if", token, step[token].logprob))
                        n += 1
            found[name] = [digest.hexdigest()[:16], n, list(answers[0].outputs[0].token_ids[:4])]
        return found

    def do_generate(self, n_prompts, prompt_tokens, answer_tokens, seed):
        """Seconds until all answers are there."""
        self.rng.seed(seed)
        prompts = [self.prompt(prompt_tokens) for _ in range(n_prompts)]
        began = time.perf_counter()
        self.llm.generate(prompts, self.params(answer_tokens), use_tqdm=False)
        return time.perf_counter() - began

    def do_decode(self, n_prompts, prompt_tokens, steps, seed):
        """Seconds a step, when all prompts are read and all sequences are answering."""
        from vllm.sampling_params import RequestOutputKind
        self.rng.seed(seed)
        engine = self.llm.llm_engine
        for i in range(n_prompts):
            engine.add_request(f"{seed}-{i}", self.prompt(prompt_tokens),
                               self.params(steps + 6, output_kind=RequestOutputKind.DELTA))
        made = dict.fromkeys((f"{seed}-{i}" for i in range(n_prompts)), 0)
        began = began_at = ended = ended_at = None
        while engine.has_unfinished_requests():
            for output in engine.step():
                made[output.request_id] += len(output.outputs[0].token_ids)
            least = min(made.values())
            if began is None and least >= 3:
                began, began_at = time.perf_counter(), sum(made.values())
            if least <= steps + 3:
                ended, ended_at = time.perf_counter(), sum(made.values())
        return (ended - began) * n_prompts / (ended_at - began_at)

    def do_check(self, tokens):
        """{product: results that differ from torch's own}, for each shape of packed matrix."""
        def measure(model):
            import torch
            import torch.nn.functional as F
            found, seen = {}, set()
            for module in model.modules():
                weight = getattr(module, "glyd_weight", None)
                if weight is None or (weight.rows, weight.cols) in seen:
                    continue
                seen.add((weight.rows, weight.cols))
                descriptor, bias = weight.descriptor, getattr(module, "bias", None)
                plain = torch.ops.glyd.unpack(descriptor, weight.rows, weight.cols)
                for n in tokens:
                    x = torch.randn(n, weight.cols, device=plain.device).bfloat16()
                    y = torch.ops.glyd.linear(x, descriptor, weight.rows, bias)
                    wrong = int((y != F.linear(x, plain, bias)).sum())
                    if wrong:
                        found[f"{weight.rows}x{weight.cols} {n}"] = wrong
            return found
        (found,) = self.llm.apply_model(measure)
        return found

    def do_memory(self):
        """Bytes of the weights as they are held, and the KV cache's tokens."""
        def measure(model):
            placeholders = packed = 0
            seen = set()
            for module in model.modules():
                weight = getattr(module, "glyd_weight", None)
                if weight is not None:
                    placeholders += module.weight.nbytes
                    if id(weight) not in seen:
                        packed += weight.packed.nbytes
                        seen.add(id(weight))
            return sum(p.nbytes for p in model.parameters()) - placeholders + packed
        (weights,) = self.llm.apply_model(measure)
        cache = self.llm.llm_engine.vllm_config.cache_config
        import torch
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        return {"weights": weights, "device": device,
                "kv_tokens": (cache.num_gpu_blocks or 0) * cache.block_size}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--quantization")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--options", type=json.loads)
    parser.add_argument("--kv-bytes", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--answers", type=int)
    args = parser.parse_args()
    answers = os.fdopen(args.answers, "w")
    began = time.perf_counter()
    engine = Engine(args.folder, args.shape, args.quantization, args.eager, args.options,
                    args.kv_bytes)
    print(json.dumps({"started_s": time.perf_counter() - began}), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(engine, "do_" + command.pop("do"))(**command)
        print(json.dumps(answer), file=answers, flush=True)


class Running:
    """The other side: an engine's process. Use it in a `with` statement."""

    def __init__(self, name, folder, log, shape, quantization=None, options=None, eager=False,
                 kv_bytes=None, environment=None):
        self.name = name
        back, answers = os.pipe()
        arguments = ["--shape", shape, "--folder", str(folder), "--answers", str(answers)]
        arguments += ["--quantization", quantization] if quantization else []
        arguments += ["--options", json.dumps(options)] if options else []
        arguments += ["--eager"] if eager else []
        arguments += ["--kv-bytes", str(kv_bytes)] if kv_bytes else []
        environment = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                       "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
                       "VLLM_CACHE_ROOT": str(folder / "cache"), **(environment or {})}
        self.log = open(log, "w", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, __file__, *arguments], pass_fds=[answers],
                                        stdin=subprocess.PIPE, stdout=self.log, stderr=self.log,
                                        text=True, env=environment)
        os.close(answers)
        self.answers = os.fdopen(back)

    def wait(self):
        """The next answer."""
        line = self.answers.readline()
        if not line:
            raise RuntimeError(f"the {self.name} engine ended: see {self.log.name}")
        return json.loads(line)

    def ask(self, do, **arguments):
        print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def add_options(parser, kv_bytes):
    """Options of those who run engines side by side. `kv_bytes`: what one holds unless told."""
    parser.add_argument("--shape", default="qwen3-8b", choices=SHAPES)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--kv-bytes", type=int, default=kv_bytes)
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()))


@contextlib.contextmanager
def side_by_side(args, environment=None):
    """start(name, quantization=, options=) -> Running, by those options; all end with the `with`."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        def start(name, **more):
            return stack.enter_context(Running(
                name, Path(folder) / name, args.logs / f"{args.shape}-{name}.log", args.shape,
                eager=args.eager, kv_bytes=args.kv_bytes, environment=environment, **more))
        yield start


if __name__ == "__main__":
    main()
