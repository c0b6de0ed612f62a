"""The LDL decomposition of symmetric and Hermitian matrices that need not be definite.

Source: J. R. Bunch, L. Kaufman, Some Stable Methods for Calculating Inertia and Solving Symmetric Linear Systems, Math.
Comp. 31 (1977): partial pivoting with blocks of one or two columns, in the form that LAPACK's sytrf stores.
"""

from __future__ import annotations

import math

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import write_same
from ...tape import dtypes
from ...tape.tensor import Tensor
from ..linalg.base import failures
from .base import (
    LinAlgError,
    check_square,
    check_system,
    flat_batch,
    full_precision,
    linalg,
    without_derivative,
)

_THRESHOLD = (1 + math.sqrt(17)) / 8  # of Bunch and Kaufman: the least growth of elements


def _size(xp, x):
    return xp.abs(x.real) + xp.abs(x.imag) if x.dtype.kind == "c" else xp.abs(x)


def _choose_pivot(xp, A, k: int) -> tuple[int, int]:
    """(row to exchange, number of columns of the block) for column k."""
    here = float(_size(xp, A[k, k]))
    if k + 1 == A.shape[0]:
        return k, 1
    column = _size(xp, A[k + 1 :, k])
    largest = k + 1 + int(column.argmax())
    colmax = float(column.max())
    if here >= _THRESHOLD * colmax:
        return k, 1
    others = [_size(xp, A[largest, k:largest]), _size(xp, A[largest + 1 :, largest])]
    rowmax = max(float(x.max()) for x in others if x.size)
    if here >= _THRESHOLD * colmax * (colmax / rowmax):
        return k, 1
    return largest, 1 if float(_size(xp, A[largest, largest])) >= _THRESHOLD * rowmax else 2


def _exchange(A, kk: int, kp: int, k: int, conj) -> None:
    """Rows and columns kk < kp of the lower triangle exchanged, from column k on."""
    below, between = A[kp + 1 :, kk].copy(), conj(A[kk + 1 : kp, kk].copy())
    A[kp + 1 :, kk] = A[kp + 1 :, kp]
    A[kp + 1 :, kp] = below
    A[kk + 1 : kp, kk] = conj(A[kp, kk + 1 : kp])
    A[kp, kk + 1 : kp] = between
    A[kp, kk] = conj(A[kp, kk])
    corner = A[kk, kk].copy()
    A[kk, kk] = A[kp, kp]
    A[kp, kp] = corner
    if kk > k:  # the second column of a block of two
        first = A[kk, k].copy()
        A[kk, k] = A[kp, k]
        A[kp, k] = first


def _eliminate(xp, A, k: int, step: int, conj) -> None:
    """The block of `step` columns at k taken out of the rest of the lower triangle."""
    rest = slice(k + step, None)
    block = A[k : k + step, k : k + step].copy()
    if step == 2:
        block[0, 1] = conj(block[1, 0])
    columns = A[rest, k : k + step].copy()
    factors = columns / block if step == 1 else xp.linalg.solve(block.T, columns.T).T
    A[rest, rest] -= xp.tril(xp.matmul(factors, conj(columns).T))
    A[rest, k : k + step] = factors


def _factor_one(xp, A, pivots, hermitian: bool) -> int:
    """One matrix in place; the number (from 1) of the first zero pivot, or 0."""
    conj = xp.conj if hermitian else lambda x: x
    info = k = 0
    while k < A.shape[0]:
        if not _size(xp, A[k:, k]).any():
            info, pivots[k], k = info or k + 1, k + 1, k + 1
            continue
        kp, step = _choose_pivot(xp, A, k)
        kk = k + step - 1
        if kp != kk:
            _exchange(A, kk, kp, k, conj)
        _eliminate(xp, A, k, step, conj)
        pivots[k : k + step] = kp + 1 if step == 1 else -(kp + 1)
        k += step
    return info


def _ldl_factor(xp, self, *, hermitian):
    hermitian = hermitian and self.dtype.kind == "c"
    LD = xp.tril(flat_batch(self))
    n = self.shape[-1]
    if hermitian:
        i = xp.arange(n)
        LD[:, i, i] = LD[:, i, i].real
    pivots, info = xp.zeros((len(LD), n), "i4"), xp.zeros(len(LD), "i4")
    for b in range(len(LD)):
        info[b] = _factor_one(xp, LD[b], pivots[b], hermitian)
        if hermitian:
            LD[b, i, i] = LD[b, i, i].real
    batch = self.shape[:-2]
    return LD.reshape(self.shape), pivots.reshape(*batch, n), info.reshape(batch)


ldl_factor_op = declare(
    "linalg_ldl_factor", full_precision("ldl_factor_kernel_cpu", _ldl_factor),
    captures=captures.SOLVER, autocast="cpu:float32", n_out=3,
    nondifferentiable="not in PyTorch either",
    samples=lambda t: [(t(3, 3), False), (t(2, 4, 4), True), (t(0, 0), False)],
)  # fmt: skip


def _factored(name: str, A: Tensor, hermitian: bool):
    check_square(name, A, half=True)
    LD, pivots, info = ldl_factor_op.call(A.detach(), bool(hermitian))
    return without_derivative("linalg_ldl_factor_ex", LD, A), pivots, info


@linalg("ldl_factor_ex")
def ldl_factor_ex(A, *, hermitian=False, check_errors=False, out=None):
    """As ``linalg.ldl_factor``, but what went wrong is a number instead of an exception.

    Args:
        A: symmetric matrices (..., n, n), or Hermitian ones; the lower triangle is read.
        hermitian: whether complex matrices are Hermitian.
        check_errors: raise LinAlgError after all.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (LD, pivots, info): info (...) of int32 is 0, or the number of the first zero block of D.

    Raises:
        LinAlgError: with `check_errors`, a block of D is zero.
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.linalg.ldl_factor_ex(gradlib.zeros(2, 2)).info
        tensor(1, dtype=torch.int32)
    """
    LD, pivots, info = _factored("torch.linalg.ldl_factor_ex", A, hermitian)
    if check_errors:
        _check_info("torch.linalg.ldl_factor_ex", info)
    return write_same(out, return_types.linalg_ldl_factor_ex(LD, pivots, info))


@linalg("ldl_factor")
def ldl_factor(A, *, hermitian=False, out=None):
    """The LDL decomposition of symmetric or Hermitian matrices; without derivative.

    Args:
        A: matrices (..., n, n), of which the lower triangle is read.
        hermitian: whether complex matrices are Hermitian.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (LD, pivots): L (with ones on its diagonal) and D (blocks of one or two) in one matrix; and the
            exchanges of rows as LAPACK counts them, int32: from 1, twice and negative for a block of two.

    Raises:
        RuntimeError: the matrices are not square.

    Example:
        >>> gradlib.linalg.ldl_factor(2 * gradlib.eye(2)).LD
        tensor([[2., 0.],
                [0., 2.]])
    """
    LD, pivots, info = _factored("torch.linalg.ldl_factor_ex", A, hermitian)
    _check_info("torch.linalg.ldl_factor", info)
    return write_same(out, return_types.linalg_ldl_factor(LD, pivots))


def _check_info(name: str, info: Tensor) -> None:
    for where, number in failures(info):
        raise LinAlgError(
            f"{name}: {where}The factorization could not be completed because the input is singular "
            f"(the block {number} of D is zero)."
        )


def _swap(X, i: int, j: int) -> None:
    if i != j:
        row = X[i].copy()
        X[i] = X[j]
        X[j] = row


def _solve_one(xp, LD, pivots: list, X, conj) -> None:
    """``A @ X = B`` for one matrix; X holds B and is overwritten."""
    k, n = 0, len(pivots)
    starts = []
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        starts.append((k, step))
        _swap(X, k + step - 1, abs(pivots[k]) - 1)
        X[k + step :] -= xp.matmul(LD[k + step :, k : k + step], X[k : k + step])
        block = LD[k : k + step, k : k + step].copy()
        if step == 2:
            block[0, 1] = conj(block[1, 0])
        X[k : k + step] = (
            X[k : k + step] / block if step == 1 else xp.linalg.solve(block, X[k : k + 2])
        )
        k += step
    for k, step in reversed(starts):
        X[k : k + step] -= xp.matmul(conj(LD[k + step :, k : k + step]).T, X[k + step :])
        _swap(X, k + step - 1, abs(pivots[k]) - 1)


def _ldl_solve(xp, LD, pivots, B, *, hermitian):
    conj = xp.conj if hermitian else lambda x: x
    batch = xp.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    n = LD.shape[-1]
    X = flat_batch(xp.broadcast_to(B, batch + B.shape[-2:])).copy()
    factors = flat_batch(xp.broadcast_to(LD, batch + LD.shape[-2:]))
    rows = xp.broadcast_to(pivots, (*batch, n)).reshape(len(X), n)
    for b in range(len(X)):
        _solve_one(xp, factors[b], rows[b].tolist(), X[b], conj)
    return X.reshape(batch + B.shape[-2:])


ldl_solve_op = declare(
    "linalg_ldl_solve", full_precision("ldl_solve_kernel_cpu", _ldl_solve),
    captures=captures.SOLVER, autocast="cpu:float32", promote="free",
    nondifferentiable="not in PyTorch either",
    samples=lambda t: [(t(2, 2, low=1.0), t(2, low=2, high=2, dtype=dtypes.int32), t(2, 3), False)],
)  # fmt: skip


@linalg("ldl_solve")
def ldl_solve(LD, pivots, B, *, hermitian=False, out=None):
    """X with ``A @ X = B``, where A is given by ``ldl_factor``.

    Args:
        LD, pivots: (..., n, n) and (..., n), as returned there.
        B: right hand sides (..., n, k); the batches broadcast.
        hermitian: what was said there.
        out: written to instead of a new tensor.

    Returns:
        Solutions (..., n, k); there is no derivative with respect to LD.

    Raises:
        RuntimeError: the shapes or dtypes do not fit.

    Example:
        >>> gradlib.linalg.ldl_solve(*gradlib.linalg.ldl_factor(2 * gradlib.eye(2)), gradlib.ones(2, 1))
        tensor([[0.5000],
                [0.5000]])
    """
    name = "torch.linalg.ldl_solve"
    check_square(name, LD, "LD", half=True)
    if B.ndim < 2:
        raise IndexError(f"{name}: B must have at least 2 dimensions, but it has {B.ndim}")
    check_system(LD, B, name)
    if pivots.ndim != LD.ndim - 1 or tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype.category != dtypes.INTEGER:
        raise RuntimeError(
            f"{name}: Expected pivots to be integers. Got {pivots.dtype.scalar_type}"
        )
    result = ldl_solve_op.call(LD.detach(), pivots, B.detach(), bool(hermitian))
    return write_same(out, without_derivative("linalg_ldl_solve", result, LD, B))
