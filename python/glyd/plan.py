"""What a model takes, from its headers alone: `fit`.

SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import os
import re
from ctypes import byref

from . import _lib, errors

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_ACTIVATIONS = 0.03  # of the memory, kept for activations, logits and the allocator


@dataclasses.dataclass
class Fit:
    """Whether a model fits a memory, by layout ("bf16", "mma12", "mma").

    weight_bytes  of all weights; None where that is not known (a save has its own layout and bf16)
    fits          whether weights and the KV cache of `context` tokens fit
    context       tokens whose KV cache fits beside the weights, at most the model's own; -1: none
    kv_bytes_a_token is for a bf16 cache, as transformers and vLLM keep it.
    """

    model_type: str
    memory_bytes: int
    n_weights: int
    kv_bytes_a_token: int
    context_model: int
    weight_bytes: dict
    fits: dict
    context: dict

    def __str__(self):
        lines = [f"{self.model_type}, {self.n_weights / 1e9:.2f} G weights, "
                 f"{self.kv_bytes_a_token / 1e6:.3f} MB of KV cache a token, in "
                 f"{self.memory_bytes / 1e9:.1f} GB"]
        for layout, nbytes in self.weight_bytes.items():
            if nbytes is not None:
                tokens = self.context[layout]
                room = (f"context up to {tokens} tokens" if tokens >= 0
                        else "the weights do not fit")
                lines.append(f"{layout:6} {nbytes / 1e9:9.3f} GB  {room}"
                             f"{'' if self.fits[layout] else '  (less than asked for)'}")
        return "\n".join(lines)


def bytes_of(text):
    """Bytes of "24GB", "23.5GiB" or a number. Units of 1000, but for those with an i."""
    if isinstance(text, (int, float)):
        return int(text)
    match = re.fullmatch(r"\s*([\d.]+)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].upper() not in _UNITS or match[1].count(".") > 1:
        raise errors.ArgumentError(f"{text!r} is no size: such as 24GB or 22.5GiB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def fit(name_or_path, gpu="24GB", context=8192):
    """Whether a model, a bf16 folder or a save, fits the memory of a GPU, in each layout. Only headers
    are read. Of a family that glyd's own engine knows: llama, mistral, qwen2, qwen3.
    Errors: NotFoundError, UnsupportedError (family), FormatError, ArgumentError (gpu, context)."""
    memory = bytes_of(gpu)
    if memory <= 0 or context < 0:
        raise errors.ArgumentError(f"gpu={gpu!r}, context={context}: neither may be negative")
    plan = _lib.SavePlan()
    _lib.call(_lib.cpu().glyd_save_plan_make, os.fsencode(_folder_of(name_or_path)), memory,
              byref(plan))
    kv = plan.kv_bytes_a_token // 2  # the plan's is float32, the CPU engine's
    weight_bytes, fits, tokens = {}, {}, {}
    for layout, number in sorted(_lib.LAYOUTS.items(), key=lambda item: item[1]):
        nbytes = plan.weight_bytes[number] or None
        weight_bytes[layout] = nbytes
        room = -1 if nbytes is None else int(memory * (1 - _ACTIVATIONS)) - nbytes
        tokens[layout] = -1 if room < 0 else min(plan.context, room // kv if kv else plan.context)
        fits[layout] = tokens[layout] >= context
    return Fit(plan.model_type.decode(), memory, plan.n_weights, kv, plan.context, weight_bytes,
               fits, tokens)


def _folder_of(name_or_path):
    folder = os.fspath(name_or_path)
    if os.path.isdir(folder):
        return folder
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise errors.NotFoundError(f"{folder} is no folder, and huggingface_hub, which finds models "
                                   "by name, is not installed") from None
    return snapshot_download(folder)
