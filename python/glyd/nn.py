"""Modules whose weight is packed: Linear and Embedding, made from torch's own in place.

    glyd.nn.pack(module, glyd.pack_tensor(module.weight.detach()))

turns an nn.Linear or an nn.Embedding into the packed one: the object stays, with its bias, hooks
and attributes; its class changes, and `weight` becomes a PackedWeight, a parameter without
gradient. Modules that shared a parameter share the PackedWeight.

PackedWeight has the shape, dtype and device of the weight that it stands for. Any torch function
that gets one unpacks it first, so the result is right and costs an unpack; writing to it is
refused. The modules' own forward multiplies from the packed weights.

  .to(device)      moves the packed bytes; a change of dtype leaves them as they are. "meta": refused
  deepcopy, pickle copies; a copy that was unpickled is checked before it is used
  state_dict       `weight` is the buffer (uint8) and `weight_meta` an int64[11]: layout, rows, cols,
                   run_blocks and the arrays' sizes. load_state_dict takes these, or a bf16 weight,
                   which it packs
SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch import nn
from torch.utils._pytree import tree_map

from . import _lib, errors
from .codec import Packed, check, pack_tensor, unpack_tensor
from .ops import Weight, lookup

_aten = torch.ops.aten
_SAME = (_aten.detach.default, _aten.alias.default)
_META = "weight_meta"


class PackedWeight(torch.Tensor):
    """What a packed module has as its weight; see above. `glyd` is the Weight."""

    @staticmethod
    def __new__(cls, weight):
        self = torch.Tensor._make_wrapper_subclass(
            cls, (weight.rows, weight.cols), dtype=torch.bfloat16, device=weight.device,
            requires_grad=False)
        self.glyd = weight
        return self

    def __init__(self, weight):
        pass

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        raise errors.UnsupportedError("a packed weight cannot be written to: change or resize the "
                                      "model before it is packed")

    def unpack(self):
        """The weight, as an ordinary tensor."""
        return unpack_tensor(self.glyd.packed)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in _SAME:
            return PackedWeight(args[0].glyd)
        if function is _aten._to_copy.default and \
                (kwargs or {}).get("dtype") in (None, torch.bfloat16):  # to another device
            device = torch.device((kwargs or {}).get("device") or args[0].device)
            if device.type in ("cpu", "cuda"):
                return PackedWeight(Weight(args[0].glyd.packed.to(device), args[0].glyd.exact))
        if _writes_to_packed(function, args, kwargs or {}):
            raise errors.UnsupportedError(f"{function}: a packed weight cannot be written to")
        unpacked = tree_map(lambda x: x.unpack() if isinstance(x, PackedWeight) else x,
                            (args, kwargs or {}))
        return function(*unpacked[0], **unpacked[1])

    def __repr__(self):
        return f"PackedWeight({self.glyd.packed!r})"

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = parameter(self.glyd.__deepcopy__(memo))
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return parameter, (self.glyd,)


def _writes_to_packed(function, args, kwargs):
    given = {argument.name: value for argument, value in zip(function._schema.arguments, args)}
    given.update(kwargs)
    return any(argument.alias_info is not None and argument.alias_info.is_write
               and isinstance(given.get(argument.name), PackedWeight)
               for argument in function._schema.arguments)


def parameter(weight):
    """The one PackedWeight of a Weight that modules share, a parameter. It lives in the Weight."""
    current = getattr(weight, "parameter", None)
    if current is None or current.device != weight.device:
        current = weight.parameter = nn.Parameter(PackedWeight(weight), requires_grad=False)
    return current


class _Packed:
    """What Linear and Embedding share. `weight` is a PackedWeight; `descriptor` a buffer, which is
    not saved: what forward gives to the operator."""

    def __setattr__(self, name, value):
        if name == "weight":
            if not isinstance(value, PackedWeight) or value.shape != self.weight.shape:
                raise errors.UnsupportedError(f"the weight of a packed {type(self).__name__} can "
                                              "only be a PackedWeight of its shape")
            self._buffers["descriptor"] = value.glyd.descriptor
        super().__setattr__(name, value)

    def _apply(self, fn, recurse=True):
        weight = self._parameters.pop("weight")
        self._buffers.pop("descriptor")
        try:
            super()._apply(fn, recurse)
            # Modules that share the Weight come by in turn: the first moves it.
            probe = fn(torch.empty(0, dtype=torch.uint8, device=weight.glyd.device))
            if probe.device.type == "meta":
                raise errors.UnsupportedError("a packed module cannot be moved to the device meta")
            if probe.device != weight.glyd.device:
                weight.glyd.replace(weight.glyd.packed.to(probe.device))
        finally:
            self._parameters["weight"] = parameter(weight.glyd)
            self._buffers["descriptor"] = weight.glyd.descriptor
        return self

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        packed = self.weight.glyd.packed
        destination[prefix + "weight"] = packed.buffer
        destination[prefix + _META] = torch.tensor(
            [_lib.LAYOUTS[packed.layout], packed.rows, packed.cols, packed.run_blocks,
             *packed.sizes])

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):
        value, meta = (state_dict.pop(prefix + name, None) for name in ("weight", _META))
        weight = self._parameters.pop("weight")
        try:
            super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys,
                                          unexpected_keys, error_msgs)
            if value is None:
                missing_keys.append(prefix + "weight")
            else:
                weight.glyd.replace(_packed_of(value, meta, weight.glyd))
        except errors.GlydError as error:
            error_msgs.append(f"{prefix}weight: {error}")
        finally:
            self._parameters["weight"] = parameter(weight.glyd)
            self._buffers["descriptor"] = weight.glyd.descriptor

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_buffers"] = {name: buffer for name, buffer in self._buffers.items()
                             if name != "descriptor"}
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self._buffers["descriptor"] = self.weight.glyd.descriptor
        self._non_persistent_buffers_set = self._non_persistent_buffers_set | {"descriptor"}

    @property
    def exact(self):
        """Whether products have the bits of F.linear with the bf16 weight; see glyd.ops."""
        return self.weight.glyd.exact

    @exact.setter
    def exact(self, value):
        self.weight.glyd.exact = bool(value)

    def extra_repr(self):
        return f"{super().extra_repr()}, {self.weight.glyd.packed!r}"


def _packed_of(value, meta, weight):
    """A Packed for `weight` from an entry of a state dict."""
    if value.dtype == torch.bfloat16 and value.ndim == 2:
        return pack_tensor(value.to(weight.device), weight.packed.layout)
    if meta is None or meta.shape != (4 + _lib.ARRAYS,) or value.dtype != torch.uint8:
        raise errors.FormatError(f"neither a bf16 matrix nor a packed one with its {_META}")
    layout, rows, cols, run_blocks, *sizes = meta.tolist()
    packed = Packed(_lib.LAYOUT_NAMES.get(layout), rows, cols, run_blocks, sizes,
                    value.detach().cpu().clone())
    check(packed)
    return packed.to(weight.device)


def _autocast(x):
    """As F.linear does under autocast: x in its dtype."""
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.is_floating_point():
        return x.to(torch.get_autocast_dtype(kind))
    return x


class Linear(_Packed, nn.Linear):
    """nn.Linear with a packed weight. x is torch.bfloat16 (or autocast makes it so)."""

    def forward(self, input):
        return torch.ops.glyd.linear(_autocast(input), self.descriptor, self.out_features,
                                     self.bias)


class Embedding(_Packed, nn.Embedding):
    """nn.Embedding with a packed weight. Ids outside it: an IndexError on the CPU, zeros on a GPU."""

    def forward(self, input):
        return lookup(input, self.descriptor, self.embedding_dim)


# Subclasses of nn.Embedding whose forward is nn.Embedding's, times a scale.
_SCALED = "ScaledWordEmbedding"
_classes = {}


def packed_class(module):
    """The class that `module` has when it is packed, or None and why there is none."""
    kind = type(module)
    if isinstance(module, _Packed):
        return None, "packed already"
    if kind is nn.Linear:
        return Linear, ""
    if kind is nn.Embedding or kind.__name__.endswith(_SCALED) and isinstance(module, nn.Embedding):
        if module.max_norm is not None:
            return None, "an embedding with max_norm, which changes its weight"
        if module.scale_grad_by_freq or module.sparse:
            return None, "an embedding made for training"
        if kind is nn.Embedding:
            return Embedding, ""
        if kind not in _classes:
            # Its forward calls super().forward: with Embedding after it, that is the packed one.
            _classes[kind] = type("Packed" + kind.__name__, (kind, Embedding), {})
        return _classes[kind], ""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        return None, f"{kind.__name__} is not a plain {'Linear' if isinstance(module, nn.Linear) else 'Embedding'}"
    return None, f"{kind.__name__} is neither a Linear nor an Embedding"


def pack(module, packed, exact=True):
    """Make `module`, an nn.Linear or nn.Embedding, a packed one in place. `packed`: a Packed on its
    device, or a Weight that modules share. Returns the module.
    Errors: UnsupportedError (a module of another class), ArgumentError (shape)."""
    kind, why = packed_class(module)
    if kind is None:
        raise errors.UnsupportedError(why)
    weight = packed if isinstance(packed, Weight) else Weight(packed, exact)
    if (weight.rows, weight.cols) != tuple(module.weight.shape):
        raise errors.ArgumentError(f"{weight!r} for a module of {tuple(module.weight.shape)}")
    module.__class__ = kind
    module._non_persistent_buffers_set = module._non_persistent_buffers_set | {"descriptor"}
    module.weight = parameter(weight)
    return module
