"""``gradlib.norm``: vector and matrix norms by one name."""

from __future__ import annotations

from ...op.expose import function, method
from ..reduce.norm import vector_norm
from .matrix_norm import matrix_norm


@function("norm")
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of order `p` over dimensions; see ``linalg.vector_norm`` and ``linalg.matrix_norm``.

    Args:
        input: a floating or complex tensor of any shape.
        p: a number, inf and -inf included; "fro" for 2, "nuc" for the sum of singular values of matrices.
        dim: a dimension or a tuple of them; all if None.
        keepdim: whether the dimensions that are gone stay with length one.
        dtype: the input is converted to it first.
        out: written to instead of a new tensor.

    Returns:
        A real tensor. At 0 its gradient is 0.

    Raises:
        RuntimeError: integers.
        IndexError: no such dimension.

    Example:
        >>> gradlib.norm(gradlib.tensor([3.0, 4.0]))
        tensor(5.)
    """
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
    """The norm of order `p` of this tensor over dimensions: ``gradlib.norm``, with its arguments and errors.

    Args:
        p: a number, inf and -inf included; "fro" for 2, "nuc" for the sum of singular values of matrices.
        dim: a dimension or a tuple of them; all if None.
        keepdim: whether the dimensions that are gone stay with length one.
        dtype: this tensor is converted to it first.

    Returns:
        A real tensor.

    Raises:
        RuntimeError: integers.

    Example:
        >>> gradlib.tensor([3.0, -4.0]).norm(p=1)
        tensor(7.)
    """
    return norm(self, p, dim, keepdim, dtype=dtype)
