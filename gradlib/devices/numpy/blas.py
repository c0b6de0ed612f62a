"""Products by NumPy's own BLAS, called directly where NumPy would make one pass over memory more.

OpenBLAS adds to what is there (``beta = 1``) in less time than it takes to clear it first, so a bias that lies in the
result already costs nothing. Other libraries than the OpenBLAS of NumPy's wheels are not called: NumPy's way is taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...operators.kinds import F4, F8
from ...operators.linalg.matmul import product
from . import forward, threads

LARGE = 1 << 17  # elements of a result from which a pass over it costs more than a call by ctypes
FEW = 1 << 13  # elements of an argument that are not worth the question
_ROWS, _AS_IT_IS, _TRANSPOSED = 101, 111, 112  # CblasRowMajor, CblasNoTrans, CblasTrans


@cache
def _gemm(dtype: np.dtype) -> Any:
    """``cblas_?gemm`` with 64-bit sizes for float32 or float64, or None."""
    library = threads.openblas()
    letter, number = ("s", ctypes.c_float) if dtype is F4 else ("d", ctypes.c_double)
    found = getattr(library, f"scipy_cblas_{letter}gemm64_", None)
    if found is not None:
        size, array = ctypes.c_int64, ctypes.c_void_p
        matrix = [array, size]
        found.argtypes = [*[ctypes.c_int] * 3, *[size] * 3, number, *matrix * 2, number, *matrix]
        found.restype = None
    return found


def address(array) -> int:
    """Where its first element lies."""
    return array.__array_interface__["data"][0]


def adding(dtype: np.dtype) -> Callable | None:
    """``(m, n, k, a, width, b, width, kept, c, width)``: the rows at `c` become `kept` times themselves plus a b.

    The arguments a (m, k), b (k, n) and c (m, n) are addresses, each with the elements from one row to the next. None
    where that library or the dtype is another one.
    """
    gemm = _gemm(dtype) if dtype is F4 or dtype is F8 else None
    if gemm is None:
        return None

    def call(m, n, k, a, a_width, b, b_width, kept, c, c_width) -> None:
        gemm(_ROWS, _AS_IT_IS, _AS_IT_IS, m, n, k, 1.0, a, a_width, b, b_width, kept, c, c_width)

    return call


@forward("linear")
def linear(xp, input, weight, bias=None):
    """Rows of `input` times those of `weight`, plus the bias."""
    d = input.dtype
    if d is not F4 and d is not F8:
        return NotImplemented
    if bias is not None and input.size >= FEW:
        out = _onto_bias(input, weight, bias)
        if out is not None:
            return out
    out = input.dot(weight.T) if input.ndim == 2 else product(xp, input, weight.T)
    if bias is not None:
        out += bias
    return out


def _onto_bias(input, weight, bias):
    """The same, added to a result that holds the bias already; None where that is no gain or cannot be."""
    d, n, (m, k) = input.dtype, input.shape[-1], weight.shape
    if n != k or bias.shape != (m,) or input.size * m < LARGE * k:
        return None
    if not (input.flags.c_contiguous and weight.flags.c_contiguous):
        return None
    gemm = _gemm(d) if weight.dtype is d and bias.dtype is d else None
    if gemm is None:
        return None
    out = np.empty((*input.shape[:-1], m), d)
    out[...] = bias
    given = address(input), k, address(weight), k
    gemm(_ROWS, _AS_IT_IS, _TRANSPOSED, input.size // k, m, k, 1.0, *given, 1.0, address(out), m)
    return out
