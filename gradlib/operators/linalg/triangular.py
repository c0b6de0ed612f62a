"""Triangular systems."""

from __future__ import annotations

from numpy.linalg import LinAlgError as SingularError  # CuPy raises NumPy's too

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import function, write_same
from ...tape.tensor import Tensor
from ..kinds import widened
from .base import (
    FULL_PRECISION,
    added,
    broadcast_batch,
    check_batches,
    check_kernel,
    check_matrix,
    check_square,
    check_system,
    check_types,
    column_major,
    fill_diagonal,
    full_precision,
    linalg,
)

_BLOCK = 48


def _substitute(xp, A, B, lower: bool):
    """Block substitution: small systems on the diagonal, matrix products for the rest."""
    n = A.shape[-1]
    if n <= _BLOCK:
        return xp.linalg.solve(A, B)
    h = n // 2
    one, two = (slice(0, h), slice(h, n)) if lower else (slice(h, n), slice(0, h))
    first = _substitute(xp, A[..., one, one], B[..., one, :], lower)
    rest = B[..., two, :] - xp.matmul(A[..., two, one], first)
    second = _substitute(xp, A[..., two, two], rest, lower)
    return xp.concatenate([first, second] if lower else [second, first], -2)


def _solve_triangular(xp, self, B, *, upper, unitriangular):
    A = (xp.triu if upper else xp.tril)(self)
    if unitriangular:
        A = fill_diagonal.forward(xp, A, value=1)
    batch = xp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    B = xp.broadcast_to(B, batch + B.shape[-2:])
    if not B.size:
        return B.copy()
    normal = xp.abs(xp.diagonal(A, 0, -2, -1)) >= xp.finfo(self.dtype).tiny
    if xp.surely(~normal):
        return column_major(xp, divide_rows(xp, A, B, upper))
    try:
        X = _substitute(xp, A, B, not upper)
    except SingularError:
        X = divide_rows(xp, A, B, upper)
    return column_major(xp, X)


def divide_rows(xp, A, B, upper: bool):
    """Substitution row by row, also by numbers without a reciprocal; by zero it gives inf or nan."""
    n = A.shape[-1]
    X = xp.zeros(xp.broadcast_shapes(A.shape[:-2], B.shape[:-2]) + B.shape[-2:], B.dtype)
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        X[..., i, :] = (
            B[..., i, :] - xp.matmul(A[..., i : i + 1, known], X[..., known, :])[..., 0, :]
        ) / A[..., i, i, None]
    return X


def _triangular_self(F, g, self, result, self_shape, upper, unitriangular):
    gB = F.linalg_solve_triangular(F.mH(self), g, not upper, unitriangular)
    return triangular_gradient(F, gB, result, self_shape, upper, unitriangular)


def triangular_gradient(F, gB, result, self_shape, upper, unitriangular):
    """The gradient of a triangular matrix, from that of the right hand sides."""
    full = F.times_h(-gB, result, self_shape)
    return F.triangle(full, not upper, (1 if upper else -1) if unitriangular else 0)


solve_triangular_op = declare(
    "linalg_solve_triangular", full_precision("triangular_solve_cpu", _solve_triangular),
    captures=captures.SOLVER, autocast="cpu:float32", promote="none", complex=True,
    self=_triangular_self,
    B=lambda F, g, self, B_shape, upper, unitriangular: F.sum_to_size(
        F.linalg_solve_triangular(F.mH(self), g, not upper, unitriangular), B_shape
    ),
    samples=lambda t: [(t(3, 3), t(3, 2), True, True), (t(2, 3, 3), t(3, 2), False, True), (t(0, 0), t(0, 2),
    True, False)],
)  # fmt: skip


def _fit(A, B, left: bool) -> bool:
    """Whether two tensors are a single system: what is left for the checks is seldom."""
    if A.__class__ is not Tensor or B.__class__ is not Tensor:
        return False
    a, b = A._array, B._array
    if a.ndim != 2 or b.ndim != 2 or a.dtype is not b.dtype or a.dtype not in FULL_PRECISION:
        return False
    n, m = a.shape
    return n == m == b.shape[0 if left else 1]


def _check_triangular(A, B, left: bool) -> None:
    if A._array.ndim > 1:
        check_kernel("triangular_solve_cpu", A)
    check_square("linalg.solve_triangular", A)
    check_matrix("linalg.solve_triangular", B, "B")
    check_types("linalg.solve_triangular", A, B)
    n, m = A._array.shape[-1], B._array.shape[-2 if left else -1]
    if n != m:
        raise RuntimeError(
            f"linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} "
            f"({n}x{n} and {B.shape[-2]}x{B.shape[-1]})"
        )
    check_batches(B, A)


@linalg("solve_triangular")
def solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    """X with ``A @ X = B`` for triangular A; a zero on the diagonal gives inf or nan.

    Args:
        A: matrices (..., n, n), of which one triangle is read.
        B: right hand sides (..., n, k).
        upper: which triangle.
        left: whether A stands on the left; else ``X @ A = B`` is solved for B (..., k, n).
        unitriangular: whether the diagonal counts as ones.
        out: written to instead of a new tensor.

    Returns:
        Solutions of the shape of B.

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> A, B = gradlib.tensor([[2.0, 0.0], [2.0, 1.0]]), gradlib.tensor([[2.0], [3.0]])
        >>> gradlib.linalg.solve_triangular(A, B, upper=False)
        tensor([[1.],
                [1.]])
    """
    if not _fit(A, B, left):
        _check_triangular(A, B, left)
    if left:
        return write_same(out, solve_triangular_op.call(A, B, upper, unitriangular))
    rows = solve_triangular_op.call(A.mT, B.mT, not upper, unitriangular).contiguous()
    return write_same(out, rows.mT)  # which lies in columns, as all solutions do


def _triangular_solve(xp, self, A, *, upper, transpose, unitriangular):
    matrix = xp.swapaxes(A, -1, -2) if transpose else A
    X = _solve_triangular(xp, matrix, self, upper=upper != transpose, unitriangular=unitriangular)
    return X, xp.swapaxes(xp.swapaxes(A, -1, -2).copy(), -1, -2)


def _triangular_solve_vjp(F, gs, A, result0, upper, transpose, unitriangular):
    g, gA = gs
    if g is None:
        return None, gA
    matrix, above = (F.mT(A), not upper) if transpose else (A, upper)
    gb = F.linalg_solve_triangular(F.mH(matrix), g, not above, unitriangular)
    full = F.triangle(
        -F.matmul(gb, F.mH(result0)), not above, (1 if above else -1) if unitriangular else 0
    )
    return gb, added(gA, F.mT(full) if transpose else full)


def _triangular_solve_jvp(F, A, self_t, A_t, result0, upper, transpose, unitriangular):
    """The tangent of A counts as a whole, as if it were triangular too."""
    right = self_t
    if A_t is not None:
        right = added(right, -F.matmul(F.mT(A_t) if transpose else A_t, result0))
    matrix = F.mT(A) if transpose else A
    return F.linalg_solve_triangular(matrix, right, upper != transpose, unitriangular), A_t


# a difference quotient of larger samples would see that one triangle of A is not read
triangular_solve_op = declare(
    "triangular_solve", full_precision("triangular_solve_cpu", _triangular_solve),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=2, promote="none",
    complex=True, vjp=_triangular_solve_vjp, jvp=_triangular_solve_jvp,
    samples=lambda t: [(t(1, 2), t(1, 1, low=1.0), True, False, False), (t(2, 1, 2), t(2, 1, 1, low=1.0), False, True,
    False)],
)  # fmt: skip


@function("triangular_solve", method=True)
def triangular_solve(b, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    """X with ``A @ X = b`` for triangular A: the older form of ``linalg.solve_triangular``.

    Args:
        b: right hand sides (..., n, k).
        A: matrices (..., n, n), of which one triangle is read.
        upper: which one.
        transpose: whether ``A^T @ X = b`` is solved.
        unitriangular: whether the diagonal counts as ones.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (solution, cloned_coefficient), the second one a copy of A.

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> gradlib.triangular_solve(gradlib.tensor([[4.0]]), gradlib.tensor([[2.0]])).solution
        tensor([[2.]])
    """
    for name, t in (("b", b), ("A", A)):
        if t.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {t.ndim} "
                "dimensions instead"
            )
    b, A = widened(b, A)
    check_system(A, b, "triangular_solve")
    check_kernel("triangular_solve_cpu", A)
    b, A = broadcast_batch(b, A)
    found = triangular_solve_op.call(b, A, bool(upper), bool(transpose), bool(unitriangular))
    return write_same(out, return_types.triangular_solve(*found))
