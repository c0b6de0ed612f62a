"""Running sums, products and extrema along a dimension, in double precision where single would lose digits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...operators.reduce.scan import FEW, WIDER
from . import parallel
from .blocks import PIECE, spans

SLICE = 64  # elements from which a slice is long
EXTREMA = ("maximum", "minimum")
CHUNKED = 1 << 13  # elements from which an array is accumulated by more than one call
# Lengths of chunks; so many single-precision factors stay in the range of double precision.
CHUNKS = {"add": 16, "multiply": 6}

_quicker: Callable | None = None


def rows_by(function: Callable) -> None:
    """`function(ufunc, x, into)` is asked first for what is kept in double precision; None where it is not for it."""
    global _quicker
    _quicker = function


def accumulate(ufunc: str, x, dim: int, into=None):
    """The ufunc's ``accumulate``, written to the array `into` if there is one, which may lie in any order.

    Of many single-precision numbers the running value is kept in double precision.
    """
    step, n = getattr(np, ufunc), x.shape[dim]
    if n <= FEW and x.size < SLICE * n and ufunc != "multiply" and into is None:
        return step.accumulate(x, dim)
    few = ufunc in EXTREMA or (n <= FEW and ufunc != "multiply")
    wider = None if few else WIDER.get(x.dtype)
    last = dim == x.ndim - 1
    if not last and 0 < SLICE * n <= x.size:
        return _by_slices(step, x, dim, wider, into)
    if last and wider is not None and _quicker is not None:
        found = _quicker(ufunc, x, into)
        if found is not None:
            return found
    if wider is not None and x.size >= CHUNKED:
        into = np.empty(x.shape, x.dtype) if into is None else into
        if last and ufunc in CHUNKS and x.dtype.kind == "f":
            _in_chunks(step, x.reshape(-1, n), into.reshape(-1, n), wider, CHUNKS[ufunc])
        else:
            _in_parts(step, x, dim, wider, into)
        return into
    if wider is None:
        out = step.accumulate(x, dim)
    else:
        out = step.accumulate(x.astype(wider), dim).astype(x.dtype)
    if into is None:
        return out
    into[...] = out
    return into


def _by_slices(step, x, dim: int, wider, into):
    """``accumulate`` by one call for each slice: over long ones that is quicker than NumPy's own."""
    into = np.empty(x.shape, x.dtype) if into is None else into
    slices, results = np.moveaxis(x, dim, 0), np.moveaxis(into, dim, 0)
    if wider is None:
        results[0] = total = slices[0]
        for one, result in zip(list(slices)[1:], list(results)[1:], strict=True):
            total = step(total, one, out=result)
        return into
    total, width = None, max(1, PIECE * len(slices) // x.size)
    for i in range(0, len(slices), width):
        part = slices[i : i + width].astype(wider)
        for one in list(part):
            total = one if total is None else step(total, one, one)
        results[i : i + width] = part
    return into


def _in_parts(step, x, dim: int, wider, into) -> None:
    """``accumulate`` in the dtype `wider`; parts of long rows at a time stay in cache."""
    n, head, last = x.shape[dim], (slice(None),) * dim, None
    width = max(1, PIECE * n // x.size)
    for i in range(0, n, width):
        part = x[(*head, slice(i, i + width))].astype(wider)
        if last is not None:
            first = (*head, slice(0, 1))
            part[first] = step(last, part[first])
        step.accumulate(part, dim, out=part)
        last = part[(*head, slice(-1, None))].copy()
        into[(*head, slice(i, i + width))] = part


def _in_chunks(step, rows, into, wider, length: int) -> None:
    """The same along rows, whose chunks of `length` numbers are run through side by side.

    One step makes the next number of every chunk; one number after the other, each has to wait for the one before.
    """
    n = rows.shape[1]
    width, height = min(n, PIECE), max(1, PIECE // n)

    def block(first: int, end: int) -> None:
        space = np.empty((end - first, -(-width // length) * length), wider)
        last = None
        for j in range(0, n, width):
            part = rows[first:end, j : j + width]
            high, wide = part.shape
            data = space[:high]
            data[:, :wide], data[:, wide:] = part, step.identity
            if last is not None:
                step(last, data[:, 0], data[:, 0])
            total, *others = data.reshape(-1, length).T
            for one in others:
                total = step(total, one, one)
            before = np.empty((high, data.shape[1] // length), wider)
            before[:, 0] = step.identity
            step.accumulate(data[:, length - 1 : -1 : length], 1, out=before[:, 1:])
            step(before.repeat(length, 1), data, data)
            last = data[:, wide - 1].copy()
            into[first:end, j : j + width] = data[:, :wide]

    parallel.each(spans(len(rows), height), rows.size, block)
