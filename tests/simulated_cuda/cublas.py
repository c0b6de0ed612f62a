"""cuBLAS: products of column-major matrices at addresses, done by NumPy as work of the handle's stream."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import ml_dtypes
import numpy as np

from .machine import machine

TYPES = {
    0: np.dtype("f4"), 1: np.dtype("f8"), 2: np.dtype("f2"), 4: np.dtype("c8"), 5: np.dtype("c16"),
    14: np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip
COMPUTE_32F, COMPUTE_64F, FAST_BF16, FAST_TF32 = 68, 70, 75, 77
SCALARS = {COMPUTE_32F: "f4", FAST_BF16: "f4", FAST_TF32: "f4", COMPUTE_64F: "f8"}


class Handle:
    def __init__(self) -> None:
        self.stream, self.workspace = 0, (0, 0)


def rounded(a: np.ndarray, bits: int) -> np.ndarray:
    """float32 numbers with `bits` bits of mantissa."""
    shift = np.uint32(23 - bits)
    whole = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return (((whole + (np.uint32(1) << (shift - 1))) >> shift) << shift).view(np.float32)


class Cublas:
    """The functions that `gradlib.devices.cuda.gemm` calls; `calls` keeps the arguments of every product."""

    def __init__(self) -> None:
        self.handles: dict[int, Handle] = {}
        self.calls: list[dict] = []

    def cublasCreate_v2(self, target: Any) -> int:
        number = 0x1000 + 16 * len(self.handles)
        self.handles[number] = Handle()
        target._obj.value = number
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: int) -> int:
        found = self.handles[handle.value]
        found.stream, found.workspace = stream, (0, 0)  # the library goes back to its own workspace
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, address: int, size: int) -> int:
        self.handles[handle.value].workspace = address, size
        return 0

    def cublasGemmEx(
        self, handle, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute, algo
    ) -> int:  # fmt: skip
        return self._run(
            handle, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, 0, 1, compute, algo
        )  # fmt: skip

    def cublasGemmStridedBatchedEx(self, *args) -> int:
        return self._run(*args)

    def _run(
        self, handle, ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb, beta, c, ct, ldc, sc, batch, compute,
        algo,
    ) -> int:  # fmt: skip
        rows_a, rows_b = (k if ta else m), (n if tb else k)
        wrong = (
            lda < max(rows_a, 1) or ldb < max(rows_b, 1) or ldc < max(m, 1) or ta not in (0, 1, 2)
            or tb not in (0, 1, 2) or at != bt or compute not in SCALARS or min(m, n, k, batch) < 0
        )  # fmt: skip
        if wrong:
            return 7
        kind = np.dtype(SCALARS[compute] if at < 4 or at == 14 else TYPES[at])
        one, zero = (number(p, kind) for p in (alpha, beta))
        assert (one, zero) == (1, 0)
        found = self.handles[handle.value]
        assert found.workspace[1] > 0, "a product before the handle was given a workspace"
        if TYPES[at].itemsize == 4 and compute == COMPUTE_64F:
            return 15
        self.calls.append({"transa": ta, "transb": tb, "m": m, "n": n, "k": k, "batch": batch, "lda": lda,
                           "ldb": ldb, "compute": compute, "type": at, "stream": found.stream})  # fmt: skip
        size_a = (k, m) if ta else (m, k)
        size_b = (n, k) if tb else (k, n)

        def run() -> None:
            x, y = stack(a, at, size_a, lda, sa, batch), stack(b, bt, size_b, ldb, sb, batch)
            x, y = (flipped(v, t) for v, t in ((x, ta), (y, tb)))
            out = stack(c, ct, (m, n), ldc, sc, batch)
            if compute in (FAST_TF32, FAST_BF16) and at == 0:
                bits = 10 if compute == FAST_TF32 else 7
                x, y = rounded(x, bits), rounded(y, bits)
            wide = np.float32 if TYPES[at].itemsize == 2 else TYPES[at]
            out[...] = np.matmul(x.astype(wide), y.astype(wide)).astype(out.dtype)

        machine.submit(run, machine.queue(found.stream), "gemm")
        return 0


@functools.cache  # ctypes makes a class for every length, which only the garbage collector frees
def bytes_type(size: int) -> Any:
    return ctypes.c_uint8 * size


def number(address: int, kind: np.dtype) -> Any:
    return np.frombuffer(bytes_type(kind.itemsize).from_address(address), kind)[0]


def flipped(a: np.ndarray, how: int) -> np.ndarray:
    return a if how == 0 else a.swapaxes(1, 2) if how == 1 else a.swapaxes(1, 2).conj()


def stack(address: int, kind: int, shape: tuple, leading: int, step: int, batch: int) -> np.ndarray:
    """[batch, rows, columns] over column-major matrices that start `step` elements apart."""
    dtype, (rows, columns) = TYPES[kind], shape
    last = (batch - 1) * step + (columns - 1) * leading + rows
    raw = np.frombuffer(bytes_type(last * dtype.itemsize).from_address(address), dtype)
    strides = tuple(n * dtype.itemsize for n in (step, 1, leading))
    return np.lib.stride_tricks.as_strided(raw, (batch, rows, columns), strides)
