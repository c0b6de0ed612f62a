"""QR decompositions, and what is solved with them: pseudo-inverses and least squares of matrices of full rank."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...operators.linalg.base import column_major, flat_batch
from . import forward, lapack, vjp
from .triangle import keep


@forward("linalg_qr")
def qr(xp, self, *, mode):
    """In the dtype of the matrices, one by one; many small ones NumPy takes together, in float64."""
    char = self.dtype.char
    if char not in lapack.REAL or not self.size or not lapack.available(char):
        return NotImplemented
    m, n = self.shape[-2:]
    wide = m if mode == "complete" else min(m, n)  # columns of Q, and rows of R
    if self.ndim == 2 and wide <= n:
        columns = self.T.copy()
        reflected = lapack.reflections(columns, n)
        R = keep(columns if wide == m else columns[:, :wide].copy(), True, 0).T
        if mode == "r":
            return np.zeros((0,), char), R
        lapack.orthogonal(reflected, wide)
        return columns[:wide].T, R
    matrices = flat_batch(self)
    if not lapack.few(matrices):
        return NotImplemented
    # the matrices in columns, as LAPACK has them, with room for the rest of Q
    room = np.empty((len(matrices), max(n, wide), m), char)
    room[:, :n] = matrices.swapaxes(1, 2)
    factors, batch = np.empty((len(matrices), n, wide), char), self.shape[:-2]
    for columns, R in zip(room, factors, strict=True):
        reflected = lapack.reflections(columns, n)
        R[...] = columns[:n, :wide]  # before Q takes its place
        if mode != "r":
            lapack.orthogonal(reflected, wide)
    R = keep(factors, True, 0).reshape(*batch, n, wide).swapaxes(-1, -2)
    if mode == "r":
        return np.zeros((0,), char), R
    Q = np.ascontiguousarray(room[:, :wide]).reshape(*batch, wide, m)
    return Q.swapaxes(-1, -2), R


@lru_cache(maxsize=16)
def _halves(n: int, char: str) -> np.ndarray:
    """Ones, and a half of each on the diagonal."""
    weights = np.ones((n, n), char)
    np.fill_diagonal(weights, 0.5)
    return weights


@vjp("linalg_qr")
def qr_vjp(gs, self, result0, result1, mode):
    """(gQ + Q sym) R^-T of one matrix that is not wide; sym keeps Q orthogonal."""
    Q, R = result0, result1
    gQ, gR = gs
    char = R.dtype.char
    square = R.ndim == 2 and R.shape[0] == R.shape[1] == Q.shape[-1]
    if not square or mode == "r" or char not in lapack.REAL or not lapack.available(char):
        return NotImplemented
    if not self.size:
        return NotImplemented
    if gR is None:
        inner = -(gQ.T.dot(Q))
    else:
        inner = R.dot(gR.T)
        if gQ is not None:
            inner -= gQ.T.dot(Q)
    inner = keep(inner, True, 0)
    inner *= _halves(len(R), char)
    right = Q.dot(inner + inner.T)
    if gQ is not None:
        right += gQ
    lapack.substitute(R, right, True, False, True, "T")
    return (right,)


# -- matrices of full rank ---------------------------------------------------------------------------------------------


def _surely_full(R, inverse, rtol) -> bool:
    """Whether no singular value is so small that it counts as 0.

    The product of the norms of a matrix and of its inverse is no less than its condition.
    """
    least = max(rtol, 16 * np.finfo(R.dtype).eps)
    return bool((lapack.squares(R) * lapack.squares(inverse) * least**2 < 0.25).all())


@forward("linalg_pinv")
def pinv(xp, self, *, rtol, atol, hermitian):
    """R^-1 Q^H, for matrices of full rank."""
    m, n = self.shape[-2:]
    plain = rtol.__class__ is float and atol.__class__ is float and not atol and not hermitian
    if not plain or self.dtype.char not in lapack.REAL or min(m, n) < lapack.LARGE or not self.size:
        return NotImplemented
    if not lapack.available(self.dtype.char):
        return NotImplemented
    if m < n:
        found = pinv(xp, self.swapaxes(-1, -2), rtol=rtol, atol=atol, hermitian=False)
        return found if found is NotImplemented else np.ascontiguousarray(found.swapaxes(-1, -2))
    Q, R = qr(xp, self, mode="reduced")
    inverse = Q.swapaxes(-1, -2).copy()
    for factor, x in zip(flat_batch(R), flat_batch(inverse), strict=True):
        lapack.substitute(factor, x, True, False)
    return inverse if _surely_full(R, inverse, rtol) else NotImplemented


@forward("linalg_lstsq")
def lstsq(xp, self, b, *, rtol):
    """(solution, rank) of matrices of full rank."""
    (m, n), char = self.shape[-2:], self.dtype.char
    if char not in lapack.REAL or self.dtype is not b.dtype or not self.size or not b.size:
        return NotImplemented
    if rtol.__class__ is not float or not lapack.available(char):
        return NotImplemented
    if self.ndim > 2 or b.ndim > 2 or m < n:
        inverse = pinv(xp, self, rtol=rtol, atol=0.0, hermitian=False)
        if inverse is NotImplemented:
            return inverse
        return column_major(xp, np.matmul(inverse, b)), np.full(
            self.shape[:-2], min(m, n), np.int64
        )
    columns, X = self.T.copy(), b.T.copy()
    reflected = lapack.reflections(columns, n)
    factor = keep(columns[:, :n].copy(), True, 0)  # R^T
    if not factor.reshape(-1)[:: n + 1].all():
        return NotImplemented
    if not _surely_full(factor, lapack.invert_triangles(factor), rtol):
        return NotImplemented
    lapack.reflect(reflected, X)
    X = X[:, :n].copy()
    lapack.substitute(factor, X, False, False, True)
    return X.T, np.asarray(n)
