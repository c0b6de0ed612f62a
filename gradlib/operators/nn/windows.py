"""Sliding windows over the last dimensions of an array.

Geometry, taps, and moving values between them and the input.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product

import numpy as np


def out_sizes(space, kernel, stride, padding, dilation) -> tuple:
    """Positions of a window along each dimension."""
    lengths = zip(space, kernel, stride, padding, dilation, strict=True)
    return tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in lengths])


def around(space, padding) -> tuple:
    """The size of an array with padding on both sides."""
    return tuple([n + 2 * p for n, p in zip(space, padding, strict=True)])


def inside(space, padding) -> tuple:
    """The index of what padding lies around, in the last dimensions."""
    return (..., *[slice(p, p + n) for n, p in zip(space, padding, strict=True)])


def zero_padded(xp, x, padding):
    """`x` with zeros around it, of which the first two dimensions have none."""
    if not any(padding):
        return x
    space = x.shape[2:]
    out = xp.zeros((*x.shape[:2], *around(space, padding)), x.dtype)
    out[inside(space, padding)] = x
    return out


def taps(kernel: tuple, out: tuple, stride: tuple, dilation: tuple) -> list[tuple]:
    """For each element of a kernel, by slices of the last dimensions, what it reads in a padded input."""
    return [
        (
            ...,
            *[
                slice(t * d, t * d + (m - 1) * s + 1, s)
                for t, d, m, s in zip(tap, dilation, out, stride, strict=True)
            ],
        )
        for tap in product(*map(range, kernel))
    ]


class Windows:
    """Where the windows of a pooling lie. All attributes are tuples over the spatial dimensions."""

    def __init__(self, space, kernel, stride, padding, dilation, ceil_mode):
        self.space, self.kernel, self.stride = space, kernel, stride
        self.padding, self.dilation = padding, dilation
        out, size = [], []
        for n, k, s, p, d in zip(space, kernel, stride, padding, dilation, strict=True):
            reach = d * (k - 1) + 1
            room = n + 2 * p - reach
            m = (-(-room // s) if ceil_mode else room // s) + 1
            if (
                ceil_mode and (m - 1) * s >= n + p
            ):  # every window starts inside the input or its left padding
                m -= 1
            out.append(m)
            size.append(max(n + p, (m - 1) * s + reach))
        self.out, self.size = tuple(out), tuple(size)
        self._places: dict = {}  # `positions` of host memory: whether in the input -> (offsets of taps, of windows)
        self.taps = taps(kernel, tuple(out), stride, dilation)
        self.inner = inside(space, padding)
        self.padded = self.size != space
        self.disjoint = all(
            d == 1 and s >= k for k, s, d in zip(kernel, stride, dilation, strict=True)
        )
        self.covers = (
            self.disjoint
            and kernel == stride
            and tuple(m * s for m, s in zip(out, stride, strict=True)) == self.size
        )

    def pad(self, xp, x, value):
        """`x` with `value` around it, so that every window lies inside."""
        if not self.padded:
            return x
        out = xp.full(x.shape[: x.ndim - len(self.space)] + self.size, value, x.dtype)
        inner = (
            ...,
            *[
                slice(p, p + min(n, s - p))
                for p, n, s in zip(self.padding, self.space, self.size, strict=True)
            ],
        )
        out[inner] = x
        return out

    def positions(self, xp, taps, origin=None):
        """Flat positions in the padded input (or, with `origin`, in the input) of tap numbers (..., *out)."""
        known = None if xp.waits else self._places.get(origin)
        if known is not None:
            return known[0].take(taps) + known[1]
        size = self.size if origin is None else self.space
        steps = [math.prod(size[i + 1 :]) for i in range(len(size))]
        start = (
            0 if origin is None else -sum(p * s for p, s in zip(self.padding, steps, strict=True))
        )
        offsets = [
            sum(t * d * s for t, d, s in zip(tap, self.dilation, steps, strict=True))
            for tap in product(*map(range, self.kernel))
        ]
        base = start
        for i, (m, s) in enumerate(zip(self.out, self.stride, strict=True)):
            base = base + (xp.arange(m) * (s * steps[i])).reshape((m,) + (1,) * (len(size) - i - 1))
        offsets = xp.table(offsets)
        if not xp.waits:
            self._places[origin] = offsets, base
        return offsets.take(taps) + base


@lru_cache(maxsize=256)
def windows(space, kernel, stride, padding, dilation, ceil_mode) -> Windows:
    """The (cached) geometry; arguments are tuples."""
    return Windows(space, kernel, stride, padding, dilation, ceil_mode)


def padded_below(xp, w: Windows, x):
    """`x` padded with what is less than every element."""
    if x.dtype.kind != "f" and w.padded:
        x = x.astype(np.int64, copy=False)
    return w.pad(xp, x, _least(x.dtype))


def _least(dtype):
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def maximum_of_windows(xp, w: Windows, x):
    """The maximum of each window, and the number of the tap that has it: of the first, but of the last nan.

    A tap outside of the input is never the one.
    """
    source = padded_below(xp, w, x)
    best = source[w.taps[0]].copy()
    small = len(w.taps) <= 256
    number = xp.zeros(best.shape, np.uint8 if small else np.int32)
    for t, tap in enumerate(w.taps[1:], 1):
        value = source[tap]
        greater = value > best
        xp.maximum(best, value, out=best)
        if small:
            greater = greater.view(np.uint8)
            greater *= np.uint8(t)
            xp.maximum(number, greater, out=number)
        else:
            number[greater] = t
    mark_unordered(xp, w, source, best, number)
    return best, number


def mark_unordered(xp, w: Windows, source, best, number) -> None:
    """Put right the numbers of maxima that no comparison finds: nan, and the least number, which the padding is too."""
    if best.dtype.kind == "f":
        if not xp.waits and math.isfinite(xp.add.reduce(best, None)):
            return
        for t, tap in enumerate(w.taps):
            part = source[tap]
            number[...] = xp.where(part != part, number.dtype.type(t), number)
    if w.padded:
        least = best == _least(source.dtype)
        if xp.waits or least.any():
            inside = w.pad(xp, xp.ones(w.space, bool), False)
            for t, tap in reversed(list(enumerate(w.taps))):
                found = least & inside[tap] & (source[tap] == best)
                number[...] = xp.where(found, number.dtype.type(t), number)


def places_of_planes(xp, w: Windows, shape, taps):
    """Blocks of planes (start, stop, flat positions) for arrays (planes, *size) and tap numbers (planes, *out)."""
    planes, step = math.prod(shape), max(1, xp.cached // max(math.prod(w.out), 1))
    taps = taps.reshape(planes, *w.out)
    length = math.prod(w.size)
    rows = (xp.arange(min(step, planes)) * length).reshape((-1,) + (1,) * len(w.out))
    for i in range(0, planes, step):
        j = min(i + step, planes)
        yield i, j, w.positions(xp, taps[i:j]) + rows[: j - i]


def pick(xp, w: Windows, x, taps):
    """The value of `x` (..., *space) at a tap of each window: (..., *out)."""
    source = w.pad(xp, x, 0)
    lead = x.shape[: x.ndim - len(w.space)]
    source = source.reshape(-1, math.prod(w.size))
    out = xp.empty((source.shape[0], *w.out), x.dtype)
    for i, j, where in places_of_planes(xp, w, lead, taps):
        out[i:j] = source[i:j].reshape(-1)[where]
    return out.reshape(*lead, *w.out)


def put(xp, w: Windows, values, taps):
    """The transpose of `pick`: values (..., *out) added to zeros at a tap of each window: (..., *space)."""
    lead = values.shape[: values.ndim - len(w.out)]
    total = xp.zeros((*lead, *w.size), values.dtype)
    if w.disjoint:
        flat, values = total.reshape(-1, math.prod(w.size)), values.reshape(-1, *w.out)
        for i, j, where in places_of_planes(xp, w, lead, taps):
            flat[i:j].reshape(-1)[where] = values[i:j]
    else:
        for t, tap in enumerate(w.taps):
            total[tap] += values * (taps == t)
    return cropped(xp, w, total)


def cropped(xp, w: Windows, padded):
    """The part of a padded array that is the input (zeros where windows did not reach)."""
    if not w.padded:
        return padded
    return xp.ascontiguousarray(padded[w.inner])


def sum_of_windows(xp, w: Windows, x):
    """The sum of each window of `x` (..., *space)."""
    source = w.pad(xp, x, 0)
    total = source[w.taps[0]].copy()
    for tap in w.taps[1:]:
        total += source[tap]
    return total


def spread_over_windows(xp, w: Windows, values):
    """The transpose of `sum_of_windows`."""
    lead = values.shape[: values.ndim - len(w.out)]
    total = (xp.empty if w.covers else xp.zeros)((*lead, *w.size), values.dtype)
    for tap in w.taps:
        if w.disjoint:
            total[tap] = values
        else:
            total[tap] += values
    return cropped(xp, w, total)
