"""GlydConfig: vLLM asks it, layer by layer, how a layer is held.

SPDX-License-Identifier: Apache-2.0
"""
import dataclasses

import torch
from vllm.config import get_current_vllm_config
from vllm.logger import init_logger
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig

from .. import __version__
from ..save import FORMAT, Save
from . import options as option_module
from . import saves

logger = init_logger("vllm.glyd")

OPERATORS = 1  # raise it when the operators' arguments change: compiled graphs call them
LAYOUT = "mma12"  # of `auto`, for a bf16 checkpoint: the fastest
GATES = ("gate", "router", "shared_expert_gate")  # last names of a mixture's routers


class Tally:
    """What was packed and what was not, for the log."""

    def __init__(self):
        self.matrices = self.weights = self.packed_bytes = self.bf16_bytes = 0
        self.due = self.done = 0  # layers that are to be packed, and that were
        self.layouts = set()

    def packed(self, packed, bf16_bytes):
        self.matrices += 1
        self.weights += packed.rows * packed.cols
        self.packed_bytes += packed.nbytes
        self.bf16_bytes += bf16_bytes
        self.layouts.add(packed.layout)

    def left(self, name, nbytes, why):
        logger.info("glyd: left bf16 (%.3f GB): %s: %s", nbytes / 1e9, name, why)

    def finish(self):
        """A layer is done; after the last one, say what there is."""
        self.done += 1
        if self.done == self.due and self.matrices:
            logger.info("glyd: %s", self.summary())

    def summary(self):
        return (f"{self.matrices} matrices packed, {'/'.join(sorted(self.layouts))} "
                f"{8 * self.packed_bytes / self.weights:.2f} bits a weight: "
                f"{self.packed_bytes / 1e9:.3f} GB instead of {self.bf16_bytes / 1e9:.3f}")


@dataclasses.dataclass
class Settings:
    """What the layers' methods need to know."""

    options: option_module.Options
    layout: str
    is_dummy: bool
    tally: Tally


def mark_library(additional_config):
    """Have vLLM's key of compiled graphs change with this library: the key covers this section."""
    section = additional_config.setdefault(option_module.SECTION, {})
    section[option_module.LIBRARY] = f"{__version__} {FORMAT} operators {OPERATORS}"


def refuse_offload(vllm_config):
    """vLLM moves parameters to the host and back by their tensors; packed weights are not among
    them."""
    offload = getattr(vllm_config, "offload_config", None)
    gb = getattr(getattr(offload, "uva", None), "cpu_offload_gb", 0)
    gb = gb or getattr(vllm_config.cache_config, "cpu_offload_gb", 0)
    groups = getattr(getattr(offload, "prefetch", None), "offload_group_size", 0)
    if gb or groups:
        raise ValueError("glyd packs weights on the GPU and cannot have vLLM offload them to the "
                         "host: leave --cpu-offload-gb and --offload-group-size out")


class GlydConfig(QuantizationConfig):
    """--quantization glyd."""

    refusal = None  # set where this vLLM is not supported: why

    def __init__(self):
        super().__init__()
        if self.refusal:
            raise RuntimeError(self.refusal)
        self.save_layout = None  # of the save that is served, if it is one
        self.settings = None
        self.seen = self.taken = 0  # elements of layers asked for, and of those to be packed
        self.tables_are_packed = None

    @classmethod
    def get_name(cls):
        return "glyd"

    @classmethod
    def get_supported_act_dtypes(cls):
        return [torch.bfloat16]

    @classmethod
    def get_min_capability(cls):
        return 80

    @staticmethod
    def get_config_filenames():
        return []

    @classmethod
    def from_config(cls, config):
        """`config` is config.json's quantization_config, as glyd.save_pretrained writes it."""
        return cls()

    def maybe_update_config(self, model_name, hf_config=None, revision=None, **_):
        folder = saves.folder_of(model_name, revision)
        self.save_layout = Save(folder).layout if folder else None

    def _start(self):
        vllm_config = get_current_vllm_config()
        refuse_offload(vllm_config)
        options = option_module.read(vllm_config.additional_config)
        if isinstance(vllm_config.additional_config, dict):
            mark_library(vllm_config.additional_config)
        if _batch_invariant() and options.exact:
            options = dataclasses.replace(options, exact=False)
            logger.info("glyd: VLLM_BATCH_INVARIANT: sums in the order that depends on the shape "
                        "alone (exact = false)")
        layout = options.layout if options.layout != "auto" else self.save_layout or LAYOUT
        is_dummy = vllm_config.load_config.load_format == "dummy"
        self.settings = Settings(options, layout, is_dummy, Tally())
        self.head_dtype = _head_dtype(vllm_config)
        logger.info("glyd %s: layout %s, exact %s, fraction %g%s", __version__, layout,
                    options.exact, options.fraction, ", verify" if options.verify else "")

    def get_quant_method(self, layer, prefix):
        from vllm.model_executor.layers.linear import LinearBase
        from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
        if self.settings is None:
            self._start()
        if isinstance(layer, LinearBase):
            return self._linear(layer, prefix)
        if isinstance(layer, VocabParallelEmbedding):
            return self._table(layer, prefix)
        if isinstance(layer, _experts_class()):
            from .experts import PlainExpertsMethod
            return PlainExpertsMethod(self.settings, prefix or "experts", layer.moe_config)
        return None  # attention keeps vLLM's own KV cache

    def _linear(self, layer, prefix):
        from . import methods
        name, why = prefix or type(layer).__name__, None
        if name.rpartition(".")[2] in GATES or type(layer).__name__ == "GateLinear":
            why = "a router"
        elif layer.params_dtype != torch.bfloat16:
            why = f"its weights are {layer.params_dtype}"
        elif not self._take(layer.input_size * layer.output_size):
            why = f"fraction {self.settings.options.fraction:g}"
        if why:
            return methods.PlainLinearMethod(self.settings, name, why)
        return methods.GlydLinearMethod(self.settings, name)

    def _table(self, layer, prefix):
        """All tables of the vocabulary are packed, or none: models tie them in several ways."""
        from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

        from . import methods
        is_head = isinstance(layer, ParallelLMHead)
        name, why = prefix or ("lm_head" if is_head else "embed_tokens"), None
        if self.tables_are_packed is None:
            size = layer.num_embeddings_padded * layer.embedding_dim
            self.tables_are_packed = self._take(size)
        if self.head_dtype:
            why = f"head_dtype {self.head_dtype}"
        elif not self.tables_are_packed:
            why = f"fraction {self.settings.options.fraction:g}"
        if why:
            return methods.PlainEmbeddingMethod(self.settings, name, why)
        return methods.GlydEmbeddingMethod(self.settings, name)

    def _take(self, n_elements):
        """Whether the next layer is packed, so that the packed share stays nearest `fraction`."""
        self.seen += n_elements
        missing = self.settings.options.fraction * self.seen - self.taken
        if 2 * missing < n_elements:
            return False
        self.taken += n_elements
        return True


def _experts_class():
    try:
        from vllm.model_executor.layers.fused_moe import RoutedExperts
        return RoutedExperts
    except ImportError:
        from vllm.model_executor.layers.fused_moe import FusedMoE
        return FusedMoE


def _batch_invariant():
    import vllm.envs as envs
    return bool(getattr(envs, "VLLM_BATCH_INVARIANT", False))


def _head_dtype(vllm_config):
    """Of the logits, where vLLM multiplies by the output layer's plain weight to get another one;
    else None."""
    model = vllm_config.model_config
    if getattr(model, "runner_type", None) == "pooling":
        return None
    dtype = getattr(model, "head_dtype", None)
    return None if dtype == torch.bfloat16 else dtype
