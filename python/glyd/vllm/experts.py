"""The experts of a mixture: bf16 until there are grouped products from packed weights.

SPDX-License-Identifier: Apache-2.0
"""
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import (
    UnquantizedFusedMoEMethod)

from . import counting

WHY = "experts are not packed yet"
WEIGHTS = ("w13_weight", "w2_weight")


class PlainExpertsMethod(UnquantizedFusedMoEMethod):
    """vLLM's own method; what is loaded is counted, since vLLM does not miss what is not."""

    def __init__(self, settings, name, moe_config):
        super().__init__(moe_config)
        self.settings, self.experts_name = settings, name

    def create_weights(self, layer, *args, **kwargs):
        super().create_weights(layer, *args, **kwargs)
        for weight in WEIGHTS:
            counting.count_loads(getattr(layer, weight))

    def process_weights_after_loading(self, layer):
        if not getattr(layer, "glyd_told", False):
            layer.glyd_told = True
            weights = [getattr(layer, weight) for weight in WEIGHTS]
            for weight, what in zip(weights, WEIGHTS):
                loaded = counting.loaded_of(weight)
                if loaded is not None and not self.settings.is_dummy:
                    counting.require(f"{self.experts_name}.{what}", loaded, weight.numel())
            self.settings.tally.left(self.experts_name, sum(w.nbytes for w in weights), WHY)
        super().process_weights_after_loading(layer)
