"""The rest of torch.linalg: matrix norms, powers, exponentials, products, tensor equations, Householder products."""

from __future__ import annotations

import math
from typing import Any

from ...op import captures
from ...op.declare import declare
from ...op.expose import PUBLIC, c_type, need_tensor, write_out, write_same
from ...tape import dtypes
from ...tape.tensor import Tensor, wrap_dim
from ..reduce.norm import narrowing, vector_norm
from .base import (
    check_dims,
    check_lengths,
    check_matrix,
    check_square,
    eye_like,
    full_precision,
    linalg,
)
from .decompose import svdvals
from .products import chain, linalg_cross
from .solve import inv, inv_ex, solve

linalg("cross")(linalg_cross)

# -- norms -------------------------------------------------------------------------------------------------------


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


# -- powers and products -----------------------------------------------------------------------------------------


@linalg("matrix_power", also="matrix_power", methods="matrix_power")
def matrix_power(A, n, *, out=None):
    """The n-th power of square matrices by repeated squaring.

    Args:
        A: matrices (..., m, m).
        n: an int; a negative one inverts first, 0 gives unit matrices.
        out: written to instead of a new tensor.

    Returns:
        Matrices (..., m, m).

    Raises:
        RuntimeError: the matrices are not square.
        LinAlgError: `n` is negative and a matrix singular.

    Example:
        >>> gradlib.linalg.matrix_power(gradlib.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
        tensor([[1., 3.],
                [0., 1.]])
    """
    check_dims("linalg.matrix_power", A)
    check_lengths("linalg.matrix_power", A)
    if not isinstance(n, int):
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    if n == 0:
        return write_same(out, A.clone().copy_(eye_like(A)))
    if n < 0:
        A, n = inv(A), -n
    result, square = None, A
    while True:
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        if not n:
            return write_same(out, A.clone() if result is A else result)
        square = square @ square


# coefficients of the (13, 13) Pade approximant of exp, which is exact to rounding for norms up to 5.37
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip


def _matrix_exp(xp, self):
    """Scaling and squaring with a Pade approximant."""
    if not self.size:
        return self.copy()
    if self.shape[-1] == 1:
        return xp.exp(self)
    size = xp.abs(self).sum(-2).max(-1)
    unbounded = ~xp.isfinite(size)
    if xp.may(unbounded):
        kept = xp.where(unbounded[..., None, None], self.dtype.type(0), self)
        result = (
            self
            if xp.surely(unbounded.all())
            else _exponential(xp, kept, xp.where(unbounded, 0, size))
        )
        return xp.where(unbounded[..., None, None], self.dtype.type(math.nan), result)
    return _exponential(xp, self, size)


def _exponential(xp, self, size):
    """The same for finite matrices, of known norms."""
    n = self.shape[-1]
    halvings = xp.maximum(xp.ceil(xp.log2(xp.where(size > 0, size, 1) / 5.37)), 0)
    A = self / xp.exp2(halvings)[..., None, None].astype(self.real.dtype)
    b, one = [float(c) for c in _PADE], xp.eye(n, dtype=self.dtype)
    A2 = xp.matmul(A, A)
    A4 = xp.matmul(A2, A2)
    A6 = xp.matmul(A4, A2)
    odd = (
        xp.matmul(A6, b[13] * A6 + b[11] * A4 + b[9] * A2)
        + b[7] * A6
        + b[5] * A4
        + b[3] * A2
        + b[1] * one
    )
    even = (
        xp.matmul(A6, b[12] * A6 + b[10] * A4 + b[8] * A2)
        + b[6] * A6
        + b[4] * A4
        + b[2] * A2
        + b[0] * one
    )
    odd = xp.matmul(A, odd)
    result = xp.linalg.solve(even - odd, even + odd)
    for i in range(int(halvings.max())):
        result = xp.where((halvings > i)[..., None, None], xp.matmul(result, result), result)
    return result.astype(self.dtype)


def _frechet(F, A, E):
    """The derivative of exp at A in the direction E: a block of the exponential of a matrix of twice the size."""
    n, rows, columns = A.shape[-1], A.ndim - 2, A.ndim - 1
    top = F.cat([A, E], columns)
    bottom = F.cat([F.zeros_like(A), A], columns)
    whole = F.linalg_matrix_exp(F.cat([top, bottom], rows))
    return F.slice(F.slice(whole, rows, 0, n, 1), columns, n, 2 * n, 1)


matrix_exp_op = declare(
    "linalg_matrix_exp", full_precision("linalg_matrix_exp", _matrix_exp),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True,
    self=lambda F, g, self: _frechet(F, F.mH(self), g), jvp=lambda F, self, self_t: _frechet(F, self, self_t),
    samples=lambda t: [(t(3, 3),), (t(2, 2, 2),), (t(0, 0),)],
    batch="leading",
)  # fmt: skip


@linalg("matrix_exp", also="matrix_exp", methods="matrix_exp")
def matrix_exp(A):
    """The exponential of square matrices, ``1 + A + A @ A / 2 + ...``.

    Args:
        A: floating or complex matrices (..., n, n).

    Returns:
        Matrices (..., n, n) of the same dtype.

    Raises:
        RuntimeError: the matrices are not square, or of integers.

    Example:
        >>> gradlib.linalg.matrix_exp(gradlib.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    if not isinstance(A, Tensor):
        raise need_tensor("matrix_exp", A)
    half = A.dtype in (dtypes.float16, dtypes.bfloat16)
    wide = A.float() if half else A
    check_square("linalg.matrix_exp", wide)
    result = matrix_exp_op.call(wide)
    return result.to(A.dtype) if half else result


def _check_chain(tensors: list) -> None:
    """RuntimeError unless the tensors are matrices (the outer ones perhaps vectors) that can be multiplied."""
    last = len(tensors) - 1
    for i, t in enumerate(tensors):
        if i in (0, last) and t.ndim not in (1, 2):
            which = "first" if i == 0 else "last"
            raise RuntimeError(
                f"multi_dot(): the {which} tensor must be 1D or 2D but got {t.ndim}D"
            )
        if 0 < i < last and t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{tensors[0].dtype.scalar_type.lower()} and tensor {i} {t.dtype.scalar_type.lower()}"
            )
        if i and tensors[i - 1].shape[-1] != t.shape[0]:
            before = (
                (1, *tensors[i - 1].shape) if tensors[i - 1].ndim == 1 else tensors[i - 1].shape
            )
            here = (*t.shape, 1) if t.ndim == 1 else t.shape
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(before)} and {list(here)} cannot be multiplied"
            )


@linalg("multi_dot")
def multi_dot(tensors, *, out=None):
    """The product of two or more matrices, multiplied in the cheapest order.

    Args:
        tensors: a sequence of matrices whose shapes fit; the first and the last may be vectors.
        out: written to instead of a new tensor.

    Returns:
        A matrix, a vector, or of two vectors at the ends a tensor without dimensions.

    Raises:
        RuntimeError: fewer than two, or shapes that do not fit.

    Example:
        >>> gradlib.linalg.multi_dot([gradlib.ones(1, 3), gradlib.ones(3, 2), gradlib.ones(2)])
        tensor([6.])
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    _check_chain(tensors)
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    if out is not None and out.dtype is not tensors[0].dtype:
        raise RuntimeError(
            f"multi_dot(): expected out tensor to have dtype {c_type(tensors[0])} but got {c_type(out)}"
        )
    result = chain(tensors)
    if row:
        result = result.squeeze(0)
    return write_out(out, result.squeeze(-1) if column else result)


@linalg("vecdot")
def vecdot(x, y, *, dim=-1, out=None):
    """Dot products of vectors along a dimension, those of `x` conjugated.

    Args:
        x, y: tensors of one dtype whose shapes broadcast.
        dim: the dimension of the vectors.
        out: written to instead of a new tensor.

    Returns:
        A tensor without that dimension.

    Raises:
        RuntimeError: the shapes do not broadcast.
        IndexError: no such dimension.

    Example:
        >>> gradlib.linalg.vecdot(gradlib.tensor([1.0, 2.0]), gradlib.tensor([3.0, 4.0]))
        tensor(11.)
    """
    kinds = [t.dtype.scalar_type for t in (x, y)]
    if x._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {kinds[0]}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {kinds[0]} and y of type "
            f"{kinds[1]} instead"
        )
    if x.ndim == 1 and y.ndim == 1:
        return PUBLIC["vdot"](x, y, out=out)
    return write_same(
        out,
        (x.conjugate() * y).sum(dim),
        "linalg.vecdot: Expected out of dtype{Want} but found {Got}",
    )


@linalg("matmul")
def matmul(input, other, *, out=None):
    """The matrix product: ``gradlib.matmul``, with its shapes and errors.

    Args:
        input, other: (..., n, k) and (..., k, m) of one dtype; the batches broadcast. Vectors count as a row and a
            column.
        out: written to instead of a new tensor.

    Returns:
        (..., n, m).

    Raises:
        RuntimeError: the shapes or dtypes do not fit.

    Example:
        >>> gradlib.linalg.matmul(gradlib.tensor([[1.0, 2.0]]), gradlib.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    return PUBLIC["matmul"](input, other, out=out)


@linalg("diagonal")
def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """A diagonal of matrices, by default of the last two dimensions: ``gradlib.diagonal`` with other defaults.

    Args:
        A: a tensor of at least two dimensions.
        offset: which diagonal: 0 the main one, above it positive, below it negative.
        dim1, dim2: the two dimensions that it lies in.

    Returns:
        A view with the diagonal as its last dimension.

    Raises:
        RuntimeError: twice the same dimension.
        IndexError: no such dimension.

    Example:
        >>> gradlib.linalg.diagonal(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return PUBLIC["diagonal"](A, offset, dim1, dim2)


@linalg("vander")
def vander(x, N=None):
    """Rows of the powers 0, 1, ..., N - 1 of numbers.

    Args:
        x: a tensor (..., n).
        N: how many powers; n if None.

    Returns:
        Matrices (..., n, N).

    Raises:
        RuntimeError: `N` is less than 2.

    Example:
        >>> gradlib.linalg.vander(gradlib.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [1, 2, 4],
                [1, 3, 9]])
    """
    if x.dtype in (dtypes.bool_, dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{x.dtype.scalar_type}"
        )
    x = x.reshape((1,)) if not x.ndim else x
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    powers = x.unsqueeze(-1).expand((*x.shape, n - 1)).cumprod(-1)
    return PUBLIC["cat"]([powers.new_ones((*x.shape, 1)), powers], -1)


# -- tensor equations --------------------------------------------------------------------------------------------


@linalg("tensorinv")
def tensorinv(A, ind=2, *, out=None):
    """The inverse of A as a linear map from its last dimensions to its first `ind`.

    Args:
        A: a tensor whose first `ind` lengths have the same product as the others.
        ind: a positive int.
        out: written to instead of a new tensor.

    Returns:
        A tensor whose shape is ``A.shape[ind:] + A.shape[:ind]``.

    Raises:
        RuntimeError: `ind` is not positive, or the products differ.
        LinAlgError: the map is singular.

    Example:
        >>> gradlib.linalg.tensorinv(gradlib.tensor([[2.0, 0.0], [0.0, 4.0]]), 1)
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{math.prod(last)} != {math.prod(first)}"
        )
    return write_out(out, inv(A.reshape((math.prod(first), -1))).reshape((*last, *first)))


@linalg("tensorsolve")
def tensorsolve(A, B, dims=None, *, out=None):
    """X with ``tensordot(A, X, X.ndim) = B``.

    Args:
        A: a tensor of shape ``B.shape + X.shape``, where both parts have as many elements.
        B: the right hand side.
        dims: dimensions of A that are moved to its end first.
        out: written to instead of a new tensor.

    Returns:
        A tensor X.

    Raises:
        RuntimeError: the shapes do not fit.
        LinAlgError: A is singular as a map.

    Example:
        >>> gradlib.linalg.tensorsolve(gradlib.tensor([[2.0, 0.0], [0.0, 4.0]]), gradlib.tensor([2.0, 2.0]))
        tensor([1.0000, 0.5000])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = tuple(A.shape[B.ndim :])
    if math.prod(shape) != math.prod(A.shape[: B.ndim]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {math.prod(shape)} != {math.prod(A.shape[: B.ndim])}"
        )
    return write_out(out, solve(A.reshape((-1, math.prod(shape))), B.reshape((-1,))).reshape(shape))
