"""Max pooling of few elements, where each call counts, and gradients of windows that overlap."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...operators.kinds import F4, F8, is_half
from ...operators.nn.pool import GEOMETRY, geometry
from ...operators.nn.windows import (
    Windows,
    cropped,
    mark_unordered,
    padded_below,
    places_of_planes,
    windows,
)
from . import forward

FEW = 1 << 11  # elements up to which the number of calls decides
PLANE = 1 << 4  # elements of the input for each window from which most of them are not read
WINDOWS = 160  # the same of windows, for each of their elements after the second


@forward("max_pool2d_op", "max_pool3d_op")
def max_pool(xp: Any, self: Any, *, kernel_size, stride, padding, dilation, ceil_mode):
    if not self.size or not self.flags.c_contiguous or self.dtype.kind not in "fViu":
        return NotImplemented
    w = geometry(self.shape, kernel_size, stride, padding, dilation, ceil_mode)
    many = math.prod(w.out) * math.prod(self.shape[: -len(kernel_size)])
    if many > WINDOWS * (len(w.taps) - 2) or math.prod(w.size) > PLANE * math.prod(w.out):
        return NotImplemented
    best, taps = _maximum_of_few(xp, w, xp.wide(self) if is_half(self) else self)
    return best.astype(self.dtype, copy=False), taps


def with_indices(max_pool: Callable) -> Callable:
    """The same maxima with their positions in the input instead of taps."""

    def overlay(xp: Any, self: Any, *, kernel_size, stride, padding, dilation, ceil_mode):
        how = (kernel_size, stride, padding, dilation, ceil_mode)
        made = max_pool(xp, self, **dict(zip(GEOMETRY.split(), how, strict=True)))
        if made is NotImplemented:
            return made
        return made[0], geometry(self.shape, *how).positions(xp, made[1], "input")

    return overlay


forward("max_pool_with_indices")(with_indices(max_pool))


@forward("pool_put")
def pool_put(xp: Any, self: Any, *, taps, space, kernel_size, stride, padding, dilation, ceil_mode):
    """The gradient of max pooling: values added where the maxima were."""
    if not self.size or (self.dtype is not F4 and self.dtype is not F8):
        return NotImplemented
    w = windows(space, kernel_size, stride, padding, dilation, ceil_mode)
    lead = self.shape[: self.ndim - len(space)]
    if self.size > FEW:
        return NotImplemented if w.disjoint else _put_many(xp, w, self, taps, lead)
    planes, length = math.prod(lead), math.prod(w.size)
    where = w.positions(xp, taps.reshape(planes, *w.out)).reshape(planes, -1)
    if planes > 1:
        where += np.arange(0, planes * length, length)[:, None]
    where, values = where.reshape(-1), self.reshape(-1)
    if w.disjoint:
        total = np.zeros(planes * length, self.dtype)
        total[where] = values
    else:
        total = np.bincount(where, values, planes * length).astype(self.dtype, copy=False)
    return cropped(xp, w, total.reshape(*lead, *w.size))


def _put_many(xp, w: Windows, values, taps, lead):
    """One value after the other, which is quicker than a pass over all of them for each tap."""
    total = np.zeros((*lead, *w.size), values.dtype)
    flat, values = total.reshape(-1, math.prod(w.size)), values.reshape(-1, *w.out)
    for i, j, where in places_of_planes(xp, w, lead, taps):
        np.add.at(flat[i:j].reshape(-1), where.reshape(-1), values[i:j].reshape(-1))
    return cropped(xp, w, total)


def _maximum_of_few(xp, w: Windows, x):
    """The maximum of each window and the number of the first tap that has it: the windows as rows of a matrix."""
    source = padded_below(xp, w, x)
    k, moves = len(w.space), source.strides
    lead, inner = source.shape[: source.ndim - k], moves[source.ndim - k :]
    strides = (
        *moves[: source.ndim - k],
        *[m * s for m, s in zip(inner, w.stride, strict=True)],
        *[m * d for m, d in zip(inner, w.dilation, strict=True)],
    )
    rows = xp.as_strided(source, (*lead, *w.out, *w.kernel), strides).reshape(-1, len(w.taps))
    number = rows.argmax(1)
    best = rows.reshape(-1).take(number + np.arange(0, rows.size, len(w.taps)))
    kind = np.uint8 if len(w.taps) <= 256 else np.int32
    best, number = best.reshape(*lead, *w.out), number.astype(kind).reshape(*lead, *w.out)
    mark_unordered(xp, w, source, best, number)
    return best, number
