"""Largest and smallest elements of rows."""

from __future__ import annotations

from typing import Any

from ...operators.kinds import F4, F8
from . import forward
from .sums import row_max, row_min


def _along_rows(of_rows):
    def extremum(xp: Any, self: Any, *, dim: tuple, keepdim: bool):
        last = self.ndim - 1
        if last < 1 or len(dim) != 1 or dim[0] != last or not self.size:
            return NotImplemented
        if not (self.dtype is F4 or self.dtype is F8) or not self.flags.c_contiguous:
            return NotImplemented
        shape = self.shape
        out = of_rows(self.reshape(-1, shape[last]))
        return out.reshape((*shape[:last], 1) if keepdim else shape[:last])

    return extremum


forward("amax")(_along_rows(row_max))
forward("amin")(_along_rows(row_min))
