"""Square matrices: determinants, inverses, linear systems."""

from __future__ import annotations

import math

from numpy.linalg import LinAlgError as SingularError  # CuPy raises NumPy's too

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import function, write_same
from ...op.formulas import formula_function
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor
from .base import (
    LinAlgError,
    check_batches,
    check_matrix,
    check_square,
    check_types,
    column_major,
    flat_batch,
    full_precision,
    linalg,
    renamed,
    singular_values,
)

# -- determinants ------------------------------------------------------------------------------------------------


def _cofactor(xp, self):
    """The derivative of the determinant by each element, also of singular matrices."""
    n = self.shape[-1]
    if not self.size:
        return self.copy()
    try:
        if (
            xp.waits
        ):  # which way is the better one would have to be waited for; the other is always right
            raise SingularError
        inverse = xp.linalg.inv(self)
    except SingularError:
        return _cofactor_by_values(xp, self)
    condition = xp.abs(inverse).max((-2, -1)) * xp.abs(self).max((-2, -1))
    good = condition * n < 1.0 / xp.sqrt(xp.finfo(self.dtype).eps)
    out = xp.linalg.det(self)[..., None, None].astype(self.dtype) * xp.swapaxes(inverse, -1, -2)
    if not good.all():
        out[~good] = _cofactor_by_values(xp, self[~good])
    return out


def _cofactor_by_values(xp, self):
    """The same by singular values."""
    n = self.shape[-1]
    finite = xp.isfinite(self).all((-2, -1))[..., None, None]
    U, S, Vh = singular_values(xp, xp.where(finite, self, xp.zeros_like(self)), True)
    others = xp.stack(
        [xp.prod(xp.concatenate([S[..., :i], S[..., i + 1 :]], -1), -1) for i in range(n)], -1
    )
    phase = (xp.linalg.det(U) * xp.linalg.det(Vh))[..., None, None]
    result = (phase * xp.matmul(U.conj() * others[..., None, :], Vh.conj())).astype(self.dtype)
    return xp.where(finite, result, xp.full_like(result, math.nan))


def _cofactor_self(F, g, self):
    inverse = F.mT(F.linalg_inv(self)).conjugate()
    det = F.unsqueeze(F.unsqueeze(F.linalg_det(self), self.ndim - 2), self.ndim - 2).conjugate()
    # cofactor = det * inv^T, a product: the change of det, and the change of the inverse
    total = F.sum(g * F.mT(F.linalg_inv(self)).conjugate(), (self.ndim - 2, self.ndim - 1), True)
    return det * (total * inverse - F.matmul(F.matmul(inverse, F.mT(g)), inverse))


cofactor_op = declare(
    "cofactor", full_precision("lu_cpu", _cofactor),
    captures=captures.SOLVER, complex=True, self=_cofactor_self, node="LinalgDetBackward0",
    samples=lambda t: [(t(3, 3),), (t(2, 2, 2),)],
)  # fmt: skip


def _det(xp, self):
    return xp.asarray(xp.linalg.det(self), self.dtype), None, None


# What forward has factored is kept for the kernels of the gradients, where there are some; the formulas go without.
FACTORS = {"LU": lambda F, self: self, "pivots": lambda F, self: self}
det_op = declare(
    "linalg_det", full_precision("lu_cpu", _det),
    captures=captures.SOLVER, complex=True, node="LinalgDetBackward0", hidden=FACTORS, saves="result",
    self=lambda F, g, self: F.unsqueeze(F.unsqueeze(g, g.ndim), g.ndim + 1) * F.cofactor(self).conjugate(),
    samples=lambda t: [(t(3, 3),), (t(2, 3, 3),), (t(1, 1),), (t(0, 3, 3),)],
    batch="leading",
)  # fmt: skip


def _slogdet(xp, self):
    sign, log = xp.linalg.slogdet(self)
    return xp.asarray(sign, self.dtype), xp.asarray(log, self.real.dtype), None, None


def _slogdet_self(F, gs, self, result0):
    weight = gs[1]
    if F.is_complex(self) and gs[0] is not None:
        turn = F.imag(gs[0] * result0.conjugate()) * 1j
        weight = turn if weight is None else weight + turn
    if weight is None:
        return F.zeros_like(self)
    return F.unsqueeze(F.unsqueeze(weight, weight.ndim), weight.ndim + 1) * F.mH(
        F.inverse_or_nan(self)
    )


@formula_function()
def inverse_or_nan(F, A):
    """The inverses of matrices; where one is singular, nan."""
    try:
        return F.linalg_inv(A)
    except LinAlgError:
        return A * float("nan")


slogdet_op = declare(
    "linalg_slogdet", full_precision("lu_cpu", _slogdet),
    captures=captures.SOLVER, n_out=2, complex=True, hidden=FACTORS, self=_slogdet_self,
    samples=lambda t: [(t(3, 3),), (t(2, 3, 3),)],
    batch="leading",
)  # fmt: skip


@linalg("det", also="det", methods="det")
def det(A, *, out=None):
    """The determinant of square matrices. The gradient exists for singular matrices, too.

    Args:
        A: matrices (..., n, n).
        out: written to instead of a new tensor.

    Returns:
        Numbers (...); 1 for n = 0.

    Raises:
        RuntimeError: the matrices are not square, or of integers.

    Example:
        >>> gradlib.linalg.det(gradlib.tensor([[2.0, 0.0], [1.0, 3.0]]))
        tensor(6.)
    """
    check_square("linalg.det", A, half=True)
    return write_same(out, det_op.call(A))


def _slogdet_pair(result_type):
    def slogdet(A, *, out=None):
        """The determinant of square matrices as sign and logarithm: ``det = sign * exp(logabsdet)``, without overflow.

        Args:
            A: matrices (..., n, n).
            out: a tuple of tensors, written to instead of new ones.

        Returns:
            A named tuple (sign, logabsdet) of numbers (...); (0, -inf) for a singular matrix. The sign of a complex
                one is a complex number of absolute value 1.

        Raises:
            RuntimeError: the matrices are not square.

        Example:
            >>> gradlib.linalg.slogdet(-gradlib.eye(1))
            torch.return_types.linalg_slogdet(
            sign=tensor(-1.),
            logabsdet=tensor(0.))
        """
        check_square("linalg.slogdet", A)
        return write_same(out, result_type(*slogdet_op.call(A)))

    return slogdet


slogdet = linalg("slogdet")(_slogdet_pair(return_types.linalg_slogdet))
function("slogdet", method=True)(_slogdet_pair(return_types.slogdet))


@function("logdet", method=True)
def logdet(input):
    """The logarithm of the determinant of square matrices.

    Args:
        input: matrices (..., n, n).

    Returns:
        Numbers (...): nan where the determinant is negative, -inf where it is 0.

    Raises:
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.logdet(gradlib.eye(2))
        tensor(0.)
    """
    check_square("logdet", input)
    sign, log = slogdet(input)
    if input.is_complex():
        return log + sign.log()
    return log.where(sign != -1, float("nan"))


# -- inverse and solutions ---------------------------------------------------------------------------------------


def _zero_pivot(xp, A) -> int:
    """The number (from 1) of the pivot at which elimination of one matrix meets a zero."""
    A = A.copy()
    for k in range(A.shape[0]):
        p = k + int(xp.abs(A[k:, k]).argmax())
        if A[p, k] == 0:
            return k + 1
        A[[k, p]] = A[[p, k]]
        A[k + 1 :, k:] -= (A[k + 1 :, k] / A[k, k])[:, None] * A[k, k:]
    return A.shape[0]


def _inv(xp, self):
    try:
        return column_major(xp, xp.checked_linalg.inv(self))
    except SingularError:
        flat = flat_batch(self)
        for i, one in enumerate(flat):
            try:
                xp.checked_linalg.inv(one)
            except SingularError:
                where = f"(Batch element {i}): " if self.ndim > 2 else ""
                raise LinAlgError(
                    f"linalg.inv: {where}The diagonal element {_zero_pivot(xp, one)} is zero, the inversion could "
                    "not be "
                    "completed because the input matrix is singular."
                ) from None
        raise


inv_op = declare(
    "linalg_inv", full_precision("lu_cpu", _inv),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True, node="LinalgInvExBackward0",
    self=lambda F, g, result: -F.matmul(F.matmul(F.mH(result), g), F.mH(result)),
    jvp=lambda F, self_t, result: -F.matmul(F.matmul(result, self_t), result),
    samples=lambda t: [(t(3, 3),), (t(2, 3, 3),), (t(0, 0),)],
    batch="leading",
)  # fmt: skip


@linalg("inv", also="inverse", methods="inverse")
def inv(A, *, out=None):
    """The inverses of square matrices.

    Args:
        A: matrices (..., n, n).
        out: written to instead of a new tensor.

    Returns:
        Matrices (..., n, n).

    Raises:
        LinAlgError: a matrix is singular.
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.linalg.inv(gradlib.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    check_square("linalg.inv", A)
    return write_same(out, inv_op.call(A))


def with_info(fn, where, check_errors: bool, A: Tensor, *others: Tensor):
    """(fn(A, *others), info); where it fails the result is nan and info says ``where(xp, matrix)``.

    With `check_errors` it fails as `fn` does.
    """

    xp = backend_of(A._array)
    try:
        return fn(A, *others), Tensor._make(xp.zeros(A._array.shape[:-2], "i4"))
    except LinAlgError:
        if check_errors:
            raise
    with beside(A._array):
        xp = backend_of(A._array)
        flat = flat_batch(raw_values(A))
        info = xp.asarray([where(xp, one) for one in flat], "i4")
        failed = (info != 0).reshape((*A._array.shape[:-2], 1, 1))
        real = flat.real.dtype
        good = Tensor._make(~failed)
        eye = Tensor._make(xp.eye(flat.shape[-1], dtype=flat.dtype))
        ones = Tensor._make(xp.where(failed, xp.asarray(math.nan, real), xp.asarray(1, real)))
        zeros = Tensor._make(xp.where(failed, xp.asarray(math.nan, real), xp.asarray(0, real)))
    result = fn(A.where(good, eye), *others)
    lost = (A * zeros).sum(
        (-2, -1), keepdim=True
    )  # so that the gradient of what failed is nan, too
    if result.ndim < A.ndim:  # vectors
        ones, lost = ones.squeeze(-1), lost.squeeze(-1)
    return result * ones + lost, Tensor._make(info.reshape(A._array.shape[:-2]))


@linalg("inv_ex")
def inv_ex(A, *, check_errors=False, out=None):
    """As ``linalg.inv``, but what went wrong is a number instead of an exception.

    Args:
        A: matrices (..., n, n).
        check_errors: raise LinAlgError after all.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (inverse, info): info (...) of int32 is 0, or the number of the zero pivot; then that inverse is
            nan.

    Raises:
        LinAlgError: with `check_errors`, a matrix is singular.
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.linalg.inv_ex(gradlib.zeros(2, 2)).info
        tensor(1, dtype=torch.int32)
    """
    check_square("linalg.inv", A)
    with renamed("linalg.inv", "linalg.inv_ex"):
        found = with_info(inv, _pivot_or_zero, check_errors, A)
    return write_same(out, return_types.linalg_inv_ex(*found))


def _pivot_or_zero(xp, one) -> int:
    try:
        xp.checked_linalg.inv(one)
    except SingularError:
        return _zero_pivot(xp, one)
    return 0


def _solve(xp, A, B):
    try:
        return column_major(xp, xp.checked_linalg.solve(A, B)), None, None
    except SingularError:
        where = ""
        if A.ndim > 2:
            singular = xp.linalg.det(A) == 0
            where = f"(Batch element {int(singular.reshape(-1).argmax())}): "
        raise LinAlgError(
            f"torch.linalg.solve: {where}The solver failed because the input matrix is singular."
        ) from None


def _solve_jvp(F, A, B, A_t, B_t, result):
    right = (
        B_t
        if A_t is None
        else -F.matmul(A_t, result)
        if B_t is None
        else B_t - F.matmul(A_t, result)
    )
    return F.linalg_solve(A, right)


solve_op = declare(
    "linalg_solve", full_precision("lu_cpu", _solve),
    captures=captures.SOLVER, autocast="cpu:float32", promote="none", complex=True, jvp=_solve_jvp,
    node="LinalgSolveExBackward0", hidden={"LU": lambda F, A: A, "pivots": lambda F, A: A}, saves="result",
    A=lambda F, g, A, result, A_shape: F.times_h(-F.linalg_solve(F.mH(A), g), result, A_shape),
    B=lambda F, g, A, B_shape: F.sum_to_size(F.linalg_solve(F.mH(A), g), B_shape),
    samples=lambda t: [(t(3, 3), t(3, 2)), (t(2, 3, 3), t(3, 2)), (t(3, 3), t(2, 3, 2)), (t(0, 0), t(0, 2))],
)  # fmt: skip


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether B is one vector, or one for each matrix of A, and not matrices."""
    a, b = A._array.shape, B._array.shape
    return len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])


@linalg("solve")
def solve(A, B, *, left=True, out=None):
    """X with ``A @ X = B`` for square A.

    Args:
        A: matrices (..., n, n).
        B: right hand sides (..., n, k); or vectors: (n), or (*batch of A, n).
        left: whether A stands on the left; else ``X @ A = B`` is solved for B (..., k, n).
        out: written to instead of a new tensor.

    Returns:
        Solutions of the shape of B.

    Raises:
        LinAlgError: a matrix is singular.
        RuntimeError: the shapes do not fit.

    Example:
        >>> gradlib.linalg.solve(gradlib.tensor([[2.0, 0.0], [0.0, 4.0]]), gradlib.tensor([2.0, 2.0]))
        tensor([1.0000, 0.5000])
    """
    check_square("linalg.solve", A, half=True)
    check_types("linalg.solve", A, B)
    if not B._array.ndim:
        check_matrix("linalg.solve", B, "B", half=True)
    vector = is_vector(A, B)
    rows = B.unsqueeze(-1) if vector else B
    n, m = A._array.shape[-1], rows._array.shape[-2 if left else -1]
    if n != m:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({n}x{n} and {rows.shape[-2]}x{rows.shape[-1]})"
        )
    check_batches(rows, A)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    result = solve_op.call(A, rows) if left else solve_op.call(A.mT, rows.mT).mT
    return write_same(out, result.squeeze(-1) if vector else result)


@linalg("solve_ex")
def solve_ex(A, B, *, left=True, check_errors=False, out=None):
    """As ``linalg.solve``, but what went wrong is a number instead of an exception.

    Args:
        A: matrices (..., n, n).
        B: right hand sides (..., n, k), or vectors (..., n).
        left: whether A stands on the left of the solution.
        check_errors: raise LinAlgError after all.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (result, info): info (...) of int32 is 0, or the number of the zero pivot; then that result is
            nan.

    Raises:
        LinAlgError: with `check_errors`, a matrix is singular.
        RuntimeError: the shapes do not fit.

    Example:
        >>> gradlib.linalg.solve_ex(gradlib.tensor([[2.0]]), gradlib.tensor([[4.0]]))
        torch.return_types.linalg_solve_ex(
        result=tensor([[2.]]),
        info=tensor(0, dtype=torch.int32))
    """

    def run(matrix, right):
        return solve(matrix, right, left=left)

    with renamed("linalg.solve", "linalg.solve_ex"):
        found = with_info(run, _pivot_or_zero, check_errors, A, B)
    return write_same(out, return_types.linalg_solve_ex(*found))
