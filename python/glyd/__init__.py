"""glyd: bf16 weights in 10.7 to 12 bits, bit for bit, and products from them as they are held.

Importing this package imports neither torch nor transformers: `glyd.ops`, `glyd.nn`,
`glyd.compress`, `glyd.from_pretrained` and the like do when they are first used.
SPDX-License-Identifier: Apache-2.0
"""
from .codec import Packed, pack_tensor, unpack_tensor, verify
from .errors import GlydError

__version__ = "0.1.0"
__all__ = ["GlydError", "Packed", "pack_tensor", "unpack_tensor", "verify"]
