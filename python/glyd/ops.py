"""torch operators over packed weights: glyd::linear, glyd::embedding, glyd::embedding_rows and
glyd::unpack.

    weight = glyd.ops.Weight(glyd.pack_tensor(w))      # keep it: the operators find it by weight.descriptor
    y = torch.ops.glyd.linear(x, weight.descriptor, weight.rows, bias)
    e = torch.ops.glyd.embedding(ids, weight.descriptor, weight.cols)
    w = torch.ops.glyd.unpack(weight.descriptor, weight.rows, weight.cols)

The descriptor
  An int64[8] on the weight's device, whatever the weight's size: layers of one shape then look alike
  to torch.compile (and to vLLM's cache), which compiles them once. A blob among the inputs would
  have a length of its own in each layer, and so would pointers given as ints.
  It lies on the device, since a CPU tensor among the inputs keeps inductor from using CUDA graphs.
  A device tensor cannot be read without waiting for the device, so its *address* is the key: a
  Weight owns its descriptor's memory, hence while it lives no other tensor has that address. The
  tensor holds the Weight's serial number too: a copy of a descriptor (opcheck and the warm-up of a
  graph make some) is read once a call, which waits, and is refused while a graph is captured.

Embeddings under torch.compile
  Inductor computes in float32 what it fuses, and rounds where it stores. It fuses a table lookup
  with what follows, but cannot look into an operator: with one in its place it stores other things,
  and logits differ from those of the compiled bf16 model. So compiled modules call embedding_rows,
  which decodes the rows that the ids name and says where each of them is, and look them up with
  F.embedding: to inductor the same lookup, of a smaller table.

What is exact
  exact=True (the default): the bits of torch's own F.linear with the bf16 weight, always. On a GPU
  the product is computed from the packed weights where glyd_gpu_plan_cublas reproduces the order of
  cuBLAS's sums for this shape and number of tokens. Where it does not, where x is not as
  plan_cublas supposes (contiguous, aligned), or where the plan is not known yet and a graph is
  being captured, the matrix is unpacked into memory of torch's allocator and F.linear is called.
  On the CPU the matrix is always unpacked: whole, since torch's own order of sums depends on the shape.
  exact=False: on a GPU always from the packed weights, by the plan that depends on the shape alone
  (results are then the same for any number of tokens); on the CPU a few rows at a time.
  Embeddings and unpack have no sums: they are exact.

Threads    any; plans are found by one thread at a time.
SPDX-License-Identifier: Apache-2.0
"""
import copy
import ctypes
import itertools
import logging
import os
import threading
import weakref
from ctypes import byref, c_int32, c_void_p

import torch
import torch.nn.functional as F

from . import _lib, errors
from .codec import Packed, unpack_tensor

log = logging.getLogger("glyd")

DESCRIPTOR_WORDS = 8
_MAGIC = 0x676C796431  # "glyd1"
_CPU_ROWS = 4096  # unpacked at a time where exactness does not ask for the whole matrix
_TRIM_BYTES = 64 << 20  # scratch that plan_cublas may keep for the next product

_serials = itertools.count(1)
_by_serial = weakref.WeakValueDictionary()
_by_address = weakref.WeakValueDictionary()  # (device, address of a descriptor): Weight


class Weight:
    """A packed matrix that the operators can use, while this object lives.

    packed      the Packed; its buffer is a tensor on `device`
    descriptor  what the operators take: int64[8] on the same device
    exact       see above; may be set at any time but while a graph that was captured is in use
    unpack_from tokens from which an exact product on a GPU is unpacked and left to cuBLAS, whose
                bits it has in either case; None: never. Unpacking takes as long for one token as for
                thousands, and memory for the matrix in bf16
    Errors: ArgumentError (a numpy buffer), UnsupportedError (a device other than cpu and cuda, or a
    GPU without libglyd_gpu), CorruptError or ArgumentError (sizes that cannot be).
    """

    def __init__(self, packed, exact=True):
        if not isinstance(packed, Packed) or packed.device is None:
            raise errors.ArgumentError(f"{packed!r}: Packed.to(device) gives it a torch buffer first")
        self.exact, self.unpack_from = bool(exact), None
        self.serial = next(_serials)
        self._set(packed)

    def _set(self, packed):
        self.packed, self.device = packed, packed.device
        self.rows, self.cols = packed.rows, packed.cols
        self.matrix = packed.matrix()
        self.slices_fixed, self._workspace = 0, {}
        if packed.is_cuda:
            _lib.call(_lib.gpu().glyd_gpu_matrix_check, byref(self.matrix))
            self.slices_fixed = _lib.gpu().glyd_gpu_plan_fixed(self.rows, self.cols)
        words = [_MAGIC, self.serial, self.rows, self.cols, _lib.LAYOUTS[packed.layout],
                 packed.nbytes, 0, 0]
        self.descriptor = torch.tensor(words, dtype=torch.int64, device=self.device)
        _by_serial[self.serial] = self
        _by_address[self.device, self.descriptor.data_ptr()] = self

    def replace(self, packed):
        """Hold another packed matrix of the same shape instead, or the same one on another device.
        The descriptor changes: whoever keeps it takes the new one."""
        if packed.shape != self.packed.shape:
            raise errors.ArgumentError(f"{packed!r} in place of {self.packed!r}")
        _by_address.pop((self.device, self.descriptor.data_ptr()), None)
        self._set(packed)

    def __deepcopy__(self, memo):
        return Weight(copy.deepcopy(self.packed, memo), self.exact)

    def __reduce__(self):
        return Weight, (self.packed, self.exact)

    def workspace_bytes(self, tokens):
        nbytes = self._workspace.get(tokens)
        if nbytes is None:
            nbytes = _lib.gpu().glyd_gpu_linear_workspace(byref(self.matrix), tokens)
            self._workspace[tokens] = nbytes
        return nbytes

    def __repr__(self):
        return f"Weight({self.packed!r}, exact={self.exact})"


def find(descriptor):
    """The Weight of a descriptor, or of a copy of one."""
    return (_by_address.get((descriptor.device, descriptor.data_ptr())) or _read(descriptor))


def _read(descriptor):
    if descriptor.dtype != torch.int64 or descriptor.shape != (DESCRIPTOR_WORDS,):
        raise errors.ArgumentError(f"a descriptor is int64[{DESCRIPTOR_WORDS}], not "
                                   f"{descriptor.dtype} {tuple(descriptor.shape)}")
    if descriptor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise errors.ArgumentError("a copy of a descriptor under graph capture: register the "
                                   "descriptor itself as a buffer or parameter of its module")
    words = descriptor.tolist()
    weight = _by_serial.get(words[1]) if words[0] == _MAGIC else None
    if weight is None or weight.device != descriptor.device:
        raise errors.ArgumentError("this descriptor belongs to no packed weight of this process on "
                                   f"{descriptor.device}: its Weight is gone, or it was copied "
                                   "from another process or device")
    return weight


# --- plans by which cuBLAS computes, remembered for the process ---
class Plans:
    """The number of slices for each product on one device; None where F.linear is to be used."""

    def __init__(self, device):
        self.device, self.known, self.lock = device, {}, threading.Lock()
        self.handle, self.why_none, self.told = None, None, set()

    def slices(self, rows, cols, tokens, has_bias):
        key = rows, cols, tokens, has_bias
        try:
            return self.known[key]
        except KeyError:
            pass
        if torch.cuda.is_current_stream_capturing():
            self.tell(key, "its plan is not known yet and a graph is being captured: run it once "
                      "before the capture")
            return None
        with self.lock:
            if key not in self.known:
                self.known[key] = self._find(key)
        return self.known[key]

    def _find(self, key):
        rows, cols, tokens, has_bias = key
        if self.handle is None and self.why_none is None:
            self._create()
        if self.handle is None:
            self.tell(("any",), self.why_none)
            return None
        slices = c_int32()
        try:
            self._ask(rows, cols, tokens, has_bias, slices)
        except (errors.UnsupportedError, errors.NoMemoryError) as error:
            self.tell(key, str(error))
            return None
        finally:
            if 2 * (rows * cols + tokens * (rows + cols)) > _TRIM_BYTES:
                _lib.gpu().glyd_gpu_plans_trim(self.handle)
        return slices.value

    def _ask(self, rows, cols, tokens, has_bias, slices):
        def ask():
            _lib.call(_lib.gpu().glyd_gpu_plan_cublas, self.handle, rows, cols, tokens,
                      int(has_bias), byref(slices))
        try:
            ask()
        except errors.NoMemoryError:
            torch.cuda.empty_cache()  # what torch keeps in reserve; the library allocates beside it
            ask()

    def _create(self):
        self.why_none = _unusual_cublas()
        if self.why_none:
            return
        options, handle = _workspaces(self.device), c_void_p()
        try:
            _lib.call(_lib.gpu().glyd_gpu_plans_create, byref(options), byref(handle))
            self.handle = handle
        except errors.NotFoundError as error:
            self.why_none = str(error)

    def tell(self, key, why):
        """Once a product: that it is computed by cuBLAS from unpacked weights."""
        if key not in self.told:
            self.told.add(key)
            what = "{} x {}, {} tokens, bias {}".format(*key) if len(key) == 4 else "all products"
            log.info("%s: unpacked and multiplied by cuBLAS: %s", what, why)


def _workspaces(device):
    """What torch gives cuBLAS: by the two environment variables it reads, else by the GPU."""
    kib = 4096 * 8 if torch.cuda.get_device_capability(device)[0] in (9, 10) else 4096 * 2 + 16 * 8
    config = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
    if config.startswith(":"):
        numbers = [int(n) for n in config[1:].split(":")]
        kib = sum(size * count for size, count in zip(numbers[::2], numbers[1::2]))
    lt_kib = int(os.environ.get("CUBLASLT_WORKSPACE_SIZE", 1024))
    return _lib.GpuPlansOptions(kib << 10, lt_kib << 10)


def _unusual_cublas():
    """Why torch does not call cuBLAS as plan_cublas supposes, or None."""
    if torch.version.hip:
        return "this torch is not built for CUDA"
    if os.environ.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE", "0") not in ("", "0"):
        return "TORCH_CUBLASLT_UNIFIED_WORKSPACE is set"
    if os.environ.get("DISABLE_ADDMM_CUDA_LT", "0") not in ("", "0"):
        return "DISABLE_ADDMM_CUDA_LT is set"
    return None


def _switches_are_usual():
    """Whether torch's switches that change its bf16 products are as they are by default."""
    return (torch._C._get_blas_preferred_backend() in _USUAL_BLAS
            and torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction in _USUAL_REDUCTION
            and not torch.cuda.tunable.is_enabled())


_USUAL_BLAS = (torch._C._BlasBackend.Default, torch._C._BlasBackend.Cublas)
_USUAL_REDUCTION = (True, (True, True))
_plans = {}
_plans_lock = threading.Lock()


def plans(device):
    """The Plans of a CUDA device."""
    try:
        return _plans[device]
    except KeyError:
        with _plans_lock:
            return _plans.setdefault(device, Plans(device))


# --- glyd::linear ---
torch.library.define("glyd::linear", "(Tensor x, Tensor descriptor, SymInt rows, Tensor? bias=None) "
                     "-> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.define("glyd::embedding", "(Tensor ids, Tensor descriptor, SymInt cols) -> Tensor",
                     tags=torch.Tag.pt2_compliant_tag)
torch.library.define("glyd::embedding_rows", "(Tensor ids, Tensor descriptor, SymInt cols) "
                     "-> (Tensor, Tensor)", tags=torch.Tag.pt2_compliant_tag)
torch.library.define("glyd::unpack", "(Tensor descriptor, SymInt rows, SymInt cols) -> Tensor",
                     tags=torch.Tag.pt2_compliant_tag)


def _check_linear(x, weight, rows, bias):
    if x.dtype != torch.bfloat16:
        raise errors.ArgumentError(f"x is {x.dtype}: packed weights multiply torch.bfloat16")
    if x.ndim == 0 or x.shape[-1] != weight.cols or rows != weight.rows:
        raise errors.ArgumentError(f"x {tuple(x.shape)} by a weight of {weight.rows} x "
                                   f"{weight.cols}, said to have {rows} rows")
    if x.device != weight.device:
        raise errors.ArgumentError(f"x is on {x.device}, the weight on {weight.device}")
    if bias is not None and (bias.dtype != x.dtype or bias.shape != (rows,)
                             or bias.device != x.device):
        raise errors.ArgumentError(f"the bias is {bias.dtype} {tuple(bias.shape)} on "
                                   f"{bias.device}, not {x.dtype} ({rows},) on {x.device}")


def _unpack(weight):
    return unpack_tensor(weight.packed)


@torch.library.impl("glyd::linear", "CPU")
def _linear_cpu(x, descriptor, rows, bias=None):
    weight = find(descriptor)
    _check_linear(x, weight, rows, bias)
    if weight.exact or rows <= _CPU_ROWS:
        return F.linear(x, _unpack(weight), bias)
    y = x.new_empty(*x.shape[:-1], rows)
    for start in range(0, rows, _CPU_ROWS):
        stop = min(start + _CPU_ROWS, rows)
        y[..., start:stop] = F.linear(x, unpack_tensor(weight.packed, start, stop),
                                      None if bias is None else bias[start:stop])
    return y


@torch.library.impl("glyd::linear", "CUDA")
def _linear_cuda(x, descriptor, rows, bias=None):
    weight = find(descriptor)
    _check_linear(x, weight, rows, bias)
    if x.device.index != torch.cuda.current_device():
        with torch.cuda.device(x.device):
            return _linear_gpu(x, weight, bias)
    return _linear_gpu(x, weight, bias)


def _linear_gpu(x, weight, bias):
    tokens = x.numel() // weight.cols if weight.cols else 0
    if not tokens or not weight.rows or not weight.cols:
        return F.linear(x, _unpack(weight), bias)
    if not weight.exact:
        return _product(_rows_for_gpu(x, weight.cols), weight, bias, weight.slices_fixed, x.shape)
    slices = None
    many = weight.unpack_from is not None and tokens >= weight.unpack_from
    if not many and _as_cublas_gets_it(x, weight.cols, bias) and _switches_are_usual():
        slices = plans(x.device).slices(weight.rows, weight.cols, tokens, bias is not None)
    if slices is None:
        return F.linear(x, _unpack(weight), bias)
    return _product(x.view(tokens, weight.cols), weight, bias, slices, x.shape)


def _as_cublas_gets_it(x, cols, bias):
    """Whether F.linear would make one cuBLAS call of contiguous operands, aligned to 256 bytes, of
    it. A vector is another call, and with a bias and four dimensions the bias is added later."""
    return (x.is_contiguous() and cols % 8 == 0 and x.data_ptr() % 256 == 0
            and (x.ndim in (2, 3) or x.ndim > 3 and bias is None)
            and (bias is None or bias.is_contiguous() and bias.data_ptr() % 256 == 0))


def _rows_for_gpu(x, cols):
    """x as a matrix that glyd_gpu_linear takes: rows at multiples of 16 bytes."""
    x = x.reshape(-1, cols)
    if cols % 8:
        return F.pad(x, (0, -cols % 8))
    if x.stride(1) != 1 or x.stride(0) % 8 or x.stride(0) < cols or x.data_ptr() % 16:
        return x.clone(memory_format=torch.contiguous_format)
    return x


def _product(x, weight, bias, slices, shape):
    tokens = x.shape[0]
    y = torch.empty(tokens, weight.rows, dtype=torch.bfloat16, device=x.device)
    nbytes = weight.workspace_bytes(tokens)
    workspace = torch.empty(nbytes, dtype=torch.uint8, device=x.device) if nbytes else None
    if bias is not None:
        bias = bias.contiguous()
    args = _lib.GpuLinear(ctypes.pointer(weight.matrix), x.data_ptr(), x.stride(0), tokens,
                          None if bias is None else bias.data_ptr(), y.data_ptr(), weight.rows,
                          slices, None if workspace is None else workspace.data_ptr(), nbytes)
    _lib.call(_lib.gpu().glyd_gpu_linear, byref(args), _stream(x.device))
    return y.view(*shape[:-1], weight.rows)


def _stream(device):
    return torch._C._cuda_getCurrentRawStream(device.index)


@torch.library.register_fake("glyd::linear")
def _linear_fake(x, descriptor, rows, bias=None):
    return x.new_empty((*x.shape[:-1], rows))


# --- glyd::unpack ---
@torch.library.impl("glyd::unpack", "default")
def _unpack_op(descriptor, rows, cols):
    weight = find(descriptor)
    if (rows, cols) != (weight.rows, weight.cols):
        raise errors.ArgumentError(f"a weight of {weight.rows} x {weight.cols}, said to be "
                                   f"{rows} x {cols}")
    return _unpack(weight)


@torch.library.register_fake("glyd::unpack")
def _unpack_fake(descriptor, rows, cols):
    return descriptor.new_empty((rows, cols), dtype=torch.bfloat16)


# --- glyd::embedding ---
def lookup(ids, descriptor, cols):
    """Rows of an embedding, for a module's forward: in a compiled one as inductor is to see it."""
    if torch.compiler.is_compiling():
        place, rows = torch.ops.glyd.embedding_rows(ids, descriptor, cols)
        return F.embedding(place, rows)
    return torch.ops.glyd.embedding(ids, descriptor, cols)


def _check_embedding(ids, weight, cols):
    if ids.dtype not in (torch.int64, torch.int32):
        raise errors.ArgumentError(f"ids are {ids.dtype}, not torch.int64 or torch.int32")
    if cols != weight.cols or ids.device != weight.device:
        raise errors.ArgumentError(f"ids on {ids.device} of an embedding of {weight.rows} x "
                                   f"{weight.cols} on {weight.device}, said to have {cols} columns")


def _lookup_cpu(ids, descriptor, cols):
    weight = find(descriptor)
    _check_embedding(ids, weight, cols)
    rows, place = torch.unique(ids.reshape(-1), return_inverse=True)
    if rows.numel() and (int(rows[0]) < 0 or int(rows[-1]) >= weight.rows):
        raise IndexError(f"an id outside 0 to {weight.rows - 1}")
    found = torch.empty(rows.numel(), cols, dtype=torch.bfloat16)
    for i, row in enumerate(rows.tolist()):
        unpack_tensor(weight.packed, row, row + 1, out=found[i:i + 1])
    return found[place].view(*ids.shape, cols)


def _lookup_gpu(ids, descriptor, cols):
    weight = find(descriptor)
    _check_embedding(ids, weight, cols)
    out = torch.empty(*ids.shape, cols, dtype=torch.bfloat16, device=ids.device)
    if not out.numel():
        return out
    flat = ids.reshape(-1).to(torch.int32)
    with torch.cuda.device(ids.device):
        _lib.call(_lib.gpu().glyd_gpu_embed, byref(weight.matrix), flat.data_ptr(), flat.numel(),
                  out.data_ptr(), cols, _stream(ids.device))
    return out


torch.library.impl("glyd::embedding", "CPU", _lookup_cpu)
torch.library.impl("glyd::embedding", "CUDA", _lookup_gpu)


@torch.library.register_fake("glyd::embedding")
def _embedding_fake(ids, descriptor, cols):
    return ids.new_empty((*ids.shape, cols), dtype=torch.bfloat16)


@torch.library.impl("glyd::embedding_rows", "CPU")
def _embedding_rows_cpu(ids, descriptor, cols):
    return _places(ids), _lookup_cpu(ids.reshape(-1), descriptor, cols)


@torch.library.impl("glyd::embedding_rows", "CUDA")
def _embedding_rows_cuda(ids, descriptor, cols):
    return _places(ids), _lookup_gpu(ids.reshape(-1), descriptor, cols)


def _places(ids):
    return torch.arange(ids.numel(), dtype=ids.dtype, device=ids.device).view(ids.shape)


@torch.library.register_fake("glyd::embedding_rows")
def _embedding_rows_fake(ids, descriptor, cols):
    return (ids.new_empty(ids.shape),
            ids.new_empty((ids.numel(), cols), dtype=torch.bfloat16))


# --- gradients: to x and the bias; a packed weight has none ---
def _setup_linear(ctx, inputs, output):
    x, descriptor, rows, bias = inputs
    ctx.save_for_backward(descriptor)
    ctx.shape, ctx.has_bias = (rows, x.shape[-1]), bias is not None


def _linear_backward(ctx, grad):
    (descriptor,) = ctx.saved_tensors
    grad_x = grad_bias = None
    if ctx.needs_input_grad[0]:
        grad_x = grad @ torch.ops.glyd.unpack(descriptor, *ctx.shape)
    if ctx.has_bias and ctx.needs_input_grad[3]:
        grad_bias = grad.sum(dim=tuple(range(grad.ndim - 1)))
    return grad_x, None, None, grad_bias


torch.library.register_autograd("glyd::linear", _linear_backward, setup_context=_setup_linear)
