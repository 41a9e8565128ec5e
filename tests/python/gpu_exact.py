#!/usr/bin/env python3
"""Logits of packed models against the same models in bf16 on a GPU, bit for bit.

usage: gpu_exact.py [--parts ops,short,compiled,full,files] [--layers N] [--log FILE] [--cpu]

Needs torch, transformers 5.17 and the package glyd with both libraries; run by hand, on a machine
with an NVIDIA GPU. Models have the shapes of Qwen3-8B and Llama-3.1-8B and random weights: normal,
rows scaled by 0.6 to 1.4. Each line says what was compared; anything that differs makes it exit 1.
  ops       opcheck, packing on the GPU, products as F.linear is called, graph capture
  short     logits of prompts and 64 decode steps, batch 1 and 8, --layers layers
  compiled  the same with a static cache, torch.compile(fullgraph=True, mode="reduce-overhead")
  full      with all layers: prompts of 17 and 1024 tokens, decode steps of batch 1
  files     save, verify, load of a save and of a checkpoint, with the peak of device memory
--cpu runs the script itself with tiny models, to find its mistakes before a GPU is used; there
inductor computes bf16 products of its own, so `compiled` may differ.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import copy
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from transformers import (AutoModelForCausalLM, DynamicCache, LlamaConfig, Qwen3Config, StaticCache,
                          logging)

import glyd
from glyd import ops

VOCAB_LLAMA = 128256
QWEN = dict(hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
            head_dim=128, intermediate_size=12288, vocab_size=151936, tie_word_embeddings=False,
            max_position_embeddings=40960, rms_norm_eps=1e-6)
LLAMA = dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
             head_dim=128, intermediate_size=14336, vocab_size=VOCAB_LLAMA,
             tie_word_embeddings=False, max_position_embeddings=131072, rms_norm_eps=1e-5)
TINY = dict(hidden_size=128, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
            intermediate_size=192, vocab_size=320, max_position_embeddings=4096)
MODELS = {"Qwen3-8B": (Qwen3Config, QWEN, "mma"), "Llama-3.1-8B": (LlamaConfig, LLAMA, "mma12")}
PROMPTS, STEPS = (1, 17, 128, 512, 2048), 64
CPU_PROMPTS, CPU_STEPS = (1, 17), 3


class Log:
    def __init__(self, file):
        self.file, self.failed, self.begin = open(file, "a") if file else None, 0, time.monotonic()

    def say(self, text):
        print(text, flush=True)
        if self.file:
            self.file.write(text + "\n")
            self.file.flush()

    def check(self, good, text):
        self.failed += not good
        self.say(f"{'equal  ' if good else 'DIFFERS'} {text}")


def bits(tensor):
    return tensor.contiguous().view(torch.int16)


def same(a, b):
    return a.shape == b.shape and torch.equal(bits(a), bits(b))


def make(name, layers, options):
    kind, values, layout = MODELS[name]
    values = dict(values, num_hidden_layers=layers or values["num_hidden_layers"])
    if options.cpu:
        values.update(TINY, num_hidden_layers=2)
    torch.manual_seed(1)
    with torch.device(options.device):
        model = AutoModelForCausalLM.from_config(kind(**values), dtype=torch.bfloat16).eval()
        for parameter in model.parameters():
            if parameter.ndim == 2:
                scale = torch.empty(parameter.shape[0], 1, dtype=torch.bfloat16).uniform_(0.6, 1.4)
                parameter.normal_(0, 0.02).mul_(scale)
            else:
                parameter.normal_(1, 0.05)
    return model, layout


def prompt(model, batch, tokens, options):
    generator = torch.Generator().manual_seed(tokens * 100 + batch)
    ids = torch.randint(0, model.config.vocab_size, (batch, tokens), generator=generator)
    return ids.to(options.device)


def compare_prompts(log, bf16, packed, what, options, prompts):
    for batch in (1, 8):
        for tokens in CPU_PROMPTS if options.cpu else prompts:
            ids = prompt(bf16, batch, tokens, options)
            want, got = bf16(ids, use_cache=False).logits, packed(ids, use_cache=False).logits
            log.check(same(want, got), f"{what}, prompts {batch} x {tokens}: {want.numel()} logits")
            del want, got


def steps(model, ids, n):
    """Logits of the last token of a prompt and of n greedy steps after it."""
    cache, out = DynamicCache(config=model.config), []
    for _ in range(n + 1):
        logits = model(ids, past_key_values=cache, logits_to_keep=1).logits
        out.append(logits)
        ids = logits[:, -1].argmax(-1, keepdim=True)
    return torch.cat(out, 1)


def compare_steps(log, bf16, packed, what, options, batches):
    n = CPU_STEPS if options.cpu else STEPS
    for batch in batches:
        ids = prompt(bf16, batch, 17, options)
        want, got = steps(bf16, ids, n), steps(packed, ids, n)
        log.check(same(want, got), f"{what}, prompts {batch} x 17 and {n} decode steps")


def two(log, name, layers, options):
    """A model, and its packed copy."""
    bf16, layout = make(name, layers, options)
    packed = copy.deepcopy(bf16)
    begin = time.monotonic()
    glyd.compress(packed, layout)
    if not options.cpu:
        torch.cuda.synchronize()
    report = glyd.report(packed)
    log.check(not report.left, f"{name}: all matrices packed: {len(report.packed)}")
    log.say(f"{name}, {bf16.config.num_hidden_layers} layers: packed as {layout} in "
            f"{time.monotonic() - begin:.1f} s, {report.bits:.3f} bits a weight, "
            f"{report.bytes_total / 1e9:.3f} GB of {(report.bytes_bf16 + report.bytes_rest) / 1e9:.3f}")
    return bf16, packed


def run_models(log, options, layers, prompts=PROMPTS, batches=(1, 8)):
    for name in MODELS:
        bf16, packed = two(log, name, layers, options)
        what = f"{name}, {bf16.config.num_hidden_layers} layers, eager"
        compare_prompts(log, bf16, packed, what, options, prompts)
        compare_steps(log, bf16, packed, what, options, batches)
        del bf16, packed
        free(options)


def free(options):
    if not options.cpu:
        torch.cuda.empty_cache()


# --- compiled, static cache ---
def static_steps(model, ids, n, mode):
    """As steps, with a static cache; the step is compiled, the prompt is not."""
    torch._dynamo.reset()
    cache = StaticCache(config=model.config, max_cache_len=256)
    step = torch.compile(lambda ids, at: model(ids, past_key_values=cache, cache_position=at,
                                               position_ids=at[None].expand(ids.shape[0], -1)).logits,
                         fullgraph=True, mode=mode)
    at = torch.arange(ids.shape[1], device=ids.device)
    logits = model(ids, past_key_values=cache, cache_position=at, logits_to_keep=1).logits
    out = [logits]
    for _ in range(n):
        ids = out[-1][:, -1].argmax(-1, keepdim=True)
        at = at[-1:] + 1
        out.append(step(ids, at).clone())
    return torch.cat(out, 1)


def run_compiled(log, options):
    mode = "default" if options.cpu else "reduce-overhead"
    n = CPU_STEPS if options.cpu else STEPS
    for name in MODELS:
        bf16, packed = two(log, name, 2, options)
        for batch in (1, 8):
            ids = prompt(bf16, batch, 17, options)
            want = static_steps(bf16, ids, n, mode)
            got = static_steps(packed, ids, n, mode)
            counters = torch._dynamo.utils.counters["inductor"]
            log.check(same(want, got), f"{name}, 2 layers, static cache, compiled ({mode}), prompts "
                      f"{batch} x 17 and {n} steps; cudagraph skips: "
                      f"{counters.get('cudagraph_skips', 0)}")
        del bf16, packed
        free(options)


# --- operators ---
def run_ops(log, options):
    device = options.device
    rows, cols = (320, 192) if options.cpu else (4096, 4096)
    torch.manual_seed(2)
    w = torch.randn(rows, cols).mul_(0.02).bfloat16()
    bias = torch.randn(rows).bfloat16().to(device)
    for layout in ("mma", "mma12"):
        host, packed = glyd.pack_tensor(w, layout), glyd.pack_tensor(w.to(device), layout)
        log.check(host.sizes == packed.sizes and torch.equal(host.buffer, packed.buffer.cpu()),
                  f"{layout}: packed on {device} and on the CPU, {packed.nbytes} bytes")
        log.check(same(glyd.unpack_tensor(packed).cpu(), w), f"{layout}: unpacked")
        weight = ops.Weight(packed)
        products(log, weight, w.to(device), bias, layout)
        opchecks(log, weight, bias, layout)
        if not options.cpu:
            capture(log, weight, w.to(device), layout)
        glyd.verify(packed)


def products(log, weight, w, bias, layout):
    def linear(x, b=None):
        return torch.ops.glyd.linear(x, weight.descriptor, weight.rows, b)
    x = torch.randn(4, 40, weight.cols, device=w.device).bfloat16()
    inputs = {"2-D": x[0], "3-D": x, "4-D": x.view(2, 2, 40, -1), "one token": x[:1, :1],
              "a vector": x[0, 0], "the last tokens": x[:, -1:], "columns apart": x.transpose(0, 1),
              "rows misaligned": x.view(-1)[8:8 + 8 * weight.cols].view(8, -1), "nothing": x[:0]}
    for what, value in inputs.items():
        for b in (None, bias):
            log.check(same(linear(value, b), F.linear(value, w, b)),
                      f"{layout}: F.linear, x {what} {tuple(value.shape)}"
                      f"{'' if b is None else ', bias'}")
    ids = torch.randint(0, weight.rows, (3, 50), device=w.device)
    log.check(same(torch.ops.glyd.embedding(ids, weight.descriptor, weight.cols),
                   F.embedding(ids, w)), f"{layout}: F.embedding")
    weight.exact = False
    one, many = linear(x[0, :1]), linear(x[0])[:1]
    log.check(x.device.type == "cpu" or same(one, many),
              f"{layout}: exact=False: a token alone and among 40")
    error = (one.float() - F.linear(x[0, :1], w).float()).abs().max().item()
    log.check(error < 0.1, f"{layout}: exact=False is near F.linear: {error:.4f}")
    weight.exact = True
    a, b = (x[:1, :3].clone().requires_grad_() for _ in range(2))
    linear(a, bias).float().square().sum().backward()
    F.linear(b, w, bias).float().square().sum().backward()
    log.check(same(a.grad, b.grad), f"{layout}: the gradient to x")


def opchecks(log, weight, bias, layout):
    x = torch.randn(2, 3, weight.cols, device=weight.device).bfloat16()
    ids = torch.tensor([[1, 2], [3, 4]], device=weight.device)
    cases = [(torch.ops.glyd.linear.default, (x, weight.descriptor, weight.rows, bias)),
             (torch.ops.glyd.linear.default, (x.clone().requires_grad_(), weight.descriptor,
                                              weight.rows, None)),
             (torch.ops.glyd.embedding.default, (ids, weight.descriptor, weight.cols)),
             (torch.ops.glyd.embedding_rows.default, (ids, weight.descriptor, weight.cols)),
             (torch.ops.glyd.unpack.default, (weight.descriptor, weight.rows, weight.cols))]
    for op, args in cases:
        done = torch.library.opcheck(op, args)
        log.check(set(done.values()) == {"SUCCESS"}, f"{layout}: opcheck {op}: {len(done)} tests")


def capture(log, weight, w, layout):
    for tokens in (1, 3, 200):  # 3 and 200: the plan is not known before the capture
        x = torch.randn(tokens, weight.cols, device=w.device).bfloat16()
        if tokens == 1:
            torch.ops.glyd.linear(x, weight.descriptor, weight.rows)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = torch.ops.glyd.linear(x, weight.descriptor, weight.rows)
        x.copy_(torch.randn_like(x))
        graph.replay()
        log.check(same(y, F.linear(x, w)), f"{layout}: captured and replayed, {tokens} tokens")
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.ops.glyd.unpack(weight.descriptor.clone(), weight.rows, weight.cols)
        refused = ""
    except glyd.GlydError as error:
        refused = str(error)
    torch.cuda.synchronize()
    log.check("copy of a descriptor" in refused, f"{layout}: a copied descriptor is refused in capture")


# --- files ---
def run_files(log, options):
    name = "Qwen3-8B"
    bf16, layout = make(name, 1, options)
    ids = prompt(bf16, 2, 17, options)
    want = bf16(ids).logits
    with tempfile.TemporaryDirectory() as folder:
        bf16.save_pretrained(f"{folder}/bf16")
        del bf16
        for source in ("bf16", "save"):
            model = None
            free(options)
            if not options.cpu:
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
            begin = time.monotonic()
            model = glyd.from_pretrained(f"{folder}/{source}", device=options.device, verify=True)
            seconds = time.monotonic() - begin
            if not options.cpu:
                report, largest = glyd.report(model), 2 * 151936 * 4096
                peak = torch.cuda.max_memory_allocated() - before
                log.say(f"from_pretrained of {source}, 1 layer, verify=True: {seconds:.1f} s; peak "
                        f"{peak / 1e9:.3f} GB of device memory, {report.bytes_total / 1e9:.3f} GB after "
                        f"it, {largest / 1e9:.3f} GB the largest matrix in bf16")
            log.check(same(model(ids).logits, want), f"{name}, 1 layer, loaded from {source}")
            log.check(not glyd.report(model).left, f"all matrices packed, from {source}")
            if source == "bf16":
                begin = time.monotonic()
                done = glyd.save_pretrained(model, f"{folder}/save")
                log.say(f"save_pretrained: {done['n_packed']} of {done['n_tensors']} tensors packed, "
                        f"{time.monotonic() - begin:.1f} s")
                verified = glyd.verify(f"{folder}/save")
                log.check(verified["n_tensors"] == done["n_tensors"], "the save, verified")
        where = {} if options.cpu else {"device_map": {"": options.device}}
        auto = AutoModelForCausalLM.from_pretrained(f"{folder}/save", **where)
        log.check(same(auto(ids).logits, want), "the save, by AutoModelForCausalLM.from_pretrained")
        log.check(len(glyd.report(auto).packed) == len(glyd.report(model).packed),
                  "as many matrices packed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default="ops,short,compiled,full,files")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--log")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    options.device = "cpu" if options.cpu else "cuda:0"
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    log = Log(options.log)
    name = "CPU" if options.cpu else torch.cuda.get_device_name()
    log.say(f"{name}, torch {torch.__version__}, glyd {glyd.__version__}, "
            f"{time.strftime('%Y-%m-%d', time.gmtime())}, parts {options.parts}")
    parts = {"ops": lambda: run_ops(log, options),
             "short": lambda: run_models(log, options, options.layers),
             "compiled": lambda: run_compiled(log, options),
             "full": lambda: run_models(log, options, None, (17, 1024), (1,)),
             "files": lambda: run_files(log, options)}
    for part in options.parts.split(","):
        begin = time.monotonic()
        with torch.set_grad_enabled(part == "ops"):
            parts[part]()
        log.say(f"part {part}: {time.monotonic() - begin:.0f} s")
    for device, plans in ops._plans.items():
        known = list(plans.known.values())
        log.say(f"{device}: {sum(s is not None for s in known)} of {len(known)} products with a plan "
                f"that gives cuBLAS's bits{': ' + plans.why_none if plans.why_none else ''}")
        for key, slices in plans.known.items():
            if slices is None:
                log.say(f"  by cuBLAS itself: {key[0]} x {key[1]}, {key[2]} tokens"
                        f"{', bias' if key[3] else ''}")
    log.say(f"{log.failed} differ")
    return 1 if log.failed else 0


if __name__ == "__main__":
    sys.exit(main())
