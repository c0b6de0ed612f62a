"""Decompositions: QR, eigenvalues, singular values."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError as ConvergenceError  # CuPy raises NumPy's too

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import function, write_out, write_same
from ...op.formulas import formula_function
from ...tape import dtypes
from ...tape.modes import FORWARD_AD, NO_GRAD, state
from .base import (
    LinAlgError,
    added,
    check_matrix,
    check_square,
    column_major,
    full_precision,
    linalg,
    safe_out,
    singular_values,
)

# -- QR ----------------------------------------------------------------------------------------------------------


def _qr(xp, self, *, mode):
    if mode == "r":
        R = xp.linalg.qr(self, "r")
        return xp.zeros((0,), self.dtype), column_major(xp, R)
    Q, R = xp.linalg.qr(self, mode)
    return column_major(xp, Q), column_major(xp, R)


def _qr_tall(F, gQ, gR, Q, R):
    """The gradient for rows >= columns: (gQ + Q sym) R^-H, sym being the Hermitian part that keeps Q orthogonal."""
    inner = None if gR is None else F.matmul(R, F.mH(gR))
    if gQ is not None:
        part = F.matmul(F.mH(gQ), Q)
        inner = -part if inner is None else inner - part
    lower = F.triangle(inner, True, -1)
    diagonal = F.diag_vector(inner)
    sym = (
        lower
        + F.mH(lower)
        + F.diag_matrix(0.5 * (diagonal + diagonal.conjugate()), R.shape[-1], R.shape[-1])
    )
    right = added(gQ, F.matmul(Q, sym))
    return F.mH(F.linalg_solve_triangular(R, F.mH(right), True, False))


def _qr_self(F, gs, self, result0, result1, mode):
    gQ, gR = gs
    Q, R = result0, result1
    m, n = self.shape[-2], self.shape[-1]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to "
            "differentiate through linalg.qr."
        )
    if m > n and mode == "complete":
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    if m >= n:
        return _qr_tall(F, gQ, gR, Q, R)
    last = R.ndim - 1
    square, rest = F.slice(R, last, 0, m, 1), F.slice(self, last, m, n, 1)
    if gR is None:
        left = _qr_tall(F, gQ, None, Q, square)
        return F.cat([left, F.zeros_like(rest)], last)
    g1, g2 = F.slice(gR, last, 0, m, 1), F.slice(gR, last, m, n, 1)
    left = _qr_tall(F, added(gQ, F.matmul(rest, F.mH(g2))), g1, Q, square)
    return F.cat([left, F.matmul(Q, g2)], last)


qr_op = declare(
    "linalg_qr", full_precision("geqrf_cpu", _qr),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=2, complex=True, self=_qr_self,
    samples=lambda t: [(t(4, 3), "reduced"), (t(3, 4), "reduced"), (t(2, 3, 3), "complete")],
    batch="qr",
)  # fmt: skip


@linalg("qr")
def qr(A, mode="reduced", *, out=None):
    """The QR decomposition of matrices: ``A = Q @ R``.

    Args:
        A: matrices (..., m, n).
        mode: "reduced" (Q has min(m, n) columns), "complete" (Q is square; without derivative for m > n) or "r" (Q is
            empty; without derivative).
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (Q, R): Q with orthonormal columns, R upper triangular.

    Raises:
        RuntimeError: fewer than two dimensions, or another mode.

    Example:
        >>> q, r = gradlib.linalg.qr(gradlib.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> gradlib.allclose(q @ r, gradlib.tensor([[3.0, 1.0], [4.0, 2.0]]))
        True
    """
    check_matrix("linalg.qr", A, half=True)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return write_same(out, return_types.linalg_qr(*qr_op.call(A, mode)))


@function("qr", method=True)
def _qr_function(input, some=True, *, out=None):
    """(Q, R) with ``input = Q @ R``: the older form of ``linalg.qr``.

    Args:
        input: matrices (..., m, n).
        some: whether Q has only min(m, n) columns; else it is square.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (Q, R): Q with orthonormal columns, R upper triangular.

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> q, r = gradlib.qr(gradlib.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> gradlib.allclose(q @ r, gradlib.tensor([[3.0, 1.0], [4.0, 2.0]]))
        True
    """
    return write_same(out, return_types.qr(*qr(input, "reduced" if some else "complete")))


# -- eigenvalues -------------------------------------------------------------------------------------------------


def _gaps(F, L):
    """L_j - L_i off the diagonal, 1 on it."""
    return F.fill_diagonal(F.row(L) - F.column(L), 1)


@formula_function()
def check_phase(F, overlap, what, why):
    """RuntimeError if a function of complex vectors depends on their phases, which are arbitrary.

    It then changes along the imaginary parts of the diagonal of ``V^H @ gradient of V``. Only values on the CPU are
    looked at: on a GPU that would wait for them.
    """
    if not F.is_complex(overlap) or getattr(overlap, "is_cuda", False):
        return
    values = getattr(overlap, "_array", overlap)
    if type(values) is np.ndarray:
        turn = np.imag(np.diagonal(values, 0, -2, -1))
        if not np.allclose(turn, 0, 1e-2, 1e-2):
            raise RuntimeError(
                f"{what} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss "
                f"function depends on this {why} ill-defined."
            )


def _eigh_jvp(F, self_t, result0, result1):
    V = result1
    turned = F.matmul(F.matmul(F.mH(V), self_t), V)
    change = F.matmul(V, F.fill_diagonal(turned / _gaps(F, result0), 0))
    return F.real(F.diag_vector(turned)), change


def eigenpairs(xp, self, *, uplo):
    """(L, V) of raw matrices that are Hermitian; LinAlgError where LAPACK does not converge."""
    L, V = _converging_eigh(xp.checked_linalg.eigh, self, uplo)
    return L, column_major(xp, V)


def _converging_eigh(compute, A, uplo: str):
    try:
        return compute(A, uplo)
    except ConvergenceError:
        raise LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has too "
            "many repeated eigenvalues."
        ) from None


def _eigh_self(F, gs, result0, result1):
    gL, gV = gs
    V = result1
    if gV is None:
        return F.matmul(V * F.row(gL), F.mH(V))
    overlap = F.matmul(F.mH(V), gV)
    F.check_phase(overlap, "linalg_eigh_backward: The eigenvectors", "quantity, so it is")
    inner = F.fill_diagonal(overlap, 0) / _gaps(F, result0)
    if gL is not None:
        inner = inner + F.diag_matrix(gL, V.shape[-1], V.shape[-1])
    full = F.matmul(F.matmul(V, inner), F.mH(V))
    return 0.5 * (full + F.mH(full))


# Samples: eigh reads one triangle but both get a gradient, and eigenvectors of eig (and of complex matrices) have a
# free phase, so a difference quotient cannot check larger ones; the tests do, through functions without that freedom.
eigh_op = declare(
    "linalg_eigh", full_precision("linalg_eigh_cpu", eigenpairs),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=2, complex=True, self=_eigh_self, jvp=_eigh_jvp,
    samples=lambda t: [] if t.dtype.is_complex else [(t(1, 1), "L"), (t(2, 1, 1), "U")],
    batch="leading",
)  # fmt: skip


def _eigvalsh(xp, self, *, uplo):
    return _converging_eigh(xp.checked_linalg.eigvalsh, self, uplo)


eigvalsh_op = declare(
    "linalg_eigvalsh", full_precision("linalg_eigh_cpu", _eigvalsh),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True, public="linalg_eigh", node="LinalgEighBackward0",
    self=lambda F, g, self, uplo: _eigh_self(F, (g, None), *F.linalg_eigh(self, uplo)),
    samples=lambda t: [] if t.dtype.is_complex else [(t(1, 1), "L"), (t(2, 1, 1), "U")],
    batch="leading",
)  # fmt: skip


def _check_eigh(A, UPLO) -> str:
    check_square("linalg.eigh", A, half=True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


def _for_values(A) -> bool:
    """Whether no derivative can be asked for, which needs the vectors, too."""
    return (not A._rg and not state.bits & FORWARD_AD) or bool(state.bits & NO_GRAD)


@linalg("eigh")
def eigh(A, UPLO="L", *, out=None):
    """The eigenvalues and eigenvectors of Hermitian matrices.

    Args:
        A: matrices (..., n, n).
        UPLO: "L" or "U": the triangle that is read.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (eigenvalues, eigenvectors): real (..., n), ascending; and (..., n, n) with the vectors as
            columns. The gradient through the vectors is finite only if the values differ.

    Raises:
        RuntimeError: the matrices are not square, or another `UPLO`.

    Example:
        >>> gradlib.linalg.eigh(gradlib.tensor([[3.0, 0.0], [0.0, 2.0]])).eigenvalues
        tensor([2., 3.])
    """
    return write_same(out, return_types.linalg_eigh(*eigh_op.call(A, _check_eigh(A, UPLO))))


@linalg("eigvalsh")
def eigvalsh(A, UPLO="L", *, out=None):
    """The eigenvalues of Hermitian matrices; differentiable also where they coincide.

    Args:
        A: matrices (..., n, n).
        UPLO: "L" or "U": the triangle that is read.
        out: written to instead of a new tensor.

    Returns:
        Real eigenvalues (..., n), ascending.

    Raises:
        RuntimeError: the matrices are not square, or another `UPLO`.

    Example:
        >>> gradlib.linalg.eigvalsh(gradlib.tensor([[3.0, 0.0], [0.0, 2.0]]))
        tensor([2., 3.])
    """
    uplo = _check_eigh(A, UPLO)
    if _for_values(A):
        return write_same(out, eigvalsh_op.call(A, uplo))
    return write_same(out, eigh_op.call(A, uplo)[0])


def _eig(xp, self):
    kind = _complex(self)
    L, V = _converging_eig(xp, xp.checked_linalg.eig, self)
    return L.astype(kind), column_major(xp, V.astype(kind))


def _complex(array):
    return dtypes.from_np(array.dtype).to_complex().np


def _converging_eig(xp, compute, A):
    try:
        return compute(A)
    except ConvergenceError:
        if not xp.isfinite(A).all():
            raise RuntimeError(
                "torch.linalg.eig: input tensor should not contain infs or NaNs."
            ) from None
        raise LinAlgError(
            "torch.linalg.eig: The algorithm failed to converge because the input matrix is ill-conditioned."
        ) from None


def _eig_self(F, gs, self, result0, result1):
    gL, gV = gs
    V, n = result1, result1.shape[-1]
    inner = None if gL is None else F.diag_matrix(gL, n, n)
    if gV is not None:
        overlap = F.matmul(F.mH(V), gV)
        if F.is_complex(self):
            F.check_phase(overlap, "linalg_eig_backward: The eigenvectors", "quantity, so it is")
        real = F.real(F.diag_vector(overlap))
        fixed = overlap - F.matmul(F.mH(V), V * F.row(real))
        inner = added(inner, F.fill_diagonal(fixed, 0) / _gaps(F, result0).conjugate())
    out = F.linalg_solve(F.mH(V), F.matmul(inner, F.mH(V)))
    return out if F.is_complex(self) else F.real(out)


eig_op = declare(
    "linalg_eig", full_precision("linalg_eig_out_cpu", _eig),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=2, complex=True, self=_eig_self,
    samples=lambda t: [] if t.dtype.is_complex else [(t(1, 1),), (t(2, 1, 1),)],
    batch="leading",
)  # fmt: skip


def _eigvals(xp, self):
    return _converging_eig(xp, xp.checked_linalg.eigvals, self).astype(_complex(self))


eigvals_op = declare(
    "linalg_eigvals", full_precision("linalg_eig_out_cpu", _eigvals),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True, public="linalg_eig", node="LinalgEigBackward0",
    self=lambda F, g, self: _eig_self(F, (g, None), self, *F.linalg_eig(self)),
    samples=lambda t: [] if t.dtype.is_complex else [(t(1, 1),), (t(2, 1, 1),)],
    batch="leading",
)  # fmt: skip


@linalg("eig")
def eig(A, *, out=None):
    """The eigenvalues and eigenvectors of square matrices.

    Args:
        A: matrices (..., n, n).
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (eigenvalues, eigenvectors), both complex: (..., n) in no order, and (..., n, n) with the
            vectors as columns of norm 1. Their gradient needs different eigenvalues, and a loss that does not depend
            on the phases of the vectors.

    Raises:
        RuntimeError: the matrices are not square, or not finite.

    Example:
        >>> gradlib.linalg.eig(gradlib.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
        tensor([2.+0.j, 3.+0.j])
    """
    check_square("linalg.eig", A, half=True)
    return write_out(out, return_types.linalg_eig(*eig_op.call(A)))


@linalg("eigvals")
def eigvals(A, *, out=None):
    """The eigenvalues of square matrices.

    Args:
        A: matrices (..., n, n).
        out: written to instead of a new tensor.

    Returns:
        Complex eigenvalues (..., n) in no order; their gradient needs that they differ.

    Raises:
        RuntimeError: the matrices are not square, or not finite.

    Example:
        >>> gradlib.linalg.eigvals(gradlib.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor([2.+0.j, 3.+0.j])
    """
    check_square("linalg.eig", A, half=True)
    values = eigvals_op.call(A) if _for_values(A) else eig_op.call(A)[0]
    return safe_out("torch.linalg.eigvals", out, values, "eigenvalues")


# -- singular values ---------------------------------------------------------------------------------------------


def _svd(xp, self, *, full):
    U, S, Vh = singular_values(xp, self, full)
    return column_major(xp, U), S, column_major(xp, Vh)


def _svd_self(F, gs, self, result0, result1, result2, full):
    gU, gS, gVh = gs
    k = result1.shape[-1]
    m, n = self.shape[-2], self.shape[-1]
    if full and (gU is not None or gVh is not None) and m != n:
        gU = None if gU is None else F.slice(gU, gU.ndim - 1, 0, k, 1)
        gVh = None if gVh is None else F.slice(gVh, gVh.ndim - 2, 0, k, 1)
    U = F.slice(result0, result0.ndim - 1, 0, k, 1) if full and m > k else result0
    Vh = F.slice(result2, result2.ndim - 2, 0, k, 1) if full and n > k else result2
    return F.svd_gradient(gU, gS, gVh, U, result1, Vh)


@formula_function()
def svd_gradient(F, gU, gS, gVh, U, S, Vh):
    """The gradient of a reduced singular value decomposition; through S alone it needs no differences of S."""
    if gU is None and gVh is None:
        return F.matmul(U * F.row(gS), Vh)
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    square = S * S
    E = _gaps(F, square)
    inner = None if gS is None else F.diag_matrix(gS, k, k)
    left = None if gU is None else F.matmul(F.mH(U), gU)
    right = None if gVh is None else F.matmul(Vh, F.mH(gVh))
    if left is not None:
        inner = added(inner, (left - F.mH(left)) / E * F.row(S))
    if right is not None:
        inner = added(inner, (right - F.mH(right)) / E * F.column(S))
    if F.is_complex(U):
        F.check_phase(
            added(left, right), "svd_backward: The singular vectors", "phase term, making it"
        )
    if left is not None and F.is_complex(U):
        # the common phase of a pair of vectors is free: only the sum of its two gradients counts, and it must be 0
        diagonal = F.diag_vector(left)
        spare = 0.5 * (diagonal - diagonal.conjugate()) / S
        inner = F.fill_diagonal(inner, 0) + F.diag_matrix(
            spare + (gS if gS is not None else 0 * S), k, k
        )
    result = F.matmul(F.matmul(U, inner), Vh)
    if left is not None and m > k:
        scaled = gU / F.row(S)
        result = result + F.matmul(scaled - F.matmul(U, F.matmul(F.mH(U), scaled)), Vh)
    if right is not None and n > k:
        scaled = gVh / F.column(S)
        result = result + F.matmul(U, scaled - F.matmul(F.matmul(scaled, F.mH(Vh)), Vh))
    return result


svd_op = declare(
    "linalg_svd", full_precision("linalg_svd_cpu", _svd),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=3, complex=True, self=_svd_self,
    samples=lambda t: [] if t.dtype.is_complex else [(t(3, 2), False), (t(2, 2, 3), False), (t(2, 2), True)],
    batch="leading",
)  # fmt: skip


svdvals_op = declare(
    "linalg_svdvals", full_precision("linalg_svd_cpu", lambda xp, self: singular_values(xp, self, None)),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True, public="linalg_svd", node="LinalgSvdBackward0",
    self=lambda F, g, self: F.svd_gradient(None, g, None, *F.linalg_svd(self, False)),
    samples=lambda t: [] if t.dtype.is_complex else [(t(3, 2),), (t(2, 2, 3),)],
    batch="leading",
)  # fmt: skip


def _check_svd(A, driver) -> None:
    check_matrix("linalg.svd", A, half=True)
    if driver is not None and not A.is_cuda:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@linalg("svd")
def svd(A, full_matrices=True, *, driver=None, out=None):
    """The singular value decomposition of matrices: ``A = U @ diag(S) @ Vh``.

    Args:
        A: matrices (..., m, n).
        full_matrices: whether U (..., m, m) and Vh (..., n, n) are square; else they have min(m, n) columns and rows.
        driver: a method of cuSOLVER, for matrices on a device alone.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (U, S, Vh): orthonormal columns and rows; S (..., min(m, n)) real and descending. The gradient
            through U and Vh is finite only if the singular values differ from each other (and from 0).

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.linalg.svd(gradlib.tensor([[3.0, 0.0], [0.0, -4.0]])).S
        tensor([4., 3.])
    """
    _check_svd(A, driver)
    return write_same(out, return_types.linalg_svd(*svd_op.call(A, bool(full_matrices))))


@linalg("svdvals")
def svdvals(A, *, driver=None, out=None):
    """The singular values of matrices; differentiable also where they coincide.

    Args:
        A: matrices (..., m, n).
        driver: a method of cuSOLVER, for matrices on a device alone.
        out: written to instead of a new tensor.

    Returns:
        Real numbers (..., min(m, n)), descending.

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.linalg.svdvals(gradlib.tensor([[3.0, 0.0], [0.0, -4.0]]))
        tensor([4., 3.])
    """
    _check_svd(A, driver)
    return write_same(out, svdvals_op.call(A) if _for_values(A) else svd_op.call(A, False)[1])


@function("svd", method=True)
def _svd_function(input, some=True, compute_uv=True, *, out=None):
    """(U, S, V) with ``input = U @ diag(S) @ V^H``: the older form of ``linalg.svd``, which returns V^H.

    Args:
        input: matrices (..., m, n).
        some: whether U and V have only min(m, n) columns; else they are square.
        compute_uv: without it U and V are zeros.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (U, S, V); S is real and descending.

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.svd(gradlib.tensor([[3.0, 0.0], [0.0, -4.0]])).S
        tensor([4., 3.])
    """
    U, S, Vh = svd(input, not some)
    if not compute_uv:
        U, Vh = (input.new_zeros((*input.shape[:-2], n, n)) for n in input.shape[-2:])
    return write_same(out, return_types.svd(U, S, Vh.mH))
