"""libglyd and libglyd_gpu over ctypes: structs, prototypes, and one way to call.

The libraries lie in the package (`glyd/lib`, where a wheel has them), else in the folder that the
environment variable GLYD_LIBRARY_DIR names. Nothing here needs torch.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import functools
import os
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64
from ctypes import c_void_p
from pathlib import Path

from . import errors

ARRAYS = 7
ARRAY_NAMES = ("sm", "codes", "bases", "escape_index", "escapes", "entries", "table")
LAYOUTS = {"bf16": 0, "mma12": 1, "mma": 2}
LAYOUT_NAMES = {number: name for name, number in LAYOUTS.items()}


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("text", c_char * 512)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t), ("capacity", c_size_t)]


class Span(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class Matrix(ctypes.Structure):
    _fields_ = [("layout", c_int), ("rows", c_int64), ("cols", c_int64), ("array", Span * ARRAYS),
                ("run_blocks", c_int32)]


class PoolOptions(ctypes.Structure):
    _fields_ = [("n_threads", c_int), ("pin", c_int)]


PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class SaveOptions(ctypes.Structure):
    _fields_ = [("n_threads", c_int), ("progress", PROGRESS), ("progress_arg", c_void_p),
                ("layout", c_int), ("shard_bytes", c_uint64), ("any_model", c_int)]


class SaveReport(ctypes.Structure):
    _fields_ = [("n_tensors", c_uint64), ("n_packed", c_uint64), ("n_weights", c_uint64),
                ("bytes_checkpoint", c_uint64), ("bytes_save", c_uint64), ("n_files", c_uint64),
                ("n_left_out", c_uint64), ("layout", c_char * 8)]


class SavePlan(ctypes.Structure):
    _fields_ = [("model_type", c_char * 32), ("is_save", c_int), ("n_weights", c_uint64),
                ("weight_bytes", c_uint64 * 3), ("weight_bytes_exact", c_int * 3),
                ("kv_bytes_a_token", c_uint64), ("context", c_int), ("memory_available", c_uint64),
                ("context_fits", c_int64 * 3)]


class GpuPlansOptions(ctypes.Structure):
    _fields_ = [("cublas_bytes", c_size_t), ("cublaslt_bytes", c_size_t)]


class GpuLinear(ctypes.Structure):
    _fields_ = [("weight", POINTER(Matrix)), ("x", c_void_p), ("x_stride", c_int64),
                ("tokens", c_int64), ("bias", c_void_p), ("y", c_void_p), ("y_stride", c_int64),
                ("slices", c_int32), ("workspace", c_void_p), ("workspace_bytes", c_size_t)]


class GpuPack(ctypes.Structure):
    _fields_ = [("layout", c_int), ("rows", c_int64), ("cols", c_int64), ("stride", c_int64),
                ("bf16", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_size_t)]


# Name: (result, arguments). A status, c_int, comes with a glyd_error as the last argument.
_STATUS = c_int
_PROTOTYPES = {
    "glyd": {
        "glyd_version": (c_char_p, []),
        "glyd_buf_free": (None, [POINTER(Buffer)]),
        "glyd_pool_create": (_STATUS, [POINTER(PoolOptions), POINTER(c_void_p), POINTER(Error)]),
        "glyd_pack": (_STATUS, [c_int, c_void_p, c_int64, c_int64, c_int64, c_void_p,
                                POINTER(Buffer), POINTER(Matrix), POINTER(Error)]),
        "glyd_check": (_STATUS, [POINTER(Matrix), c_void_p, POINTER(Error)]),
        "glyd_unpack": (_STATUS, [POINTER(Matrix), c_int64, c_int64, c_void_p, c_int64, c_void_p,
                                  POINTER(Error)]),
        "glyd_save_pack": (_STATUS, [c_char_p, c_char_p, POINTER(SaveOptions), POINTER(SaveReport),
                                     POINTER(Error)]),
        "glyd_save_verify": (_STATUS, [c_char_p, POINTER(SaveOptions), POINTER(SaveReport),
                                       POINTER(Error)]),
        "glyd_save_plan_make": (_STATUS, [c_char_p, c_uint64, POINTER(SavePlan), POINTER(Error)]),
    },
    "glyd_gpu": {
        "glyd_gpu_version": (c_char_p, []),
        "glyd_gpu_matrix_check": (_STATUS, [POINTER(Matrix), POINTER(Error)]),
        "glyd_gpu_plan_fixed": (c_int32, [c_int64, c_int64]),  # a struct of one int32
        "glyd_gpu_plans_create": (_STATUS, [POINTER(GpuPlansOptions), POINTER(c_void_p),
                                            POINTER(Error)]),
        "glyd_gpu_plans_trim": (None, [c_void_p]),
        "glyd_gpu_plan_cublas": (_STATUS, [c_void_p, c_int64, c_int64, c_int64, c_int,
                                           POINTER(c_int32), POINTER(Error)]),
        "glyd_gpu_linear_workspace": (c_size_t, [POINTER(Matrix), c_int64]),
        "glyd_gpu_linear": (_STATUS, [POINTER(GpuLinear), c_void_p, POINTER(Error)]),
        "glyd_gpu_unpack": (_STATUS, [POINTER(Matrix), c_int64, c_int64, c_void_p, c_int64,
                                      c_void_p, POINTER(Error)]),
        "glyd_gpu_embed": (_STATUS, [POINTER(Matrix), c_void_p, c_int64, c_void_p, c_int64,
                                     c_void_p, POINTER(Error)]),
        "glyd_gpu_pack_workspace": (c_size_t, [c_int, c_int64, c_int64]),
        "glyd_gpu_pack_survey": (_STATUS, [POINTER(GpuPack), c_void_p, POINTER(Matrix),
                                           POINTER(Error)]),
        "glyd_gpu_pack": (_STATUS, [POINTER(GpuPack), POINTER(Matrix), c_void_p, POINTER(Error)]),
    },
}


def library_file(name):
    """Path of lib`name`.so, or NotFoundError saying where it was looked for."""
    folders = [Path(__file__).resolve().parent / "lib"]
    if os.environ.get("GLYD_LIBRARY_DIR"):
        folders.append(Path(os.environ["GLYD_LIBRARY_DIR"]))
    for folder in folders:
        if (folder / f"lib{name}.so").exists():
            return folder / f"lib{name}.so"
    raise errors.NotFoundError(
        f"no lib{name}.so in {' or '.join(map(str, folders))}: install the package with "
        f"`pip install ./python`{' where nvcc is' if name == 'glyd_gpu' else ''}, or set "
        "GLYD_LIBRARY_DIR to the folder that holds it")


def _load(name):
    library = ctypes.CDLL(str(library_file(name)))
    for function, (result, arguments) in _PROTOTYPES[name].items():
        f = getattr(library, function)
        f.restype, f.argtypes = result, arguments
    return library


@functools.cache
def cpu():
    """libglyd."""
    return _load("glyd")


@functools.cache
def gpu():
    """libglyd_gpu. Loading it needs no GPU and no driver."""
    return _load("glyd_gpu")


def has_gpu_library():
    """Whether libglyd_gpu is there: a wheel that was built without nvcc lacks it."""
    try:
        gpu()
    except errors.NotFoundError:
        return False
    return True


def call(function, *arguments):
    """Call a function that returns a status and takes a glyd_error last; raise what it says."""
    error = Error()
    status = function(*arguments, byref(error))
    if status:
        raise errors.of_status(status, error.text.decode("utf-8", "replace"))


class Pool:
    """The process's pool of worker threads, one a core; one caller at a time uses it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._pool = None

    def __enter__(self):
        self._lock.acquire()
        try:
            if self._pool is None:
                pool = c_void_p()
                call(cpu().glyd_pool_create, byref(PoolOptions(0, 0)), byref(pool))
                self._pool = pool
        except BaseException:
            self._lock.release()
            raise
        return self._pool

    def __exit__(self, *_):
        self._lock.release()

    def forget(self):
        """In a child process the workers are gone: the next caller makes a pool anew."""
        self.__init__()


pool = Pool()
os.register_at_fork(after_in_child=pool.forget)
