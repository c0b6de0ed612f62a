"""LU decompositions, and by them solutions, inverses and determinants, whose gradients go on with the factors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...operators.kinds import F4, F8
from ...operators.linalg.base import column_major, flat_batch
from . import forward, lapack, vjp
from .triangle import keep


def _failed(array) -> bool:
    """Whether what NumPy's kernels gave for matrices is nan, which it is where LAPACK failed."""
    if array is None:
        return True
    first = array[..., 0, 0]
    return bool(first != first if array.ndim == 2 else np.isnan(first).any())


def _alone(A) -> bool:
    """Whether this is one real matrix for which a call of LAPACK's own functions pays."""
    return A.ndim == 2 and len(A) >= lapack.LARGE and A.dtype.char in lapack.REAL


# -- solutions and inverses --------------------------------------------------------------------------------------------


@forward("linalg_solve")
def solve(xp, A, B):
    """Solutions; of one large matrix with its factors, which LAPACK has of the transposed one."""
    char = A.dtype.char
    if A.dtype is not B.dtype or char not in lapack.KINDS or not B.size:
        return NotImplemented
    if B.ndim == 2 and _alone(A) and lapack.available(char):
        LU = A.copy()
        pivots, info = lapack.factor(LU)
        if info or not lapack.normal(lapack.diagonal(LU)):
            return NotImplemented
        X = B.T.copy()
        lapack.solve_factored(LU, pivots, X, True)
        return X.T, LU, pivots
    kernel = lapack.stacked("solve")
    if kernel is None:
        return NotImplemented
    out = None
    if A.shape[:-2] == B.shape[:-2]:
        out = lapack.in_columns(B.shape, B.dtype)
    wide = "DD->D" if A.dtype.kind == "c" else "dd->d"  # where no pivot of float32 is too small
    X = lapack.attempt(kernel, A, B, out, signature=wide)
    if _failed(X):
        return NotImplemented
    return X if out is not None else column_major(xp, X.astype(A.dtype, copy=False)), None, None


@vjp("linalg_solve")
def solve_vjp(F, g, A, result, A_shape, B_shape, LU, pivots, needs):
    """Both gradients come of one system, which forward has factored."""
    if LU is None:
        u = F.linalg_solve(F.mH(A), g)
    else:
        rows = g.T.copy()
        lapack.solve_factored(LU, pivots, rows, False)
        u = rows.T
    of_A = None
    if needs[0]:
        of_A = (-u).dot(result.T) if LU is not None else F.times_h(-u, result, A_shape)
    return of_A, F.sum_to_size(u, B_shape) if needs[1] else None


@forward("linalg_inv")
def inv(xp, self):
    """Inverses, in columns: those of the transposed matrices, transposed."""
    char = self.dtype.char
    if char not in lapack.KINDS or not self.size:
        return NotImplemented
    if _alone(self) and lapack.available(char):
        LU = self.T.copy()
        pivots, info = lapack.factor(LU)
        X: Any = None if info else lapack.invert_factored(LU, pivots)
    else:
        kernel = lapack.stacked("inv")
        X = None if kernel is None else lapack.attempt(kernel, self.swapaxes(-1, -2))
    # a pivot that is too small (see `factor`) makes an inverse that is too large for this
    if X is None or not abs(np.vdot(X, X)) < np.inf:
        return NotImplemented
    return X.swapaxes(-1, -2)


# -- determinants ------------------------------------------------------------------------------------------------------


def _factored(A):
    """(factors, pivots, info) of one large matrix, transposed, in float64; None if it is none."""
    if not _alone(A) or not lapack.available("d"):
        return None
    LU = A.astype(F8, order="C")
    return LU, *lapack.factor(LU)


def _odd(pivots) -> Any:
    """Whether the rows were exchanged an odd number of times."""
    return np.count_nonzero(pivots != np.arange(1, len(pivots) + 1)) % 2


def _determinant(LU, pivots) -> Any:
    value = np.multiply.reduce(lapack.diagonal(LU))
    return -value if _odd(pivots) else value


@forward("linalg_det")
def det(xp, self):
    found = _factored(self)
    if found is not None:
        value = _determinant(*found[:2])
        if np.isfinite(value):  # nan of what is no number, or beyond float64
            return np.asarray(value, self.dtype), *found[:2]
    return NotImplemented


@vjp("linalg_det")
def det_vjp(F, g, self, result, LU, pivots):
    """det A times A^-T; where that is not exact enough, the declared formula, in float64."""
    if (self.dtype is not F4 and self.dtype is not F8) or not self.size:
        return NotImplemented
    if LU is not None:
        inverse, value = lapack.invert_factored(LU, pivots), _determinant(LU, pivots)
    else:
        kernel = lapack.stacked("inv")
        inverse, value = None if kernel is None else lapack.attempt(kernel, self), result
        if inverse is None:
            return NotImplemented
    every = (..., None, None)
    good = _exact(self, inverse, value)
    out = inverse.swapaxes(-1, -2) * value[every]
    out *= g[every]
    out = out.astype(self.dtype, copy=False)
    if np.count_nonzero(good) < good.size:
        bad = ~good
        out[bad] = F.cofactor(self[bad].astype(F8)) * g[bad][every]
    return (out,)


def _exact(A, inverse, value):
    """For which matrices det * inverse is as good as it can be: not close to a singular one, nothing out of range."""
    limits, size = np.finfo(inverse.dtype), np.abs(value)
    condition = lapack.squares(inverse) * lapack.squares(A)
    return (condition < 1 / limits.eps) & (size >= limits.tiny) & (size <= limits.max)


@forward("linalg_slogdet")
def slogdet(xp, self):
    found = _factored(self)
    if found is None or found[2]:
        return NotImplemented
    LU, pivots, _ = found
    lines = lapack.diagonal(LU)
    log = np.add.reduce(np.log(np.abs(lines)))
    if not np.isfinite(log):
        return NotImplemented
    sign = (-1.0) ** (np.count_nonzero(lines < 0) + _odd(pivots))
    return np.asarray(sign, self.dtype), np.asarray(log, self.dtype), LU, pivots


@vjp("linalg_slogdet")
def slogdet_vjp(gs, self, LU, pivots):
    """A^-T, of a real matrix: the sign is constant."""
    if LU is None or gs[1] is None:
        return NotImplemented
    return ((lapack.invert_factored(LU, pivots).T * gs[1]).astype(self.dtype, copy=False),)


# -- LU ----------------------------------------------------------------------------------------------------------------


@forward("linalg_lu_factor")
def lu_factor(xp, self, *, pivot):
    """L and U in one array, in columns, and for each column the row exchanged (from 1)."""
    char = self.dtype.char
    if not pivot or not self.size or char not in lapack.KINDS or not lapack.available(char):
        return NotImplemented
    columns = self.swapaxes(-1, -2).copy()
    if columns.ndim == 2:
        pivots = lapack.factor(columns)[0]
        lines = columns.diagonal()
    else:
        many = flat_batch(columns)
        if not lapack.few(many):
            return NotImplemented
        pivots = np.stack([lapack.factor(one)[0] for one in many])
        pivots = pivots.reshape(*self.shape[:-2], pivots.shape[-1])
        lines = np.diagonal(columns, 0, -2, -1)
    if not lapack.normal(lines):
        lines = lines[lines != 0]
        if lines.size and not lapack.normal(lines):
            return NotImplemented  # columns that were not divided by their pivots
    if not lapack.finite(columns):
        return NotImplemented
    return columns.swapaxes(-1, -2), pivots.astype(np.int32)


@vjp("linalg_lu_factor")
def lu_factor_vjp(F, gs, self, result0, result1):
    """For A = P L U: P L^-H (tril(L^H gL) + triu(gU U^H)) U^-H."""
    LU, char = result0, self.dtype.char
    square = LU.ndim == 2 and LU.shape[0] == LU.shape[1]
    if not square or not self.size or char not in lapack.REAL or not lapack.available(char):
        return NotImplemented
    g = np.ascontiguousarray(gs[0])
    below, inner = keep(g, True, -1), keep(g, False, 0)
    lapack.multiply(LU, below, False, True, False, "T")
    lapack.multiply(LU, inner, True, False, True, "T")
    np.copyto(inner, below, where=_below(len(LU)))
    lapack.substitute(LU, inner, False, True, False, "T")
    lapack.substitute(LU, inner, True, False, True, "T")
    out = np.empty_like(inner)
    out[_rows(result1)] = inner
    return (out,)


@lru_cache(maxsize=16)
def _below(n: int) -> np.ndarray:
    """Which elements are below the diagonal."""
    return np.tri(n, n, -1, bool)


def _rows(pivots) -> list[int]:
    """Row i of the permuted matrix is that row of the original."""
    rows = list(range(len(pivots)))
    for j, p in enumerate(pivots.tolist()):
        rows[j], rows[p - 1] = rows[p - 1], rows[j]
    return rows
