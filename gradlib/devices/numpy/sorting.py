"""Sorting and selection on NumPy arrays: by digits, with places as parts of numbers, and by candidates for topk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...operators.reduce.order import median_all_by, ranked_by
from ...operators.reduce.sort import kth_by, topk_by
from ...operators.shape.slicing import at
from ...tape.layout import in_order
from . import forward

LARGE = 1 << 11  # elements up to which NumPy's stable argsort is as quick
# elements along the dimension up to which numbers of 4 bytes are sorted with their places
SHORT = 1 << 10
ALL = 256  # the same up to which topk sorts them all
LONG = 512  # the same from which digits of 8 bytes are quicker, and candidates for topk
_DIGIT = np.dtype(np.uint16)
_SIGNED = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}
_UNSIGNED = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


def quick_argsort(x, dim: int, descending: bool):
    """The indices that sort `x` stably along `dim`, NaN as the greatest; None where NumPy's argsort is the quicker one.

    Sorted by 16 bits at a time, the lowest first: NumPy's stable argsort counts those, and compares longer ones. Short
    rows of numbers of 4 bytes are sorted as numbers of 8, the second half of which is the place.
    """
    if x.dtype.kind not in "fiu" or x.dtype.itemsize not in _SIGNED or x.size < LARGE:
        return None
    n, narrow = x.shape[dim], x.dtype.itemsize == 4
    if not narrow and n < LONG:
        return None
    keys = (_float_keys if x.dtype.kind == "f" else _integer_keys)(x, descending)
    if narrow and n <= SHORT:
        return _with_places(keys, dim)
    order = keys.astype(_DIGIT).argsort(dim, kind="stable")
    top, shift = int(keys.max()), 16
    while top >> shift:
        digits = _along((keys >> keys.dtype.type(shift)).astype(_DIGIT), order, dim)
        order = _along(order, digits.argsort(dim, kind="stable"), dim)
        shift += 16
    return order


def _with_places(keys, dim: int):
    """The indices that sort unsigned integers of 4 bytes stably."""
    pairs = keys.astype(_UNSIGNED[8], order="C")
    pairs <<= pairs.dtype.type(32)
    n = keys.shape[dim]
    pairs |= np.arange(n, dtype=pairs.dtype).reshape(n, *[1] * (keys.ndim - 1 - dim))
    pairs.sort(dim)
    pairs &= pairs.dtype.type(0xFFFFFFFF)
    return pairs.view(_SIGNED[8])


def _along(x, order, dim: int):
    return x.take(order) if x.ndim == 1 else np.take_along_axis(x, order, dim)


def _float_keys(x, descending: bool):
    """Unsigned integers in the order of the floating-point numbers `x`, or the other way round."""
    signed = _SIGNED[x.dtype.itemsize]
    most = np.iinfo(signed).max
    keys = (x + x.dtype.type(0)).view(signed)  # no negative zero: it equals the positive one
    keys ^= (
        keys >> signed.type(8 * signed.itemsize - 1)
    ) & most  # negative numbers the other way round
    wrong = x != x
    if wrong.any():
        keys[wrong] = most
    if descending:
        np.invert(keys, out=keys)
    keys ^= np.iinfo(signed).min
    return keys.view(_UNSIGNED[signed.itemsize])


def _integer_keys(x, descending: bool):
    """Unsigned integers in the order of the integers `x`, or the other way round, the least being 0."""
    unsigned = _UNSIGNED[x.dtype.itemsize]
    keys = np.ascontiguousarray(x).view(unsigned)  # differences are right modulo the range
    if descending:
        return x.max().view(unsigned) - keys
    return keys - x.min().view(unsigned)


def top_places(x, k: int, largest: bool):
    """Places (rows, k) of the extreme elements of each row of the contiguous `x` (rows, n), the first the extreme one.

    The k-th of the extremes of blocks bounds the k-th element; only what is beyond the bound is sorted. Returns None
    where too much is, as among equal elements.
    """
    rows, n = x.shape
    blocks = max(8 * k, 128, math.isqrt(n))
    head = x[:, : n // blocks * blocks].reshape(rows, -1, blocks)
    if largest:
        extremes = np.maximum.reduce(head, axis=1)
        beyond = x < np.partition(extremes, blocks - k, axis=1)[:, blocks - k, None]
    else:
        extremes = np.fmin.reduce(head, axis=1)
        beyond = x > np.partition(extremes, k - 1, axis=1)[:, k - 1, None]
    spots = np.flatnonzero(~beyond)  # NaN among them
    if 4 * spots.size > x.size:
        return None
    values, row = x.reshape(-1).take(spots), spots // n
    order = _argsort(values, largest)
    if rows > 1:
        order = order[row[order].argsort(kind="stable")]
        counts = np.bincount(row, minlength=rows)
        order = order.take((np.cumsum(counts) - counts)[:, None] + np.arange(k))
    return (spots - row * n).take(order.reshape(rows, -1)[:, :k])


def _argsort(values, descending: bool):
    if not descending:
        return values.argsort(kind="stable")
    return values.size - 1 - values[::-1].argsort(kind="stable")[::-1]


# -- overlays ----------------------------------------------------------------------------------------------------------


def _order(xp, x, dim: int, descending: bool):
    """The indices that sort an array of at least one dimension stably."""
    order = quick_argsort(x, dim, descending)
    if order is not None:
        return order
    if not descending:
        return x.argsort(dim, kind="stable")
    back = at(dim, slice(None, None, -1))
    order = x[back].argsort(dim, kind="stable")
    return np.subtract(x.shape[dim] - 1, order, out=order)[back]


@forward("argsort")
def argsort(xp: Any, self: Any, *, dim: int, descending: bool):
    if self.size < LARGE or not self.ndim or self.dtype.names:
        return NotImplemented
    order = quick_argsort(xp.wide(self), dim, descending)
    if order is None:
        return NotImplemented
    return order if self.flags.c_contiguous else in_order(xp, order, (self,))


_kth = kth_by(_order)


@forward("kth_index")
def kth_index(xp: Any, self: Any, *, k: int, dim: int):
    return NotImplemented if self.dtype.names else _kth(xp, self, k=k, dim=dim)


def _of_numbers(kernel: Any) -> Any:
    def overlay(xp: Any, self: Any, **options: Any) -> Any:
        return NotImplemented if self.dtype.names else kernel(xp, self, **options)

    return overlay


for _name in ("median", "nanmedian"):
    forward(f"{_name}_index")(_of_numbers(ranked_by(_name, _order)))
    forward(f"{_name}_all")(_of_numbers(median_all_by(_name, _order)))


_topk = topk_by(_order)


@forward("topk_index")
def topk_index(xp: Any, self: Any, *, k: int, dim: int, largest: bool, sorted: bool):
    if self.dtype.names:
        return NotImplemented
    n = self.shape[dim] if self.ndim else 0
    if 0 < n <= ALL and (order := quick_argsort(xp.wide(self), dim, largest)) is not None:
        return np.ascontiguousarray(order[at(dim, slice(0, k))])
    if k and n >= LONG and 16 * k <= n:
        moved = np.ascontiguousarray(np.moveaxis(xp.wide(self), dim, -1))
        found = top_places(moved.reshape(-1, n), k, largest)
        if found is not None:
            return np.ascontiguousarray(np.moveaxis(found.reshape(*moved.shape[:-1], k), -1, dim))
    return _topk(xp, self, k=k, dim=dim, largest=largest, sorted=sorted)
