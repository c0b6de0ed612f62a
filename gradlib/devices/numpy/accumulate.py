"""Adding to positions that may repeat: ``out[key] += values`` that counts every occurrence.

NumPy's ``add.at`` is quick only for one-dimensional arrays without a change of dtype, so everything is reduced to
that case: positions in the flat output, in blocks whose index arrays stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...operators.kinds import F4, F8
from . import parallel

BLOCK = 1 << 15  # index entries at a time
FEW = 256  # fewer are added one by one
# elements of a row, number of rows, and elements of all from which whole rows are added
WIDE, MANY, LARGE = 32, 64, 1 << 15
# up to so many products of numbers, or rows to add to, a product of matrices is the quickest way
PRODUCTS, TARGETS = {F4: 1 << 18, F8: 1 << 17}, {F4: 64, F8: 32}
SPREAD = 8  # elements of the result for each value up to which that is so
OFTEN = 64  # values in one place that are added one after the other in their own precision

_quicker: Callable | None = None


def rows_by(function: Callable) -> None:
    """`function(out, rows, values)`, of matrices, is asked before `add_rows`: False where it is not for these."""
    global _quicker
    _quicker = function


def add_flat(out, positions, values) -> None:
    """Add `values` to ``out[positions]``; `out` is one-dimensional and contiguous."""
    positions, values = positions.reshape(-1), values.reshape(-1)
    kind = out.dtype.kind
    if kind == "b":
        out[positions[values != 0]] = True
        return
    if out.dtype.itemsize == 2 and kind in "fV":  # half types: exact sums, rounded once
        wide = out.astype(np.float32)
        add_flat(wide, positions, values.astype(np.float32))
        out[...] = wide.astype(out.dtype)
        return
    if kind == "f" and positions.size > FEW and positions.size * 4 > out.size:
        out += np.bincount(positions, values, out.size).astype(out.dtype, copy=False)
        return
    if kind == "c":
        real = out.view(out.real.dtype)
        parts: Any = np.ascontiguousarray(values, out.dtype)
        np.add.at(real, positions * 2, np.ascontiguousarray(parts.real))
        np.add.at(real, positions * 2 + 1, np.ascontiguousarray(parts.imag))
        return
    if values.dtype != out.dtype:
        values = values.astype(out.dtype)
    np.add.at(out, positions, values)


def sum_at(shape: tuple, positions, values):
    """A new array of `shape` where each of `values` is added at its flat position."""
    size = math.prod(shape)
    if values.dtype.kind == "f" and positions.size > FEW and positions.size * 4 > size:
        sums = np.bincount(positions.reshape(-1), values.reshape(-1), size)
        return sums.astype(values.dtype, copy=False).reshape(shape)
    out = np.zeros(shape, values.dtype)
    add_flat(out.reshape(-1), positions, values)
    return out


def add_rows(out, rows, values) -> None:
    """Add ``values[i]`` to ``out[rows[i]]``; `out` is contiguous, `rows` one-dimensional and not negative."""
    width = out.size // out.shape[0] if out.shape[0] else 0
    if not width or not rows.size:
        return
    flat, columns = out.reshape(-1), np.arange(width)
    values = values.reshape(rows.size, width)
    if (out.dtype.itemsize == 2 and out.dtype.kind in "fV") or out.dtype.kind == "b":
        add_flat(flat, rows[:, None] * width + columns, values)
        return
    if _quicker is not None and _quicker(out.reshape(-1, width), rows, values):
        return
    large = width >= WIDE and rows.size >= MANY and values.size >= LARGE
    if large and values.dtype == out.dtype:
        _add_wide_rows(out.reshape(-1, width), rows, values)
        return
    step = max(1, BLOCK // width)
    for i in range(0, rows.size, step):
        add_flat(flat, rows[i : i + step, None] * width + columns, values[i : i + step])


def _add_few(out, rows, values) -> bool:
    """``out[rows] += values`` where the rows are few: at once if all are different, or else as a product of matrices,
    with 1 where a row goes and 0 elsewhere.

    False, and nothing done, where this is no gain, or less precise, or where 0 times something infinite would count.
    """
    d, count = out.dtype, rows.size
    if (d is not F4 and d is not F8) or values.dtype is not d or not out.size:
        return False
    if 0 < count <= OFTEN:
        named = rows.tolist()
        if len(set(named)) == count and (min(named) >= 0 or max(named) < 0):
            out[rows] += values
            return True
    if out.size * count > PRODUCTS[d] and len(out) > TARGETS[d]:
        return False
    if out.size > SPREAD * values.size or count > OFTEN * len(out):
        return False
    if count > OFTEN and np.bincount(rows % len(out)).max() > OFTEN:
        return False
    where = np.zeros((len(out), count), d)
    where[rows, np.arange(count)] = 1
    values = values.reshape(count, -1)
    total = where.dot(values) if count <= OFTEN else parallel.one(where.dot, values)
    if not math.isfinite(np.add.reduce(total, None)):
        return False
    out += total.reshape(out.shape)
    return True


def _add_wide_rows(out, rows, values) -> None:
    """Add whole rows: first the first occurrence of every index, then the second...

    Indices that occur more often than the square root of the number of rows are summed up on their own, so that
    there are never more steps than twice that.
    """
    found, order = _stable_order(rows)
    starts = np.flatnonzero(np.concatenate(([True], found[1:] != found[:-1])))
    counts = np.diff(starts, append=rows.size)
    most = math.isqrt(rows.size)
    for i in np.flatnonzero(counts > most).tolist():
        start = starts[i]
        some = values.take(order[start : start + counts[i]], 0)
        out[found[start]] += np.add.reduce(some, 0, out.dtype)
    by = np.argsort(-counts, kind="stable")
    by = by[np.searchsorted(-counts[by], -most) :]
    starts, counts = starts[by], counts[by]
    if not starts.size:
        return
    total = values.take(order[starts], 0)
    lengths = np.searchsorted(-counts, -np.arange(1, counts[0]))
    for occurrence, n in enumerate(lengths.tolist(), 1):
        total[:n] += values.take(order[starts[:n] + occurrence], 0)
    out[found[starts]] += total


def _stable_order(keys):
    """(sorted keys, their places) of keys that are not negative: key and place are sorted as one number."""
    bits = (keys.size - 1).bit_length()
    if int(keys.max()) >> (63 - bits):
        order = keys.argsort(kind="stable")
        return keys[order], order
    packed = (keys.astype(np.int64, copy=False) << bits) | np.arange(keys.size)
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def add_at(out, key, values) -> None:
    """``out[key] += values``, every occurrence counted; `key` is a tuple of slices, integer and bool arrays."""
    arrays = [k for k in key if not isinstance(k, slice)]
    if len(arrays) == 1 and arrays[0].dtype.kind == "b":
        out[key] += values  # each entry once
        return
    if not out.flags.c_contiguous:
        dense = np.ascontiguousarray(out)
        add_at(dense, key, values)
        out[...] = dense
        return
    if len(arrays) == 1 and not isinstance(key[0], slice):
        rows = arrays[0].reshape(-1)
        shape = (*arrays[0].shape, *out.shape[1:])
        values = values if values.shape == shape else np.broadcast_to(values, shape)
        if _add_few(out, rows, values.reshape(rows.size, *out.shape[1:])):
            return
        add_rows(out, np.where(rows < 0, rows + out.shape[0], rows), values)
        return
    positions = np.arange(out.size).reshape(out.shape)[key]
    if values.shape != positions.shape:
        values = np.broadcast_to(values, positions.shape)
    add_flat(out.reshape(-1), positions, values)
