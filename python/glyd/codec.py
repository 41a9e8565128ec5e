"""The packed matrix: `Packed`, and packing, unpacking and checking it.

A matrix is [rows, cols] bf16 values: a torch.bfloat16 tensor on a CPU or a CUDA device, or a numpy
array of uint16 bits or of ml_dtypes.bfloat16. numpy has no bf16 of its own. Nothing is converted:
float32 and float16 are refused, since they would not come back as they were.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import sys
from ctypes import byref

import numpy as np

from . import _lib, errors

ALIGN = 256  # of each array in a buffer: what cudaMalloc gives, and glyd_gpu.h asks for at most
LAYOUTS = ("mma", "mma12", "bf16")
NOT_SMALLER = "packing would not make it smaller"  # why pack_tensor gave layout bf16


def _torch_of(value):
    """torch, where `value` is a tensor. A program without torch never imports it."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def _aligned(nbytes):
    """A uint8 array whose data begin at a multiple of ALIGN."""
    whole = np.empty(nbytes + ALIGN, np.uint8)
    skip = -whole.ctypes.data % ALIGN
    return whole[skip:skip + nbytes]


def _aligned_copy(array):
    copy = _aligned(array.nbytes)
    copy[:] = array
    return copy


def _offsets(sizes):
    """Where each array begins in a buffer, and the buffer's bytes."""
    at, offsets = 0, []
    for size in sizes:
        offsets.append(at)
        at += -(-size // ALIGN) * ALIGN
    return tuple(offsets), at


class Packed:
    """A packed matrix.

    layout      "mma", "mma12", or "bf16" where packing would not make it smaller
    rows, cols  the true shape
    run_blocks  of layout "mma"; 0 otherwise
    sizes       bytes of each array, in the order of include/glyd/codec.h
    buffer      one uint8 array (numpy) or tensor (torch, any device) that holds all arrays, each
                at a multiple of 256 bytes

    What is made by pack_tensor is whole. Of bytes that come from elsewhere, call verify first:
    decoders trust them.
    """

    __slots__ = ("layout", "rows", "cols", "run_blocks", "sizes", "offsets", "buffer", "__weakref__")

    def __init__(self, layout, rows, cols, run_blocks, sizes, buffer):
        if layout not in _lib.LAYOUTS:
            raise errors.ArgumentError(f"there is no layout {layout!r}: {', '.join(LAYOUTS)}")
        self.layout, self.rows, self.cols = layout, int(rows), int(cols)
        self.run_blocks, self.sizes = int(run_blocks), tuple(map(int, sizes))
        self.offsets, need = _offsets(self.sizes)
        if len(self.sizes) != _lib.ARRAYS or min(self.sizes) < 0:
            raise errors.ArgumentError(f"a matrix has {_lib.ARRAYS} arrays, not {self.sizes}")
        if buffer.ndim != 1 or str(buffer.dtype).split(".")[-1] != "uint8":
            raise errors.ArgumentError(f"the buffer is {buffer.dtype} {tuple(buffer.shape)}, not "
                                       "one dimension of uint8")
        if buffer.shape[0] < need:
            raise errors.ArgumentError(f"the buffer has {buffer.shape[0]} bytes, not {need}")
        self.buffer = buffer

    @classmethod
    def from_arrays(cls, layout, rows, cols, run_blocks, arrays):
        """Copy arrays, {name: uint8 array or bytes} as a save holds them, into one numpy buffer."""
        views = [np.frombuffer(arrays.get(name, b""), np.uint8) for name in _lib.ARRAY_NAMES]
        sizes = [view.nbytes for view in views]
        offsets, nbytes = _offsets(sizes)
        buffer = _aligned(nbytes)
        for view, offset in zip(views, offsets):
            end = offset + view.nbytes
            buffer[offset:end] = view
            buffer[end:end + -end % ALIGN] = 0
        return cls(layout, rows, cols, run_blocks, sizes, buffer)

    @property
    def shape(self):
        return self.rows, self.cols

    @property
    def nbytes(self):
        """Bytes of the arrays. The buffer has up to 7 * 255 more."""
        return sum(self.sizes)

    @property
    def bits(self):
        """Bits a weight."""
        return 8 * self.nbytes / (self.rows * self.cols) if self.rows * self.cols else 0.0

    @property
    def device(self):
        """torch.device of the buffer; None where it is numpy's."""
        return self.buffer.device if _torch_of(self.buffer) else None

    @property
    def is_cuda(self):
        return self.device is not None and self.device.type == "cuda"

    def arrays(self):
        """{name: view of the buffer} of the arrays that the layout has."""
        return {name: self.buffer[offset:offset + size]
                for name, offset, size in zip(_lib.ARRAY_NAMES, self.offsets, self.sizes) if size}

    def like(self, buffer):
        """The same matrix in another buffer that holds the same bytes."""
        return Packed(self.layout, self.rows, self.cols, self.run_blocks, self.sizes, buffer)

    def to(self, device):
        """The same matrix with a torch buffer on `device`; itself where it is there already."""
        import torch
        buffer = self.buffer if _torch_of(self.buffer) else torch.from_numpy(self.buffer)
        moved = buffer.to(device)
        return self if moved is self.buffer else self.like(moved)

    def numpy(self):
        """The same matrix with a numpy buffer; no copy where it is on the CPU already."""
        return self.like(self.buffer.cpu().numpy()) if _torch_of(self.buffer) else self

    def matrix(self):
        """The glyd_matrix: pointers into the buffer, good while the buffer lives."""
        torch = _torch_of(self.buffer)
        if torch and self.buffer.device.type not in ("cpu", "cuda"):
            raise errors.UnsupportedError(f"a packed matrix on device {self.buffer.device}: "
                                          "cpu and cuda are supported")
        base = self.buffer.data_ptr() if torch else self.buffer.ctypes.data
        m = _lib.Matrix(_lib.LAYOUTS[self.layout], self.rows, self.cols)
        m.run_blocks = self.run_blocks
        for i, (offset, size) in enumerate(zip(self.offsets, self.sizes)):
            m.array[i] = _lib.Span(base + offset if size else None, size)
        return m

    def meta(self):
        """What, beside the buffer, says which matrix this is; plain values, for pickle and JSON."""
        return {"layout": self.layout, "rows": self.rows, "cols": self.cols,
                "run_blocks": self.run_blocks, "sizes": list(self.sizes)}

    def __deepcopy__(self, memo):
        copy = self.buffer.clone() if _torch_of(self.buffer) else _aligned_copy(self.buffer)
        return self.like(copy)

    def __reduce__(self):
        return _unpickle, (self.meta(), self.buffer)

    def __repr__(self):
        where = self.device or "numpy"
        return f"Packed({self.layout}, {self.rows} x {self.cols}, {self.bits:.2f} bits, {where})"


def _unpickle(meta, buffer):
    packed = Packed(**meta, buffer=buffer)
    verify(packed)
    return packed


def _source(value):
    """(pointer, rows, cols, stride, torch or None, what to keep alive) of a bf16 matrix."""
    torch = _torch_of(value)
    if torch:
        if value.dtype != torch.bfloat16:
            raise errors.ArgumentError(f"a tensor of {value.dtype}: only torch.bfloat16 is packed")
        if value.device.type not in ("cpu", "cuda"):
            raise errors.UnsupportedError(f"a tensor on {value.device}: cpu and cuda are supported")
        value = value.detach()
    else:
        value = np.asarray(value)
        if value.dtype.name == "bfloat16":
            value = value.view(np.uint16)
        if value.dtype != np.uint16:
            raise errors.ArgumentError(f"an array of {value.dtype}: only bfloat16 (uint16 bits, or "
                                       "ml_dtypes.bfloat16) is packed")
    if value.ndim != 2:
        raise errors.ArgumentError(f"{value.ndim} dimensions: a matrix has two")
    rows, cols = value.shape
    strides = value.stride() if torch else tuple(s // 2 for s in value.strides)
    if (cols > 1 and strides[1] != 1) or (rows > 1 and strides[0] < cols):
        value = value.contiguous() if torch else np.ascontiguousarray(value)
        strides = (cols, 1)
    pointer = value.data_ptr() if torch else value.ctypes.data
    return pointer, rows, cols, strides[0] if rows > 1 else cols, torch, value


def pack_tensor(tensor, layout="auto"):
    """Pack a bf16 matrix where it lies: on the CPU's cores, or on its GPU.

    layout  "mma" (about 10.7 bits a weight; what "auto" stands for), "mma12" (12 bits), or "bf16"
    The result has a numpy buffer for numpy and a torch buffer, on the same device, for torch. It is
    a function of the weights and the layout alone. Its layout is "bf16" where packing would not
    make the matrix smaller. Rows may be apart (a slice of columns); nothing else is copied.
    Errors: ArgumentError (type, dimensions), LimitError or ArgumentError (too large), MemoryError.
    """
    number = _layout_number(layout)
    pointer, rows, cols, stride, torch, keep = _source(tensor)
    if torch and keep.is_cuda and rows and cols:
        return _pack_gpu(torch, keep, number, stride)
    out, m = _lib.Buffer(), _lib.Matrix()
    try:
        with _lib.pool as pool:
            _lib.call(_lib.cpu().glyd_pack, number, pointer, rows, cols, stride, pool,
                      byref(out), byref(m))
        arrays = {name: (ctypes.c_uint8 * span.bytes).from_address(span.data)
                  for name, span in zip(_lib.ARRAY_NAMES, m.array) if span.bytes}
        packed = Packed.from_arrays(_lib.LAYOUT_NAMES[m.layout], rows, cols, m.run_blocks, arrays)
    finally:
        _lib.cpu().glyd_buf_free(byref(out))
    return packed.to(keep.device) if torch else packed


def _layout_number(layout):
    if layout == "auto":
        layout = "mma"
    if layout not in _lib.LAYOUTS:
        raise errors.ArgumentError(f"there is no layout {layout!r}: auto, {', '.join(LAYOUTS)}")
    return _lib.LAYOUTS[layout]


def _pack_gpu(torch, weight, number, stride):
    rows, cols = weight.shape
    if number == 0:
        return _as_it_is(torch, weight)
    gpu = _lib.gpu()
    with torch.cuda.device(weight.device):
        stream = torch.cuda.current_stream().cuda_stream
        nbytes = gpu.glyd_gpu_pack_workspace(number, rows, cols)
        workspace = torch.empty(max(nbytes, 1), dtype=torch.uint8, device=weight.device)
        args = _lib.GpuPack(number, rows, cols, stride, weight.data_ptr(), workspace.data_ptr(),
                            nbytes)
        m = _lib.Matrix()
        _lib.call(gpu.glyd_gpu_pack_survey, byref(args), stream, byref(m))
        if m.layout == 0:
            return _as_it_is(torch, weight)
        sizes = [span.bytes for span in m.array]
        offsets, nbytes = _offsets(sizes)
        buffer = torch.empty(nbytes, dtype=torch.uint8, device=weight.device)
        for offset, size in zip(offsets, sizes):  # the room between two arrays is zero
            if -size % ALIGN:
                buffer[offset + size:offset + size + -size % ALIGN].zero_()
        for span, offset in zip(m.array, offsets):
            span.data = buffer.data_ptr() + offset if span.bytes else None
        _lib.call(gpu.glyd_gpu_pack, byref(args), byref(m), stream)
    return Packed(_lib.LAYOUT_NAMES[m.layout], rows, cols, m.run_blocks, sizes, buffer)


def _as_it_is(torch, weight):
    """A matrix in layout bf16: a copy, so that it never changes with the tensor it came from."""
    rows, cols = weight.shape
    nbytes = 2 * rows * cols
    buffer = torch.zeros(-(-nbytes // ALIGN) * ALIGN, dtype=torch.uint8, device=weight.device)
    buffer[:nbytes].view(torch.bfloat16).view(rows, cols).copy_(weight)
    return Packed("bf16", rows, cols, 0, [nbytes] + [0] * (_lib.ARRAYS - 1), buffer)


def unpack_tensor(packed, start=0, stop=None, out=None):
    """Rows start to stop of a packed matrix, bit for bit as they were.

    The result is a torch.bfloat16 tensor on the packed matrix's device, or a numpy array of uint16
    bits where its buffer is numpy's. `out`: write there instead (the same kind and device, rows
    may be apart), and return it.
    Errors: ArgumentError (rows that are not there, another out).
    """
    stop = packed.rows if stop is None else stop
    if not 0 <= start <= stop <= packed.rows:
        raise errors.ArgumentError(f"rows {start} to {stop} of a matrix of {packed.rows}")
    rows, torch = stop - start, _torch_of(packed.buffer)
    if out is None:
        out = (torch.empty(rows, packed.cols, dtype=torch.bfloat16, device=packed.device) if torch
               else np.empty((rows, packed.cols), np.uint16))
    pointer, _, _, stride = _target(packed, out, rows)
    m = packed.matrix()
    if packed.is_cuda:
        with torch.cuda.device(packed.device):
            _lib.call(_lib.gpu().glyd_gpu_unpack, byref(m), start, rows, pointer, stride,
                      torch.cuda.current_stream().cuda_stream)
    else:
        with _lib.pool as pool:
            _lib.call(_lib.cpu().glyd_unpack, byref(m), start, rows, pointer, stride, pool)
    return out


def is_packed_of(packed, tensor):
    """Whether a packed matrix, on its device, decodes to all bits of a torch tensor."""
    import torch
    back = unpack_tensor(packed)
    return torch.equal(back.view(torch.int16), tensor.contiguous().view(torch.int16))


def _target(packed, out, rows):
    torch = _torch_of(packed.buffer)
    if (_torch_of(out) is None) != (torch is None):
        raise errors.ArgumentError(f"out is {type(out).__name__}, the packed matrix is {packed!r}")
    bits, device = (torch.bfloat16, out.device) if torch else (np.uint16, None)
    if out.dtype != bits or tuple(out.shape) != (rows, packed.cols) or device != packed.device:
        raise errors.ArgumentError(f"out is {out.dtype} {tuple(out.shape)} on {device}, not {bits} "
                                   f"{(rows, packed.cols)} on {packed.device}")
    strides = out.stride() if torch else tuple(s // 2 for s in out.strides)
    if rows and (packed.cols > 1 and strides[1] != 1 or rows > 1 and strides[0] < packed.cols):
        raise errors.ArgumentError("the values of a row of out are not side by side")
    if torch:
        pointer = out.data_ptr()
    else:
        if not out.flags.writeable:
            raise errors.ArgumentError("out is read-only")
        pointer = out.ctypes.data
    return pointer, rows, packed.cols, strides[0] if rows > 1 else packed.cols


def check(packed):
    """Check every size, offset, count, code and stream of a packed matrix, on the CPU.

    Bytes that came from elsewhere are safe to decode once this returned. A matrix on a GPU is
    copied to the host for it.
    Errors: CorruptError, naming the array and the tile.
    """
    host = packed.numpy()
    m = host.matrix()
    with _lib.pool as pool:
        _lib.call(_lib.cpu().glyd_check, byref(m), pool)


def verify(what):
    """Check a Packed, or verify the save in a folder: every tensor's SHA-256 and every other file's.

    Returns None for a Packed, for a folder a dict of what was read. Errors: CorruptError,
    MismatchError (naming the tensor and, where that can be told, the blocks), FormatError,
    NotFoundError.
    """
    if isinstance(what, Packed):
        return check(what)
    if not isinstance(what, (str, os.PathLike)):
        raise errors.ArgumentError(f"verify takes a Packed or a folder, not {type(what).__name__}")
    report = _lib.SaveReport()
    _lib.call(_lib.cpu().glyd_save_verify, os.fsencode(what), None, byref(report))
    return report_dict(report)


def report_dict(report):
    """A glyd_save_report as a dict."""
    values = {name: getattr(report, name) for name, *_ in report._fields_}
    return {**values, "layout": report.layout.decode()}
