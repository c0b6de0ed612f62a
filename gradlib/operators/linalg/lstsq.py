"""The pseudo-inverse, least squares and the rank."""

from __future__ import annotations

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import PUBLIC, write_out
from ...tape import dtypes
from ...tape.errors import check_broadcast, size
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor
from ..kinds import same_dtype
from .base import (
    check_matrix,
    check_square,
    column_major,
    computes_in_half,
    full_precision,
    linalg,
    safe_out,
    singular_values,
)
from .decompose import eigenpairs, eigvalsh, svdvals
from .solve import is_vector

# -- pseudo-inverse, least squares, rank ---------------------------------------------------------------------------


def _pinv(xp, self, *, rtol, atol, hermitian):
    """From the singular values above max(atol, rtol * the largest)."""
    if not self.size:
        return xp.zeros((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype)
    if hermitian:
        L, V = eigenpairs(xp, self, uplo="L")
        size = xp.abs(L)
        limit = xp.maximum(atol, rtol * size.max(-1, keepdims=True))
        inverse = xp.where(
            size > limit, 1 / xp.where(size > limit, L, xp.ones_like(L)), xp.zeros_like(L)
        )
        return xp.matmul(V * inverse[..., None, :], xp.swapaxes(V, -1, -2).conj())
    return _by_values(xp, self, rtol, atol)[0]


def _by_values(xp, A, rtol, atol) -> tuple:
    """(pseudo-inverses, ranks)."""
    U, S, Vh = singular_values(xp, A, False)
    counts = xp.maximum(atol, rtol * S.max(-1, keepdims=True)) < S
    inverse = xp.where(counts, 1 / xp.where(counts, S, xp.ones_like(S)), xp.zeros_like(S))
    P = xp.matmul(
        xp.swapaxes(Vh, -1, -2).conj() * inverse[..., None, :], xp.swapaxes(U, -1, -2).conj()
    )
    return P, counts.sum(-1)


def _pinv_self(F, g, self, result):
    P, Ph, gh = result, F.mH(result), F.mH(g)
    first = F.matmul(F.matmul(Ph, g), Ph)
    left = F.matmul(gh, F.matmul(P, Ph))
    right = F.matmul(F.matmul(Ph, P), gh)
    return (
        (left - F.matmul(self, F.matmul(P, left)))
        + (right - F.matmul(F.matmul(right, P), self))
        - first
    )


pinv_op = declare(
    "linalg_pinv", full_precision("linalg_svd_cpu", _pinv),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True, self=_pinv_self,
    samples=lambda t: [(t(4, 3), 1e-10, 0.0, False), (t(2, 3, 4), 1e-10, 0.0, False)],
)  # fmt: skip


def tolerances(A: Tensor, rtol, atol):
    """(rtol, atol) with PyTorch's defaults: max(m, n) * eps, or 0 if an absolute tolerance is given.

    Tensors, one tolerance for each matrix of the batch, come back with a dimension to compare with singular values.
    """
    default = max(A._array.shape[-2:]) * dtypes.finfo(A.dtype).eps
    if rtol is None:
        rtol = default
        if isinstance(atol, Tensor):
            rtol = (atol <= 0) * default
        elif atol is not None and atol > 0:
            rtol = 0.0
    return _per_matrix(rtol), _per_matrix(0.0 if atol is None else atol)


def _per_matrix(tolerance):
    return tolerance.detach().unsqueeze(-1) if isinstance(tolerance, Tensor) else tolerance


def _check_tolerance(name: str, argument: str, tolerance) -> None:
    if isinstance(tolerance, Tensor) and tolerance.dtype.is_complex:
        raise RuntimeError(
            f"{name}: {argument} tensor of complex type is not supported. Got "
            f"{tolerance.dtype.scalar_type}"
        )


@linalg("pinv", also="pinverse", methods="pinverse")
def pinv(A, rcond=None, *, atol=None, rtol=None, hermitian=False, out=None):
    """The Moore-Penrose pseudo-inverse of matrices.

    Args:
        A: matrices (..., m, n).
        rcond: an older name of `rtol`.
        atol, rtol: singular values up to max(atol, rtol * the largest) count as 0; numbers or tensors (...).
        hermitian: whether the matrices are Hermitian: then eigenvalues are used.
        out: written to instead of a new tensor.

    Returns:
        Matrices (..., n, m).

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.linalg.pinv(gradlib.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    if A.ndim < 2 or A.dtype.category < dtypes.FLOATING or computes_in_half(A):
        raise RuntimeError(
            f"linalg.pinv({A.dtype.scalar_type}{{{size(A._array.shape)}}}): expected a tensor "
            "with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian:
        check_square("linalg.eigh", A)
    _check_tolerance("torch.linalg.pinv", "atol", atol)
    _check_tolerance("torch.linalg.pinv", "rtol", rtol)
    rtol, atol = tolerances(A, rcond if rcond is not None else rtol, atol)
    raw = (raw_values(t) if isinstance(t, Tensor) else t for t in (rtol, atol))
    return write_out(out, pinv_op.call(A, *raw, hermitian))


def _lstsq(xp, self, b, *, rtol):
    """(solution, rank) by singular values; nothing is solved for no column."""
    if not self.size:
        P = _pinv(xp, self, rtol=rtol, atol=0.0, hermitian=False)
        rank = xp.zeros(self.shape[:-2], "i8")
    else:
        P, rank = _by_values(xp, self, rtol, 0.0)
    return column_major(xp, xp.matmul(P, b)), rank.astype("i8") * min(b.shape[-1], 1)


def _lstsq_vjp(F, gs, self, b, result0, self_shape, b_shape, rtol, needs):
    """With P the pseudo-inverse and u = P^H g; the last two terms are for what A cannot reach, and does not see."""
    g, X = gs[0], result0
    if g is None:
        return None, None
    P = F.linalg_pinv(self, rtol, 0.0, False)
    u = F.matmul(F.mH(P), g)
    gA = None
    if needs[0]:
        reach = F.matmul(b - F.matmul(self, X), F.mH(F.matmul(P, u)))
        see = F.matmul(F.matmul(F.mH(P), X), F.mH(g - F.matmul(P, F.matmul(self, g))))
        gA = F.sum_to_size(reach + see - F.matmul(u, F.mH(X)), self_shape)
    return gA, F.sum_to_size(u, b_shape) if needs[1] else None


lstsq_op = declare(
    "linalg_lstsq", full_precision("linalg_svd_cpu", _lstsq),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=2, promote="none", complex=True, vjp=_lstsq_vjp,
    nondifferentiable=(1,),
    samples=lambda t: [(t(4, 3), t(4, 2), 1e-10), (t(2, 3, 4), t(3, 2), 1e-10), (t(3, 3), t(3, 1), 1e-10)],
)  # fmt: skip


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _check_known(A: Tensor) -> None:
    if A._array.dtype not in dtypes.DIFFERENTIABLE or computes_in_half(A):
        raise RuntimeError("This function doesn't handle types other than float and double")


def _check_lstsq(A: Tensor, B: Tensor, driver) -> bool:
    """Whether B is a vector; RuntimeError for what cannot be solved."""
    name = "torch.linalg.lstsq"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    text = "Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}"
    same_dtype(A, B, f"{name}: {text}")
    _check_known(A)
    if not 0 <= A.ndim - B.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    vector = is_vector(A, B)
    if not vector and B.ndim < A.ndim:
        check_broadcast(B._array.shape[:-1], A._array.shape[:-2])
    m, n = A.shape[-2], B.shape[-1 if vector else -2]
    if m != n:
        where = (
            "input.size(-2) should match other.size(-1)"
            if vector
            else "input.size(-2) should match other.size(-2)"
        )
        raise RuntimeError(f"{name}: {where}")
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    return vector


@linalg("lstsq")
def lstsq(A, B, rcond=None, *, driver=None, out=None):
    """The least-squares problem ``A @ X = B``.

    Args:
        A: matrices (..., m, n).
        B: right hand sides (..., m, k), or vectors (..., m).
        rcond: singular values up to that times the largest count as 0.
        driver: "gels" (takes A to be of full rank), "gelsy", "gelsd" or "gelss"; on a device "gels" alone.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (solution, residuals, rank, singular_values): residuals are the squared norms of the columns of
            ``A @ X - B``, empty unless A is tall and of full rank; the rank is empty with "gels"; singular values are
            those of "gelsd" and "gelss" alone.

    Raises:
        RuntimeError: the shapes do not fit, or another driver.

    Example:
        >>> A, B = gradlib.tensor([[1.0], [1.0]]), gradlib.tensor([[1.0], [3.0]])
        >>> gradlib.linalg.lstsq(A, B).solution.round(decimals=3)
        tensor([[2.]])
    """
    vector = _check_lstsq(A, B, driver)
    rows = B.unsqueeze(-1) if vector else B
    m, n = A._array.shape[-2:]
    rtol = 0.0 if driver == "gels" else tolerances(A, rcond, None)[0]
    values = PUBLIC["empty"](0, dtype=A.dtype.to_real(), device=A.device)
    if driver in (None, "gelsy"):
        X, rank = lstsq_op.call(A, rows, raw_values(rtol) if isinstance(rtol, Tensor) else rtol)
        full = False
    else:
        X = pinv(A, rtol=rtol) @ rows
        rank, full = PUBLIC["empty"](0, dtype=dtypes.int64, device=A.device), True
        if driver != "gels":
            values = svdvals(A.detach())
            rank = _count_above(values, rtol, 0.0) * min(rows._array.shape[-1], 1)
            full = bool((rank == n).all())
    if m > n and full:
        residuals = (A @ X - rows).abs().square().sum(-2)
    else:  # empty, and nevertheless a function of A and B
        residuals = X.reshape((-1,))[:0].abs()
    solution = X.squeeze(-1) if vector else X
    return write_out(out, return_types.linalg_lstsq(solution, residuals, rank, values))


def _count_above(S: Tensor, rtol, atol) -> Tensor:
    """How many singular values of each matrix count as not 0."""
    if not S._array.shape[-1]:
        return S.sum(-1).to(dtypes.int64)
    limit = S.amax(-1, keepdim=True) * rtol
    limit = limit.maximum(atol) if isinstance(atol, Tensor) else limit.clamp_min(atol)
    return (limit < S).sum(-1)


@linalg("matrix_rank")
def matrix_rank(A, tol=None, *, atol=None, rtol=None, hermitian=False, out=None):
    """The number of singular values that do not count as 0.

    Args:
        A: matrices (..., m, n).
        tol: an older name of `atol`.
        atol, rtol: singular values up to max(atol, rtol * the largest) count as 0; numbers or tensors (...).
        hermitian: whether the matrices are Hermitian: then eigenvalues are used.
        out: written to instead of a new tensor.

    Returns:
        An int64 tensor (...).

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.linalg.matrix_rank(gradlib.tensor([[1.0, 2.0], [2.0, 4.0]]))
        tensor(1)
    """
    name = "torch.linalg.matrix_rank"
    check_matrix(name, A, "input", half=True)
    _check_known(A)
    if hermitian:
        check_square("linalg.eigh", A)
    _check_tolerance(name, "atol", atol)
    _check_tolerance(name, "rtol", rtol)
    if tol is not None:
        atol, rtol = tol, 0.0
    rtol, atol = tolerances(A, rtol, atol)
    S = eigvalsh(A.detach()).abs() if hermitian else svdvals(A.detach())
    return safe_out(name, out, _count_above(S, rtol, atol))
