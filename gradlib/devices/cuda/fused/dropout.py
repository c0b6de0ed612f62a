"""Dropout masks drawn on the device, and multiplication by a mask in one pass (`kernels/dropout.cu`)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ..kernels import F4, FLOATS, blocks_for, dense, family
from . import forward

MODULE = family(
    "dropout", dropout=product(FLOATS), philox_advance=[()], masked_scale=product(FLOATS)
)


def new_state(xp: Any, seed: int, counter: int = 0) -> Any:
    """The state of a generator: uint64 [2], seed and counter, on the current device."""
    return xp.asarray(np.array([seed % 2**64, counter], np.uint64))


def _draw(xp: Any, x: Any, shape: tuple, p: float, state: Any, dtype: Any) -> tuple:
    if not 0 <= p < 1:
        raise ValueError(f"dropout probability has to be in [0, 1), but got {p}")
    size = math.prod(shape)
    keep = xp.empty(shape, np.bool_)
    out = None if x is None else xp.empty(shape, dtype)
    if size:
        threads = -(-size // 4)
        threshold = np.uint32(min(round(p * 2**32), 2**32 - 1))
        given = (x, out, keep, state, threshold, np.float64(1 / (1 - p)), np.int64(size))
        MODULE.launch(xp, ("dropout", dtype), blocks_for(threads), 256, *given)
        advance(xp, state, threads)
    return out, keep


def advance(xp: Any, state: Any, threads: int) -> None:
    """Move `state` (see `new_state`) on behind what so many threads have drawn."""
    MODULE.launch(xp, ("philox_advance",), 1, 1, state, np.uint64(threads))


def dropout(xp: Any, x: Any, p: float, state: Any) -> Any:
    """``(x * keep / (1 - p), keep)``; `state` (see `new_state`) moves on. NotImplemented for other dtypes."""
    if x.dtype not in FLOATS:
        return NotImplemented
    return _draw(xp, dense(xp, x), x.shape, p, state, x.dtype)


def keep_mask(xp: Any, shape: tuple, p: float, state: Any) -> Any:
    """A bool array that is False with probability `p`; `state` (see `new_state`) moves on."""
    return _draw(xp, None, tuple(shape), p, state, F4)[1]


@forward("masked_scale")
def masked_scale(xp, self, mask, *, scale):
    if self.dtype not in FLOATS or mask.shape != self.shape or mask.dtype.kind != "b":
        return NotImplemented
    out = xp.empty(self.shape, self.dtype)
    if out.size:
        given = (dense(xp, self), dense(xp, mask), out, np.float64(scale), np.int64(out.size))
        grid = blocks_for(-(-out.size // 4))
        MODULE.launch(xp, ("masked_scale", self.dtype), grid, 256, *given)
    return out
