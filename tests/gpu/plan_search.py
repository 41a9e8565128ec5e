#!/usr/bin/env python3
"""Products from packed weights against torch's F.linear, bit for bit, by the plans of plan_cublas.

usage: plan_search.py [--library FILE] [--csv FILE] [--seconds N] [--models A,B] [--tokens M,M-M]
                      [--ranks N,N]

For the Linear shapes of the models below, whole and as N tensor-parallel ranks cut them, with and
without a bias, and for 1 to 256 tokens and powers of two up to 8192: all results of F.linear and of glyd_gpu_linear (layout mma12, the plan that
glyd_gpu_plan_cublas finds) are compared. A few large products cancel across K, so that results
depend on the order of the sums. Operands are contiguous and aligned as torch's allocator does it.

The CSV has a line for each range of tokens with the same answer:
  equal            all results had torch's bits
  not reproduced   plan_cublas says that no plan gives cuBLAS's bits
  differs          it named a plan, and results differ: exits 1
"""
import argparse
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from glyd_ctypes import Glyd

#       hidden, heads, KV heads, head, intermediate, vocabulary
MODELS = {
    "Qwen3-0.6B": (1024, 16, 8, 128, 3072, 151936),
    "Qwen3-8B": (4096, 32, 8, 128, 12288, 151936),
    "Llama-3.1-8B": (4096, 32, 8, 128, 14336, 128256),
    "Qwen2.5-7B": (3584, 28, 4, 128, 18944, 152064),
    "Llama-3.2-1B": (2048, 32, 8, 64, 8192, 128256),
    "Qwen3-4B": (2560, 32, 8, 128, 9728, 151936),
    "Qwen3-32B": (5120, 64, 8, 128, 25600, 151936),
    "Llama-3.1-70B": (8192, 64, 8, 128, 28672, 128256),
    "SmolLM2-135M": (576, 9, 3, 64, 1536, 49152),
    "Gemma-3-4B": (2560, 8, 4, 256, 10240, 262208),
    "Granite-3.3-8B": (4096, 32, 8, 128, 12800, 49159),
    "Qwen2.5-0.5B": (896, 14, 2, 64, 4864, 151936),
    "Qwen2.5-1.5B": (1536, 12, 2, 128, 8960, 151936),
    "Qwen2.5-32B": (5120, 40, 8, 128, 27648, 152064),
    "Qwen3-1.7B": (2048, 16, 8, 128, 6144, 151936),
    "Qwen3-14B": (5120, 40, 8, 128, 17408, 151936),
    "Llama-3.2-3B": (3072, 24, 8, 128, 8192, 128256),
    "Mistral-7B": (4096, 32, 8, 128, 14336, 32768),
    "Mistral-Nemo-12B": (5120, 32, 8, 128, 14336, 131072),
    "Gemma-2-2B": (2304, 8, 4, 256, 9216, 256000),
    "Phi-4": (5120, 40, 10, 128, 17920, 100352),
    "SmolLM2-1.7B": (2048, 32, 32, 64, 8192, 49152),
    "OLMo-2-7B": (4096, 32, 32, 128, 11008, 100352),
}
LARGE, LARGE_FACTOR = 16, 65536.0


def shapes_of(names, ranks):
    """{(rows, cols): "model part"}: Linears one by one and merged, as engines have them, of one of n
    ranks: rows are cut, but columns of what takes the others' results."""
    found = {(1024, 8192): "-"}  # the lab's one exception
    for n in ranks:
        for name in names:
            hidden, heads, kv, head, inter, vocabulary = MODELS[name]
            if heads % n or inter % n:
                continue
            heads, kv, inter = heads // n, max(1, kv // n), inter // n
            for part, rows, cols in (
                    ("qkv", (heads + 2 * kv) * head, hidden), ("o", hidden, heads * head),
                    ("gate_up", 2 * inter, hidden), ("down", hidden, inter),
                    ("q", heads * head, hidden), ("kv", kv * head, hidden),
                    ("gate", inter, hidden), ("lm_head", -(-vocabulary // n), hidden)):
                found.setdefault((rows, cols), f"{name} {part}" + (f" / {n}" if n > 1 else ""))
    return found


def make(rows, cols, tokens_max):
    weight = torch.randn(rows, cols, dtype=torch.bfloat16, device="cuda").mul_(0.02)
    x = torch.randn(tokens_max, cols, dtype=torch.bfloat16, device="cuda")
    part = cols // LARGE
    for q in range(LARGE // 2 if part else 0):
        first, second = q * part + part // 2, (LARGE - 1 - q) * part + part // 2
        weight[:, second] = weight[:, first]
        x[:, first] *= LARGE_FACTOR
        x[:, second] = -x[:, first]
    bias = torch.randn(rows, dtype=torch.bfloat16, device="cuda")
    return weight, x, bias


def check(glyd, packed, weight, x, bias):
    """(slices, answer) of one product."""
    rows, cols = weight.shape
    begin = time.monotonic()
    slices, _ = glyd.plan(rows, cols, x.shape[0], bias is not None)
    glyd.plan_seconds += time.monotonic() - begin
    if slices is None:
        return 0, "not reproduced"
    same = torch.equal(F.linear(x, weight, bias).view(torch.int16),
                       packed.linear(x, bias, slices).view(torch.int16))
    return slices, "equal" if same else "differs"


def ranges(answers):
    """[(first, last, slices, answer)] from [(tokens, slices, answer)] in order."""
    out = []
    for tokens, slices, answer in answers:
        if out and out[-1][2:] == [slices, answer]:
            out[-1][1] = tokens
        else:
            out.append([tokens, tokens, slices, answer])
    return out


def tokens_of(text):
    out = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="build/release/libglyd_gpu.so")
    parser.add_argument("--csv", default="bench/results/plan_search.csv")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no shape after these")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tokens", default="1-256,512,1024,2048,4096,8192")
    parser.add_argument("--ranks", default="1")
    options = parser.parse_args()
    begin = time.monotonic()
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    taken_at = ",".join((torch.cuda.get_device_name(), torch.__version__,
                         time.strftime("%Y-%m-%d", time.gmtime())))
    glyd, tokens = Glyd(options.library), tokens_of(options.tokens)
    shapes, totals, left = shapes_of(options.models.split(","), tokens_of(options.ranks)), {}, 0
    Path(options.csv).parent.mkdir(parents=True, exist_ok=True)
    with open(options.csv, "w") as csv:
        csv.write("O,K,used_by,bias,tokens_from,tokens_to,slices,answer,machine,torch,date\n")
        for (rows, cols), used_by in shapes.items():
            if time.monotonic() - begin > options.seconds:
                left += 1
                continue
            weight, x, bias = make(rows, cols, max(tokens))
            packed = glyd.pack(weight)
            if not packed.is_smaller:
                raise SystemExit(f"{rows} x {cols} was not packed")
            for has_bias in (0, 1):
                answers = [(m, *check(glyd, packed, weight, x[:m], bias if has_bias else None))
                           for m in tokens]
                for first, last, slices, answer in ranges(answers):
                    csv.write(f"{rows},{cols},{used_by},{has_bias},{first},{last},{slices},"
                              f"{answer},{taken_at}\n")
                for _, _, answer in answers:
                    kind = answer.split(":")[0]
                    totals[kind] = totals.get(kind, 0) + 1
            csv.flush()
            glyd.lib.glyd_gpu_plans_trim(glyd.plans)
            del weight, x, bias, packed
    print(f"plan_cublas: {1e6 * glyd.plan_seconds / max(1, sum(totals.values())):.0f} us a product")
    for kind, n in sorted(totals.items()):
        print(f"{kind}: {n} products")
    print(f"{len(shapes) - left} of {len(shapes)} shapes, {time.monotonic() - begin:.0f} s, "
          f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    return 1 if totals.get("differs") or left else 0


if __name__ == "__main__":
    sys.exit(main())
