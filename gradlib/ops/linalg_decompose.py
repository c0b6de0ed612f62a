"""Decompositions: QR, eigenvalues, singular values, LU, and what is built on them (pinv, lstsq, rank, low-rank)."""

from __future__ import annotations

from .. import return_types
from ..core import dtypes
from ..core.formulas import formula_function
from ..core.op import declare
from ..core.tensor import Tensor
from .expose import function, write_out
from .linalg_solve import (
    check_matrix,
    check_square,
    check_types,
    first_bad,
    linalg,
    solve_triangular,
)

# -- formulas ----------------------------------------------------------------------------------------------------


@formula_function()
def column(F, v):
    """A vector (..., k) to scale rows: (..., k, 1)."""
    return F.unsqueeze(v, v.ndim)


@formula_function()
def row(F, v):
    """A vector (..., k) to scale columns: (..., 1, k)."""
    return F.unsqueeze(v, v.ndim - 1)


def _add(a, b):
    return b if a is None else a if b is None else a + b


# -- QR ----------------------------------------------------------------------------------------------------------


def _qr(xp, self, *, mode):
    if mode == "r":
        R = xp.linalg.qr(self, "r")
        return xp.zeros((0,), self.dtype), R
    Q, R = xp.linalg.qr(self, mode)
    return Q, R


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
    right = _add(gQ, F.matmul(Q, sym))
    return F.mH(F.linalg_solve_triangular(R, F.mH(right), True, False))


def _qr_self(F, gs, self, result0, result1, mode):
    gQ, gR = gs
    Q, R = result0, result1
    m, n = self.shape[-2], self.shape[-1]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to require gradients."
        )
    if m > n and mode == "complete":
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    if m >= n:
        return _qr_tall(F, gQ, gR, Q, R)
    last = R.ndim - 1
    square, rest = F.slice(R, last, 0, m, 1), F.slice(self, last, m, n, 1)
    if gR is None:
        left = _qr_tall(F, gQ, None, Q, square)
        return F.cat([left, F.zeros_like(rest)], last)
    g1, g2 = F.slice(gR, last, 0, m, 1), F.slice(gR, last, m, n, 1)
    left = _qr_tall(F, _add(gQ, F.matmul(rest, F.mH(g2))), g1, Q, square)
    return F.cat([left, F.matmul(Q, g2)], last)


qr_op = declare(
    "linalg_qr", _qr, n_out=2, complex=True, self=_qr_self,
    samples=lambda t: [(t(4, 3), "reduced"), (t(3, 4), "reduced"), (t(2, 3, 3), "complete")],
)  # fmt: skip


@linalg("qr")
def qr(A, mode="reduced", *, out=None):
    """(Q, R) with ``A = Q @ R``: Q has orthonormal columns, R is upper triangular.

    mode: "reduced", "complete" (square Q; no derivative for tall A) or "r" (Q is empty).
    """
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return write_out(out, return_types.linalg_qr(*qr_op.call(A, mode)))


@function("qr", method=True)
def _qr_function(input, some=True, *, out=None):
    """See ``linalg.qr``."""
    return write_out(out, return_types.qr(*qr(input, "reduced" if some else "complete")))


# -- eigenvalues -------------------------------------------------------------------------------------------------


def _gaps(F, L):
    """L_j - L_i off the diagonal, 1 on it."""
    return F.fill_diagonal(F.row(L) - F.column(L), 1)


def _eigh(xp, self, *, uplo):
    return tuple(xp.linalg.eigh(self, uplo))


def _eigh_self(F, gs, result0, result1):
    gL, gV = gs
    V = result1
    if gV is None:
        return F.matmul(V * F.row(gL), F.mH(V))
    inner = F.fill_diagonal(F.matmul(F.mH(V), gV), 0) / _gaps(F, result0)
    if gL is not None:
        inner = inner + F.diag_matrix(gL, V.shape[-1], V.shape[-1])
    full = F.matmul(F.matmul(V, inner), F.mH(V))
    return 0.5 * (full + F.mH(full))


# Samples: eigh reads one triangle but both get a gradient, and eigenvectors of eig (and of complex matrices) have a
# free phase, so a difference quotient cannot check larger ones; the tests do, through functions without that freedom.
eigh_op = declare(
    "linalg_eigh", _eigh, n_out=2, complex=True, self=_eigh_self,
    samples=lambda t: [] if t.dtype.is_complex else [(t(1, 1), "L"), (t(2, 1, 1), "U")],
)  # fmt: skip


@linalg("eigh")
def eigh(A, UPLO="L", *, out=None):
    """(eigenvalues ascending, eigenvectors as columns) of Hermitian matrices; one triangle ("L" or "U") is read.

    The gradient through the eigenvectors is finite only if the eigenvalues differ.
    """
    check_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return write_out(out, return_types.linalg_eigh(*eigh_op.call(A, UPLO.upper())))


@linalg("eigvalsh")
def eigvalsh(A, UPLO="L", *, out=None):
    """The eigenvalues of Hermitian matrices, ascending; differentiable also where they coincide."""
    check_square("linalg.eigh", A)
    return write_out(out, eigh_op.call(A, UPLO.upper())[0])


def _eig(xp, self):
    kind = dtypes.from_np(self.dtype).to_complex().np
    L, V = xp.linalg.eig(self)
    return L.astype(kind), V.astype(kind)


def _eig_self(F, gs, self, result0, result1):
    gL, gV = gs
    V, n = result1, result1.shape[-1]
    inner = None if gL is None else F.diag_matrix(gL, n, n)
    if gV is not None:
        overlap = F.matmul(F.mH(V), gV)
        real = F.real(F.diag_vector(overlap))
        fixed = overlap - F.matmul(F.mH(V), V * F.row(real))
        inner = _add(inner, F.fill_diagonal(fixed, 0) / _gaps(F, result0).conjugate())
    out = F.linalg_solve(F.mH(V), F.matmul(inner, F.mH(V)))
    return out if F.is_complex(self) else F.real(out)


eig_op = declare(
    "linalg_eig", _eig, n_out=2, complex=True, self=_eig_self, samples=lambda t: [(t(1, 1),), (t(2, 1, 1),)],
)  # fmt: skip


@linalg("eig")
def eig(A, *, out=None):
    """(eigenvalues, eigenvectors as columns of norm 1) of square matrices, complex, in no order."""
    check_square("linalg.eig", A)
    return write_out(out, return_types.linalg_eig(*eig_op.call(A)))


@linalg("eigvals")
def eigvals(A, *, out=None):
    """The eigenvalues of square matrices, complex, in no order."""
    check_square("linalg.eig", A)
    return write_out(out, eig_op.call(A)[0])


# -- singular values ---------------------------------------------------------------------------------------------


def _svd(xp, self, *, full):
    return tuple(xp.linalg.svd(self, full))


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
        inner = _add(inner, (left - F.mH(left)) / E * F.row(S))
    if right is not None:
        inner = _add(inner, (right - F.mH(right)) / E * F.column(S))
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
    "linalg_svd", _svd, n_out=3, complex=True, self=_svd_self,
    samples=lambda t: [] if t.dtype.is_complex else [(t(3, 2), False), (t(2, 2, 3), False), (t(2, 2), True)],
)  # fmt: skip


@linalg("svd")
def svd(A, full_matrices=True, *, driver=None, out=None):
    """(U, S, Vh) with ``A = U @ diag(S) @ Vh``: orthonormal columns and rows, S real and descending.

    The gradient through U and Vh is finite only if the singular values differ from each other (and from 0).
    """
    check_matrix("linalg.svd", A)
    return write_out(out, return_types.linalg_svd(*svd_op.call(A, bool(full_matrices))))


@linalg("svdvals")
def svdvals(A, *, driver=None, out=None):
    """The singular values, descending; differentiable also where they coincide."""
    check_matrix("linalg.svdvals", A)
    return write_out(out, svd_op.call(A, False)[1])


@function("svd", method=True)
def _svd_function(input, some=True, compute_uv=True, *, out=None):
    """(U, S, V) with ``input = U @ diag(S) @ V^H``; see ``linalg.svd``."""
    U, S, Vh = svd(input, not some)
    if not compute_uv:
        U, Vh = (input.new_zeros((*input.shape[:-2], n, n)) for n in input.shape[-2:])
    return write_out(out, return_types.svd(U, S, Vh.mH))


# -- pseudo-inverse, least squares, rank ---------------------------------------------------------------------------


def _pinv(xp, self, *, rtol, atol, hermitian):
    """From the singular values above max(atol, rtol * the largest)."""
    if not self.size:
        return xp.zeros((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype)
    if hermitian:
        L, V = xp.linalg.eigh(self)
        size = xp.abs(L)
        limit = xp.maximum(atol, rtol * size.max(-1, keepdims=True))
        inverse = xp.where(
            size > limit, 1 / xp.where(size > limit, L, xp.ones_like(L)), xp.zeros_like(L)
        )
        return xp.matmul(V * inverse[..., None, :], xp.swapaxes(V, -1, -2).conj())
    U, S, Vh = xp.linalg.svd(self, False)
    limit = xp.maximum(atol, rtol * S.max(-1, keepdims=True))
    inverse = xp.where(limit < S, 1 / xp.where(limit < S, S, xp.ones_like(S)), xp.zeros_like(S))
    return xp.matmul(
        xp.swapaxes(Vh, -1, -2).conj() * inverse[..., None, :], xp.swapaxes(U, -1, -2).conj()
    )


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
    "linalg_pinv", _pinv, complex=True, self=_pinv_self, node="LinalgPinvBackward0",
    samples=lambda t: [(t(4, 3), 1e-10, 0.0, False), (t(2, 3, 4), 1e-10, 0.0, False)],
)  # fmt: skip


def tolerances(A: Tensor, rtol, atol):
    """(rtol, atol) with PyTorch's defaults: max(m, n) * eps, or 0 if an absolute tolerance is given."""
    rtol, atol = (t.item() if isinstance(t, Tensor) and t.numel() == 1 else t for t in (rtol, atol))
    if rtol is None:
        rtol = (
            0.0 if atol is not None and atol > 0 else max(A.shape[-2:]) * dtypes.finfo(A.dtype).eps
        )
    return rtol, 0.0 if atol is None else atol


@linalg("pinv", also="pinverse", methods="pinverse")
def pinv(A, rcond=None, *, atol=None, rtol=None, hermitian=False, out=None):
    """The Moore-Penrose pseudo-inverse; singular values up to max(atol, rtol * largest) count as 0."""
    check_matrix("linalg.pinv", A)
    rtol, atol = tolerances(A, rcond if rcond is not None else rtol, atol)
    return write_out(out, pinv_op.call(A, rtol, atol, hermitian))


@linalg("lstsq")
def lstsq(A, B, rcond=None, *, driver=None):
    """(solution, residuals, rank, singular_values) of the least-squares problem ``A @ X = B``.

    residuals: squared norms of the columns of ``A @ X - B``, empty unless A is tall and of full rank.
    """
    check_matrix("torch.linalg.lstsq", A)
    check_types("torch.linalg.lstsq", A, B)
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    rows = B.unsqueeze(-1) if vector else B
    m, n = A.shape[-2:]
    if rows.shape[-2] != m:
        raise RuntimeError(
            f"torch.linalg.lstsq: input.size(-2) should match other.size(-2) but got {m} and {rows.shape[-2]}"
        )
    rtol, _ = tolerances(A, rcond, None)
    X = pinv(A, rtol=rtol) @ rows
    from .create import empty

    rank = empty(0, dtype=dtypes.int64, device=A.device)
    values = empty(0, dtype=A.dtype.to_real(), device=A.device)
    residuals = empty(0, dtype=A.dtype.to_real(), device=A.device)
    if driver in (None, "gelsy", "gelsd", "gelss"):
        S = svdvals(A.detach())
        rank = (rtol * S.amax(-1, keepdim=True) < S).sum(-1)
        if driver in ("gelsd", "gelss"):
            values = S
    if m > n and (rank.numel() == 0 or bool((rank == n).all())):
        residuals = (A @ X - rows).abs().square().sum(-2)
    return return_types.linalg_lstsq(X.squeeze(-1) if vector else X, residuals, rank, values)


@linalg("matrix_rank")
def matrix_rank(A, tol=None, *, atol=None, rtol=None, hermitian=False, out=None):
    """The number (int64) of singular values above max(atol, rtol * the largest)."""
    check_matrix("linalg.matrix_rank", A)
    if tol is not None:
        atol, rtol = tol, 0.0
    rtol, atol = tolerances(A, rtol, atol)
    if not A.numel():
        return A.new_zeros(A.shape[:-2], dtype=dtypes.int64)
    S = eigvalsh(A.detach()).abs() if hermitian else svdvals(A.detach())
    limit = (S.amax(-1, keepdim=True) * rtol).clamp_min(atol)
    return write_out(out, (limit < S).sum(-1))


# -- LU ----------------------------------------------------------------------------------------------------------


def _lu_factor(xp, self, *, pivot):
    """L and U in one array by elimination with row exchanges, and for each column the row exchanged (from 1)."""
    A = self.reshape(-1, *self.shape[-2:]).copy()
    b, m, n = A.shape
    k = min(m, n)
    pivots = xp.broadcast_to(xp.arange(1, k + 1, dtype="i4"), (b, k)).copy()
    every = xp.arange(b)
    for j in range(k):
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
        A[:, j + 1 :, j + 1 :] -= A[:, j + 1 :, j, None] * A[:, j, None, j + 1 :]
    return A.reshape(self.shape), pivots.reshape(*self.shape[:-2], k)


def _permutation(xp, pivots, m: int):
    """Row i of the permuted matrix is row perm[i] of the original."""
    flat = pivots.reshape(-1, pivots.shape[-1])
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
    "linalg_lu_factor", _lu_factor, n_out=2, complex=True, self=_lu_self, nondifferentiable=(1,),
    node="LinalgLuFactorExBackward0", samples=lambda t: [(t(3, 3), True), (t(2, 4, 3), True), (t(3, 4), True)],
)  # fmt: skip


@linalg("lu_factor")
def lu_factor(A, *, pivot=True, out=None):
    """(LU, pivots): L (unit lower) and U in one matrix, and for each column the row it was exchanged with, from 1."""
    check_matrix("torch.linalg.lu_factor", A)
    return write_out(out, return_types.linalg_lu_factor(*lu_factor_op.call(A, pivot)))


@linalg("lu_factor_ex")
def lu_factor_ex(A, *, pivot=True, check_errors=False, out=None):
    """(LU, pivots, info): as ``lu_factor``; info (int32) is the number of the first zero pivot, or 0."""
    LU, pivots = lu_factor_op.call(A, pivot)
    zero = LU.detach().diagonal(0, -2, -1) == 0
    first = zero.int().argmax(-1) + 1 if zero.shape[-1] else zero.sum(-1)
    info = (first * zero.any(-1)).int()
    if check_errors and bool((info > 0).any()):
        raise first_bad(info._array > 0,
        f"U[{int(info.max())},{int(info.max())}] is zero and using it on lu_solve would "
                        "result in a division by zero.", "torch.linalg.lu_factor_ex")  # fmt: skip
    return write_out(out, return_types.linalg_lu_factor_ex(LU, pivots, info))


def _unpack(LU, pivots):
    m, n = LU.shape[-2:]
    k = min(m, n)
    L = LU[..., :, :k].tril(-1) + _eye(m, k, LU)
    return permutation_matrix.call(pivots, LU), L, LU[..., :k, :].triu()


def _eye(m: int, n: int, like: Tensor):
    from .create import eye

    return eye(m, n, dtype=like.dtype, device=like.device)


@function("lu_unpack")
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True, *, out=None):
    """(P, L, U) from ``lu_factor``'s result: ``A = P @ L @ U``."""
    P, L, U = _unpack(LU_data, LU_pivots)
    none = LU_data.new_zeros((0,))
    P = P if unpack_pivots else none
    return write_out(out, return_types.lu_unpack(P, *((L, U) if unpack_data else (none, none))))


@linalg("lu")
def lu(A, *, pivot=True, out=None):
    """(P, L, U): a permutation, a unit lower and an upper triangular matrix with ``A = P @ L @ U``."""
    LU, pivots = lu_factor(A, pivot=pivot)
    return write_out(out, return_types.linalg_lu(*_unpack(LU, pivots)))


@linalg("lu_solve")
def lu_solve(LU, pivots, B, *, left=True, adjoint=False, out=None):
    """X with ``A @ X = B`` (``X @ A = B`` if not `left`, A^H if `adjoint`), A given by ``lu_factor``."""
    if not left:
        return write_out(out, lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH)
    P = permutation_matrix.call(pivots, LU)
    if adjoint:
        half = solve_triangular(LU.mH, B, upper=False)
        result = P @ solve_triangular(LU.mH, half, upper=True, unitriangular=True)
    else:
        half = solve_triangular(LU, P.mT @ B, upper=False, unitriangular=True)
        result = solve_triangular(LU, half, upper=True)
    return write_out(out, result)


@function("lu_solve", method=True)
def _lu_solve_function(b, LU_data, LU_pivots, *, out=None):
    """See ``linalg.lu_solve``."""
    return lu_solve(LU_data, LU_pivots, b, out=out)


@function("lu", method=True)
def _lu_function(A, pivot=True, get_infos=False, out=None):
    """(LU, pivots), with info as third if asked for; see ``linalg.lu_factor``."""
    LU, pivots, info = lu_factor_ex(A, pivot=pivot)
    return write_out(out, (LU, pivots, info) if get_infos else (LU, pivots))
