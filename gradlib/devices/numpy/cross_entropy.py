"""cross_entropy in blocks of rows that fit into the cache, and its gradient from what the forward kept."""

from __future__ import annotations

from threading import get_ident

import numpy as np

from ...operators.nn.cross_entropy import (
    class_rows,
    classes_last,
    classes_second,
    cross_entropy_by,
    row_shares,
)
from . import forward, parallel, vjp
from .blocks import row_blocks, spans
from .halves import float_arrays
from .softmax import LOW_SUM, ROWS, SMALL, exp_rows


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


forward("cross_entropy_op")(float_arrays(cross_entropy_by(_log_sums)))


@vjp("cross_entropy_op")
def cross_entropy_vjp(F, g, self, target, weight, result1, result2, reduction, ignore_index):
    xp = F.backend
    rows = xp.wide(classes_last(self))
    classes, weights, kept = class_rows(xp, target, weight, rows.shape[1], ignore_index, rows.dtype)
    shares = row_shares(xp, xp.wide(g), weights, kept, reduction, len(rows))
    if rows.size <= SMALL:
        out = rows - result1[:, None]
        out -= result2[:, None]
        np.exp(out, out)
        out *= shares[:, None] if shares.ndim else shares
        out[np.arange(len(out)), classes] -= shares
        return out if rows is self else _like(out, self), None, None
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


def _like(rows, scores):
    """Rows of classes as an array of the shape and dtype of the scores."""
    return np.ascontiguousarray(classes_second(rows, scores.shape).astype(scores.dtype, copy=False))
