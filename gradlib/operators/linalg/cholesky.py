"""The Cholesky decomposition and what is solved with its factor."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError as SingularError  # CuPy raises NumPy's too

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import function, write_out, write_same
from ..kinds import widened
from .base import (
    LinAlgError,
    broadcast_batch,
    check_kernel,
    check_square,
    check_system,
    column_major,
    flat_batch,
    full_precision,
    linalg,
    renamed,
)
from .solve import with_info
from .triangular import solve_triangular_op


def _minor(xp, one) -> int:
    """The order of the first leading minor of a matrix that is not positive-definite; 0 if there is none."""
    for k in range(1, one.shape[0] + 1):
        try:
            L = xp.checked_linalg.cholesky(one[:k, :k])
        except SingularError:
            return k
        if xp.isnan(L[-1, -1]):
            return k
    return 0


# -- Cholesky ----------------------------------------------------------------------------------------------------


def _not_positive(xp, A, name: str) -> LinAlgError:
    text = "The factorization could not be completed because the input is not positive-definite"
    for i, one in enumerate(flat_batch(A)):
        k = _minor(xp, one)
        if k:
            where = f"(Batch element {i}): " if A.ndim > 2 else ""
            return LinAlgError(
                f"{name}: {where}{text} (the leading minor of order {k} is not positive-definite)."
            )
    return LinAlgError(f"{name}: {text}.")


def _cholesky(xp, self):
    try:
        L = xp.checked_linalg.cholesky(self)
    except SingularError:
        raise _not_positive(xp, self, "linalg.cholesky") from None
    if xp.surely(xp.isnan(xp.diagonal(L, 0, -2, -1))):  # not every LAPACK says so
        raise _not_positive(xp, self, "linalg.cholesky")
    return column_major(xp, L)


def _cholesky_self(F, g, result):
    """L^-H phi(L^H g) L^-1 / 2; phi(X) is the lower triangle of X and its mirror image."""
    inner = F.triangle(F.matmul(F.mH(result), g), True, 0)
    inner = 0.5 * (inner + F.mH(F.triangle(inner, True, -1)))
    left = F.linalg_solve_triangular(F.mH(result), inner, True, False)
    return F.mH(F.linalg_solve_triangular(F.mH(result), F.mH(left), True, False))


def _cholesky_jvp(F, self_t, result):
    """L phi(L^-1 dA L^-H); phi keeps the lower triangle and halves the diagonal."""
    left = F.linalg_solve_triangular(result, self_t, False, False)
    inner = F.mH(F.linalg_solve_triangular(result, F.mH(left), False, False))
    phi = 0.5 * (F.triangle(inner, True, 0) + F.triangle(inner, True, -1))
    return F.matmul(result, phi)


cholesky_op = declare(
    "linalg_cholesky", full_precision("cholesky_cpu", _cholesky),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True, self=_cholesky_self, jvp=_cholesky_jvp,
    node="LinalgCholeskyExBackward0",
    # one triangle is read but both get a gradient, which a difference quotient of larger samples would not see
    samples=lambda t: [] if t.dtype.is_complex else [(t(1, 1, low=0.5),), (t(2, 1, 1, low=0.5),)],
    batch="leading",
)  # fmt: skip


@linalg("cholesky")
def cholesky(A, *, upper=False, out=None):
    """The Cholesky factors of Hermitian positive-definite matrices: L with ``A = L @ L^H``.

    Args:
        A: matrices (..., n, n), of which only the lower triangle is read.
        upper: whether the upper triangle is read and U with ``A = U^H @ U`` is returned.
        out: written to instead of a new tensor.

    Returns:
        Lower (or upper) triangular matrices (..., n, n). The gradient is Hermitian.

    Raises:
        LinAlgError: a matrix is not positive-definite.
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.linalg.cholesky(gradlib.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    check_square("linalg.cholesky", A, half=True)
    L = cholesky_op.call(A)
    if upper:  # in columns, too
        L = L.contiguous().mT.conjugate()
    return write_same(out, L)


@linalg("cholesky_ex")
def cholesky_ex(A, *, upper=False, check_errors=False, out=None):
    """As ``linalg.cholesky``, but what went wrong is a number instead of an exception.

    Args:
        A: Hermitian positive-definite matrices (..., n, n), of which only the lower triangle is read.
        upper: whether to return ``L^H`` instead of L.
        check_errors: raise LinAlgError after all.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (L, info): info (...) of int32 is 0, or the order of the first leading minor that is not
            positive; then that matrix of L is nan.

    Raises:
        LinAlgError: with `check_errors`, a matrix is not positive-definite.
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.linalg.cholesky_ex(gradlib.tensor([[4.0, 0.0], [0.0, -1.0]])).info
        tensor(2, dtype=torch.int32)
    """

    def run(matrix):
        return cholesky(matrix, upper=upper)

    with renamed("linalg.cholesky", "linalg.cholesky_ex"):
        found = with_info(run, _minor, check_errors, A)
    return write_same(out, return_types.linalg_cholesky_ex(*found))


@function("cholesky", method=True)
def _cholesky_function(input, upper=False, *, out=None):
    """L with ``input = L @ L^H``: the older form of ``linalg.cholesky``, with its errors.

    Args:
        input: Hermitian positive-definite matrices (..., n, n).
        upper: whether the upper triangle is read and U with ``input = U^H @ U`` is returned.
        out: written to instead of a new tensor.

    Returns:
        Triangular matrices (..., n, n).

    Raises:
        LinAlgError: a matrix is not positive-definite.
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.cholesky(gradlib.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    check_square("cholesky", input, half=True)
    with renamed("linalg.cholesky", "cholesky"):
        return cholesky(input, upper=upper, out=out)


# The gradient of a factor is that of a full matrix: the other triangle, which is not read, gets one too. So a
# difference quotient can check samples of one element only.


def _triangular(xp, L, B, upper: bool):
    return solve_triangular_op.forward(xp, L, B, upper=upper, unitriangular=False)


def _cholesky_solve(xp, self, input2, *, upper):
    adjoint = xp.swapaxes(input2, -1, -2).conj()
    lower, higher = (adjoint, input2) if upper else (input2, adjoint)
    return _triangular(xp, higher, _triangular(xp, lower, self, False), True)


def factor_gradient(F, inner, L, upper):
    """The gradient of L when the one of ``A = L L^H`` is ``-inner / 2`` symmetrised."""
    both = inner + F.mH(inner)
    return -F.matmul(L, both) if upper else -F.matmul(both, L)


def _factor_tangent(F, L, L_t, upper):
    part = F.matmul(F.mH(L_t), L) if upper else F.matmul(L_t, F.mH(L))
    return part + F.mH(part)


def _cholesky_solve_jvp(F, input2, self_t, input2_t, result, upper):
    right = self_t
    if input2_t is not None:
        change = F.matmul(_factor_tangent(F, input2, input2_t, upper), result)
        right = -change if right is None else right - change
    return F.cholesky_solve(right, input2, upper)


def _cholesky_inverse(xp, self, *, upper):
    if not xp.waits:
        zero = xp.diagonal(self, 0, -2, -1) == 0
        if zero.any():
            element, *batch = np.argwhere(zero)[0].tolist()[::-1]
            where = (
                f"(Batch element {np.argwhere(zero.reshape(-1, zero.shape[-1]))[0][0]}): "
                if batch
                else ""
            )
            raise LinAlgError(
                f"cholesky_inverse: {where}The diagonal element {element + 1} is zero, the inversion could not be "
                "completed because the input matrix is singular."
            )
    return _cholesky_solve(xp, xp.eye(self.shape[-1], dtype=self.dtype), self, upper=upper)


cholesky_solve_op = declare(
    "cholesky_solve", full_precision("cholesky_solve_cpu", _cholesky_solve),
    captures=captures.SOLVER, autocast="cpu:float32", promote="none", complex=True,
    jvp=_cholesky_solve_jvp,
    self=lambda F, g, input2, upper: F.cholesky_solve(g, input2, upper),
    input2=lambda F, g, input2, result, upper: factor_gradient(
        F, F.matmul(F.cholesky_solve(g, input2, upper), F.mH(result)), input2, upper
    ),
    samples=lambda t: [(t(1, 2), t(1, 1, low=1.0), False), (t(2, 1, 2), t(2, 1, 1, low=1.0), True)],
)  # fmt: skip
cholesky_inverse_op = declare(
    "cholesky_inverse", full_precision("cholesky_inverse_out_cpu", _cholesky_inverse),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True,
    self=lambda F, g, self, result, upper: factor_gradient(F, F.matmul(result, F.matmul(g, result)), self, upper),
    jvp=lambda F, self, self_t, result, upper: -F.matmul(
        result, F.matmul(_factor_tangent(F, self, self_t, upper), result)
    ),
    samples=lambda t: [(t(1, 1, low=1.0), False), (t(2, 1, 1, low=1.0), True)],
    batch="leading",
)  # fmt: skip


@function("cholesky_solve", method=True)
def cholesky_solve(B, L, upper=False, *, out=None):
    """X with ``A @ X = B``, where A is given by its Cholesky factor.

    Args:
        B: right hand sides (..., n, k).
        L: the factors (..., n, n) as ``linalg.cholesky`` returns them; the batches of both broadcast.
        upper: whether the factors are upper triangular: ``A = L^H @ L``.
        out: written to instead of a new tensor.

    Returns:
        Solutions (..., n, k).

    Raises:
        RuntimeError: the shapes or dtypes do not fit.

    Example:
        >>> gradlib.cholesky_solve(gradlib.tensor([[8.0], [9.0]]), gradlib.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor([[2.],
                [1.]])
    """
    for name, t in (("b", B), ("u", L)):
        if t.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {t.ndim} dimensions instead"
            )
    B, L = widened(B, L)
    check_system(L, B, "cholesky_solve")
    check_kernel("cholesky_solve_cpu", L)
    B, L = broadcast_batch(B, L)
    return write_out(out, cholesky_solve_op.call(B, L, bool(upper)))


@function("cholesky_inverse", method=True)
def cholesky_inverse(L, upper=False, *, out=None):
    """The inverse of matrices that are given by their Cholesky factors.

    Args:
        L: the factors (..., n, n) as ``linalg.cholesky`` returns them.
        upper: whether they are upper triangular: ``A = L^H @ L``.
        out: written to instead of a new tensor.

    Returns:
        The inverses of ``A = L @ L^H``, (..., n, n).

    Raises:
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.cholesky_inverse(gradlib.tensor([[2.0, 0.0], [0.0, 5.0]]))
        tensor([[0.2500, 0.0000],
                [0.0000, 0.0400]])
    """
    (L,) = widened(L)
    if L.ndim > 1:
        check_kernel("cholesky_inverse_out_cpu", L)
    check_square("cholesky_inverse", L)
    return write_out(out, cholesky_inverse_op.call(L, bool(upper)))
