"""fmod and remainder of many float32 numbers, in double precision: NumPy takes the bits of a quotient one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.kinds import F4, F8
from . import forward, parallel
from .blocks import spans
from .mkl import dense
from .sums import LARGE, MAX

# of such quotients double precision has the whole part, and its product with the divisor, exactly
MOST = 2.0**28
BLOCK = 1 << 15  # elements of a block in double precision
SIGN = np.int32(-(1 << 31))


def _rest(x, y):
    """x - trunc(x / y) * y in double precision; None where that is not exact, or not a number."""
    x, y = x.astype(F8), y.astype(F8)
    whole = x / y
    np.trunc(whole, whole)
    if not (MAX(whole) < MOST and np.minimum.reduce(whole) > -MOST):
        return None
    whole *= y
    rest = np.subtract(x, whole, whole)
    return None if np.isnan(MAX(rest)) else rest  # as an infinite divisor makes it


def _fmod_block(x, y, out) -> None:
    found = _rest(x, y)
    if found is None:
        np.fmod(x, y, out)
        return
    out[...] = found  # exactly
    bits = out.view(np.int32)
    bits |= x.view(np.int32) & SIGN  # of zeros


def _remainder_block(x, y, out) -> None:
    found = _rest(x, y)
    if found is None:
        np.remainder(x, y, out)
        return
    out[...] = found
    other = np.signbit(out) != np.signbit(y)
    other &= out != 0
    # one divisor more where the signs differ; all are finite
    out += np.multiply(other.astype(F4), y)
    if not out.all():
        np.copyto(out, np.copysign(F4.type(0), y), where=out == 0)


def _by(block: Any) -> Any:
    def overlay(xp, self, other):
        x, y = self, other
        if x.dtype is not F4 or y.dtype is not F4 or (x.size < LARGE and y.size < LARGE):
            return NotImplemented
        if x.ndim and y.ndim and (x.shape != y.shape or x.strides != y.strides):
            return NotImplemented
        like = dense(x if x.ndim else y)
        out = np.empty_like(like)
        flat = [dense(a).ravel("K") if a.ndim else a for a in (x, y)]
        target = out.ravel("K")

        def piece(i: int, j: int) -> None:
            block(*[a[i:j] if a.ndim else a for a in flat], target[i:j])

        parallel.each(spans(out.size, BLOCK), out.size, piece)
        return out

    return overlay


forward("fmod")(_by(_fmod_block))
forward("remainder")(_by(_remainder_block))
