"""cross_entropy in blocks of rows that fit into the cache, and its gradient from what the forward kept."""

from __future__ import annotations

from threading import get_ident

import numpy as np

from ...op.plain_numbers import number_array
from ...operators.kinds import F4, F8, narrow
from ...operators.nn.cross_entropy import (
    MEAN,
    NONE,
    class_rows,
    classes_last,
    classes_second,
    cross_entropy_by,
    row_shares,
)
from . import forward, parallel, vjp
from .blocks import row_blocks, spans
from .halves import float_arrays
from .softmax import LOW_SUM, ROWS, SMALL, exp_rows, of_few
from .sums import ADD, few_row_max, largest, ones, starts

INT64 = np.dtype(np.int64)


def _log_sums(xp, rows):
    """The maximum of each row (or a shared one), and the logarithm of the sum of exponentials over it."""
    n, width = rows.shape
    if rows.size <= SMALL:
        total, shift = exp_rows(rows, np.empty(rows.shape, rows.dtype), LOW_SUM)
        return shift[:, 0], np.log(total[:, 0])
    top, logs = np.zeros(n, rows.dtype), np.zeros(n, rows.dtype)
    step = max(1, ROWS // width)
    space: dict = {}  # of each thread

    def block(i: int, j: int) -> None:
        x, me = rows[i:j], get_ident()
        buffer = space.get(me)
        if buffer is None:
            buffer = space[me] = np.empty((min(step, n), width), rows.dtype)
        total, shift = exp_rows(x, buffer[: len(x)], LOW_SUM)
        np.log(total[:, 0], logs[i:j])
        top[i:j] = shift if shift.ndim == 0 else shift[:, 0]

    parallel.each(spans(n, step), rows.size, block)
    return top, logs


_cross_entropy = float_arrays(cross_entropy_by(_log_sums))


def _all_count(scores, target, weight, ignore_index: int) -> bool:
    """Whether these are few rows of scores that all have a class and count alike."""
    if weight is not None or scores.ndim != 2 or not of_few(scores):
        return False
    return _in_range(target, scores.shape[1], ignore_index)


def _in_range(target, classes: int, ignore_index: int) -> bool:
    return (
        target.dtype is INT64
        and not 0 <= ignore_index < classes
        and largest(target.view(np.uint64)) < classes  # as unsigned numbers negative ones are large
    )


@forward("nll_loss_op")
def nll_loss(xp, self, target, weight=None, *, reduction, ignore_index):
    if not _all_count(self, target, weight, ignore_index):
        return NotImplemented
    picked = self.ravel().take(target + starts(*self.shape))
    if reduction == NONE:
        return np.negative(picked, picked)
    total = -ADD(picked)
    return total / len(self) if reduction == MEAN else total


@forward("nll_loss_grad")
def nll_loss_grad(xp, grad, target, weight=None, *, shape, reduction, ignore_index):
    d = grad.dtype
    few = weight is None and len(shape) == 2 and 0 < shape[0] * shape[1] <= SMALL
    if not few or (d is not F4 and d is not F8) or not _in_range(target, shape[1], ignore_index):
        return NotImplemented
    out = np.zeros(shape, d)
    share = grad * number_array(1 / shape[0], d) if reduction == MEAN else grad
    out.ravel()[target + starts(*shape)] = -share
    return out


@forward("cross_entropy_op")
def cross_entropy(xp, self, target, weight=None, *, reduction, ignore_index):
    if not _all_count(self, target, weight, ignore_index):
        how = {"reduction": reduction, "ignore_index": ignore_index}
        return _cross_entropy(xp, self, target, weight, **how)
    n, width = self.shape
    top = few_row_max(self)
    out = self - top[:, None]
    losses = out.ravel().take(target + starts(n, width))
    logs = np.exp(out, out).dot(ones(width, out.dtype))
    np.log(logs, logs)
    np.subtract(logs, losses, losses)
    if reduction == NONE:
        return losses, top, logs
    total = losses.dot(ones(n, losses.dtype))
    return total / n if reduction == MEAN else total, top, logs


@vjp("cross_entropy_op")
def cross_entropy_vjp(F, g, self, target, weight, result1, result2, reduction, ignore_index):
    xp = F.backend
    if _all_count(self, target, weight, ignore_index):
        shares = g * number_array(1 / len(self), g.dtype) if reduction == MEAN else g
        return _grad_of_few(self, target, result1, result2, shares), None, None
    rows = xp.wide(classes_last(self))
    classes, weights, kept = class_rows(xp, target, weight, rows.shape[1], ignore_index, rows.dtype)
    shares = row_shares(xp, xp.wide(g), weights, kept, reduction, len(rows))
    if rows.size <= SMALL:
        return _like(_grad_of_few(rows, classes, result1, result2, shares), self), None, None
    out = np.empty(rows.shape, rows.dtype)

    def block(i: int, j: int) -> None:
        o = out[i:j]
        np.subtract(rows[i:j], result1[i:j, None], o)
        o -= result2[i:j, None]
        np.exp(o, o)
        o *= shares[i:j, None] if shares.ndim else shares

    parallel.each(row_blocks(*rows.shape), rows.size, block)
    out[xp.arange(len(out)), classes] -= shares
    return _like(out, self), None, None


def _grad_of_few(rows, classes, top, logs, shares):
    """The gradient of scores in rows, in as few calls as can be."""
    out = rows - top[:, None]
    out -= logs[:, None]
    np.exp(out, out)
    out *= shares[:, None] if shares.ndim else shares
    if out.flags.c_contiguous:
        out.ravel()[classes + starts(*out.shape)] -= shares
    else:
        out[np.arange(len(out)), classes] -= shares
    return out


def _like(rows, scores):
    """Rows of classes as an array of the shape and dtype of the scores."""
    return np.ascontiguousarray(narrow(classes_second(rows, scores.shape), scores.dtype))
