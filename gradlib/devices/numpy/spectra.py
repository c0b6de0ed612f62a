"""Eigenvalues and singular values.

NumPy's kernels compute in the dtype of the matrices, which `numpy.linalg` widens. Where they fail the formulas run.
"""

from __future__ import annotations

import numpy as np

from . import forward, lapack, vjp


def _computed(name: str, A, which: int = 0) -> tuple | None:
    """What NumPy's kernel of that name gives for matrices; None where it fails.

    which: of the results is the one that holds the values.
    """
    kernel = lapack.stacked(name)
    if kernel is None or not A.size or A.dtype.char not in lapack.KINDS:
        return None
    found = lapack.attempt(kernel, A)
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
    return _computed(f"eigh_{_TRIANGLE[uplo]}", self) or NotImplemented


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
    found = _computed("eig", self)
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
    return _computed("svd_f" if full else "svd_s", self, 1) or NotImplemented


@forward("linalg_svdvals")
def svdvals(xp, self):
    if not self.size or self.dtype.char not in lapack.KINDS or not lapack.finite(self):
        return NotImplemented
    found = _computed("svd", self)
    return NotImplemented if found is None else found[0]
