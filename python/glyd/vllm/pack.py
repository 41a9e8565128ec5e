"""A layer whose bf16 weight was loaded becomes one that holds the packed matrix.

What a packed layer has:
  glyd_weight      the glyd.ops.Weight, which owns the packed bytes
  glyd_descriptor  its descriptor, a buffer: the same shape in every layer, so that torch.compile
                   sees layers of one shape as one
  glyd_shape       (rows, cols), or None where the layer stayed bf16
  weight           a placeholder of the true shape and no memory: some code of vLLM asks for its
                   shape or device. It is NaN everywhere, so that nothing computed from it looks
                   right, and no other weight equals it.
SPDX-License-Identifier: Apache-2.0
"""
import torch
from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info

from .. import codec, ops
from . import counting

# Tokens from which unpacking a matrix and leaving the product to cuBLAS takes less time. Unpacking
# the layers of a Qwen3-8B takes about 7 ms on an H200 (24 GB read and written at 3.3 TB/s), and
# products from packed weights took 2.2 us a token more than cuBLAS's (docs/VLLM.md).
UNPACK_FROM = 4096

DONE = "_already_called_process_weights_after_loading"  # vLLM's own mark


class ReloadError(RuntimeError):
    """New weights for a packed layer."""


def check_complete(layer, name, elements_absent, is_dummy):
    """Every element of the layer came from the checkpoint but for `elements_absent`, padding."""
    info = get_layerwise_info(layer)
    if not is_dummy and info.load_numel_total is not None:
        counting.require(name, info.load_numel, info.load_numel_total - elements_absent)


def pack_layer(layer, name, layout, options, unpack_from):
    """Pack layer.weight. Returns the Packed, in layout bf16 where the layer stays as it is."""
    if hasattr(layer, "glyd_shape"):
        raise ReloadError(f"{name}: packed weights differ in length from one set of weights to the "
                          "next, so new ones cannot be loaded in place of them: start vLLM again")
    weight = layer.weight.data
    packed = codec.pack_tensor(weight, layout)
    if packed.layout == "bf16":
        layer.glyd_shape = None
        return packed
    if options.verify and not codec.is_packed_of(packed, weight):
        raise RuntimeError(f"{name}: the packed matrix does not decode to the weights. This is a "
                           "defect of glyd or of the memory: please report it")
    held = ops.Weight(packed, exact=options.exact)
    held.unpack_from = unpack_from
    attach(layer, held, weight.dtype)
    return packed


def attach(layer, weight, dtype):
    """Give a layer a packed weight in place of its bf16 one."""
    del layer.weight
    nothing = torch.full((1, 1), float("nan"), dtype=dtype, device=weight.device)
    layer.register_parameter("weight", torch.nn.Parameter(nothing.expand(weight.rows, weight.cols),
                                                          requires_grad=False))
    layer.register_buffer("glyd_descriptor", weight.descriptor, persistent=False)
    layer.glyd_weight = weight
    layer.glyd_shape = (weight.rows, weight.cols)
