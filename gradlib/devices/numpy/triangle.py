"""The triangles of matrices by a mask of bits, which is kept: NumPy makes it anew for each call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from . import forward

_WIDTHS: dict[int, Any] = {4: np.int32, 8: np.int64}  # by the bytes of a number
_BITS = {c: _WIDTHS[n] for c in "fdiIlLqQ" if (n := np.dtype(c).itemsize) in _WIDTHS}
MOST = 1 << 18  # elements of a mask


@lru_cache(maxsize=16)
def _mask(m: int, n: int, lower: bool, diagonal: int, char: str) -> np.ndarray | None:
    """All bits where an element stays, for a dtype by NumPy's letter; None for too many, and for other numbers."""
    if char not in _BITS or m * n > MOST:
        return None
    stays = np.tri(m, n, diagonal if lower else diagonal - 1, bool)
    return -(stays if lower else ~stays).astype(_BITS[char])


def keep(array: np.ndarray, lower: bool, diagonal: int) -> np.ndarray:
    """A contiguous array of matrices, with zeros outside of a triangle."""
    shape, dtype = array.shape, array.dtype
    mask = _mask(shape[-2], shape[-1], lower, diagonal, dtype.char)
    if mask is None:
        return np.tril(array, diagonal) if lower else np.triu(array, diagonal)
    return (array.view(mask.dtype) & mask).view(dtype)


def _triangle(self, lower: bool, diagonal: Any) -> Any:
    if (
        self.ndim < 2
        or not self.size
        or not self.flags.c_contiguous
        or diagonal.__class__ is not int
    ):
        return NotImplemented
    return keep(self, lower, diagonal)


@forward("tril")
def tril(xp, self, *, diagonal):
    return _triangle(self, True, diagonal)


@forward("triu")
def triu(xp, self, *, diagonal):
    return _triangle(self, False, diagonal)


@forward("triangle")
def triangle(xp, self, *, lower, diagonal):
    return _triangle(self, lower, diagonal)
