"""Reading a save (docs/FORMAT.md, section 2): one bf16 tensor after the other.

A tensor is checked, copied to the device packed and unpacked there. vLLM then cuts this rank's
share out of it and joins q, k, v and gate, up, and the layer is packed again: packing a matrix on a
GPU takes less time than reading it, and codes of variable length cannot be cut as vLLM cuts.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import struct
from pathlib import Path

from .. import codec
from ..errors import CorruptError, FormatError, UnsupportedError

MANIFEST = "glyd.json"
FORMAT = "glyd-1"
_DIGEST_BYTES = 78  # "sha256": "64 digits"}, and a newline


def folder_of(model, revision=None):
    """The folder of a save: the model's own, or its snapshot in the Hugging Face cache. None where
    the model is no save."""
    if os.path.isdir(model):
        return Path(model) if (Path(model) / MANIFEST).is_file() else None
    if os.path.exists(model):
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    try:
        found = try_to_load_from_cache(model, MANIFEST, revision=revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _manifest(path):
    text = path.read_bytes()
    try:
        manifest = json.loads(text)
        name = manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"{path}: not a manifest of a save: {error}") from None
    if name != FORMAT:
        raise FormatError(f"{path}: the format is {name!r}, not {FORMAT!r}: pack the bf16 "
                          "checkpoint again")
    if hashlib.sha256(text[:-_DIGEST_BYTES]).hexdigest() != manifest.get("sha256"):
        raise CorruptError(f"{path}: the manifest's digest is not that of its bytes")
    return manifest


class Save:
    """A save, its manifest read and checked."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.manifest = _manifest(self.folder / MANIFEST)
        self.layout = self.manifest["layout"]

    def check_shards(self):
        """Each shard is as long as the manifest says, and has that header."""
        for shard in self.manifest["shards"]:
            path = self.folder / shard["file"]
            if not path.is_file():
                raise CorruptError(f"{path}: the save's shard is missing")
            if path.stat().st_size != shard["bytes"]:
                raise CorruptError(f"{path}: {path.stat().st_size} bytes, not {shard['bytes']}")
            with open(path, "rb") as file:
                length = file.read(8)
                (n,) = struct.unpack("<Q", length)
                digest = hashlib.sha256(length + file.read(min(n, shard["bytes"]))).hexdigest()
            if digest != shard["header_sha256"]:
                raise CorruptError(f"{path}: its header is not the one that was written")

    def tensors(self, device):
        """(name, tensor) of the checkpoint, each on `device` where it was packed, else on the CPU."""
        from safetensors import safe_open
        self.check_shards()
        entries = self.manifest["tensors"]
        by_name = {entry["name"]: entry for entry in entries}
        shards = {}
        for entry in entries:
            source = entry
            while "same_as" in source:
                source = by_name[source["same_as"]]
            index = source["shard"]
            if index not in shards:
                shards.clear()  # they come one after the other
                path = self.folder / self.manifest["shards"][index]["file"]
                shards[index] = safe_open(str(path), framework="numpy"), safe_open(
                    str(path), framework="pt")
            arrays, tensors = shards[index]
            if source["layout"] == "as_is":
                yield entry["name"], tensors.get_tensor(source["name"])
            else:
                yield entry["name"], codec.unpack_tensor(_packed(arrays, source).to(device))


def _packed(arrays, entry):
    name, (rows, cols) = entry["name"], entry["shape"]
    if entry["layout"] not in ("mma", "mma12"):
        raise UnsupportedError(f"{name}: the layout {entry['layout']!r} is not known here")
    packed = codec.Packed.from_arrays(
        entry["layout"], rows, cols, entry["run_blocks"],
        {array: arrays.get_tensor(f"{name}.{array}") for array in entry["arrays"] if array != "crc"})
    try:
        codec.check(packed)
    except CorruptError as error:
        raise CorruptError(f"{name}: {error}") from None
    return packed
