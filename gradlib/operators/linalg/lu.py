"""The LU decomposition, its factors and solutions with them."""

from __future__ import annotations

import math

import numpy as np

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import function, write_same
from ...op.vmap import all_entries
from ...tape import dtypes
from ...tape.interop import values_of
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor
from .base import (
    check_batches,
    check_kernel,
    check_matrix,
    check_square,
    check_types,
    column_major,
    eye_like,
    failures,
    flat_batch,
    full_precision,
    linalg,
    plain,
)
from .triangular import solve_triangular, solve_triangular_op

_BLOCK = 32

# -- LU ----------------------------------------------------------------------------------------------------------


def _lu_factor(xp, self, *, pivot):
    """L and U in one array by elimination with row exchanges, and for each column the row exchanged (from 1).

    Blocks of columns are eliminated one by one; the rest of the matrix follows by matrix products.
    """
    A = flat_batch(self).copy()
    b, m, n = A.shape
    k = min(m, n)
    pivots = xp.broadcast_to(xp.arange(1, k + 1, dtype="i4"), (b, k)).copy()
    for start in range(0, k if b else 0, _BLOCK):
        stop = min(start + _BLOCK, k)
        _eliminate(xp, A, pivots, start, stop, pivot)
        if stop < n:
            square = A[:, start:stop, start:stop]
            right = A[:, start:stop, stop:]
            right[...] = solve_triangular_op.forward(
                xp, square, right, upper=False, unitriangular=True
            )
            A[:, stop:, stop:] -= xp.matmul(A[:, stop:, start:stop], right)
    return column_major(xp, A.reshape(self.shape)), pivots.reshape(*self.shape[:-2], k)


def _eliminate(xp, A, pivots, start: int, stop: int, pivot: bool) -> None:
    """Elimination of the columns `start` to `stop`, in place."""
    if A.shape[0] == 1 and not xp.waits:
        _eliminate_one(xp, A[0], pivots[0], start, stop, pivot)
        return
    every = xp.arange(A.shape[0])
    for j in range(start, stop):
        if pivot:
            column = A[:, j:, j]
            size = (
                xp.abs(column.real) + xp.abs(column.imag) if A.dtype.kind == "c" else xp.abs(column)
            )
            p = j + size.argmax(1)
            pivots[:, j] = p + 1
            rows = A[every, p].copy()
            A[every, p] = A[:, j]
            A[:, j] = rows
        head = A[:, j, j]
        A[:, j + 1 :, j] /= xp.where(head == 0, xp.ones_like(head), head)[:, None]
        A[:, j + 1 :, j + 1 : stop] -= A[:, j + 1 :, j, None] * A[:, j, None, j + 1 : stop]


def _eliminate_one(xp, A, pivots, start: int, stop: int, pivot: bool) -> None:
    """`_eliminate` of a single matrix: on the panel turned into rows; those of `A` are exchanged once, at the end."""
    panel = A[start:, start:stop].T.copy()
    width, is_complex = stop - start, A.dtype.kind == "c"
    order = list(range(panel.shape[1]))
    for j in range(width):
        column = panel[j, j:]
        if pivot:
            size = xp.abs(column.real) + xp.abs(column.imag) if is_complex else xp.abs(column)
            p = j + int(size.argmax())
            pivots[start + j] = start + p + 1
            if p != j:
                order[j], order[p] = order[p], order[j]
                entries = panel[:, j].copy()
                panel[:, j] = panel[:, p]
                panel[:, p] = entries
        head = column[0]
        if head != 0:
            column[1:] /= head
        if j + 1 < width:
            panel[j + 1 :, j + 1 :] -= xp.multiply.outer(panel[j + 1 :, j], column[1:])
    if pivot:
        A[start:] = A[start:][order]
    A[start:, start:stop] = panel.T


def _permutation(xp, pivots, m: int):
    """Row i of the permuted matrix is row perm[i] of the original."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    if not xp.waits and flat.shape[0] == 1:
        rows = list(range(m))
        for j, p in enumerate(flat[0].tolist()):
            rows[j], rows[p - 1] = rows[p - 1], rows[j]
        return xp.asarray(rows, dtype=xp.intp).reshape(*pivots.shape[:-1], m)
    perm = xp.broadcast_to(xp.arange(m), (flat.shape[0], m)).copy()
    every = xp.arange(flat.shape[0])
    for j in range(flat.shape[1]):
        p = flat[:, j] - 1
        other = perm[every, p].copy()
        perm[every, p] = perm[:, j]
        perm[:, j] = other
    return perm.reshape(*pivots.shape[:-1], m)


def _perm_matrix(xp, perm, dtype):
    m = perm.shape[-1]
    return (perm[..., None, :] == xp.arange(m)[:, None]).astype(dtype)


def _lu_self(F, gs, self, result0, result1):
    """For A = P L U in one array: P L^-H (tril(L^H gL) + triu(gU U^H)) U^-H, with the wide or tall rest split off."""
    g = gs[0]
    m, n = self.shape[-2], self.shape[-1]
    k = min(m, n)
    P = F.permutation_matrix(result1, self)
    rows, columns = g.ndim - 2, g.ndim - 1

    def part(x, r0, r1, c0, c1):
        return F.slice(F.slice(x, rows, r0, r1, 1), columns, c0, c1, 1)

    head, gh = part(result0, 0, k, 0, k), part(g, 0, k, 0, k)
    L1, U1 = F.fill_diagonal(F.triangle(head, True, -1), 1), F.triangle(head, False, 0)
    gL, gU = F.triangle(gh, True, -1), F.triangle(gh, False, 0)
    lower, upper = F.matmul(F.mH(L1), gL), F.matmul(gU, F.mH(U1))
    rest = None
    if m > n:
        L2, g2 = part(result0, k, m, 0, n), part(g, k, m, 0, n)
        upper = upper - F.matmul(F.mH(L2), g2)
        rest = F.mH(F.linalg_solve_triangular(U1, F.mH(g2), True, False))
    elif n > m:
        U2, g2 = part(result0, 0, m, k, n), part(g, 0, m, k, n)
        lower = lower - F.matmul(g2, F.mH(U2))
        rest = F.linalg_solve_triangular(F.mH(L1), g2, True, True)
    inner = F.triangle(lower, True, -1) + F.triangle(upper, False, 0)
    left = F.linalg_solve_triangular(F.mH(L1), inner, True, True)
    main = F.mH(F.linalg_solve_triangular(U1, F.mH(left), True, False))
    if rest is not None:
        main = F.cat([main, rest], rows if m > n else columns)
    return F.matmul(P, main)


permutation_matrix = declare(
    "permutation_matrix",
    lambda xp, pivots, like: _perm_matrix(xp, _permutation(xp, pivots, like.shape[-2]), like.dtype),
    promote="free", nondifferentiable="pivots are integers",
    samples=lambda t: [(t(3, low=3, high=4, dtype=dtypes.int32), t(3, 3))],
)  # fmt: skip
lu_factor_op = declare(
    "linalg_lu_factor", full_precision("lu_cpu", _lu_factor),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=2, complex=True, self=_lu_self,
    nondifferentiable=(1,), node="LinalgLuFactorExBackward0",
    samples=lambda t: [(t(3, 3), True), (t(2, 4, 3), True), (t(3, 4), True)],
)  # fmt: skip


def _check_lu(name: str, A) -> None:
    if A._array.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    check_kernel("lu_cpu", A)


@linalg("lu_factor")
def lu_factor(A, *, pivot=True, out=None):
    """The LU decomposition of matrices in the compact form that ``lu_solve`` takes.

    Args:
        A: matrices (..., m, n).
        pivot: whether rows are exchanged.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (LU, pivots): L (without the ones of its diagonal) and U in one matrix; and for each column the
            row that it was exchanged with, int32, from 1.

    Raises:
        RuntimeError: fewer than two dimensions, or a pivot is 0; ``lu_factor_ex`` and ``lu`` take such matrices.

    Example:
        >>> gradlib.linalg.lu_factor(gradlib.tensor([[0.0, 2.0], [3.0, 4.0]])).pivots
        tensor([2, 2], dtype=torch.int32)
    """
    LU, pivots, info = _factored(A, pivot)
    if info is not None:
        _check_info("torch.linalg.lu_factor", info)
    return write_same(out, return_types.linalg_lu_factor(LU, pivots))


@linalg("lu_factor_ex")
def lu_factor_ex(A, *, pivot=True, check_errors=False, out=None):
    """As ``linalg.lu_factor``, but what went wrong is a number instead of an exception.

    Args:
        A: matrices (..., m, n).
        pivot: whether rows are exchanged.
        check_errors: raise an exception after all.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (LU, pivots, info): info (...) of int32 is 0, or the number of the first zero pivot.

    Raises:
        RuntimeError: fewer than two dimensions; with `check_errors`, a zero pivot.

    Example:
        >>> gradlib.linalg.lu_factor_ex(gradlib.zeros(2, 2)).info
        tensor(1, dtype=torch.int32)
    """
    LU, pivots, info = _factored(A, pivot)
    if info is None:
        info = Tensor._make(np.zeros(A._array.shape[:-2], np.int32))
    elif check_errors:
        _check_info("torch.linalg.lu_factor_ex", info)
    return write_same(out, return_types.linalg_lu_factor_ex(LU, pivots, info))


def _factored(A, pivot):
    """(LU, pivots, info) after the checks; info is None where it would be all zeros, if that is cheap to see."""
    _check_lu("torch.lu_factor", A)
    LU, pivots = lu_factor_op.call(A, bool(pivot))
    if plain(LU):
        diagonal = LU._array.diagonal(0, -2, -1)
        if np.count_nonzero(diagonal) == diagonal.size:
            return LU, pivots, None
    zero = LU.detach().diagonal(0, -2, -1) == 0
    first = zero.int().argmax(-1) + 1 if zero.shape[-1] else zero.sum(-1)
    return LU, pivots, (first * zero.any(-1)).int()


def _check_info(name: str, info: Tensor) -> None:
    for where, number in failures(info):
        raise RuntimeError(
            f"{name}: {where}U[{number},{number}] is zero and using it on lu_solve would result in a division by "
            "zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)"
        )


def _lower(LU: Tensor) -> Tensor:
    m, n = LU._array.shape[-2:]
    k = min(m, n)
    return (LU if k == n else LU[..., :, :k]).tril(-1) + eye_like(LU, m, k)


def _upper(LU: Tensor) -> Tensor:
    m, n = LU._array.shape[-2:]
    return (LU if m <= n else LU[..., :n, :]).triu()


@function("lu_unpack")
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True, *, out=None):
    """(P, L, U) of what ``lu_factor`` returns: ``A = P @ L @ U``.

    Args:
        LU_data: (..., m, n).
        LU_pivots: (..., min(m, n)) of int32.
        unpack_data: whether L and U are wanted; else they are empty.
        unpack_pivots: whether P is wanted; else it is empty.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (P, L, U): a permutation (..., m, m), L with ones on its diagonal, U upper triangular.

    Raises:
        RuntimeError: the pivots are not int32.

    Example:
        >>> P, L, U = gradlib.lu_unpack(*gradlib.linalg.lu_factor(gradlib.tensor([[0.0, 2.0], [3.0, 4.0]])))
        >>> P @ L @ U
        tensor([[0., 2.],
                [3., 4.]])
    """
    if unpack_pivots and LU_pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    m = LU_data.shape[-2]
    if unpack_pivots and LU_pivots.numel() and not LU_data.is_cuda:
        low, high = (values_of(t) for t in all_entries(LU_pivots).aminmax())
        if low < 1 or high > m or LU_pivots.shape[-1] != min(LU_data.shape[-2:]):
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the "
                "result of lu_factor?"
            )
    none = LU_data.detach().new_zeros((0,))
    P = permutation_matrix.call(LU_pivots, LU_data) if unpack_pivots else none
    L, U = (_lower(LU_data), _upper(LU_data)) if unpack_data else (none, none)
    return write_same(out, return_types.lu_unpack(P, L, U))


@linalg("lu")
def lu(A, *, pivot=True, out=None):
    """The LU decomposition of matrices: ``A = P @ L @ U``.

    Args:
        A: matrices (..., m, n).
        pivot: whether rows are exchanged; without it P is empty.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (P, L, U): a permutation (..., m, m), L with ones on its diagonal, U upper triangular.

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> P, L, U = gradlib.linalg.lu(gradlib.tensor([[0.0, 2.0], [3.0, 4.0]]))
        >>> P @ L @ U
        tensor([[0., 2.],
                [3., 4.]])
    """
    _check_lu("linalg.lu", A)
    LU, pivots = lu_factor_op.call(A, bool(pivot))
    P = permutation_matrix.call(pivots, LU) if pivot else A.detach().new_zeros((0,))
    return write_same(out, return_types.linalg_lu(P, _lower(LU), _upper(LU)))


def _check_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool) -> None:
    check_square("torch.linalg.lu_solve", LU, half=True)
    check_matrix("linalg.lu_solve", B, "B", half=True)
    check_types("linalg.lu_solve", LU, B, "LU", "B")
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    n, m = LU.shape[-1], B.shape[-2 if left else -1]
    if n != m:
        raise RuntimeError(
            "linalg.lu_solve: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({n}x{n} and {B.shape[-2]}x{B.shape[-1]})"
        )
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix"
        )
    check_batches(B, LU)
    array = raw_values(pivots)
    if array.__class__ is np.ndarray and array.size:
        if array.min() < 1:
            raise RuntimeError(
                "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of "
                "lu_factor?"
            )
        if array.max() > n:
            raise RuntimeError(
                "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the "
                "result of lu_factor?"
            )


@linalg("lu_solve")
def lu_solve(LU, pivots, B, *, left=True, adjoint=False, out=None):
    """X with ``A @ X = B``, where A is given by ``lu_factor``.

    Args:
        LU, pivots: (..., n, n) and (..., n), as returned there.
        B: right hand sides (..., n, k); the batches broadcast.
        left: whether A stands on the left of X; else ``X @ A = B`` is solved for B (..., k, n).
        adjoint: whether A^H stands there.
        out: written to instead of a new tensor.

    Returns:
        Solutions of the shape of B.

    Raises:
        RuntimeError: the shapes or dtypes do not fit.

    Example:
        >>> gradlib.linalg.lu_solve(*gradlib.linalg.lu_factor(2 * gradlib.eye(2)), gradlib.ones(2, 1))
        tensor([[0.5000],
                [0.5000]])
    """
    _check_lu_solve(LU, pivots, B, left)
    check_kernel("linalg.lu_solve_cpu", LU)
    return write_same(out, _lu_solve(LU, pivots, B, left, adjoint))


def _lu_solve(LU, pivots, B, left: bool, adjoint: bool):
    if not left:
        return _lu_solve(LU, pivots, B.mT.conjugate(), True, not adjoint).mT.conjugate()
    P = permutation_matrix.call(pivots, LU)
    if adjoint:
        half = solve_triangular(LU.mH, B, upper=False)
        return P @ solve_triangular(LU.mH, half, upper=True, unitriangular=True)
    half = solve_triangular(LU, P.mT @ B, upper=False, unitriangular=True)
    return solve_triangular(LU, half, upper=True)


@function("lu_solve", method=True)
def _lu_solve_function(b, LU_data, LU_pivots, *, out=None):
    """X with ``A @ X = b``, where A is given by ``lu_factor``: the older form of ``linalg.lu_solve``.

    Args:
        b: right hand sides (..., n, k).
        LU_data, LU_pivots: (..., n, n) and (..., n), as ``lu_factor`` returns them.
        out: written to instead of a new tensor.

    Returns:
        Solutions (..., n, k).

    Raises:
        RuntimeError: the shapes or dtypes do not fit.

    Example:
        >>> gradlib.ones(2, 1).lu_solve(*gradlib.linalg.lu_factor(2 * gradlib.eye(2)))
        tensor([[0.5000],
                [0.5000]])
    """
    return lu_solve(LU_data, LU_pivots, b, out=out)


@function("lu", method=True)
def _lu_function(A, pivot=True, get_infos=False, out=None):
    """The LU decomposition of matrices: the older form of ``linalg.lu_factor``.

    Args:
        A: matrices (..., m, n).
        pivot: whether rows are exchanged.
        get_infos: whether to return the number of the first zero pivot (0 for none), too.
        out: tensors of any type, written to instead of new ones.

    Returns:
        A tuple (LU, pivots), or (LU, pivots, info).

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.lu(2 * gradlib.eye(2))[0]
        tensor([[2., 0.],
                [0., 2.]])
    """
    found = lu_factor_ex(A, pivot=pivot)
    if out is not None:
        for o, r in zip(out, found):
            o.resize_(r.shape).copy_(r)
        return out
    return return_types._lu_with_info(*found) if get_infos else tuple(found[:2])
