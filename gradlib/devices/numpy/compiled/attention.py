"""The softmax of rows of scores, in place, with the logarithms of their sums."""

from __future__ import annotations

import math

import numpy as np

from ....operators.kinds import F4
from .. import attention
from . import FEW, jit
from .elementwise import exp_low as exp
from .rows import LONG, maximum

f4 = np.float32
_NOTHING = f4(-math.inf)


@jit()
def _of_nothing(x):
    """The softmax of a row that no number but -inf is in: 0, so that nothing is attended to; nan stays."""
    for j in range(x.size):
        x[j] = f4(0) if x[j] == _NOTHING else f4(math.nan)


@jit("reassoc")
def _exp(x, top):
    """exp(x - top) in place, and the sum."""
    total = f4(0)
    for j in range(x.size):
        e = exp(x[j] - top)
        x[j] = e
        total += e
    return total


@jit()
def _softmax(x, lse):
    for i in range(len(x)):
        row = x[i]
        top = maximum(row)
        if top == _NOTHING:
            _of_nothing(row)
            lse[i] = row[0] + _NOTHING
            continue
        total = _exp(row, top)
        lse[i] = np.log(total) + top
        scale = f4(1) / total
        for j in range(row.size):
            row[j] *= scale


def _rows(s, lse) -> bool:
    """Those of float32 without gaps, of which `lse` may have some."""
    n = s.shape[-1]
    if s.dtype is not F4 or s.size <= FEW or n > LONG or not s.flags.c_contiguous:
        return False
    logs = lse if lse.flags.c_contiguous else np.empty(lse.shape, F4)
    _softmax(s.reshape(-1, n), logs.reshape(-1))
    if logs is not lse:
        lse[...] = logs
    return True


attention.rows_by(_rows)
