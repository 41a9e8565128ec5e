"""Saves as vLLM meets them: where one is, and its tensors one bf16 tensor after the other.

A matrix is checked, copied to the device packed and unpacked there. vLLM then cuts this rank's share
out of it and joins q, k, v and gate, up, and the layer is packed again: packing a matrix on a GPU
takes less time than reading it, and codes of variable length cannot be cut as vLLM cuts.
SPDX-License-Identifier: Apache-2.0
"""
import os
from pathlib import Path

import torch

from .. import codec, errors
from ..save import MANIFEST, is_save

_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32,
           "F64": torch.float64, "I64": torch.int64, "I32": torch.int32, "I16": torch.int16,
           "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
           "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}


def folder_of(model, revision=None):
    """The folder of a save: the model's own, or its snapshot in the Hugging Face cache. None where
    the model is no save."""
    if os.path.exists(model):
        return Path(model) if is_save(model) else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    try:
        found = try_to_load_from_cache(str(model), MANIFEST, revision=revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def tensors(save, device):
    """(name, tensor) of a glyd.Save, on `device` where it was packed, else on the CPU."""
    for name in save.entries:
        if save.is_packed(name):
            yield name, codec.unpack_tensor(save.packed(name).to(device))
        else:
            dtype, shape, data = save.raw(name)
            if dtype not in _DTYPES:
                raise errors.UnsupportedError(f"{save.path}: {name} is of type {dtype}")
            yield name, torch.frombuffer(bytearray(data), dtype=_DTYPES[dtype]).view(shape) \
                if data.nbytes else torch.empty(shape, dtype=_DTYPES[dtype])
