"""Products of matrices on CUDA by cuBLAS itself.

CuPy's own calls are refused while a stream is captured, multiply batches of half types in float32 or not at all, and
take no compute type for batches. So the library is called here directly: a handle for each thread and device, and a
workspace for each stream (and each captured graph), which cuBLAS is given before it is asked for anything, so that it
neither allocates during a capture nor shares memory between streams.

cuBLAS reads matrices by columns. A row-major product ``C = A B`` is the column-major ``C' = B' A'`` on the same memory,
so the operands change places; a transposed view is passed as it is, with the flag that says so.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib
import importlib.util
import math
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import precision
from .allocation import maker

N, T = 0, 1  # cublasOperation_t
DEFAULT = -1  # cublasGemmAlgo_t
LARGEST = (1 << 31) - 1  # of the sizes that its usual functions take
CALLS = 4096  # that are kept ready
WORKSPACE = 32 << 20  # what NVIDIA recommends for Hopper
_NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so") if sys.platform != "win32" else (
    "cublas64_13.dll", "cublas64_12.dll",
)  # fmt: skip


class Kind(NamedTuple):
    """A dtype as cuBLAS knows it."""

    data: int  # cudaDataType
    compute: int  # cublasComputeType_t
    scalar: str  # NumPy type of alpha and beta


KINDS = {
    np.dtype(np.float16): Kind(2, 68, "f4"),
    np.dtype(ml_dtypes.bfloat16): Kind(14, 68, "f4"),
    np.dtype(np.float32): Kind(0, 68, "f4"),
    np.dtype(np.float64): Kind(1, 70, "f8"),
    np.dtype(np.complex64): Kind(4, 68, "c8"),
    np.dtype(np.complex128): Kind(5, 70, "c16"),
}
_SINGLE = (np.dtype(np.float32), np.dtype(np.complex64))
_FAST = {"highest": 68, "high": 77, "medium": 75}  # 32F, 32F_FAST_TF32, 32F_FAST_16BF


def compute_type(dtype: np.dtype, convolution: bool = False) -> int:
    """The cublasComputeType_t for a dtype: float32 sums for half types; float32 as the precision setting says.

    convolution: the setting of convolutions, not that of products.
    """
    if dtype not in _SINGLE:
        return KINDS[dtype].compute
    if convolution:
        return _FAST["high" if precision.convolutions_take_tf32() else "highest"]
    return _FAST[precision.get_float32_matmul_precision()]


# -- the library -----------------------------------------------------------------------------------------------------


def _candidates() -> list[str]:
    """Where the library may be: loaded already, NVIDIA's wheels, the system."""
    found = []
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        found.append(pathfinder.load_nvidia_dynamic_lib("cublas").abs_path)
    except Exception:  # the module, or the library, is not there
        pass
    for package in ("nvidia.cu13", "nvidia.cublas"):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations if spec else None) or ():
            found += sorted(map(str, Path(folder).glob("lib/libcublas.so.*")))
    return [*found, *_NAMES]


@functools.cache
def library() -> Any:
    """cuBLAS, or None if it cannot be loaded."""
    for name in _candidates():
        try:
            return _declared(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    return None


def _declared(lib: Any) -> Any:
    """The functions used here, with their argument types: ctypes would pass addresses as ints of 32 bits."""
    p, i, n = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
    lib.cublasCreate_v2.argtypes = [p]
    lib.cublasDestroy_v2.argtypes = [p]
    lib.cublasSetStream_v2.argtypes = [p, p]
    lib.cublasSetWorkspace_v2.argtypes = [p, p, ctypes.c_size_t]
    # sizes and leading dimensions have 32 bits, or 64 in functions that cuBLAS has since its version 12
    for end, s in (("", i), ("_64", n)):
        if end and not hasattr(lib, "cublasGemmEx_64"):
            break
        getattr(lib, "cublasGemmEx" + end).argtypes = [
            p, i, i, s, s, s, p, p, i, s, p, i, s, p, p, i, s, i, i,
        ]  # fmt: skip
        getattr(lib, "cublasGemmStridedBatchedEx" + end).argtypes = [
            p, i, i, s, s, s, p, p, i, s, n, p, i, s, n, p, p, i, s, n, s, i, i,
        ]  # fmt: skip
    return lib


class _Handle:
    """A cuBLAS handle, which goes with the thread that made it."""

    def __init__(self, lib: Any, device: int):
        self.lib, self.value, self.device = lib, ctypes.c_void_p(), device
        self.target: Any = None  # the stream and the workspaces that it is set to
        self.stream = self.workspace = 0  # their addresses
        self.process = os.getpid()
        check(lib.cublasCreate_v2(ctypes.byref(self.value)), "cublasCreate")

    def __del__(self) -> None:
        # at the end of the process, and in one that was forked, there is no driver to give it back to
        if self.value and self.process == os.getpid() and not sys.is_finalizing():
            self.lib.cublasDestroy_v2(self.value)


_STATUS = {
    1: "not initialized", 3: "allocation failed", 7: "invalid value", 8: "architecture mismatch", 11: "mapping error",
    13: "execution failed", 14: "internal error", 15: "not supported",
}  # fmt: skip


def check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(
            f"CUDA error: {what} failed with status {status} ({_STATUS.get(status, 'unknown')})"
        )


# -- plans: what to call for which shapes ----------------------------------------------------------------------------


class Plan(NamedTuple):
    """The arguments of a call, apart from addresses: operands in cuBLAS's order."""

    transa: int
    transb: int
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    stride_a: int
    stride_b: int
    stride_c: int
    batch: int


def _layout(shape: tuple, strides: tuple, itemsize: int) -> tuple[int, int] | None:
    """(flag, leading dimension) of a row-major matrix for a library that reads by columns; None: it needs a copy."""
    rows, columns = shape
    down, right = strides[0] // itemsize, strides[1] // itemsize
    if (right == 1 or columns == 1) and (rows == 1 or down >= columns):
        return N, down if rows > 1 else columns
    if (down == 1 or rows == 1) and (columns == 1 or right >= rows):
        return T, right if columns > 1 else rows
    return None


def _step(shape: tuple, strides: tuple, itemsize: int) -> int | None:
    """The distance of the matrices of a stack [..., n, m] in elements; None if there is no single one."""
    step = expected = None
    for n, s in zip(reversed(shape[:-2]), reversed(strides[:-2]), strict=True):
        if n == 1:
            continue
        if step is None:
            step = s
        elif s != expected:
            return None
        expected = s * n
    step = step or 0
    return step // itemsize if step >= 0 else None


def plan(a: Any, b: Any) -> Plan | None:
    """How to multiply stacks of matrices a [..., n, k] and b [..., k, m] of the same batch shape; None: copy first."""
    return _plan(a.shape, a.strides, b.shape, b.strides, a.dtype.itemsize)


@functools.lru_cache(4096)
def _plan(a: tuple, a_strides: tuple, b: tuple, b_strides: tuple, size: int) -> Plan | None:
    first, second = _layout(a[-2:], a_strides[-2:], size), _layout(b[-2:], b_strides[-2:], size)
    steps = _step(a, a_strides, size), _step(b, b_strides, size)
    if first is None or second is None or None in steps:
        return None
    n, k, m = a[-2], a[-1], b[-1]
    batch = math.prod(a[:-2])
    return Plan(
        second[0], first[0], m, n, k, second[1], first[1], m, steps[1] or 0, steps[0] or 0, n * m, batch
    )  # fmt: skip


# -- calls -----------------------------------------------------------------------------------------------------------


class Gemm:
    """Products on the arrays of an array library.

    cupy: the library. lib: cuBLAS, or what stands for it in tests; by default the one found on this machine.
    """

    def __init__(self, cupy: Any, lib: Any = None):
        self.cupy, self.empty = cupy, maker(cupy.ndarray)
        self.device, self.stream = cupy.cuda.runtime.getDevice, cupy.cuda.get_current_stream
        self.lib = library() if lib is None else lib
        self.workspaces: dict[tuple, Any] = {}  # (device, stream pointer) -> memory
        self.graph: dict | None = None  # while a graph is captured: its own workspaces
        self.epoch = 0  # how often `graph` was set
        self.local = threading.local()  # handles: device -> _Handle
        self.scalars: dict[str, tuple] = {}  # type -> addresses of 1 and 0
        # shapes, strides, dtype and compute type -> (shape of the result, function that multiplies)
        self.calls: dict[tuple, tuple[tuple, Callable]] = {}

    def takes(self, a: Any, b: Any) -> bool:
        """Whether this can multiply the two arrays: the library is there and knows their dtype."""
        return self.lib is not None and a.dtype == b.dtype and a.dtype in KINDS

    def handle(self) -> Any:
        """This thread's handle for the current device, set to its current stream."""
        return self.ready().value

    def ready(self) -> _Handle:
        """The same, with the addresses of that stream and of its workspace."""
        device, stream = self.device(), self.stream().ptr
        try:
            found = self.local.handles[device]
        except (AttributeError, KeyError):
            found = _Handle(self.lib, device)
            self.local.__dict__.setdefault("handles", {})[device] = found
        target = stream, self.epoch
        if found.target != target:
            check(self.lib.cublasSetStream_v2(found.value, stream), "cublasSetStream")
            memory = self.workspace(device, stream)
            check(
                self.lib.cublasSetWorkspace_v2(found.value, memory.ptr, WORKSPACE),
                "cublasSetWorkspace",
            )
            found.target, found.stream, found.workspace = target, stream, memory.ptr
        return found

    def use_graph(self, workspaces: dict | None) -> None:
        """From now on take workspaces from `workspaces`, those of a graph (None: the common ones)."""
        self.graph = workspaces
        self.epoch += 1

    def workspace(self, device: int, stream: int) -> Any:
        """Memory for cuBLAS on a stream; a captured graph has its own, which must live as long as the graph."""
        kept = self.workspaces if self.graph is None else self.graph
        key = (device, stream)
        if key not in kept:
            kept[key] = self.cupy.cuda.alloc(WORKSPACE)
        return kept[key]

    def ones_and_zeros(self, scalar: str) -> tuple[int, int]:
        """Addresses of the numbers 1 and 0 in host memory."""
        if scalar not in self.scalars:
            numbers = np.array([1, 0], scalar)
            self.scalars[scalar] = (
                numbers,
                numbers.ctypes.data,
                numbers.ctypes.data + numbers.itemsize,
            )
        return self.scalars[scalar][1:]

    def matmul(self, a: Any, b: Any, convolution: bool = False, wide: bool = False) -> Any:
        """``a @ b``, batch dimensions broadcast, vectors as in NumPy; the result is row-major.

        convolution: as exact as convolutions are to be. wide: half types give float32.
        """
        xp = self.cupy
        if a.ndim == 1:
            whole = self.matmul(a[None], b, convolution, wide)
            return whole[..., 0, :] if b.ndim > 1 else whole[0]
        if b.ndim == 1:
            return self.matmul(a, b[:, None], convolution, wide)[..., 0]
        if a.ndim == b.ndim == 2:
            return self.stack(a, b, convolution, wide)
        if b.ndim == 2 and a.flags.c_contiguous:  # rows of a stack times one matrix
            rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
            return self.stack(rows, b, convolution, wide).reshape(*a.shape[:-1], b.shape[-1])
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if a.shape[:-2] != batch:
            a = xp.broadcast_to(a, (*batch, *a.shape[-2:]))
        if b.shape[:-2] != batch:
            b = xp.broadcast_to(b, (*batch, *b.shape[-2:]))
        return self.stack(a, b, convolution, wide)

    def stack(self, a: Any, b: Any, convolution: bool = False, wide: bool = False) -> Any:
        """a [..., n, k] times b [..., k, m] of the same batch shape; the others as of `matmul`."""
        xp, dtype = self.cupy, a.dtype
        compute = compute_type(dtype, convolution)
        made = _SINGLE[0] if wide and dtype.itemsize == 2 else dtype
        key = a.shape, a.strides, b.shape, b.strides, dtype, compute, made
        found = self.calls.get(key)
        if found is None:
            shape = (*a.shape[:-1], b.shape[-1])
            if 0 in shape or a.shape[-1] == 0:
                return xp.zeros(shape, made)
            how = plan(a, b)
            if how is None:
                return self.stack(dense(xp, a), dense(xp, b), convolution, wide)
            if len(self.calls) >= CALLS:
                self.calls.clear()
            found = self.calls[key] = shape, self.call(how, dtype, made, compute)
        shape, call = found
        out = self.empty(shape, made)
        call(self.handle(), b.data.ptr, a.data.ptr, out.data.ptr)
        return out

    def call(
        self, how: Plan, dtype: np.dtype, made: np.dtype, compute: int
    ) -> Callable[[Any, int, int, int], None]:
        """``f(handle, first, second, result)``: the product of matrices at these addresses, in cuBLAS's order.

        What stays the same from one call to the next is made into C's types once: that takes as long as the call.
        """
        kind = KINDS[dtype]
        one, zero = self.ones_and_zeros(kind.scalar)
        end = (
            "_64"
            if max(how.m, how.n, how.k, how.lda, how.ldb, how.ldc, how.batch) > LARGEST
            else ""
        )
        if end and not hasattr(self.lib, "cublasGemmEx_64"):
            raise RuntimeError(
                f"a product of {how.n} x {how.k} by {how.k} x {how.m} needs cuBLAS 12 or newer: sizes above {LARGEST} "
                "take its functions of 64 bits. Split the product."
            )
        c: Any = isinstance(self.lib, ctypes.CDLL)
        number, address = (ctypes.c_int, ctypes.c_void_p) if c else (int, int)
        size = int if not c else ctypes.c_longlong if end else ctypes.c_int
        long = ctypes.c_longlong if c else int  # strides have 64 bits in both
        ta, tb, t, tr, how_exact, default = map(
            number, (how.transa, how.transb, kind.data, KINDS[made].data, compute, DEFAULT)
        )
        m, n, k, lda, ldb, ldc, batch = map(
            size, (how.m, how.n, how.k, how.lda, how.ldb, how.ldc, how.batch)
        )
        sa, sb, sc = map(long, (how.stride_a, how.stride_b, how.stride_c))
        one, zero = address(one), address(zero)
        if how.batch == 1:
            gemm = getattr(self.lib, "cublasGemmEx" + end)

            def run(handle: Any, p: int, q: int, r: int) -> None:
                status = gemm(
                    handle, ta, tb, m, n, k, one, p, t, lda, q, t, ldb, zero, r, tr, ldc, how_exact, default
                )  # fmt: skip
                if status:
                    check(status, "cublasGemmEx")

            return run
        stacks = getattr(self.lib, "cublasGemmStridedBatchedEx" + end)

        def run_stacks(handle: Any, p: int, q: int, r: int) -> None:
            status = stacks(
                handle, ta, tb, m, n, k, one, p, t, lda, sa, q, t, ldb, sb, zero, r, tr, ldc, sc, batch, how_exact,
                default,
            )  # fmt: skip
            if status:
                check(status, "cublasGemmStridedBatchedEx")

        return run_stacks


def dense(xp: Any, array: Any) -> Any:
    """`array`, copied row-major unless cuBLAS can read it as it is."""
    size = array.dtype.itemsize
    if (
        _layout(array.shape[-2:], array.strides[-2:], size)
        and _step(array.shape, array.strides, size) is not None
    ):
        return array
    return xp.ascontiguousarray(array)
