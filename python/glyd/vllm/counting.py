"""How many elements of a parameter a checkpoint gave: vLLM itself loads an incomplete one silently.

SPDX-License-Identifier: Apache-2.0
"""
import functools

from vllm.model_executor.model_loader.reload.meta import CopyCounter
from vllm.model_executor.model_loader.weight_utils import default_weight_loader


class IncompleteError(ValueError):
    """A checkpoint that lacks weights."""


def require(name, loaded, wanted):
    """Raise IncompleteError where fewer than `wanted` elements were loaded."""
    if loaded < wanted:
        raise IncompleteError(f"{name}: the checkpoint gave {loaded} of its {wanted} elements. The "
                              "checkpoint is incomplete, or not this model's")


def count_loads(param):
    """Have what is loaded into a parameter counted, in its attribute glyd_loaded."""
    load = getattr(param, "weight_loader", default_weight_loader)
    counted = [0]

    @functools.wraps(load)
    def loader(*args, **kwargs):
        with CopyCounter() as counter:
            result = load(*args, **kwargs)
        counted[0] += min(counter.copied_numel, param.numel())
        return result

    # Parameters of vLLM's own classes keep theirs in a field, behind a property without a setter.
    if hasattr(param, "_weight_loader"):
        param._weight_loader = loader
    else:
        param.weight_loader = loader
    param.glyd_loaded = counted


def loaded_of(param):
    """Elements loaded since count_loads, or None where that was not called."""
    counted = getattr(param, "glyd_loaded", None)
    return counted[0] if counted else None
