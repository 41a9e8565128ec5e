"""How vLLM creates, loads and applies a layer: packed ones, and ones that stay bf16.

A packed layer's bf16 weight is created on the meta device. vLLM then keeps what is loaded into it
aside until the layer is whole, puts it on the device and calls process_weights_after_loading, which
packs it: the memory that loading takes is the packed model and one bf16 layer. What arrives there
is this rank's share with q, k, v and gate, up already one matrix, so nothing here knows of tensor
parallelism.
SPDX-License-Identifier: Apache-2.0
"""
import weakref

import torch
from vllm.model_executor.layers.linear import (LinearMethodBase, UnquantizedLinearMethod,
                                               register_weight_loader_v2_supported_method)
from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod
from vllm.model_executor.model_loader.reload.layerwise import (get_layerwise_info,
                                                               initialize_online_processing)
from vllm.model_executor.parameter import ModelWeightParameter
from vllm.model_executor.utils import set_weight_attrs

from .. import codec, ops
from . import counting, pack


def _absent_rows(layer):
    """Rows of a vocabulary's table that no checkpoint has: they pad it."""
    rows = layer.num_embeddings_per_partition - layer.shard_indices.num_org_elements
    return rows - layer.shard_indices.num_added_elements


class _Packed:
    """What packed Linears and packed vocabulary tables share. `plain` is what they do where packing
    would not make the weight smaller."""

    uses_meta_device = True
    plain_class = None
    unpack_from = None

    def __init__(self, settings, name):
        self.settings, self.name = settings, name
        self.plain = self.plain_class()
        settings.tally.due += 1

    def process_weights_after_loading(self, layer):
        if getattr(layer, pack.DONE, False):
            return
        self._finish(layer)
        setattr(layer, pack.DONE, True)
        self.settings.tally.finish()

    def _finish(self, layer):
        self._check(layer, self._absent(layer))
        bf16_bytes = layer.weight.numel() * layer.weight.element_size()
        packed = pack.pack_layer(layer, self.name, self.settings.layout, self.settings.options,
                                 self.unpack_from)
        if layer.glyd_shape is None:
            self.plain.process_weights_after_loading(layer)
            self.settings.tally.left(self.name, bf16_bytes, codec.NOT_SMALLER)
        else:
            self.settings.tally.packed(packed, bf16_bytes)

    def _check(self, layer, absent):
        bias = getattr(layer, "bias", None)
        if bias is not None and not getattr(layer, "glyd_counts_bias", False):
            absent += bias.numel()
        pack.check_complete(layer, self.name, absent, self.settings.is_dummy)

    def _absent(self, layer):
        return 0

    def apply(self, layer, x, bias=None):
        if layer.glyd_shape is None:
            return self.plain.apply(layer, x, bias)
        return torch.ops.glyd.linear(x, layer.glyd_descriptor, layer.glyd_shape[0], bias)


def count_biases(model):
    """Have biases counted too. A layer makes its bias after create_weights, and vLLM only notices
    it when a weight is loaded: a bias that comes first would not be counted."""
    for layer in model.modules():
        if isinstance(getattr(layer, "quant_method", None), _Packed):
            initialize_online_processing(layer)
            layer.glyd_counts_bias = True


@register_weight_loader_v2_supported_method
class GlydLinearMethod(_Packed, LinearMethodBase):
    """A packed Linear."""

    plain_class = UnquantizedLinearMethod
    unpack_from = pack.UNPACK_FROM

    def create_weights(self, layer, input_size_per_partition, output_partition_sizes, input_size,
                       output_size, params_dtype, **extra_weight_attrs):
        loader = extra_weight_attrs.pop("weight_loader")
        empty = torch.empty(sum(output_partition_sizes), input_size_per_partition,
                            dtype=params_dtype, device="meta")
        weight = ModelWeightParameter(data=empty, input_dim=1, output_dim=0, weight_loader=loader)
        layer.register_parameter("weight", weight)
        set_weight_attrs(weight, extra_weight_attrs)
        initialize_online_processing(layer)


class GlydEmbeddingMethod(_Packed, QuantizeMethodBase):
    """A packed table of the vocabulary: the embedding, the output layer, or both in one.

    Models tie the two in three ways: lm_head.tie_weights(embedding), which returns the embedding
    itself; lm_head = embedding; and lm_head.weight = embedding.weight, which _finish sees by the
    parameter's owner.
    """

    plain_class = UnquantizedEmbeddingMethod

    def create_weights(self, layer, input_size_per_partition, output_partition_sizes, input_size,
                       output_size, params_dtype, **extra_weight_attrs):
        empty = torch.empty(sum(output_partition_sizes), input_size_per_partition,
                            dtype=params_dtype, device="meta")
        weight = torch.nn.Parameter(empty, requires_grad=False)
        set_weight_attrs(weight, {"input_dim": 1, "output_dim": 0, **extra_weight_attrs})
        weight.glyd_owner = weakref.ref(layer)
        layer.register_parameter("weight", weight)
        initialize_online_processing(layer)

    def _finish(self, layer):
        owner = getattr(layer.weight, "glyd_owner", lambda: layer)()
        if owner is layer or get_layerwise_info(layer).load_numel:
            super()._finish(layer)
        elif not hasattr(owner, "glyd_shape"):
            raise RuntimeError(f"{self.name} is tied to an embedding that was not loaded before it")
        elif owner.glyd_shape:
            pack.attach(layer, owner.glyd_weight, layer.weight.dtype)
        else:  # the embedding stayed bf16
            layer.weight, layer.glyd_shape = owner.weight, None
            self.plain.process_weights_after_loading(layer)

    def _absent(self, layer):
        with_bias = getattr(layer, "bias", None) is not None
        return _absent_rows(layer) * (layer.embedding_dim + int(with_bias))

    def embedding(self, layer, input_):
        if layer.glyd_shape is None:
            return self.plain.embedding(layer, input_)
        return ops.lookup(input_, layer.glyd_descriptor, layer.glyd_shape[1])

    def tie_weights(self, layer, embed_tokens):
        self.settings.tally.due -= 1  # this layer is given up
        return embed_tokens


class _Plain:
    """A layer that stays bf16; what is loaded into it is counted all the same."""

    def __init__(self, settings, name, why):
        super().__init__()
        self.settings, self.name, self.why = settings, name, why

    def create_weights(self, layer, *args, **kwargs):
        super().create_weights(layer, *args, **kwargs)
        counting.count_loads(layer.weight)

    def process_weights_after_loading(self, layer):
        loaded = counting.loaded_of(layer.weight)
        if loaded is not None and not self.settings.is_dummy:
            counting.require(self.name, loaded, layer.weight.numel() - self._absent(layer))
        if not getattr(layer, "glyd_told", False):
            layer.glyd_told = True
            self.settings.tally.left(self.name, layer.weight.nbytes, self.why)
        super().process_weights_after_loading(layer)

    def _absent(self, layer):
        return 0


@register_weight_loader_v2_supported_method
class PlainLinearMethod(_Plain, UnquantizedLinearMethod):
    """A Linear that stays bf16."""


class PlainEmbeddingMethod(_Plain, UnquantizedEmbeddingMethod):
    """A table of the vocabulary that stays bf16."""

    def _absent(self, layer):
        return _absent_rows(layer) * layer.embedding_dim
