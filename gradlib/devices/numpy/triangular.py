"""Triangular systems, and Cholesky decompositions: their gradients, and what is solved with them, are such systems."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...operators.linalg.base import added, column_major, flat_batch
from ...operators.linalg.cholesky import factor_gradient
from ...operators.linalg.triangular import divide_rows, triangular_gradient
from . import forward, lapack, vjp
from .triangle import keep


@forward("linalg_solve_triangular")
def solve_triangular(xp, self, B, *, upper, unitriangular):
    """Substitution. The library multiplies by reciprocals: where one would be infinite, rows are divided."""
    if self.dtype is not B.dtype or not B.size or not lapack.available(B.dtype.char):
        return NotImplemented
    if self.ndim == B.ndim == 2:
        X = _solution(self, B, upper, unitriangular, False)
    else:
        X = _each(self, B, upper, unitriangular)
        if X is NotImplemented:
            return X
    rows = X.swapaxes(-1, -2)
    if unitriangular or lapack.finite(rows) or lapack.normal(np.diagonal(self, 0, -2, -1)):
        return X
    return column_major(xp, divide_rows(xp, self, B, upper))


def _solution(A, B, upper: bool, unit: bool, adjoint: bool):
    """Of one system, in columns, for which A is transposed and stands on the right."""
    X = B.T.copy()
    if len(X) == 1:
        lapack.substitute_one(A, X[0], upper, unit, "H" if adjoint else "N")
        return X.T
    if adjoint and A.dtype.char not in lapack.REAL:
        A = A.conj()
    lapack.substitute(A, X, upper, unit, True, "N" if adjoint else "T")
    return X.T


def _each(A, B, upper: bool, unit: bool):
    """The solutions for matrices that are large enough for a call each."""
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A = flat_batch(np.broadcast_to(A, (*batch, *A.shape[-2:])))
    if not lapack.few(A):
        return NotImplemented
    X = np.empty((*batch, B.shape[-1], B.shape[-2]), B.dtype)
    X[...] = B.swapaxes(-1, -2)
    for a, x in zip(A, flat_batch(X), strict=True):
        lapack.substitute(a, x, upper, unit, True, "T")
    return X.swapaxes(-1, -2)


@vjp("linalg_solve_triangular")
def solve_triangular_vjp(F, g, self, result, self_shape, B_shape, upper, unitriangular, needs):
    """Both gradients come of one system."""
    gB = _adjoint_system(F, g, self, upper, unitriangular)
    gA = None
    if needs[0]:
        if gB.ndim == 2 and gB.dtype.char in lapack.REAL:
            off = (1 if upper else -1) if unitriangular else 0
            gA = keep((-gB).dot(result.T), not upper, off)
        else:
            gA = triangular_gradient(F, gB, result, self_shape, upper, unitriangular)
    return gA, F.sum_to_size(gB, B_shape) if needs[1] else None


def _adjoint_system(F, g, A, upper: bool, unit: bool):
    if A.ndim == g.ndim == 2 and g.size and A.dtype is g.dtype and lapack.available(g.dtype.char):
        X = _solution(A, g, upper, unit, True)
        if unit or lapack.finite(X.T) or lapack.normal(A.diagonal()):
            return X
    return F.linalg_solve_triangular(F.mH(A), g, not upper, unit)


# -- Cholesky ----------------------------------------------------------------------------------------------------------


@forward("linalg_cholesky")
def cholesky(xp, self):
    """The lower triangle; the formula names what is not positive-definite: then the last element is nan."""
    kernel = lapack.stacked("cholesky_lo")
    if kernel is None or not self.size or self.dtype.char not in lapack.KINDS:
        return NotImplemented
    L = lapack.attempt(kernel, self, lapack.in_columns(self.shape, self.dtype))
    if L is None:
        return NotImplemented
    last = L[..., -1, -1]
    if last != last if L.ndim == 2 else np.isnan(last).any():
        return NotImplemented
    return L


@lru_cache(maxsize=16)
def _halves(n: int, char: str) -> np.ndarray:
    """Half of a lower triangle, and a quarter of its diagonal."""
    weights = np.full((n, n), 0.5, char)
    np.fill_diagonal(weights, 0.25)
    return weights


@vjp("linalg_cholesky")
def cholesky_vjp(F, g, result):
    """The Hermitian part of L^-H phi(L^H g) L^-1, where phi takes the lower triangle and half of the diagonal."""
    L, char = result, g.dtype.char
    if char not in lapack.REAL or not lapack.available(char) or not g.size:
        return NotImplemented
    one = L.ndim == 2
    inner = L.T.dot(g) if one else np.matmul(L.swapaxes(-1, -2), g)
    inner = keep(inner, True, 0)
    inner *= _halves(L.shape[-1], char)
    if one or L.shape[-1] >= lapack.LARGE:
        for factor, x in zip(flat_batch(L), flat_batch(inner), strict=True):
            lapack.substitute(factor, x, False, False, False, "T")
            lapack.substitute(factor, x, False, False, True)
    else:
        inverse = lapack.invert_triangles(L)
        inner = np.matmul(np.matmul(inverse.swapaxes(-1, -2), inner), inverse)
    return (inner + inner.swapaxes(-1, -2),)


def _one_real(*matrices) -> bool:
    """Whether these are single real matrices for which the library is called."""
    char = matrices[0].dtype.char
    if char not in lapack.REAL or not lapack.available(char):
        return False
    return all([a.ndim == 2 and a.size and a.dtype is matrices[0].dtype for a in matrices])


@forward("cholesky_solve")
def cholesky_solve(xp, self, input2, *, upper):
    """Two triangular systems, in columns."""
    if not _one_real(self, input2) or not lapack.normal(input2.diagonal()):
        return NotImplemented
    X = self.T.copy()
    for how in ("N", "T") if upper else ("T", "N"):
        lapack.substitute(input2, X, upper, False, True, how)
    return X.T


@vjp("cholesky_solve")
def cholesky_solve_vjp(F, g, input2, result, upper, needs):
    """Both gradients come of one system."""
    gB = F.cholesky_solve(g, input2, upper)
    inner = F.matmul(gB, F.mH(result)) if needs[1] else None
    return gB, None if inner is None else factor_gradient(F, inner, input2, upper)


@forward("cholesky_inverse")
def cholesky_inverse(xp, self, *, upper):
    """L^-H L^-1, by the inverse of a lower triangle."""
    if not _one_real(self) or not lapack.normal(self.diagonal()):
        return NotImplemented
    L = keep(self.T.copy() if upper else self.copy(), True, 0)
    inverse = lapack.invert_triangles(L)
    return inverse.T.dot(inverse)


@forward("triangular_solve")
def triangular_solve(xp, self, A, *, upper, transpose, unitriangular):
    """The older form: the solution, and a copy of A."""
    matrix, above = (A.swapaxes(-1, -2), not upper) if transpose else (A, upper)
    X = solve_triangular(xp, matrix, self, upper=above, unitriangular=unitriangular)
    return X if X is NotImplemented else (X, A.swapaxes(-1, -2).copy().swapaxes(-1, -2))


@vjp("triangular_solve")
def triangular_solve_vjp(F, gs, A, result0, upper, transpose, unitriangular):
    g, gA = gs
    if g is None or not _one_real(A, g):
        return NotImplemented
    matrix, above = (A.T, not upper) if transpose else (A, upper)
    gB = _adjoint_system(F, g, matrix, above, unitriangular)
    off = (1 if above else -1) if unitriangular else 0
    full = keep((-gB).dot(result0.T), not above, off)
    return gB, added(gA, full.T if transpose else full)
