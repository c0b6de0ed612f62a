"""Max pooling of float32 images, and its gradient.

x is (planes, H, W), results and the numbers of taps are (planes, *out). A tap is an element of the window; its number
counts along rows. What lies in the padding is never the maximum.
"""

from __future__ import annotations

import math

import numpy as np

from ....operators.kinds import F4
from ....operators.nn.pool import geometry
from ....operators.nn.windows import Windows, windows
from .. import before, parallel
from ..blocks import PIECE, row_blocks
from ..pool import with_indices
from . import FEW, jit

i4 = np.int32
_LEAST = np.float32(-math.inf)
PAIRS = (2, 2), (2, 2), (0, 0), (1, 1)  # the windows that most networks have


@jit()
def _pairs(x, best, number):
    """Of windows of two by two side by side."""
    planes, height, width = best.shape
    for p in range(planes):
        for i in range(height):
            upper, lower = x[p, 2 * i], x[p, 2 * i + 1]
            found, taps = best[p, i], number[p, i]
            for j in range(width):
                m, tap = upper[2 * j], i4(0)
                v = upper[2 * j + 1]
                tap = i4(1) if (v > m) | (v != v) else tap
                m = v if (v > m) | (v != v) else m
                v = lower[2 * j]
                tap = i4(2) if (v > m) | (v != v) else tap
                m = v if (v > m) | (v != v) else m
                v = lower[2 * j + 1]
                tap = i4(3) if (v > m) | (v != v) else tap
                m = v if (v > m) | (v != v) else m
                found[j], taps[j] = m, tap


@jit()
def _inside(first, step, size, count):
    """The steps from `first` on that are within `size`: (from, to), of `count`."""
    low = 0 if first >= 0 else (-first + step - 1) // step
    high = (size - first + step - 1) // step if size > first else 0
    return min(low, count), min(high, count)


@jit()
def _max_pool(x, kernel, stride, padding, dilation, best, number):
    planes, height, width = best.shape
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = kernel, stride, padding, dilation
    taps = np.empty(width, i4)
    for p in range(planes):
        for i in range(height):
            found = best[p, i]
            for j in range(width):
                taps[j], found[j] = -1, _LEAST
            for ky in range(kh):
                y = i * sh - ph + ky * dh
                if y < 0 or y >= x.shape[1]:
                    continue
                row = x[p, y]
                for kx in range(kw):
                    first, tap = kx * dw - pw, i4(ky * kw + kx)
                    low, high = _inside(first, sw, x.shape[2], width)
                    for j in range(low, high):
                        v, m = row[first + j * sw], found[j]
                        more = (taps[j] < 0) | (v > m) | (v != v)
                        found[j] = v if more else m
                        taps[j] = tap if more else taps[j]
            for j in range(width):  # a window of which no tap is in the image has the first
                number[p, i, j] = max(taps[j], i4(0))


@jit()
def _put(values, taps, kernel, stride, padding, dilation, out):
    """Values added where the taps are."""
    planes, height, width = values.shape
    (_, kw), (sh, sw), (ph, pw), (dh, dw) = kernel, stride, padding, dilation
    for p in range(planes):
        for i in range(height):
            for j in range(width):
                tap = i4(taps[p, i, j])
                y, z = i * sh - ph + tap // kw * dh, j * sw - pw + tap % kw * dw
                if 0 <= y < out.shape[1] and 0 <= z < out.shape[2]:
                    out[p, y, z] += values[p, i, j]


def _in_two(w: Windows) -> tuple:
    """(kernel, stride, padding, dilation) in two dimensions."""
    how = w.kernel, w.stride, w.padding, w.dilation
    return how if len(w.kernel) == 2 else tuple((n, *a) for n, a in zip((1, 1, 0, 1), how))


def _planes(a, k: int):
    """(..., and the last k dimensions) as (planes, H, W); of one dimension with a height of 1."""
    return a.reshape(-1, *a.shape[-2:]) if k == 2 else a.reshape(-1, 1, a.shape[-1])


def _is_image(a, k: int) -> bool:
    return k <= 2 and a.dtype is F4 and a.size > FEW and a.flags.c_contiguous


@before("max_pool2d_op")
def max_pool(xp, self, *, kernel_size, stride, padding, dilation, ceil_mode):
    k = len(kernel_size)
    if not _is_image(self, k):
        return NotImplemented
    w = geometry(self.shape, kernel_size, stride, padding, dilation, ceil_mode)
    how, shape = _in_two(w), (*self.shape[: self.ndim - k], *w.out)
    best = np.empty(shape, F4)
    number = np.empty(shape, np.uint8 if len(w.taps) <= 256 else i4)
    x, found, taps = _planes(self, k), _planes(best, k), _planes(number, k)

    def block(i: int, j: int) -> None:
        if how == PAIRS:
            _pairs(x[i:j], found[i:j], taps[i:j])
        else:
            _max_pool(x[i:j], *how, found[i:j], taps[i:j])

    if x.size <= PIECE:
        block(0, len(x))
    else:
        parallel.each(row_blocks(len(x), math.prod(w.space)), x.size, block)
    return best, number


before("max_pool_with_indices")(with_indices(max_pool))


@before("pool_put")
def pool_put(xp, self, *, taps, space, kernel_size, stride, padding, dilation, ceil_mode):
    k = len(space)
    if not _is_image(self, k) or taps.shape != self.shape or not taps.flags.c_contiguous:
        return NotImplemented
    how = _in_two(windows(space, kernel_size, stride, padding, dilation, ceil_mode))
    out = np.zeros((*self.shape[: self.ndim - k], *space), F4)
    values, places, images = _planes(self, k), _planes(taps, k), _planes(out, k)
    parallel.each(
        row_blocks(len(images), math.prod(space)), out.size,
        lambda i, j: _put(values[i:j], places[i:j], *how, images[i:j]),
    )  # fmt: skip
    return out
