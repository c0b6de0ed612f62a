"""Dropout masks drawn on the device, and multiplication by a mask in one pass (`kernels/dropout.cu`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import F4, FLOATS, blocks_for, dense, family, instance, instances, launcher_of
from . import forward, vjp

MODULE = family(
    "dropout",
    instances("dropout", FLOATS),
    ["philox_advance"],
    instances("masked_scale", FLOATS),
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
        launch = launcher_of(xp).launch
        launch(MODULE, instance("dropout", dtype), blocks_for(threads), 256, given)
        launch(MODULE, "philox_advance", 1, 1, (state, np.uint64(threads)))
    return out, keep


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
        kernel = instance("masked_scale", self.dtype)
        launcher_of(xp).launch(MODULE, kernel, blocks_for(-(-out.size // 4)), 256, given)
    return out


@vjp("masked_scale")
def masked_scale_vjp(F, g, mask, scale):
    grad = masked_scale(F.backend, g, mask, scale=scale)
    return grad if grad is NotImplemented else (grad, None)
