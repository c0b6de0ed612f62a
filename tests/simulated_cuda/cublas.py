"""cuBLAS: products of column-major matrices at addresses, done by NumPy as work of the handle's stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cublaslt import Lt
from .machine import machine
from .matrices import TYPES, flipped, number, rounded, stack

COMPUTE_32F, COMPUTE_64F, FAST_BF16, FAST_TF32 = 68, 70, 75, 77
SCALARS = {COMPUTE_32F: "f4", FAST_BF16: "f4", FAST_TF32: "f4", COMPUTE_64F: "f8"}


class Handle:
    def __init__(self) -> None:
        self.stream, self.workspace = 0, (0, 0)


class Cublas(Lt):
    """The functions that `gradlib.devices.cuda.gemm` calls; `calls` keeps the arguments of every product."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: dict[int, Handle] = {}
        self.calls: list[dict] = []

    def cublasCreate_v2(self, target: Any) -> int:
        number = max(self.handles, default=0x1000) + 16
        self.handles[number] = Handle()
        target._obj.value = number
        return 0

    def cublasDestroy_v2(self, handle: Any) -> int:
        del self.handles[handle.value]
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

    def cublasGemmEx_64(self, *args) -> int:
        status = self.cublasGemmEx(*args)
        self.calls[-1]["bits"] = 64
        return status

    def cublasGemmStridedBatchedEx_64(self, *args) -> int:
        status = self._run(*args)
        self.calls[-1]["bits"] = 64
        return status

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
