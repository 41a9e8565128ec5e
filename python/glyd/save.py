"""Reading a save (docs/FORMAT.md, section 2) tensor by tensor, for those who place the tensors.

Opening checks what docs/FORMAT.md, section 2.3 asks for: the manifest's digest, each shard's size
and header digest, and that manifest and shards hold the same arrays. A packed matrix is checked when
it is taken. SHA-256 of the weights is glyd.verify's.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import mmap
import os
from pathlib import Path

import numpy as np

from . import _lib, errors
from .codec import Packed, check

MANIFEST = "glyd.json"
FORMAT = "glyd-1"
ARRAYS = (*_lib.ARRAY_NAMES, "crc")
_END = 78  # bytes of the manifest's last member, "sha256"


def is_save(folder):
    """Whether there is a manifest in a folder."""
    return os.path.isfile(os.path.join(os.fspath(folder), MANIFEST))


class Save:
    """An open save.

    path      its folder
    layout    what was asked for when it was packed
    entries   {name: line of the manifest} of all tensors, in the order of the checkpoint
    shards    names of the files
    Errors: NotFoundError, FormatError (no save of glyd-1), MismatchError (digest), CorruptError.
    """

    def __init__(self, folder):
        self.path = Path(folder)
        manifest = _read_manifest(self.path)
        self.layout = manifest["layout"]
        self.entries = {entry["name"]: entry for entry in manifest["tensors"]}
        self.shards = [shard["file"] for shard in manifest["shards"]]
        self._spans, self._data = [], []
        for shard in manifest["shards"]:
            spans, data = _open_shard(self.path, shard)
            self._spans.append(spans)
            self._data.append(data)
        self._check_arrays()

    def _check_arrays(self):
        found = {(i, name): end - begin for i, spans in enumerate(self._spans)
                 for name, (begin, end) in spans.items()}
        said = {}
        for name, entry in self.entries.items():
            if "arrays" in entry:
                said.update({(entry["shard"], f"{name}.{array}"): nbytes
                             for array, nbytes in entry["arrays"].items()})
            elif "same_as" not in entry:
                said[entry["shard"], name] = found.get((entry["shard"], name))
            elif "same_as" in self.entries.get(entry["same_as"], {"same_as": ""}):
                raise errors.CorruptError(f"{self.path}: {name} is said to be a copy of "
                                          f"{entry['same_as']}")
        if found != said:
            name = sorted(set(found.items()) ^ set(said.items()), key=str)[0][0][1]
            raise errors.CorruptError(f"{self.path}: shards and manifest differ about {name}")

    def __deepcopy__(self, memo):
        return self  # it is read-only

    def is_packed(self, name):
        return "arrays" in self._entry(name)

    def _entry(self, name):
        try:
            entry = self.entries[name]
        except KeyError:
            raise errors.NotFoundError(f"{self.path} has no tensor {name}") from None
        return self.entries[entry["same_as"]] if "same_as" in entry else entry

    def meta(self, name):
        """Layout, rows, cols and run_blocks of a packed matrix, as Packed takes them."""
        entry = self._entry(name)
        if len(entry["shape"]) != 2 or entry["dtype"] != "BF16":
            raise errors.CorruptError(f"{self.path}: {name} is packed, but no bf16 matrix")
        return {"layout": entry["layout"], "rows": entry["shape"][0], "cols": entry["shape"][1],
                "run_blocks": entry["run_blocks"]}

    def packed(self, name):
        """A packed matrix in memory of its own, checked."""
        entry = self._entry(name)
        arrays = {array: self._view(entry["shard"], f"{entry['name']}.{array}")
                  for array in entry["arrays"]}
        return self.packed_from(name, arrays)

    def packed_from(self, name, arrays):
        """The same from arrays that the caller has read, {array: uint8 array}."""
        packed = Packed.from_arrays(arrays=arrays, **self.meta(name))
        try:
            check(packed)
        except errors.CorruptError as error:
            raise errors.CorruptError(f"{self.path}: {name}: {error}") from None
        return packed

    def raw(self, name):
        """(dtype as safetensors names it, shape, bytes) of a tensor that is stored as it is."""
        entry = self._entry(name)
        return entry["dtype"], entry["shape"], self._view(entry["shard"], entry["name"])

    def _view(self, shard, name):
        begin, end = self._spans[shard][name]
        return self._data[shard][begin:end]


def _read_manifest(path):
    try:
        text = (path / MANIFEST).read_bytes()
    except FileNotFoundError:
        raise errors.NotFoundError(f"{path} has no {MANIFEST}: it is no save") from None
    try:
        manifest = json.loads(text)
        found = manifest["format"]
    except (ValueError, KeyError, TypeError):
        raise errors.FormatError(f"{path / MANIFEST} is not a manifest") from None
    if found != FORMAT:
        raise errors.FormatError(f"{path} is a save of format {found}, not {FORMAT}: pack the bf16 "
                                 "checkpoint again")
    if hashlib.sha256(text[:-_END]).hexdigest() != manifest.get("sha256"):
        raise errors.MismatchError(f"{path / MANIFEST} was changed since it was written")
    return manifest


def _open_shard(path, shard):
    """({name: (begin, end)}, bytes of the data) of a shard."""
    file = path / shard["file"]
    if os.sep in shard["file"] or shard["file"].startswith("."):
        raise errors.CorruptError(f"{path}: a shard named {shard['file']!r}")
    try:
        with open(file, "rb") as f:
            if os.fstat(f.fileno()).st_size != shard["bytes"] or shard["bytes"] < 8:
                raise errors.CorruptError(f"{file} has not the {shard['bytes']} bytes it should have")
            whole = np.frombuffer(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except FileNotFoundError:
        raise errors.NotFoundError(f"{file}: the save lacks this shard") from None
    start = 8 + int(whole[:8].view("<u8")[0])
    if start > whole.nbytes or \
            hashlib.sha256(whole[:start]).hexdigest() != shard["header_sha256"]:
        raise errors.MismatchError(f"{file}: its header was changed since it was written")
    header = json.loads(whole[8:start].tobytes())
    spans = {name: tuple(entry["data_offsets"]) for name, entry in header.items()
             if name != "__metadata__"}
    data = whole[start:]
    for name, (begin, end) in spans.items():
        if not 0 <= begin <= end <= data.nbytes:
            raise errors.CorruptError(f"{file}: {name} lies outside the file")
    return spans, data
