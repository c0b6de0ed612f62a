"""Products of vectors and matrices: matmul and its special cases, addmm and its relatives, linear."""

from __future__ import annotations

import math

from ..core import dtypes
from ..core.errors import size
from ..core.formulas import formula_function
from ..core.op import declare
from ..core.tensor import Tensor
from .expose import function, method, write_out

F4, F8 = dtypes.float32.np, dtypes.float64.np


# -- kernels -----------------------------------------------------------------------------------------------------


def product(xp, a, b):
    """``a @ b``: rows of a stack times one matrix are one matrix product; half types are multiplied in float32."""
    d = a.dtype
    if d is not F4 and d is not F8:
        if d.kind in "fV" and d.itemsize == 2:
            return product(xp, xp.wide(a), xp.wide(b)).astype(d)
        if d.kind == "b":
            raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")
    if b.ndim <= 2:
        if a.ndim <= 2:
            return a.dot(b)
        rows = a.reshape(-1, a.shape[-1])
        return rows.dot(b).reshape(a.shape[:-1] + b.shape[1:])
    return xp.matmul(a, b)


def rows_product(xp, a, b):
    """``a^T @ b`` summed over all leading dimensions: (..., n), (..., m) -> (n, m)."""
    d = a.dtype
    if d.itemsize == 2 and d.kind in "fV":
        return rows_product(xp, xp.wide(a), xp.wide(b)).astype(d)
    if a.ndim != 2:
        a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    return a.T.dot(b)
