"""The loader: vLLM's own, which also reads saves and misses weights that did not come.

SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import time

import torch
from vllm.config import get_current_vllm_config_or_none
from vllm.logger import init_logger
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

from .. import codec
from ..save import Save
from . import options as option_module
from . import saves
from .methods import count_biases

logger = init_logger("vllm.glyd")

NAME = "glyd"


class GlydModelLoader(DefaultModelLoader):
    """--load-format glyd, which --quantization glyd chooses."""

    def __init__(self, load_config):
        super().__init__(dataclasses.replace(load_config, load_format="auto"))
        if self.enable_weights_track is None:
            # vLLM does so where a model is not quantized, and leaves it out where it is.
            self.enable_weights_track = True
        self.device = torch.device("cpu")

    def download_model(self, model_config):
        if saves.folder_of(model_config.model, model_config.revision) is None:
            super().download_model(model_config)

    def _get_weights_iterator(self, source):
        folder = saves.folder_of(source.model_or_path, source.revision)
        if folder is None:
            return super()._get_weights_iterator(source)
        if source.subfolder is not None:
            raise ValueError(f"{folder}: a save has no weights in folders of it")
        if self.counter_before_loading_weights == 0.0:
            self.counter_before_loading_weights = time.perf_counter()
        return self._tensors(Save(folder), source.prefix)

    def _tensors(self, save, prefix):
        """The tensors of a save, unpacked where the model is."""
        config = get_current_vllm_config_or_none()
        if config and option_module.read(config.additional_config).verify:
            codec.verify(save.path)
            logger.info("glyd: %s: every tensor and file is as it was packed", save.path)
        for name, tensor in saves.tensors(save, self.device):
            yield prefix + name, tensor

    def load_weights(self, model, model_config):
        # vLLM's default device is the host here; what was not put aside lies on the model's own.
        devices = (p.device for p in model.parameters() if not p.is_meta)
        self.device = next(devices, torch.device("cpu"))
        count_biases(model)
        super().load_weights(model, model_config)
        for line in never_asked(model):
            logger.info("glyd: %s", line)


def never_asked(model):
    """Lines about layers that the model makes without asking what they are quantized with."""
    from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
    from vllm.model_executor.layers.vocab_parallel_embedding import (UnquantizedEmbeddingMethod,
                                                                     VocabParallelEmbedding)
    for name, module in model.named_modules():
        if not isinstance(module, (LinearBase, VocabParallelEmbedding)):
            continue
        if type(module.quant_method) in (UnquantizedLinearMethod, UnquantizedEmbeddingMethod):
            nbytes = sum(p.nbytes for p in module.parameters())
            yield (f"left bf16 ({nbytes / 1e9:.3f} GB): {name}: the model makes it without "
                   "quantization")
