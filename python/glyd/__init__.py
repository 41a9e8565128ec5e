"""glyd: bf16 weights in 10.7 to 12 bits, bit for bit, and products from them as they are held.

    glyd.pack_tensor, unpack_tensor, verify, fit      numpy or torch
    glyd.from_pretrained, compress, save_pretrained   transformers
    glyd.ops, glyd.nn                                 torch operators and modules

Importing this package imports neither torch nor transformers: what needs them does when it is first
used. Where transformers is imported, it learns of the quantizer "glyd".
SPDX-License-Identifier: Apache-2.0
"""
import importlib
import importlib.abc
import importlib.util
import sys

from .codec import Packed, pack_tensor, unpack_tensor, verify
from .errors import GlydError
from .plan import Fit, fit
from .save import Save

__version__ = "0.1.0"

# Name: the module that has it, imported when the name is first asked for.
_LATER = {
    "compress": "model", "report": "model", "save_pretrained": "model",
    "from_pretrained": "hf", "GlydConfig": "hf",
    "nn": None, "ops": None, "hf": None, "model": None,
}
__all__ = ["Fit", "GlydError", "Packed", "Save", "fit", "pack_tensor", "unpack_tensor", "verify",
           *_LATER]


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    module = importlib.import_module(f".{_LATER[name] or name}", __name__)
    return getattr(module, name) if _LATER[name] else module


def __dir__():
    return sorted({*globals(), *_LATER})


class _OnImport(importlib.abc.MetaPathFinder):
    """Imports glyd.hf, which registers the quantizer, when transformers' registry of quantizers has
    been imported. Importing transformers here would take seconds from programs without it."""

    MODULE = "transformers.quantizers.auto"

    def find_spec(self, name, path, target=None):
        if name != self.MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                importlib.import_module(".hf", __name__)
            spec.loader.exec_module = exec_module
        return spec


if _OnImport.MODULE in sys.modules:
    importlib.import_module(".hf", __name__)
else:
    sys.meta_path.insert(0, _OnImport())
