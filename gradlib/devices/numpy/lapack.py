"""Triangular systems, LU, Cholesky and QR decompositions by NumPy's own OpenBLAS, called directly, as in `blas`.

NumPy itself hands out neither of the first two, and takes up to twice the time for the others. Without that library,
and for half types, the formulas run.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ...operators.linalg.base import flat_batch
from ...operators.linalg.solve import triangular_gradient
from . import forward, threads, vjp
from .triangle import keep

_NUMBERS: dict[str, Any] = {"f": ctypes.c_float, "d": ctypes.c_double, "F": None, "D": None}
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_ROWS, _LEFT, _UPPER, _LOWER, _AS_IT_IS, _NON_UNIT, _UNIT = 101, 141, 121, 122, 111, 131, 132
_SIZE, _ARRAY = ctypes.c_int64, ctypes.c_void_p
LARGE = 16  # rows from which a matrix is worth a call of its own, however many there are


@cache
def _function(pattern: str, char: str) -> Any:
    """A function of the library for numbers of the dtype with that letter of NumPy's, or None."""
    letter = _LETTERS.get(char)
    return letter and getattr(threads.openblas(), pattern.format(letter), None)


@cache
def _trsm(char: str) -> Any:
    """``cblas_?trsm`` for matrices in rows, or None."""
    found = _function("scipy_cblas_{}trsm64_", char)
    if found is not None:
        matrix = [_ARRAY, _SIZE]
        number = _NUMBERS[char] or _ARRAY  # complex numbers are given by their place
        found.argtypes = [*[ctypes.c_int] * 5, _SIZE, _SIZE, number, *matrix, *matrix]
        found.restype = None
    return found


@cache
def _getrf(char: str) -> Any:
    """LAPACK's ``?getrf`` for matrices in columns, or None; every argument is a place."""
    found = _function("scipy_{}getrf_64_", char)
    if found is not None:
        found.argtypes = [_ARRAY] * 6
        found.restype = None
    return found


def _places(array) -> range:
    """The addresses of the matrices of a contiguous array (b, m, n)."""
    start = array.__array_interface__["data"][0]
    # not the stride, which may be anything where there is but one
    step = array.nbytes // len(array)
    return range(start, start + array.nbytes, step)


def _few(array) -> bool:
    """Whether a call for each matrix is quicker than a step of all matrices for each column."""
    return array.shape[2] >= LARGE or len(array) <= 12 * array.shape[2]


def _normal(A, lines) -> bool:
    """Whether no element of `lines` of matrices is 0, nan or so small that its reciprocal is infinite."""
    return bool((np.abs(lines) >= np.finfo(A.dtype).tiny).all())


@forward("linalg_solve_triangular")
def solve_triangular(xp, self, B, *, upper, unitriangular):
    """Substitution. The library multiplies by reciprocals: where one would be infinite, the formula divides."""
    trsm = _trsm(self.dtype.char) if self.dtype is B.dtype else None
    if trsm is None or not B.size or not self.size:
        return NotImplemented
    batch, (n, k) = B.shape[:-2], B.shape[-2:]
    if self.shape[:-2] != batch:
        batch = np.broadcast_shapes(self.shape[:-2], batch)
        self = np.broadcast_to(self, (*batch, n, n))
    A = flat_batch(np.ascontiguousarray(self))
    if not _few(A) or not (unitriangular or _normal(A, np.diagonal(A, 0, 1, 2))):
        return NotImplemented
    X = np.empty((*batch, n, k), B.dtype)
    X[...] = B
    one: Any = 1.0
    if A.dtype.kind == "c":
        number = np.ones((), A.dtype)
        one = number.__array_interface__["data"][0]
    how = _UPPER if upper else _LOWER, _AS_IT_IS, _UNIT if unitriangular else _NON_UNIT
    for a, x in zip(_places(A), _places(flat_batch(X)), strict=True):
        trsm(_ROWS, _LEFT, *how, n, k, one, a, n, x, k)
    return X


@vjp("linalg_solve_triangular")
def solve_triangular_vjp(F, g, self, result, self_shape, B_shape, upper, unitriangular, needs):
    """Both gradients come of one system."""
    gB = F.linalg_solve_triangular(F.mH(self), g, not upper, unitriangular)
    of_A = (
        triangular_gradient(F, gB, result, self_shape, upper, unitriangular) if needs[0] else None
    )
    return of_A, F.sum_to_size(gB, B_shape) if needs[1] else None


@forward("linalg_lu_factor")
def lu_factor(xp, self, *, pivot):
    """L and U in one array, and for each column the row exchanged (from 1)."""
    getrf = _getrf(self.dtype.char) if pivot else None
    if getrf is None or not self.size:
        return NotImplemented
    columns = flat_batch(self).swapaxes(1, 2).copy()  # the matrices in columns, as LAPACK has them
    if not _few(columns):
        return NotImplemented
    b, n, m = columns.shape
    k = min(m, n)
    pivots = np.empty((b, 1, k), np.int64)
    sizes = np.array((m, n, 0), np.int64)
    rows, cols, info = range(sizes.ctypes.data, sizes.ctypes.data + 24, 8)
    for a, p in zip(_places(columns), _places(pivots), strict=True):
        getrf(rows, cols, a, rows, p, info)
    diagonal = np.diagonal(columns, 0, 1, 2)
    small = diagonal != 0
    small &= np.abs(diagonal) < np.finfo(self.dtype).tiny
    if small.any() or not np.isfinite(columns).all():
        return NotImplemented  # columns that were not divided by their pivots
    LU = columns.swapaxes(1, 2).copy()
    return LU.reshape(self.shape), pivots.astype(np.int32).reshape(*self.shape[:-2], k)


@cache
def _potrf(char: str) -> Any:
    """LAPACK's ``?potrf``, or None; every argument is a place."""
    found = _function("scipy_{}potrf_64_", char) if char in "fd" else None
    if found is not None:
        found.argtypes = [ctypes.c_char_p, *[_ARRAY] * 4]
        found.restype = None
    return found


@forward("linalg_cholesky")
def cholesky(xp, self):
    """The lower triangle, in rows; the formula names what is not positive-definite."""
    potrf = _potrf(self.dtype.char) if self.shape[-1] >= LARGE and self.size else None
    if potrf is None:
        return NotImplemented
    L = self.copy(order="C")
    sizes = np.array((self.shape[-1], 0), np.int64)
    n = sizes.__array_interface__["data"][0]
    for a in _places(flat_batch(L)):
        potrf(b"U", n, a, n, n + 8)  # the lower triangle in rows is the upper one in columns
        if sizes[1]:
            return NotImplemented
    if np.isnan(np.diagonal(L, 0, -2, -1)).any():
        return NotImplemented
    return keep(L, True, 0)


@cache
def _geqrf(char: str) -> tuple[Any, Any]:
    """LAPACK's ``?geqrf`` and ``?orgqr``, or None for both; every argument is a place."""
    found = [_function(f"scipy_{{}}{name}_64_", char) for name in ("geqrf", "orgqr")]
    if char not in "fd" or None in found:
        return None, None
    for function, count in zip(found, (8, 9), strict=True):
        function.argtypes = [_ARRAY] * count
        function.restype = None
    return found[0], found[1]


@forward("linalg_qr")
def qr(xp, self, *, mode):
    """For large matrices, in their own precision: NumPy computes float32 in float64."""
    geqrf, orgqr = _geqrf(self.dtype.char)
    if geqrf is None or min(self.shape[-2:]) < 2 * LARGE or not self.size:
        return NotImplemented
    columns = flat_batch(self).swapaxes(1, 2)  # the matrices in columns, as LAPACK has them
    b, n, m = columns.shape
    k = min(m, n)
    wide = m if mode == "complete" else k  # columns of Q, and rows of R
    room = np.empty((b, max(n, wide), m), self.dtype)
    room[:, :n] = columns
    tau = np.empty(k, self.dtype)
    work = np.empty(64 * room.shape[1], self.dtype)
    numbers = np.array((m, n, k, wide, work.size, 0), np.int64)
    start = numbers.__array_interface__["data"][0]
    rows, cols, both, outs, most, info = range(start, start + 48, 8)
    t, w = tau.__array_interface__["data"][0], work.__array_interface__["data"][0]
    upper, batch = np.empty((b, wide, n), self.dtype), self.shape[:-2]
    # the factor R is taken out before Q is made in its place
    for i, a in enumerate(_places(room)):
        geqrf(rows, cols, a, rows, t, w, most, info)
        upper[i] = room[i, :n, :wide].T
        if mode != "r":
            orgqr(rows, outs, both, a, rows, t, w, most, info)
    R = keep(upper, False, 0).reshape(*batch, wide, n)
    if mode == "r":
        return np.zeros((0,), self.dtype), R
    return room[:, :wide].swapaxes(1, 2).copy().reshape(*batch, m, wide), R


@forward("linalg_pinv")
def pinv(xp, self, *, rtol, atol, hermitian):
    """R^-1 Q^H, for matrices that surely have no singular value so small that it counts as 0."""
    m, n = self.shape[-2:]
    plain = rtol.__class__ is float and atol.__class__ is float and not atol and not hermitian
    if not plain or self.dtype.char not in "fd" or min(m, n) < LARGE or not self.size:
        return NotImplemented
    if m < n:
        found = pinv(xp, self.swapaxes(-1, -2), rtol=rtol, atol=atol, hermitian=False)
        return found if found is NotImplemented else np.ascontiguousarray(found.swapaxes(-1, -2))
    try:
        Q, R = np.linalg.qr(self)
    except np.linalg.LinAlgError:
        return NotImplemented
    eye = np.eye(n, dtype=self.dtype)
    inverse = solve_triangular(xp, R, eye, upper=True, unitriangular=False)
    if inverse is NotImplemented:
        return NotImplemented
    # the product of the norms of a matrix and of its inverse is no less than its condition
    condition = np.linalg.norm(R, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1))
    if not (condition * max(rtol, 16 * np.finfo(self.dtype).eps) < 0.5).all():
        return NotImplemented
    return np.matmul(inverse, Q.swapaxes(-1, -2))


@vjp("linalg_solve")
def solve_vjp(F, g, A, result, A_shape, B_shape, needs):
    """Both gradients come of one system."""
    u = F.linalg_solve(F.mH(A), g)
    of_A = F.times_h(-u, result, A_shape) if needs[0] else None
    return of_A, F.sum_to_size(u, B_shape) if needs[1] else None
