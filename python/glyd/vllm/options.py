"""The plugin's options: `--additional-config '{"glyd": {...}}'`, else environment variables.

Anything else there is refused, and so is a value that an option does not have: an option with a
slip in it must not be an option that is silently off.
SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import math
import os

SECTION = "glyd"
LIBRARY = "library"  # written by the plugin itself into the section: see config.mark_library


class OptionError(ValueError):
    """An option that does not exist, or a value that it cannot have."""


@dataclasses.dataclass(frozen=True)
class Options:
    layout: str = "auto"    # auto, mma, mma12
    exact: bool = True      # the bits of vLLM's own bf16 products
    verify: bool = False    # compare every packed matrix with what it was made of
    fraction: float = 1.0   # of the weights that are packed
    kv: str = "auto"        # auto, off: the KV cache stays as vLLM has it


VARIABLES = {name: f"GLYD_{name.upper()}" for name in ("layout", "exact", "verify", "fraction", "kv")}


def _choice(where, value, choices):
    if value not in choices or not isinstance(value, str):
        raise OptionError(f"{where} is {value!r}: it is one of {', '.join(choices)}")
    return value


def _layout(where, value):
    if value == "bf16":
        raise OptionError(f"{where} is 'bf16': leave --quantization glyd out instead")
    return _choice(where, value, ("auto", "mma", "mma12"))


def _kv(where, value):
    if value == "lossless":
        raise OptionError(f"{where} is 'lossless': packing the KV cache in vLLM is not built; "
                          "auto and off leave it as vLLM keeps it")
    return _choice(where, value, ("auto", "off"))


def _flag(where, value):
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise OptionError(f"{where} is {value!r}: it is true or false")
    return value


def _fraction(where, value):
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 1:
        raise OptionError(f"{where} is {value!r}: it is a number from 0 to 1")
    return number


_READERS = {"layout": _layout, "exact": _flag, "verify": _flag, "fraction": _fraction, "kv": _kv}


def read(additional_config, environ=os.environ):
    """The Options of a vLLM configuration's `additional_config`. Raises OptionError."""
    section = additional_config.get(SECTION) if isinstance(additional_config, dict) else None
    section = {} if section is None else section
    if not isinstance(section, dict):
        raise OptionError(f'"{SECTION}" of --additional-config is {section!r}, not an object: '
                          f'{{"{SECTION}": {{"layout": "mma12"}}}} is one')
    unknown = [name for name in section if name not in _READERS and name != LIBRARY]
    if unknown:
        raise OptionError(f"glyd has no option {unknown[0]!r} in vLLM: there are "
                          f"{', '.join(_READERS)}")
    values = {}
    for name, reader in _READERS.items():
        if name in section:
            values[name] = reader(f"glyd's option {name}", section[name])
        elif environ.get(VARIABLES[name]):
            values[name] = reader(VARIABLES[name], environ[VARIABLES[name]])
    return Options(**values)
