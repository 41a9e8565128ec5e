"""libglyd_gpu for the checks that need PyTorch: packs tensors and multiplies by them on the GPU."""
import ctypes
from ctypes import byref, c_char, c_int, c_int32, c_int64, c_size_t, c_void_p

import torch

ARRAYS = 7
LAYOUTS = {"mma12": 1, "mma": 2}
E_UNSUPPORTED = 11


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("text", c_char * 512)]


class Span(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class Matrix(ctypes.Structure):
    _fields_ = [("layout", c_int), ("rows", c_int64), ("cols", c_int64), ("array", Span * ARRAYS),
                ("run_blocks", c_int32)]


class PackArgs(ctypes.Structure):
    _fields_ = [("layout", c_int), ("rows", c_int64), ("cols", c_int64), ("stride", c_int64),
                ("bf16", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_size_t)]


class LinearArgs(ctypes.Structure):
    _fields_ = [("weight", ctypes.POINTER(Matrix)), ("x", c_void_p), ("x_stride", c_int64),
                ("tokens", c_int64), ("bias", c_void_p), ("y", c_void_p), ("y_stride", c_int64),
                ("slices", c_int32), ("workspace", c_void_p), ("workspace_bytes", c_size_t)]


class Failed(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Glyd:
    """The library, and the plans of the current device."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.lib.glyd_gpu_pack_workspace.restype = c_size_t
        self.lib.glyd_gpu_pack_workspace.argtypes = [c_int, c_int64, c_int64]
        self.lib.glyd_gpu_linear_workspace.restype = c_size_t
        self.lib.glyd_gpu_linear_workspace.argtypes = [c_void_p, c_int64]
        self.lib.glyd_gpu_plan_cublas.argtypes = [c_void_p, c_int64, c_int64, c_int64, c_int,
                                                  c_void_p, c_void_p]
        self.lib.glyd_gpu_plans_trim.argtypes = [c_void_p]
        self.err = Error()
        self.plans = c_void_p()
        self.plan_seconds = 0.0
        self.call("glyd_gpu_plans_create", None, byref(self.plans))

    def call(self, name, *args):
        status = getattr(self.lib, name)(*args, byref(self.err))
        if status:
            raise Failed(status, self.err.text.decode())

    def plan(self, rows, cols, tokens, has_bias):
        """The number of slices, or None and why there is none."""
        slices = c_int32()
        try:
            self.call("glyd_gpu_plan_cublas", self.plans, rows, cols, tokens, int(has_bias),
                      byref(slices))
        except Failed as failed:
            if failed.status != E_UNSUPPORTED:
                raise
            return None, str(failed)
        return slices.value, ""

    def pack(self, weight, layout="mma12"):
        """A contiguous bf16 tensor as a Packed."""
        rows, cols = weight.shape
        nbytes = self.lib.glyd_gpu_pack_workspace(LAYOUTS[layout], rows, cols)
        workspace = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        args = PackArgs(LAYOUTS[layout], rows, cols, weight.stride(0), weight.data_ptr(),
                        workspace.data_ptr(), nbytes)
        m, arrays = Matrix(), []
        self.call("glyd_gpu_pack_survey", byref(args), None, byref(m))
        for span in m.array:
            if span.bytes:
                arrays.append(torch.empty(span.bytes, dtype=torch.uint8, device="cuda"))
                span.data = arrays[-1].data_ptr()
        self.call("glyd_gpu_pack", byref(args), byref(m), None)
        torch.cuda.synchronize()
        return Packed(self, m, arrays, m.layout == LAYOUTS[layout])


class Packed:
    def __init__(self, glyd, matrix, arrays, is_smaller):
        self.glyd, self.matrix, self.arrays, self.is_smaller = glyd, matrix, arrays, is_smaller
        self.workspace = torch.empty(max(1, glyd.lib.glyd_gpu_linear_workspace(byref(matrix), 1)),
                                     dtype=torch.uint8, device="cuda")

    def linear(self, x, bias, slices):
        y = torch.empty(x.shape[0], self.matrix.rows, dtype=torch.bfloat16, device="cuda")
        args = LinearArgs(ctypes.pointer(self.matrix), x.data_ptr(), x.stride(0), x.shape[0],
                          None if bias is None else bias.data_ptr(), y.data_ptr(), y.stride(0),
                          slices, self.workspace.data_ptr(), self.workspace.numel())
        self.glyd.call("glyd_gpu_linear", byref(args), None)
        return y
