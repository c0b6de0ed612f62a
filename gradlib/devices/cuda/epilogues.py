"""Products of matrices with more done in the same call, by cuBLASLt: a bias added, or the sum of one operand kept.

A layer's ``x @ w.T + bias`` is then one launch, and so are the gradients of its weight and bias, ``g.T @ x`` and the
sum of g over rows. Like `gemm`, on whose handles, workspaces and plans this stands, it calls the library by ctypes, so
that captures, half types and precisions are those of every other product.

cuBLASLt reads by columns as well, so the operands change places here, too: a vector that belongs to the columns of a
row-major result belongs to the rows of what the library writes, which is where it adds a bias (EPILOGUE_BIAS).

What the library does not have for some sizes, layouts or types it says (status "not supported", or no algorithm); that
is remembered, and the caller gets NotImplemented: a product and a pass of its own give the same.

The numbers below are those of the documentation of cuBLASLt 12 and 13 ("Using the cuBLASLt API"); those of descriptors
were read back from the library itself, which needs no device for them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import gemm

# cublasLtMatmulDescAttributes_t, with the bytes of a value
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER = (3, 4), (4, 4), (7, 4), (8, 8)
# cublasLtMatmulPreferenceAttributes_t
MAX_WORKSPACE, ALIGNMENT_A, ALIGNMENT_B, ALIGNMENT_C, ALIGNMENT_D = (
    (1, 8), (5, 4), (6, 4), (7, 4), (8, 4),
)  # fmt: skip
# cublasLtEpilogue_t: add a vector to each column; sum the first or the second operand over the inner dimension
BIAS, BGRADA, BGRADB = 4, 256, 512
NEITHER, FIRST, SECOND = 0, 1, 2  # operands that are given as their transposes
SUCCESS, ARCHITECTURE, INVALID, NOT_SUPPORTED = 0, 8, 7, 15  # cublasStatus_t
ALGORITHM, RESULT = 64, 96  # bytes of cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t
ALIGNED = 16  # bytes at which a bias has to begin; what the fastest kernels read at once
KNOWN = 256  # largest alignment that is told
PLANS = 1024  # of a thread
TYPES = {d: k for d, k in gemm.KINDS.items() if d.kind in "fV"}  # complex numbers have no epilogues
_SCALE = {"f4": 0, "f8": 1}  # cudaDataType of alpha and beta
OFF = "DISABLE_ADDMM_CUDA_LT"  # PyTorch's environment variable: with 1, products have no epilogues


# -- the library -----------------------------------------------------------------------------------------------------


def library(cublas: Any) -> Any:
    """cuBLASLt as `cublas` has it, or None. Both have to be of one version: a handle of one is given to the other."""
    if cublas is None or os.environ.get(OFF) == "1":
        return None
    if hasattr(cublas, "cublasLtMatmul"):  # what a library depends on is found in it, too
        return _declared(cublas)
    path = Path(
        getattr(cublas, "_name", None) or ""
    )  # the other one has the same version and lies beside it
    try:
        return _declared(ctypes.CDLL(str(path.with_name(path.name.replace("cublas", "cublasLt")))))
    except (OSError, ValueError, AttributeError):
        return None


def _declared(lib: Any) -> Any:
    """The functions used here, with their argument types: ctypes would pass addresses as ints of 32 bits."""
    if not isinstance(lib, ctypes.CDLL):  # what stands for it in tests
        return lib
    p, i, n, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong, ctypes.c_size_t
    lib.cublasLtMatmulDescCreate.argtypes = [p, i, i]
    lib.cublasLtMatrixLayoutCreate.argtypes = [p, i, ctypes.c_ulonglong, ctypes.c_ulonglong, n]
    lib.cublasLtMatmulPreferenceCreate.argtypes = [p]
    for kind in ("MatmulDesc", "MatmulPreference"):
        getattr(lib, f"cublasLt{kind}SetAttribute").argtypes = [p, i, p, size]
    for kind in ("MatmulDesc", "MatrixLayout", "MatmulPreference"):
        getattr(lib, f"cublasLt{kind}Destroy").argtypes = [p]
    lib.cublasLtMatmulAlgoGetHeuristic.argtypes = [p, p, p, p, p, p, p, i, p, p]
    lib.cublasLtMatmul.argtypes = [p, p, p, p, p, p, p, p, p, p, p, p, p, p, size, p]
    return lib


class _Described:
    """A descriptor of the library, in host memory."""

    def __init__(self, lib: Any, kind: str, *given: int):
        self.lib, self.kind, self.value = lib, kind, ctypes.c_void_p()
        self.process = os.getpid()
        name = f"cublasLt{kind}Create"
        gemm.check(getattr(lib, name)(ctypes.byref(self.value), *given), name)

    def set(self, attribute: tuple[int, int], value: int) -> None:
        """Set an attribute, given as its number and size."""
        number, size = attribute
        held = (ctypes.c_uint32 if size == 4 else ctypes.c_uint64)(value)
        name = f"cublasLt{self.kind}SetAttribute"
        gemm.check(getattr(self.lib, name)(self.value, number, ctypes.byref(held), size), name)

    def setter(self, attribute: tuple[int, int]) -> Callable[[int], None]:
        """``f(value)`` as `set`, for an attribute of 8 bytes that is set often."""
        number, size = attribute
        held, name = ctypes.c_uint64(), f"cublasLt{self.kind}SetAttribute"
        set_it, described, at = getattr(self.lib, name), self.value, ctypes.byref(held)

        def put(value: int) -> None:
            held.value = value
            status = set_it(described, number, at, size)
            if status:
                gemm.check(status, name)

        return put

    def __del__(self) -> None:
        if self.value and self.process == os.getpid() and not sys.is_finalizing():
            getattr(self.lib, f"cublasLt{self.kind}Destroy")(self.value)


# -- plans -----------------------------------------------------------------------------------------------------------


class What(NamedTuple):
    """A product as far as the library's choice of an algorithm depends on it."""

    how: gemm.Plan
    dtype: np.dtype
    compute: int
    epilogue: int
    alignments: tuple[int, ...]  # of the operands, the result and the vector, in bytes


class _Product:
    """How the library makes a product: descriptors and the algorithm it chose."""

    def __init__(self, lib: Any, handle: Any, what: What, vector: int, numbers: tuple[int, int]):
        how, kind = what.how, TYPES[what.dtype]
        self.operation = _Described(lib, "MatmulDesc", what.compute, _SCALE[kind.scalar])
        self.operation.set(TRANSA, how.transa)
        self.operation.set(TRANSB, how.transb)
        self.operation.set(EPILOGUE, what.epilogue)
        self.vector, self.point_at = 0, self.operation.setter(BIAS_POINTER)
        self.point_to(vector)
        sizes = (
            ((how.k, how.m) if how.transa else (how.m, how.k), how.lda),
            ((how.n, how.k) if how.transb else (how.k, how.n), how.ldb),
            ((how.m, how.n), how.ldc),
        )
        self.layouts = [_Described(lib, "MatrixLayout", kind.data, *s, ld) for s, ld in sizes]
        self.result = ctypes.create_string_buffer(RESULT)  # begins with the algorithm
        self.works = self._choose(lib, handle, what)
        self.workspace = int.from_bytes(self.result[ALGORITHM : ALGORITHM + 8], sys.byteorder)
        self.call = self._call(lib, numbers)

    def point_to(self, vector: int) -> None:
        """Let the epilogue read, or write, the vector at this address."""
        if vector != self.vector:
            self.point_at(vector)
            self.vector = vector

    def _call(self, lib: Any, numbers: tuple[int, int]) -> Callable[..., int]:
        """``f(handle, first, second, result, workspace, stream)``, all but the handle addresses; returns a status.

        What stays the same from one call to the next is made into C's types once, as in `gemm.Gemm.call`.
        """
        address = ctypes.c_void_p if isinstance(lib, ctypes.CDLL) else int
        matmul, operation, algorithm = lib.cublasLtMatmul, self.operation.value, self.result
        one, zero = map(address, numbers)
        a, b, c = [x.value for x in self.layouts]
        size: Any = gemm.WORKSPACE
        if address is ctypes.c_void_p:
            size, algorithm = ctypes.c_size_t(size), ctypes.c_void_p(ctypes.addressof(algorithm))

        def call(handle: Any, p: int, q: int, r: int, workspace: int, stream: int) -> int:
            return matmul(
                handle, operation, one, p, a, q, b, zero, r, c, r, c, algorithm, workspace, size, stream
            )  # fmt: skip

        return call

    def _choose(self, lib: Any, handle: Any, what: What) -> bool:
        """Ask the library for an algorithm; whether it has one."""
        wanted = _Described(lib, "MatmulPreference")
        wanted.set(MAX_WORKSPACE, gemm.WORKSPACE)
        a, b, c, _ = what.alignments  # the library sees where the vector begins
        for attribute, bytes_ in (
            (ALIGNMENT_A, a), (ALIGNMENT_B, b), (ALIGNMENT_C, c), (ALIGNMENT_D, c)
        ):  # fmt: skip
            wanted.set(attribute, bytes_)
        first, second, out = [x.value for x in self.layouts]
        count = ctypes.c_int()
        status = lib.cublasLtMatmulAlgoGetHeuristic(
            handle, self.operation.value, first, second, out, out, wanted.value, 1, self.result,
            ctypes.byref(count),
        )  # fmt: skip
        if status not in (SUCCESS, ARCHITECTURE, INVALID, NOT_SUPPORTED):
            gemm.check(status, "cublasLtMatmulAlgoGetHeuristic")
        state = int.from_bytes(self.result[ALGORITHM + 8 : ALGORITHM + 12], sys.byteorder)
        return status == SUCCESS and count.value > 0 and state == SUCCESS


# -- calls -----------------------------------------------------------------------------------------------------------


class Epilogues:
    """Products with epilogues on the arrays of an array library. All take matrices, and give NotImplemented where the
    library has no such product: then nothing was computed.

    products: what makes plain products; its library, handles and workspaces are used.
    """

    def __init__(self, products: gemm.Gemm):
        self.products, self.cupy = products, products.cupy
        self.lib = library(products.lib)

    def product_and_bias(self, a: Any, b: Any, bias: Any, transposed: bool = False) -> Any:
        """``a @ b + bias``: a (n, k), b (k, m), bias (m,), rounded once. transposed: b is given as (m, k)."""
        if bias.strides[0] != bias.dtype.itemsize or bias.data.ptr % ALIGNED:
            return NotImplemented
        return self._run(a, b, BIAS, bias, SECOND if transposed else NEITHER)

    def product_and_row_sums(self, a: Any, b: Any, transposed: bool = False) -> Any:
        """``(a @ b, a.sum(1))``: a (n, k), b (k, m). transposed: a is given as (k, n)."""
        sums = self.products.empty(a.shape[1:] if transposed else a.shape[:1], a.dtype)
        # the library's second operand is a
        out = self._run(a, b, BGRADB, sums, FIRST if transposed else NEITHER)
        return out if out is NotImplemented else (out, sums)

    def product_and_column_sums(self, a: Any, b: Any, transposed: bool = False) -> Any:
        """``(a @ b, b.sum(0))``: a (n, k), b (k, m). transposed: a is given as (k, n)."""
        sums = self.products.empty(b.shape[1:], b.dtype)
        out = self._run(a, b, BGRADA, sums, FIRST if transposed else NEITHER)
        return out if out is NotImplemented else (out, sums)

    def takes(self, a: Any, b: Any, other: Any) -> bool:
        """Whether there may be such a product of `a` and `b`; `other` is a third array of that dtype, or None."""
        dtype = a.dtype
        return bool(
            self.lib is not None
            and dtype in TYPES
            and (b.dtype is dtype or b.dtype == dtype)
            and (other is None or other.dtype is dtype or other.dtype == dtype)
        )

    def _run(self, a: Any, b: Any, epilogue: int, vector: Any, turned: int) -> Any:
        """turned: which operand is given as its transpose; a view of an array takes CuPy as long as half a launch."""
        products, dtype, first, second = self.products, a.dtype, a.shape, b.shape
        rows, columns = first[turned == FIRST], second[turned != SECOND]
        # products with a vector are left to cuBLAS, but for one row of a layer
        if second[0] < 2 or second[1] < 2 or rows < 1 + (epilogue != BIAS):
            return NotImplemented
        out = products.empty((rows, columns), dtype)
        p, q, r, v = b.data.ptr, a.data.ptr, out.data.ptr, vector.data.ptr
        aligned = not (p | q | r | v) & (KNOWN - 1) or (*map(_aligned, (p, q, r, v)),)
        handle, compute = products.ready(), gemm.compute_type(dtype)
        key = (
            first, a.strides, second, b.strides, turned, dtype, compute, epilogue, aligned, handle.device
        )  # fmt: skip
        try:
            plans = products.local.plans
        except AttributeError:  # the first product of this thread
            plans = products.local.plans = {}
        found = plans.get(key)
        if found is None:
            how = gemm.plan(a.T if turned == FIRST else a, b.T if turned == SECOND else b)
            if how is None:
                return NotImplemented
            if len(plans) >= PLANS:
                plans.clear()
            alignments = (KNOWN,) * 4 if aligned is True else aligned
            what = What(how, dtype, compute, epilogue, alignments)
            numbers = products.ones_and_zeros(TYPES[dtype].scalar)
            found = plans[key] = _Product(self.lib, handle.value, what, v, numbers)
        if not found.works:
            return NotImplemented
        found.point_to(v)
        status = found.call(handle.value, p, q, r, handle.workspace, handle.stream)
        if status == NOT_SUPPORTED:
            found.works = False
            return NotImplemented
        if status:
            gemm.check(status, "cublasLtMatmul")
        return out


def _aligned(address: int) -> int:
    """The largest power of 2 that divides an address, as far as it matters."""
    return (address | KNOWN) & -(address | KNOWN)
