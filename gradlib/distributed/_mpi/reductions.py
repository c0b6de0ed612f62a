"""How MPI names what NumPy calls dtypes and ufuncs, and the reductions that MPI does not have."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["HALVES", "WORDS", "combine", "ops", "types"]

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
WORDS = {1: np.dtype(np.uint8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
CHUNK = 1 << 14  # elements that are put together at a time: what is between stays in the cache

_UFUNCS = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}


def combine(parts: Any, op: str, out: Any) -> None:
    """Put the rows of `parts`, of a half type, together in float32, and write that to `out`.

    Args:
        parts: [ranks, n].
        op: "sum", "product", "min" or "max".
        out: [n], of the same dtype.
    """
    for start in range(0, out.size, CHUNK):
        chunk = parts[:, start : start + CHUNK]
        total = chunk[0].astype(np.float32)
        for row in chunk[1:]:
            _UFUNCS[op](total, row.astype(np.float32), out=total)
        out[start : start + CHUNK] = total


@cache
def types(MPI: Any) -> dict[np.dtype, Any]:
    """MPI's datatypes, by dtype."""
    names = {
        "u1": MPI.UINT8_T, "u2": MPI.UINT16_T, "u4": MPI.UINT32_T, "u8": MPI.UINT64_T,
        "i1": MPI.INT8_T, "i2": MPI.INT16_T, "i4": MPI.INT32_T, "i8": MPI.INT64_T,
        "f4": MPI.FLOAT, "f8": MPI.DOUBLE,
    }  # fmt: skip
    return {np.dtype(name): datatype for name, datatype in names.items()}


@cache
def ops(MPI: Any) -> dict[tuple[str, str], Any]:
    """MPI's reductions, by op and the kind of the dtype."""
    both = {"sum": MPI.SUM, "product": MPI.PROD}
    exact = {"band": MPI.BAND, "bor": MPI.BOR, "bxor": MPI.BXOR, "min": MPI.MIN, "max": MPI.MAX}
    found = {(op, kind): made for kind in "iu" for op, made in {**both, **exact}.items()}
    found |= {(op, "f"): made for op, made in both.items()}
    # MPI does not say what the larger one of 1 and NaN is: it may differ between ranks.
    return found | {(op, "f"): _float_op(MPI, _UFUNCS[op]) for op in ("min", "max")}


def _float_op(MPI: Any, ufunc: Any) -> Any:
    """A reduction of floats by NumPy."""

    def put_together(given: Any, into: Any, datatype: Any) -> None:
        dtype = np.float32 if datatype == MPI.FLOAT else np.float64
        total = np.frombuffer(into, dtype)
        ufunc(np.frombuffer(given, dtype), total, out=total)

    return MPI.Op.Create(put_together, commute=True)
