"""Low-rank approximations by random projections.

Source: N. Halko, P. G. Martinsson, J. A. Tropp, Finding Structure with Randomness, SIAM Review 53 (2011).
"""

from __future__ import annotations

from ...op.expose import PUBLIC, c_type, function
from ...tape.sparse import is_sparse
from .cholesky import cholesky
from .decompose import eigh, qr, svd
from .triangular import solve_triangular

# -- low rank ----------------------------------------------------------------------------------------------------


def _dense(A):
    """What is decomposed is dense once something is taken off, or where it is solved exactly."""
    return A.to_dense() if is_sparse(A) else A


def _range_finder(A, q: int, niter: int):
    """Orthonormal columns that nearly span the range of A, by subspace iteration from random vectors."""
    start = PUBLIC["randn"](A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = qr(A @ start)[0]
    for _ in range(niter):
        Q = qr(A @ qr(A.mH @ Q)[0])[0]
    return Q


@function("svd_lowrank")
def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of rank q, with nearly the largest singular values of a matrix, by random projections.

    Args:
        A: matrices (..., m, n), or a sparse one.
        q: the rank, a little more than what is wanted; no more than min(m, n) are found.
        niter: how often the projections are refined.
        M: (m, n) or a matrix that broadcasts to A: the decomposition is that of ``A - M``.

    Returns:
        A tuple (U, S, V): (..., m, q), (..., q), (..., n, q).

    Raises:
        RuntimeError: `q` is negative, or M of another dtype.

    Example:
        >>> gradlib.svd_lowrank(gradlib.tensor([[3.0, 0.0], [0.0, 0.0]]), q=1)[1].round(decimals=3)
        tensor([3.])
    """
    if M is not None and M.dtype is not A.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {c_type(M)} != {c_type(A)}"
        )
    A = A if M is None else _dense(A) - _dense(M)
    q = 6 if q is None else q
    wide = A.shape[-2] < A.shape[-1]
    X = A.mH if wide else A
    Q = _range_finder(X, q, niter)
    U, S, Vh = svd(Q.mH @ X, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


@function("pca_lowrank")
def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of rank q of the rows of a matrix, by random projections: its principal components.

    Args:
        A: matrices (..., m, n).
        q: the rank; min(6, m, n) if None.
        center: whether the mean of each column is taken out.
        niter: how often the projections are refined.

    Returns:
        A tuple (U, S, V): (..., m, q), (..., q), (..., n, q); the columns of V are the components.

    Raises:
        ValueError: `q` is not in [0, min(m, n)], or `niter` is negative.

    Example:
        >>> gradlib.pca_lowrank(gradlib.tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)[1].round(decimals=3)
        tensor([1.4140])
    """
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = _dense(A)
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter)


@function("lobpcg")
def lobpcg(
    A,
    k=None,
    B=None,
    X=None,
    n=None,
    iK=None,
    niter=None,
    tol=None,
    largest=None,
    method=None,
    tracker=None,
    ortho_iparams=None,
    ortho_fparams=None,
    ortho_bparams=None,
):
    """(E, X): the k largest (or smallest) eigenvalues of the symmetric A, or of ``A x = e B x``, and their vectors.

    A is (..., m, m) with m >= 3 k, B positive-definite. k is 1, or the number of columns of X if that is given. The
    dense problem is solved exactly, so that the parameters of the iteration (from `n` on, but `largest`) are not used.
    ValueError for an m that is too small.
    """
    if k is None:
        k = 1 if X is None else X.shape[-1]
    m = A.shape[-1]
    if m < 3 * k:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={k})"
        )
    A = _dense(A)
    factor = None if B is None else cholesky(_dense(B))
    if factor is not None:  # with B = L L^H this is the eigenvalue problem of L^-1 A L^-H
        half = solve_triangular(factor, A, upper=False)
        A = solve_triangular(factor, half.mH, upper=False).mT.conjugate()
    values, vectors = eigh(A)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    vectors = vectors[..., :k]
    if factor is not None:
        vectors = solve_triangular(factor.mH, vectors, upper=True)
    return values[..., :k], vectors
