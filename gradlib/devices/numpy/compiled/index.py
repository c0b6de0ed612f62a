"""Adding rows at places that may repeat."""

from __future__ import annotations

import math

import numpy as np

from ....operators.kinds import F4, F8
from .. import accumulate
from . import jit


@jit()
def _most(rows, counts):
    """How often the most frequent of `rows` occurs; -1 if there is no such row."""
    found = 0
    for i in rows:
        if not 0 <= i < counts.size:
            return -1
        counts[i] += 1
        found = max(found, counts[i])
    return found


@jit()
def _add(out, rows, values):
    width = out.shape[1]
    for i in range(rows.size):
        target, row = out[rows[i]], values[i]
        for j in range(width):
            target[j] += row[j]


def _add_rows(out, rows, values) -> bool:
    """``out[rows[i]] += values[i]`` of float32 rows; of many in one place in double precision. False: not for these."""
    if not (out.dtype is F4 and values.dtype is F4 and values.flags.c_contiguous):
        return False
    if rows.dtype is not np.dtype(np.int64) or not rows.flags.c_contiguous:
        rows = np.ascontiguousarray(rows, np.int64)
    most = _most(rows, np.zeros(len(out), np.int64))
    if most < 0:
        return False
    if most <= max(64, math.isqrt(rows.size)):
        _add(out, rows, values)
    else:
        total = out.astype(F8)
        _add(total, rows, values)
        out[...] = total
    return True


accumulate.rows_by(_add_rows)
