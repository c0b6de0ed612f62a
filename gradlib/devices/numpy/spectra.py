"""Eigenvalues and singular values.

NumPy's kernels compute in the dtype of the matrices, which `numpy.linalg` widens. Where they fail the formulas run.
"""

from __future__ import annotations

import numpy as np

from . import forward, lapack, vjp


def _computed(name: str, A, which: int = 0, into: tuple = (None,)) -> tuple | None:
    """What NumPy's kernel of that name gives for matrices; None where it fails.

    which: of the results is the one that holds the values; into: room for the results, None for a new one.
    """
    kernel = lapack.stacked(name)
    if kernel is None or not A.size or A.dtype.char not in lapack.KINDS:
        return None
    found = lapack.attempt(kernel, A, out=into)
    if found is None:
        return None
    found = found if found.__class__ is tuple else (found,)
    first = found[which][..., 0]
    if first != first if A.ndim == 2 else np.isnan(first).any():
        return None
    return found


# -- eigenvalues -------------------------------------------------------------------------------------------------------

_TRIANGLE = {"L": "lo", "U": "up"}


@forward("linalg_eigh")
def eigh(xp, self, *, uplo):
    into = None, lapack.in_columns(self.shape, self.dtype)
    return _computed(f"eigh_{_TRIANGLE[uplo]}", self, into=into) or NotImplemented


@forward("linalg_eigvalsh")
def eigvalsh(xp, self, *, uplo):
    found = _computed(f"eigvalsh_{_TRIANGLE[uplo]}", self)
    return NotImplemented if found is None else found[0]


@vjp("linalg_eigh")
def eigh_vjp(gs, result0, result1):
    """V (diag(gL) + off-diagonal part of V^T gV / differences of L) V^T, symmetrised."""
    L, V = result0, result1
    gL, gV = gs
    if V.dtype.char not in lapack.REAL or not V.size:
        return NotImplemented
    Vt = V.swapaxes(-1, -2)
    if gV is None:
        return (np.matmul(V * gL[..., None, :], Vt),)
    gaps = L[..., None, :] - L[..., :, None]
    lapack.diagonal(gaps)[...] = 1
    inner = np.matmul(Vt, gV)
    inner /= gaps
    lapack.diagonal(inner)[...] = 0 if gL is None else gL
    full = np.matmul(np.matmul(V, inner), Vt)
    full = full + full.swapaxes(-1, -2)
    full *= 0.5
    return (full,)


@forward("linalg_eig")
def eig(xp, self):
    kind = np.complex64 if self.dtype.char == "f" else np.complex128  # of all that NumPy has
    into = None, lapack.in_columns(self.shape, kind)
    found = _computed("eig", self, into=into)
    return NotImplemented if found is None else _as_single(self, *found)


@forward("linalg_eigvals")
def eigvals(xp, self):
    found = _computed("eigvals", self)
    return NotImplemented if found is None else _as_single(self, *found)[0]


def _as_single(A, *found) -> tuple:
    """Results of complex64 matrices, for which NumPy's kernels of `eig` have the loop of complex128 alone."""
    return found if A.dtype.char != "F" else tuple([x.astype(A.dtype) for x in found])


# -- singular values ---------------------------------------------------------------------------------------------------


@forward("linalg_svd")
def svd(xp, self, *, full):
    if not self.size or self.dtype.char not in lapack.KINDS or not lapack.finite(self):
        return NotImplemented
    *batch, m, n = self.shape
    left, right = (m, n) if full else (min(m, n),) * 2
    U = lapack.in_columns((*batch, m, left), self.dtype)
    V = lapack.in_columns((*batch, right, n), self.dtype)
    return _computed("svd_f" if full else "svd_s", self, 1, (U, None, V)) or NotImplemented


@forward("linalg_svdvals")
def svdvals(xp, self):
    if not self.size or self.dtype.char not in lapack.KINDS or not lapack.finite(self):
        return NotImplemented
    found = _computed("svd", self)
    return NotImplemented if found is None else found[0]
