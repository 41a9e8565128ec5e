"""python -m glyd.vllm.serve MODEL: `vllm serve` with settings worked out from the GPUs.

`glyd serve MODEL --backend vllm` runs it. The options are glyd's; what follows `--` goes to vLLM as
it is, after what is worked out here, so it has the last word.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import sys

from . import saves

SHARE = 0.92       # of a GPU's memory at most, as vLLM itself takes
MARGIN = 1 << 30   # of the free memory: what comes and goes beside vLLM
FILL = 0.75        # of that, weights at most: the rest is the KV cache's and the products'


def weight_bytes(model, layout):
    """Bytes of the weights as they will be held; 0 where that is not known before the download."""
    import ctypes

    from .. import _lib, errors
    plan = _lib.SavePlan()
    try:
        _lib.call(_lib.cpu().glyd_save_plan_make, os.fsencode(model), 0, ctypes.byref(plan))
    except errors.GlydError:
        return 0
    return plan.weight_bytes[_lib.LAYOUTS[layout]] or plan.weight_bytes[0]


def heads_of(model):
    try:
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except OSError:
        return 1
    return config.get("text_config", config).get("num_attention_heads") or 1


def gpus_for(nbytes, free, n_gpus, heads):
    """The fewest GPUs, a power of two that divides the heads, whose memory takes the weights."""
    n = 1
    while nbytes > FILL * free * n and 2 * n <= n_gpus and heads % (2 * n) == 0:
        n *= 2
    return n


def share_of(free, total):
    """gpu_memory_utilization for a GPU of which `free` bytes are free."""
    return max(0.05, min(SHARE, (free - MARGIN) / total // 0.01 / 100))


def from_gpus(model, layout):
    """(vLLM's options, what to say of them)."""
    import torch
    if not torch.cuda.is_available():
        return [], "no GPU"
    memory = [torch.cuda.mem_get_info(i) for i in range(torch.cuda.device_count())]
    free, total = min(memory)
    nbytes = weight_bytes(model, layout)
    n = gpus_for(nbytes, free, len(memory), heads_of(model))
    share = share_of(free, total)
    said = (f"{n} of {len(memory)} x {torch.cuda.get_device_name(0)}, {free / 1e9:.1f} GB free, "
            f"share {share:.2f}")
    if nbytes:
        said += f", weights {nbytes / 1e9:.2f} GB"
    return ["--gpu-memory-utilization", f"{share:.2f}", "--tensor-parallel-size", str(n)], said


def command_of(args, rest):
    """The command line of vLLM, and what to say of it."""
    folder = saves.folder_of(args.model)
    layout = args.layout
    if layout == "auto":
        from ..save import Save
        layout = Save(folder).layout if folder else "mma12"
    options, said = from_gpus(args.model, layout)
    options += ["--host", args.host, "--port", str(args.port), "--dtype", "bfloat16"]
    if layout != "bf16":
        options += ["--quantization", "glyd"]
        if args.layout != "auto":
            options += ["--additional-config", json.dumps({"glyd": {"layout": layout}})]
    if args.served_model_name:
        options += ["--served-model-name", *args.served_model_name.split(",")]
    options += ["--max-model-len", str(args.context) if args.context else "auto"]
    if args.parallel:
        options += ["--max-num-seqs", str(args.parallel)]
    context = f"{args.context} tokens" if args.context else "what fits"
    line = f"{args.model}: vllm, {layout}, context {context}, {said}, http://{args.host}:{args.port}"
    return ["-m", "vllm.entrypoints.cli.main", "serve", args.model, *options, *rest], line


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="python -m glyd.vllm.serve")
    parser.add_argument("model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name")
    parser.add_argument("--context", type=int)
    parser.add_argument("--parallel", type=int)
    parser.add_argument("--layout", default="auto", choices=("auto", "mma", "mma12", "bf16"))
    args = parser.parse_args(arguments[:cut])
    try:
        import vllm  # noqa: F401
    except ImportError as error:
        sys.exit(f"glyd: vLLM is not installed for {sys.executable} ({error}): pip install vllm, or "
                 "name another Python with GLYD_PYTHON")
    command, line = command_of(args, arguments[cut + 1:])
    print(line, file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
