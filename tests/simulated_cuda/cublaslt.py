"""cuBLASLt: products with a bias or with the sum of an operand, done by NumPy as work of a stream.

Numbers of attributes and epilogues are those of NVIDIA's documentation, with the size that each value has.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import matrices
from .machine import machine

OPERATION = {3: ("transa", 4), 4: ("transb", 4), 7: ("epilogue", 4), 8: ("vector", 8)}
PREFERENCE = {1: ("workspace", 8), **{5 + i: (f"alignment_{x}", 4) for i, x in enumerate("abcd")}}
BIAS, BGRADA, BGRADB = 4, 256, 512
INVALID, NOT_SUPPORTED = 7, 15
COMPUTES = {0: (68, 75, 77), 1: (70,), 2: (68,), 14: (68,)}  # by type of the elements
NEEDED = 1 << 20  # bytes of a workspace that each algorithm says it needs


class Lt:
    """Its functions; `epilogues` keeps the arguments of every product, `declines` makes the heuristics decline."""

    handles: dict[int, Any]  # those of cuBLAS, which are good here, too

    def __init__(self) -> None:
        self.described: dict[int, dict] = {}
        self.chosen: list[tuple] = []  # an algorithm is its place here
        self.epilogues: list[dict] = []
        self.declines = self.refuses = 0

    def _create(self, target: Any, **what: Any) -> int:
        number = max(self.described, default=0x2000) + 16
        self.described[number] = what
        target._obj.value = number
        return 0

    def _destroy(self, handle: Any) -> int:
        del self.described[handle.value]
        return 0

    def _set(self, names: dict, handle: Any, attribute: int, value: Any, size: int) -> int:
        name, wanted = names.get(attribute, ("", 0))
        if size != wanted or ctypes.sizeof(value._obj) != size:
            return INVALID
        self.described[handle.value][name] = value._obj.value
        return 0

    def cublasLtMatmulDescCreate(self, target: Any, compute: int, scale: int) -> int:
        return self._create(target, compute=compute, scale=scale, transa=0, transb=0, epilogue=1)

    def cublasLtMatrixLayoutCreate(self, target: Any, *what: int) -> int:
        return self._create(target, **dict(zip(("type", "rows", "cols", "ld"), what, strict=True)))

    def cublasLtMatmulPreferenceCreate(self, target: Any) -> int:
        return self._create(target, workspace=0, **{f"alignment_{x}": 256 for x in "abcd"})

    def cublasLtMatmulDescDestroy(self, handle: Any) -> int:
        return self._destroy(handle)

    def cublasLtMatrixLayoutDestroy(self, handle: Any) -> int:
        return self._destroy(handle)

    def cublasLtMatmulPreferenceDestroy(self, handle: Any) -> int:
        return self._destroy(handle)

    def cublasLtMatmulDescSetAttribute(self, *args: Any) -> int:
        return self._set(OPERATION, *args)

    def cublasLtMatmulPreferenceSetAttribute(self, *args: Any) -> int:
        return self._set(PREFERENCE, *args)

    def _sizes(self, what: dict, a: dict, b: dict, c: dict) -> tuple[int, int, int] | None:
        m, k = (a["cols"], a["rows"]) if what["transa"] else (a["rows"], a["cols"])
        inner, n = (b["cols"], b["rows"]) if what["transb"] else (b["rows"], b["cols"])
        fit = inner == k and (c["rows"], c["cols"]) == (m, n)
        return (m, n, k) if fit and all(x["ld"] >= x["rows"] for x in (a, b, c)) else None

    def cublasLtMatmulAlgoGetHeuristic(
        self, handle, operation, a, b, c, d, preference, wanted, result, count
    ) -> int:
        what, first, second, out, wish = (
            self.described[x.value] for x in (operation, a, b, d, preference)
        )
        sizes = self._sizes(what, first, second, out)
        if c.value != d.value or sizes is None or not what.get("vector") or wanted != 1:
            return INVALID
        kind = first["type"]
        if kind not in COMPUTES or what["compute"] not in COMPUTES[kind]:
            return NOT_SUPPORTED
        assert what["scale"] == (kind == 1) and what["epilogue"] in (BIAS, BGRADA, BGRADB)
        if self.declines:
            return (
                self.declines if self.declines > 0 else 0
            )  # negative: success without an algorithm
        alignments = [wish[f"alignment_{x}"] for x in "abd"]
        alignments.append(min(what["vector"] & -what["vector"], 256))
        self.chosen.append((dict(what, vector=0), sizes, alignments))
        needed = NEEDED if wish["workspace"] >= NEEDED else 0
        place = (len(self.chosen) - 1).to_bytes(64, "little")
        result[:96] = place + needed.to_bytes(8, "little") + bytes(24)
        count._obj.value = 1
        return 0

    def cublasLtMatmul(
        self, handle, operation, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, workspace, size, stream
    ) -> int:  # fmt: skip
        what, first, second, out = (self.described[x.value] for x in (operation, la, lb, ld))
        if self.refuses:
            return self.refuses
        asked, sizes, alignments = self.chosen[int.from_bytes(algorithm[:64], "little")]
        same = asked == dict(what, vector=0) and sizes == self._sizes(what, first, second, out)
        where = a, b, d, what["vector"]
        aligned = all(x % n == 0 for x, n in zip(where, alignments, strict=True))
        if (
            not same
            or not aligned
            or size < NEEDED
            or workspace % 256
            or c != d
            or lc.value != ld.value
        ):
            return INVALID
        kind, vector, m, n = first["type"], what["vector"], sizes[0], sizes[1]
        scalar = np.dtype("f8" if kind == 1 else "f4")
        assert [matrices.number(x, scalar) for x in (alpha, beta)] == [1, 0]
        assert handle.value in self.handles
        call = {"epilogue": what["epilogue"], "m": m, "n": n, "k": sizes[2], "compute": what["compute"],
                "type": kind, "transa": what["transa"], "transb": what["transb"], "stream": stream,
                "workspace": workspace}  # fmt: skip
        self.epilogues.append(call)
        bits = {77: 10, 75: 7}.get(what["compute"])
        wide = np.float64 if kind == 1 else np.float32

        def run() -> None:
            x, y = (
                matrices.stack(p, kind, (s["rows"], s["cols"]), s["ld"], 0, 1)[0].astype(wide)
                for p, s in ((a, first), (b, second))
            )
            x, y = x.T if what["transa"] else x, y.T if what["transb"] else y
            if bits is not None:
                x, y = matrices.rounded(x, bits), matrices.rounded(y, bits)
            put = matrices.stack(d, kind, (m, n), out["ld"], 0, 1)[0]
            size = n if what["epilogue"] == BGRADB else m
            beside = matrices.stack(vector, kind, (size, 1), size, 0, 1)[0]
            product = x @ y
            if what["epilogue"] == BIAS:
                product = product + beside.astype(wide)
            else:
                sums = x.sum(1) if what["epilogue"] == BGRADA else y.sum(0)
                beside[...] = sums[:, None].astype(beside.dtype)
            put[...] = product.astype(put.dtype)

        machine.submit(run, machine.queue(stream), "gemm")
        return 0
