"""Models: packing the weights of one in place, saying what was packed, and writing a save.

SPDX-License-Identifier: Apache-2.0
"""
import copy
import dataclasses
import json
import logging
import os
import shutil
import tempfile
from ctypes import byref

import torch

from . import _lib, errors
from . import nn as packed_nn
from .codec import NOT_SMALLER, _layout_number, is_packed_of, pack_tensor, report_dict
from .nn import PackedWeight
from .ops import Weight

log = logging.getLogger("glyd")

_WHY_LEFT = "_glyd_left"  # of a model: {name: why} of what only packing could tell
_SHARD_BYTES = 1 << 30  # of bf16 that save_pretrained holds on the host at once


@dataclasses.dataclass
class Report:
    """What a model's weights take.

    packed        {name: Packed} of the packed weights; shared ones under their first name
    left          {name: why} of the other weights of two dimensions or more
    bytes_packed  of the packed weights, as they are held
    bytes_bf16    of the same weights in bf16
    bytes_rest    of all other parameters, norms and biases among them
    """

    packed: dict
    left: dict
    bytes_packed: int
    bytes_bf16: int
    bytes_rest: int

    @property
    def bits(self):
        """Bits a packed weight."""
        return 16 * self.bytes_packed / self.bytes_bf16 if self.bytes_bf16 else 0.0

    @property
    def bytes_total(self):
        return self.bytes_packed + self.bytes_rest

    def __str__(self):
        lines = [f"{len(self.packed)} matrices packed, {self.bits:.2f} bits a weight: "
                 f"{self.bytes_packed / 1e9:.3f} GB, {self.bytes_bf16 / 1e9:.3f} GB in bf16; "
                 f"{self.bytes_rest / 1e9:.3f} GB of other parameters"]
        return "\n".join(lines + [f"left as it is: {name}: {why}"
                                  for name, why in self.left.items()])


def report(model):
    """What of a model is packed and what is not, with why: a Report."""
    said = getattr(model, _WHY_LEFT, {})
    packed, left, rest, seen = {}, {}, 0, set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            if isinstance(parameter, PackedWeight):
                packed[name] = parameter.glyd.packed
                continue
            rest += parameter.numel() * parameter.element_size()
            if parameter.ndim >= 2:
                left[name] = said.get(name) or why_not(module, name) or "not packed yet"
    weights = sum(p.rows * p.cols for p in packed.values())
    return Report(packed, left, sum(p.nbytes for p in packed.values()), 2 * weights, rest)


def why_not(module, name):
    """Why a parameter, by its full name, of a module cannot be packed; None where it can."""
    own = name.rpartition(".")[2]
    kind, why = packed_nn.packed_class(module)
    if kind is None or own != "weight":
        return why or f"{own} is not the module's weight"
    if hasattr(module, "parametrizations"):
        return "the weight is parametrized"
    return why_not_tensor(module.weight)


def why_not_tensor(tensor):
    if tensor.dtype != torch.bfloat16:
        return f"{str(tensor.dtype).removeprefix('torch.')}, not bf16"
    if tensor.ndim != 2:
        return f"{tensor.ndim} dimensions, not a matrix"
    if not tensor.numel():
        return "empty"
    return None


def compress(model, layout="auto", exact=True, skip=(), verify=False):
    """Pack the weights of a model's Linears and Embeddings in place; return the model.

    layout  "auto" (the smallest, which is mma), "mma" or "mma12"
    exact   results with the bits of the bf16 model; see glyd.ops
    skip    names of modules to leave as they are, whole or from a dot on ("lm_head", "layers.0.mlp")
    verify  unpack each matrix again and compare all its bits
    Weights are packed where they are, one after the other: beside the model it takes the memory of
    one packed matrix, and on a GPU about 1/1000 of the matrix for the packing. Weights that modules
    share stay shared. glyd.report(model) says what was packed and what was left, with why; so does
    the log, at level INFO.
    Errors: ArgumentError (no such layout, nothing of `skip` is there), CorruptError (verify).
    """
    if layout == "bf16":
        raise errors.ArgumentError("layout bf16 packs nothing")
    _layout_number(layout)
    unknown = [name for name in skip
               if not any(is_skipped(module, [name]) for module, _ in model.named_modules())]
    if unknown:
        raise errors.ArgumentError(f"there is no module {unknown[0]} to skip")
    left, modules = {}, {}
    for name, module in list(model.named_modules()):
        if isinstance(getattr(module, "weight", None), torch.nn.Parameter):
            modules.setdefault(id(module.weight), []).append((name, module))
    for users in modules.values():
        _compress_one(users, layout, exact, skip, verify, left)
    setattr(model, _WHY_LEFT, {**getattr(model, _WHY_LEFT, {}), **left})
    log_left(model)
    return model


def is_skipped(name, skip):
    return any(name == s or name.endswith("." + s) or f".{s}." in f".{name}." for s in skip)


def _compress_one(users, layout, exact, skip, verify, left):
    """Pack a weight that the (name, module) pairs of `users` share."""
    for name, module in users:
        why = "skipped" if is_skipped(name, skip) else why_not(module, f"{name}.weight")
        if why:
            for other, _ in users:
                left[f"{other}.weight"] = why if other == name else f"shared with {name}: {why}"
            return
    tensor = users[0][1].weight.detach()
    packed = pack_tensor(tensor, layout)
    if packed.layout == "bf16":
        left.update({f"{name}.weight": NOT_SMALLER for name, _ in users})
        return
    if verify:
        compare(users[0][0], tensor, packed)
    weight = Weight(packed, exact)
    for _, module in users:
        packed_nn.pack(module, weight)


def compare(name, tensor, packed):
    """CorruptError unless a packed matrix has all bits of the tensor it was made from."""
    if not is_packed_of(packed, tensor):
        raise errors.CorruptError(f"{name}: unpacked, it differs from what was packed")


def log_left(model):
    found = report(model)
    for name, why in found.left.items():
        log.info("left as it is: %s: %s", name, why)
    log.info("%s", str(found).splitlines()[0])


def save_pretrained(model, path, layout=None):
    """Write a model as a save: a new folder `path` that glyd, vLLM with glyd's plugin and
    AutoModelForCausalLM.from_pretrained (once glyd is imported) load, and `glyd verify` accepts.

    layout  of the save; None: the one that most of the model's weights have, else mma
    The model may be packed, partly or not at all. Names are the module's. What is written is a bf16
    checkpoint first, in a hidden folder beside `path` that is removed again, then packed by
    glyd_save_pack, which decodes every tensor again and compares it: so it takes the disk space of
    the bf16 model for the time, and 1 GiB of host memory. Packing is a function of the weights, so
    the arrays are the model's own, byte for byte.
    Returns what glyd_save_pack reports, as a dict. Errors: ExistsError, ArgumentError (a parameter
    on the device meta), NoSpaceError, and others of glyd/save.h.
    """
    path = os.path.abspath(os.fspath(path))
    if os.path.lexists(path):
        raise errors.ExistsError(f"{path} exists already")
    if layout is None:
        layouts = [p.layout for p in report(model).packed.values()]
        layout = max(set(layouts), key=layouts.count) if layouts else "auto"
    number = _layout_number(layout)
    if number == 0:
        raise errors.ArgumentError("a save of layout bf16: use the model's own save_pretrained")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.bf16-",
                              dir=os.path.dirname(path))
    try:
        _write_checkpoint(model, folder)
        options, done = _lib.SaveOptions(layout=number, any_model=1), _lib.SaveReport()
        _lib.call(_lib.cpu().glyd_save_pack, os.fsencode(folder), os.fsencode(path),
                  byref(options), byref(done))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report_dict(done)


def _write_checkpoint(model, folder):
    from safetensors.torch import save_file
    if hasattr(getattr(model, "config", None), "save_pretrained"):
        config = copy.deepcopy(model.config)
        config.architectures = [type(model).__name__]
        config.dtype = torch.bfloat16
        config.quantization_config = {"quant_method": "glyd"}
        config.save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None and model.can_generate():
        model.generation_config.save_pretrained(folder)
    shards, weight_map, total = _shards(model), {}, 0
    for i, shard in enumerate(shards):
        file = ("model.safetensors" if len(shards) == 1
                else f"model-{i + 1:05}-of-{len(shards):05}.safetensors")
        tensors = {name: _host(name, tensor) for name, tensor in shard}
        save_file(tensors, os.path.join(folder, file), metadata={"format": "pt"})
        weight_map.update({name: file for name in tensors})
        total += sum(t.numel() * t.element_size() for t in tensors.values())
        del tensors
    if len(shards) > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w",
                  encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=2)


def _shards(model):
    """The tensors to write, [(name, tensor)] a shard; shared ones once, under their first name."""
    shards, nbytes = [[]], 0
    for name, tensor in _tensors(model):
        if tensor.device.type == "meta":
            raise errors.ArgumentError(f"{name} is on the device meta: there is nothing to save")
        size = tensor.numel() * tensor.element_size()
        if shards[-1] and nbytes + size > _SHARD_BYTES:
            shards.append([])
            nbytes = 0
        shards[-1].append((name, tensor))
        nbytes += size
    return shards


def _tensors(model):
    yield from model.named_parameters()
    seen = set()
    for prefix, module in model.named_modules(remove_duplicate=True):
        for name, buffer in module.named_buffers(prefix, recurse=False):
            if name.rpartition(".")[2] not in module._non_persistent_buffers_set \
                    and id(buffer) not in seen:
                seen.add(id(buffer))
                yield name, buffer


def _host(name, tensor):
    tensor = tensor.unpack() if isinstance(tensor, PackedWeight) else tensor.detach()
    return tensor.cpu().contiguous().clone()
