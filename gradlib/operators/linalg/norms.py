"""``gradlib.norm``: vector and matrix norms by one name."""

from __future__ import annotations

from ...op.expose import function, method
from ..reduce.norm import vector_norm
from .functions import matrix_norm


@function("norm")
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of order `p` over `dim` (all by default); "fro" is the 2-norm, "nuc" the sum of singular values."""
    if p is None or p == "fro":
        return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
    if p == "nuc":
        dims = tuple(dim) if dim is not None else tuple(range(input.ndim))
        return matrix_norm(input, "nuc", dims, keepdim, dtype=dtype, out=out)
    if isinstance(p, str):
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    return vector_norm(input, p, dim, keepdim, dtype=dtype, out=out)


@method("norm")
def _norm_method(self, p="fro", dim=None, keepdim=False, dtype=None):
    """See ``gradlib.norm``."""
    return norm(self, p, dim, keepdim, dtype=dtype)
