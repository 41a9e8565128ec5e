"""transformers: from_pretrained, and the quantizer "glyd" that does its work.

A quantizer is transformers' own way to hold weights otherwise as a model loads. This one keeps
all bits. glyd/__init__.py has it registered as soon as both packages are imported, so that
AutoModelForCausalLM.from_pretrained takes GlydConfig for bf16 checkpoints, and saves whose
config.json names it. Each weight comes as a tensor, is packed where the device map wants it, and
stays in its module as a PackedWeight; transformers ties such parameters as it ties any. When all are
there the modules get their packed classes (glyd.nn).
SPDX-License-Identifier: Apache-2.0
"""
import logging
import os

import torch
from transformers.quantizers.auto import (AUTO_QUANTIZER_MAPPING, register_quantization_config,
                                          register_quantizer)
from transformers.quantizers.base import HfQuantizer
from transformers.quantizers.quantizers_utils import get_module_from_name
from transformers.utils.quantization_config import QuantizationConfigMixin

from . import errors
from . import nn as packed_nn
from .codec import NOT_SMALLER, _layout_number, pack_tensor
from .codec import verify as verify_save
from .model import _WHY_LEFT, compare, is_skipped, log_left, why_not, why_not_tensor
from .nn import PackedWeight, _Packed, parameter
from .ops import Weight
from .save import Save, is_save

log = logging.getLogger("glyd")


class GlydConfig(QuantizationConfigMixin):
    """quantization_config of glyd.

    layout  for bf16 checkpoints: "auto" (mma), "mma" or "mma12"; a save has its own
    exact   results with the bits of the bf16 model; see glyd.ops
    verify  compare all bits of each matrix after it was packed
    skip    names of modules to leave bf16, as glyd.compress takes them; not for saves
    device  where there is no device_map, which needs the package accelerate: else the CPU
    """

    def __init__(self, layout="auto", exact=True, verify=False, skip=(), device=None,
                 **other):
        other.pop("quant_method", None)
        if other:
            raise errors.ArgumentError(f"glyd has no option {', '.join(other)}")
        if _layout_number(layout) == 0:
            raise errors.ArgumentError("layout bf16 packs nothing")
        self.quant_method = "glyd"
        self.layout, self.exact, self.verify, self.skip = layout, exact, verify, list(skip)
        self.device = device

    def to_dict(self):
        return {name: value for name, value in super().to_dict().items() if name != "device"}


class Pack:
    """The operation that transformers applies to each weight that is to be packed."""

    def __init__(self, quantizer):
        self.quantizer = quantizer

    def convert(self, input_dict, full_layer_name=None, model=None, **_):
        ((key, value),) = input_dict.items()
        tensor = value[0] if isinstance(value, list) else value
        name = full_layer_name or key
        return {name: self.quantizer.pack(name, tensor)}


class GlydQuantizer(HfQuantizer):
    """See above. One for each model that is loaded."""

    requires_calibration = False

    def __init__(self, quantization_config, **kwargs):
        super().__init__(quantization_config, **kwargs)
        self.left, self.save = {}, None

    # --- before loading ---
    def validate_environment(self, device_map=None, **_):
        devices = set(device_map.values()) if isinstance(device_map, dict) else set()
        if len(devices) > 1 or "disk" in devices:
            raise errors.UnsupportedError(f"a model over {len(devices)} devices: glyd loads onto one "
                                          "(vLLM with glyd's plugin uses several GPUs)")

    def update_device_map(self, device_map):
        if device_map is None:
            return {"": self.quantization_config.device or "cpu"}
        if device_map in ("auto", "balanced", "balanced_low_0", "sequential"):
            if torch.cuda.device_count() > 1:
                raise errors.UnsupportedError(f"device_map={device_map!r} with several GPUs: name "
                                              "one, such as device_map='cuda:0'")
            return {"": "cuda:0" if torch.cuda.is_available() else "cpu"}
        return device_map

    def update_tp_plan(self, config):
        """Called with the config before the weight files are looked for: a save's have names of
        their own, of which transformers is told the first; the others follow below."""
        folder = config.name_or_path
        if folder and is_save(folder):
            self.save = Save(folder)
            config.transformers_weights = self.save.shards[0]
            if self.quantization_config.skip:
                raise errors.ArgumentError(f"{folder} is a save: `skip` was for packing it")
        # What is loaded as it is in the files, and not packed on the way.
        self.pre_quantized = self.save is not None
        return config

    def update_dtype(self, dtype):
        if dtype is not None and dtype != torch.bfloat16:
            raise errors.ArgumentError(f"dtype={dtype}: glyd keeps the bits of bf16 models; pass "
                                       "dtype=torch.bfloat16")
        return torch.bfloat16

    def _process_model_before_weight_loading(self, model, checkpoint_files=None, **_):
        if self.save:
            # The list that the loader goes through next.
            checkpoint_files[:] = [str(self.save.path / shard) for shard in self.save.shards]
            if hasattr(model.config, "transformers_weights"):
                del model.config.transformers_weights
        return model

    # --- loading ---
    def param_needs_quantization(self, model, param_name, **_):
        module, _ = get_module_from_name(model, param_name)
        if is_skipped(param_name.rpartition(".")[0], self.quantization_config.skip):
            self.left[param_name] = "skipped"
            return False
        return why_not(module, param_name) is None

    def param_element_size(self, model, param_name, param):
        # What transformers reserves beforehand in one piece; packed ones are allocated one by one.
        if self.save or self.param_needs_quantization(model, param_name):
            return 0
        return super().param_element_size(model, param_name, param)

    def get_quantize_ops(self):
        return Pack(self)

    def pack(self, name, tensor):
        """A parameter for a tensor: packed, or the tensor where that cannot be."""
        why = why_not_tensor(tensor)
        if not why:
            packed = pack_tensor(tensor, self.quantization_config.layout)
            if packed.layout != "bf16":
                if self.quantization_config.verify:
                    compare(name, tensor, packed)
                return parameter(Weight(packed, self.quantization_config.exact))
            why = NOT_SMALLER
        self.left[name] = why
        return tensor

    def update_weight_conversions(self, weight_conversions):
        if not self.save:
            return weight_conversions
        from ._hf_arrays import Arrays, refuse_merged
        refuse_merged(self.save, weight_conversions)
        return [*weight_conversions, Arrays(self.save, self.quantization_config.exact)]

    # --- after loading ---
    def _process_model_after_weight_loading(self, model, **_):
        for module in list(model.modules()):
            weight = module._parameters.get("weight")
            if isinstance(weight, PackedWeight) and not isinstance(module, _Packed):
                kind, why = packed_nn.packed_class(module)
                if kind is None:
                    log.warning("%s: %s: its weight is unpacked at each use",
                                type(module).__name__, why)
                else:
                    packed_nn.pack(module, weight.glyd)
        setattr(model, _WHY_LEFT, self.left)
        # Not as transformers' save_pretrained would write it, which holds no packed tensors.
        model.config.quantization_config = self.quantization_config
        log_left(model)
        return model

    def is_serializable(self):
        log.warning("transformers' save_pretrained cannot write packed weights: use "
                    "glyd.save_pretrained(model, path)")
        return False

    @property
    def is_trainable(self):
        return True  # adapters on top of the packed weights, which have no gradient

    @property
    def is_compileable(self):
        return True


def register():
    """Have transformers know the quantizer; once a process."""
    if "glyd" not in AUTO_QUANTIZER_MAPPING:
        register_quantization_config("glyd")(GlydConfig)
        register_quantizer("glyd")(GlydQuantizer)


def from_pretrained(name_or_path, *, device="cuda:0", layout="auto", exact=True, verify=False,
                    skip=(), model_class=None, **hf_kwargs):
    """Load a bf16 checkpoint or a save, its weights packed, onto one device.

    name_or_path  a folder, or a name on the Hugging Face Hub (revision=, token=, cache_dir= and
                  local_files_only= are heeded)
    device        "cuda:0", "cpu", ...
    layout        for a checkpoint: "auto" (mma), "mma" or "mma12"; a save has its own
    exact         results with the bits of the bf16 model; see glyd.ops
    verify        a save: glyd.verify, all its files, first; a checkpoint: compare all bits of each
                  matrix after it was packed
    skip          names of modules to leave bf16, as glyd.compress takes them
    model_class   AutoModelForCausalLM where it is None
    hf_kwargs     go to model_class.from_pretrained
    Tensors are packed one by one as they load: on the device the peak is the packed model and one
    bf16 matrix, packed and not; on the host it is one matrix beside the mapped file.
    Errors: ArgumentError, UnsupportedError (dtype, several devices, a save whose family merges
    weights), what glyd.verify raises, and what transformers raises.
    """
    from transformers import AutoModelForCausalLM
    device = torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise errors.UnsupportedError(f"device {device}: cpu and cuda are supported")
    for name in ("device_map", "quantization_config"):
        if name in hf_kwargs:
            raise errors.ArgumentError(f"{name}: from_pretrained has options of its own for it")
    hub = {name: hf_kwargs.pop(name) for name in
           ("revision", "token", "cache_dir", "local_files_only") if name in hf_kwargs}
    folder = _folder_of(name_or_path, hub)
    config = GlydConfig(layout, exact, verify, skip, str(device))
    if is_save(folder):
        _check_layout(Save(folder), layout)
        if verify:
            verify_save(folder)
    hf_kwargs.setdefault("dtype", torch.bfloat16)
    if _is_marked(folder):  # its config.json names the quantizer already
        model_config = _load_config(folder, hf_kwargs)
        model_config.quantization_config = {**config.to_dict(), "device": config.device}
        hf_kwargs["config"] = model_config
    else:
        hf_kwargs["quantization_config"] = config
    return (model_class or AutoModelForCausalLM).from_pretrained(folder, **hf_kwargs)


def _check_layout(save, layout):
    if layout not in ("auto", save.layout):
        raise errors.ArgumentError(f"{save.path} is a save of layout {save.layout}, not {layout}")


def _is_marked(folder):
    from transformers import PreTrainedConfig
    config, _ = PreTrainedConfig.get_config_dict(folder)
    return (config.get("quantization_config") or {}).get("quant_method") == "glyd"


def _load_config(folder, hf_kwargs):
    from transformers import AutoConfig
    if hf_kwargs.get("config") is not None:
        return hf_kwargs["config"]
    return AutoConfig.from_pretrained(
        folder, trust_remote_code=hf_kwargs.get("trust_remote_code", False))


def _folder_of(name_or_path, hub):
    folder = os.fspath(name_or_path)
    if os.path.isdir(folder):
        return folder
    from huggingface_hub import snapshot_download
    return snapshot_download(folder, allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.txt",
                                                     "*.model", "*.py"], **hub)


register()
