"""How transformers' loader makes one packed parameter of a save's arrays.

Apart from glyd.hf, since the loader's module is not importable while transformers.quantizers is.
SPDX-License-Identifier: Apache-2.0
"""
from transformers.core_model_loading import ConversionOps, WeightConverter
from transformers.quantizers.quantizers_utils import get_module_from_name

from . import errors
from .codec import unpack_tensor
from .nn import packed_class, parameter
from .ops import Weight
from .save import ARRAYS


class _Nothing(ConversionOps):
    def convert(self, input_dict, **_):
        return input_dict


class Arrays(WeightConverter):
    """NAME.sm, NAME.codes and the others to NAME, checked, on the host; the loader moves it."""

    __slots__ = ("save", "exact")

    def __init__(self, save, exact):
        super().__init__([rf"([^.]+)\.{array}$" for array in ARRAYS], r"\1", [_Nothing()],
                         force_cpu=True)
        self.save, self.exact = save, exact

    def convert(self, layer_name, model=None, **_):
        (source, *others) = {key.rpartition(".")[0] for key in self.layer_targets[layer_name]}
        if others:
            raise errors.UnsupportedError(f"{layer_name} is made of {source} and {others[0]}")
        tensors = self.materialize_tensors()
        arrays = {array: tensors[pattern][0].numpy()
                  for array, pattern in zip(ARRAYS, self.source_patterns) if pattern in tensors}
        packed = self.save.packed_from(source, arrays).to("cpu")
        module, own = get_module_from_name(model, layer_name)
        if own != "weight" or packed_class(module)[0] is None:
            return {layer_name: unpack_tensor(packed)}
        return {layer_name: parameter(Weight(packed, self.exact))}


def refuse_merged(save, conversions):
    """A family whose loader makes one parameter of several tensors would get arrays for tensors."""
    for conversion in conversions:
        if not isinstance(conversion, WeightConverter):
            continue
        for name in save.entries:
            if conversion.rename_source_key(name)[1] is not None and save.is_packed(name):
                raise errors.UnsupportedError(
                    f"{save.path}: transformers merges or splits {name} as it loads this family: "
                    "`glyd unpack` the save and load the checkpoint")


