"""Cross-entropy of rows of scores against classes, and its gradient."""

from __future__ import annotations

import numpy as np

from ....operators.kinds import F4, narrow
from ....operators.nn.cross_entropy import (
    MEAN,
    NONE,
    class_rows,
    cross_entropy_by,
    row_shares,
)
from .. import before, parallel
from ..blocks import PIECE, row_blocks
from ..half_bits import hand_back, in_float32, widened
from . import jit
from .elementwise import exp_low as exp
from .norms import sum_of
from .rows import log_sum, maximum, suits

f4 = np.float32
INT64 = np.dtype(np.int64)


def _plain(x, target, weight) -> bool:
    """Whether these are rows of float32 scores, few enough for one thread, and classes as they are in memory."""
    return (
        weight is None
        and x.dtype is F4
        and x.ndim == 2
        and x.size <= PIECE
        and target.dtype is INT64
        and target.size == len(x)
        and target.flags.c_contiguous
    )


# -- forward -----------------------------------------------------------------------------------------------------------


@jit()
def _losses(x, classes, ignored, top, logs, losses):
    """Of each row the maximum, the logarithm of the sum of exponentials over it, and the loss.

    Returns how many rows have another class than `ignored`; -1 where a class does not exist.
    """
    counted = 0
    for i in range(len(x)):
        top[i] = maximum(x[i])
        logs[i] = log_sum(x[i], top[i])
        k = classes[i]
        if k == ignored:
            losses[i] = f4(0)
        elif 0 <= k < x.shape[1]:
            # in this order the difference of large scores is exact
            losses[i] = logs[i] - (x[i, k] - top[i])
            counted += 1
        else:
            return -1
    return counted


@jit()
def _loss(x, classes, ignored, mean, top, logs, losses, total):
    """`_losses`, and their sum or mean."""
    counted = _losses(x, classes, ignored, top, logs, losses)
    found = sum_of(losses)
    total[()] = found / counted if mean else found
    return counted


@jit()
def _log_sums_of(x, top, logs):
    for i in range(len(x)):
        top[i] = maximum(x[i])
        logs[i] = log_sum(x[i], top[i])


def _log_sums(xp, rows):
    n, width = rows.shape
    top, logs = np.empty(n, F4), np.empty(n, F4)

    def block(i: int, j: int) -> None:
        lent: list = []
        x = widened(rows[i:j], lent)
        _log_sums_of(x, top[i:j], logs[i:j])
        hand_back(lent)

    parallel.each(row_blocks(n, width), rows.size, block)
    return top, logs


_cross_entropy = cross_entropy_by(_log_sums)


@before("cross_entropy_op")
def cross_entropy(xp, self, target, weight=None, *, reduction, ignore_index):
    if self.ndim != 2 or not suits(self):
        return NotImplemented
    if _plain(self, target, weight):
        n = len(self)
        top, logs, losses = np.empty(n, F4), np.empty(n, F4), np.empty(n, F4)
        if reduction == NONE:
            counted = _losses(self, target, ignore_index, top, logs, losses)
        else:
            total = np.empty((), F4)
            counted = _loss(self, target, ignore_index, reduction == MEAN, top, logs, losses, total)
            losses = total
        if counted >= 0:  # else there is an error to be told
            return losses, top, logs
    how = {"reduction": reduction, "ignore_index": ignore_index}
    if self.dtype is F4:
        return _cross_entropy(xp, self, target, weight, **how)
    weight = None if weight is None else xp.wide(weight)
    return narrow(_cross_entropy(xp, xp.wide(self), target, weight, **how), self.dtype)


# -- backward ----------------------------------------------------------------------------------------------------------


@jit()
def _row_grad(x, top, logs, k, share, out):
    for j in range(x.size):
        out[j] = exp((x[j] - top) - logs) * share
    out[k] -= share


@jit()
def _grad(x, top, logs, classes, shares, out):
    for i in range(len(x)):
        _row_grad(x[i], top[i], logs[i], classes[i], shares[i], out[i])


@jit()
def _grad_of_few(x, top, logs, classes, ignored, mean, g, out):
    """From the gradient of each row's loss, or of their sum or mean; False where a class does not exist."""
    counted = 0
    for k in classes:
        if k != ignored:
            counted += 1
            if not 0 <= k < x.shape[1]:  # a hook may have unpacked other ones
                return False
    for i in range(len(x)):
        if classes[i] == ignored:
            out[i] = f4(0)
            continue
        share = g[i % g.size]
        share = share / f4(counted) if mean else share
        _row_grad(x[i], top[i], logs[i], classes[i], share, out[i])
    return True


@before("cross_entropy_op", "vjp")
def cross_entropy_vjp(F, g, self, target, weight, result1, result2, reduction, ignore_index):
    if self.ndim != 2 or not suits(self) or result1.dtype is not F4:
        return NotImplemented
    out = np.empty(self.shape, self.dtype)
    top, logs = np.ascontiguousarray(result1), np.ascontiguousarray(result2)
    if _plain(self, target, weight) and g.dtype is F4:
        above = np.ascontiguousarray(g).reshape(-1)
        if _grad_of_few(self, top, logs, target, ignore_index, reduction == MEAN, above, out):
            return out, None, None
    n = len(self)
    classes, weights, kept = class_rows(F.backend, target, weight, self.shape[1], ignore_index, F4)
    shares = np.empty(n, F4)
    shares[...] = row_shares(F.backend, F.backend.wide(g), weights, kept, reduction, n)
    classes = np.ascontiguousarray(classes, np.int64)

    def block(i: int, j: int) -> None:
        part = slice(i, j)
        given = top[part], logs[part], classes[part], shares[part]
        in_float32(lambda x, out: _grad(x, *given, out), out[part], self[part])

    parallel.each(row_blocks(*self.shape), self.size, block)
    return out, None, None
