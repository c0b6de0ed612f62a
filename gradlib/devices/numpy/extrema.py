"""Largest and smallest elements of rows, and their length."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.kinds import F4, F8
from . import forward
from .sums import LARGE, largest, row_max, row_min, row_squares, starts

I8 = np.dtype(np.int64)
FEW = 1 << 12  # elements of a row


def _along_rows(of_rows):
    def extremum(xp: Any, self: Any, *, dim: tuple, keepdim: bool):
        last = self.ndim - 1
        if last < 1 or len(dim) != 1 or dim[0] != last or not self.size:
            return NotImplemented
        if not (self.dtype is F4 or self.dtype is F8) or not self.flags.c_contiguous:
            return NotImplemented
        shape = self.shape
        out = of_rows(self.reshape(-1, shape[last]))
        if out is None:
            return NotImplemented
        return out.reshape((*shape[:last], 1) if keepdim else shape[:last])

    return extremum


@forward("put_one")
def put_one(xp: Any, self: Any, indices: Any, *, shape: tuple, dim: int, keepdim: bool):
    n = shape[dim] if shape else 0
    if dim != len(shape) - 1 or not self.size or indices.dtype is not I8 or n > FEW:
        return NotImplemented
    flat = indices.reshape(-1)
    if largest(flat.view(np.uint64)) >= n:  # as unsigned numbers negative ones are large
        return NotImplemented
    out = np.zeros(shape, self.dtype)
    out.reshape(-1)[flat + starts(flat.size, n)] = self.reshape(-1)
    return out


def _lengths(x):
    found = row_squares(x)
    return None if found is None else np.sqrt(found, found)


forward("amax")(_along_rows(row_max))
forward("amin")(_along_rows(row_min))


_of_lengths = _along_rows(_lengths)


@forward("vector_norm")
def vector_norm(xp: Any, self: Any, *, ord: Any, dim: tuple, keepdim: bool):
    if ord != 2 or self.size < LARGE:
        return NotImplemented
    return _of_lengths(xp, self, dim=dim, keepdim=keepdim)
