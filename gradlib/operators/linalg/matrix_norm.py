"""The norms of torch.linalg, of vectors and of matrices, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

from ...op.expose import write_out, write_same
from ...tape import dtypes
from ...tape.tensor import Tensor, wrap_dim
from ..reduce.norm import narrowing, vector_norm
from .base import check_dims, check_matrix, check_square, linalg
from .decompose import svdvals
from .solve import inv_ex


def _two_dims(name: str, A: Tensor, dim) -> tuple[int, int]:
    if not isinstance(dim, (tuple, list)):
        raise TypeError(f"{name}(): argument 'dim' must be tuple of ints, not {type(dim).__name__}")
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    first, second = (wrap_dim(d, A.ndim) for d in dim)
    if first == second:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


def _check_kind(name: str, A: Tensor, dtype) -> None:
    """RuntimeError for a real dtype of complex numbers, and the other way round."""
    if A.dtype.is_complex != dtype.is_complex:
        which = "complex" if A.dtype.is_complex else "real"
        raise RuntimeError(
            f"{name}: dtype should be {which} for {which} inputs, but got {dtype.scalar_type}"
        )


@linalg("vector_norm")
def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of vectors of order `ord`.

    Args:
        x: a floating or complex tensor.
        ord: a number, inf and -inf included; 0 counts the elements that are not 0.
        dim: the dimension or dimensions of a vector; all elements are one vector if None.
        keepdim: whether the dimensions that are gone stay with length one.
        dtype: x is converted to it first: complex for complex `x`, real for real `x`.
        out: written to instead of a new tensor.

    Returns:
        A real tensor. At 0 its gradient is 0.

    Raises:
        RuntimeError: integers.
        IndexError: no such dimension.

    Example:
        >>> gradlib.linalg.vector_norm(gradlib.tensor([3.0, -4.0]), 1)
        tensor(7.)
    """
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    floating = x.dtype.category >= dtypes.FLOATING
    if dtype is not None and floating:
        _check_kind("linalg.vector_norm", x, dtype)
    return vector_norm(x, ord, dim, keepdim, dtype=dtype, out=out)


_NORM_OUT = "linalg.matrix_norm expected out tensor dtype {want} but got: {got}"


@linalg("matrix_norm")
def matrix_norm(A, ord: Any = "fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """A norm of matrices.

    Args:
        A: floating or complex matrices.
        ord: "fro", "nuc" (the sum of singular values), 2 or -2 (the largest or smallest of them), 1 or -1 (the
            largest or smallest sum of a column), inf or -inf (of a row).
        dim: the two dimensions of the matrices.
        keepdim: whether they stay with length one.
        dtype: A is converted to it first.
        out: written to instead of a new tensor.

    Returns:
        A real tensor.

    Raises:
        RuntimeError: fewer than two dimensions, integers, or another `ord`.

    Example:
        >>> gradlib.linalg.matrix_norm(gradlib.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor(5.)
    """
    check_dims("linalg.matrix_norm", A)
    A = _norm_input(A, dtype, ord in ("nuc", 2, -2))
    rows, columns = _two_dims("linalg.matrix_norm", A, dim)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, out=out)
    if ord in (1, -1, math.inf, -math.inf):
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(summed, keepdim=True)
        result = _extreme(sums, kept, ord > 0)
        return write_same(out, result if keepdim else result.squeeze((rows, columns)), _NORM_OUT)
    if ord in ("nuc", 2, -2):
        S = svdvals(A.movedim((rows, columns), (-2, -1)))
        result = S.sum(-1) if ord == "nuc" else _extreme(S, -1, ord == 2).squeeze(-1)
        if keepdim:
            for d in sorted((rows, columns)):
                result = result.unsqueeze(d)
        return write_same(out, result, _NORM_OUT)
    raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")


def _extreme(x: Tensor, dim: int, largest: bool) -> Tensor:
    """The maxima (0 of nothing) or minima along a dimension, which is kept."""
    if not largest:
        return x.amin(dim, keepdim=True)
    return x.amax(dim, keepdim=True) if x.shape[dim] else x.detach().sum(dim, keepdim=True)


def _norm_input(A: Tensor, dtype, singular_values: bool) -> Tensor:
    """The matrices in the dtype of the computation, with the checks of both dtypes."""
    name = "linalg.matrix_norm"
    if A._array.dtype not in dtypes.DIFFERENTIABLE:
        check_matrix(name, A)
    if dtype is not None:
        _check_kind(name, A, dtype)
        if dtypes.promote(A.dtype, dtype) is not dtype:
            raise narrowing(name, A.dtype, dtype)
        A = A.to(dtype)
    if singular_values:
        check_matrix(name, A)
    return A


@linalg("norm")
def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A norm of vectors or matrices of order `ord`.

    Args:
        A: a floating or complex tensor.
        ord: see ``vector_norm`` and ``matrix_norm``; None: the 2-norm of all elements.
        dim: one dimension for a vector norm, two for a matrix norm; None: all, and a matrix norm needs a matrix.
        keepdim: whether the dimensions that are gone stay with length one.
        dtype: A is converted to it first.
        out: written to instead of a new tensor.

    Returns:
        A real tensor.

    Raises:
        RuntimeError: integers; with `ord` and without `dim`, more than two dimensions.

    Example:
        >>> gradlib.linalg.norm(gradlib.tensor([3.0, 4.0])), gradlib.linalg.norm(gradlib.tensor([3.0, 4.0]), 1)
        (tensor(5.), tensor(7.))
    """
    if isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}"
        )
    if out is not None and out.dtype is not (dtype or A.dtype).to_real():
        kinds = [d.scalar_type for d in ((dtype or A.dtype).to_real(), out.dtype)]
        raise RuntimeError(f"linalg.norm expected out tensor dtype {kinds[0]} but got: {kinds[1]}")
    if ord is None:
        return linalg_vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
            f"Got {A.ndim}D."
        )
    if (
        isinstance(ord, str)
        or (dim is None and A.ndim == 2)
        or (isinstance(dim, (tuple, list)) and len(dim) == 2)
    ):
        dims = (-2, -1) if dim is None else (dim,) if isinstance(dim, int) else dim
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype, out=out)
    return linalg_vector_norm(A, ord, dim, keepdim, dtype=dtype, out=out)


@linalg("cond")
def cond(A, p=None, *, out=None):
    """The condition number of matrices: the norm of each times that of its inverse.

    Args:
        A: matrices (..., m, n); square ones for an order other than 2 and -2.
        p: the matrix norm; None: 2, the largest singular value over the smallest.
        out: written to instead of a new tensor.

    Returns:
        Real numbers (...); inf for singular matrices.

    Raises:
        RuntimeError: the matrices are not square, or another `p`.

    Example:
        >>> gradlib.linalg.cond(gradlib.tensor([[4.0, 0.0], [0.0, 2.0]]))
        tensor(2.)
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or p in (2, -2):
        S = svdvals(A)
        if not S.shape[-1]:
            return write_out(out, S.sum(-1))
        large, small = S[..., 0], S[..., -1]
        return write_out(out, large / small if p != -2 else small / large)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    check_square(f"linalg.cond(ord={p})", A, half=True)
    if not A.numel():
        return write_out(out, A.abs().sum((-2, -1)))
    inverse, info = inv_ex(A)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    return write_out(out, result.masked_fill(info != 0, math.inf))
