"""Copies in another floating type (`kernels/cast.cu`): one array, or those of many tensors in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from ..kernels import F4, HALVES, blocks_for, family
from . import direct, forward
from .lists import table_type, tables

PACK = 4  # as in kernels/cast.cu
FLOATING = (*HALVES, F4)
MODULE = family("cast", cast=permutations(FLOATING, 2), cast_list=[(d,) for d in HALVES])
TABLE = table_type(2)
_ready: dict[tuple, Any] = {}  # (device, dtype, dtype) -> CuPy's own launch


@forward("cast")
def cast(xp, self, *, dtype, self_dtype):
    kind = self.dtype
    if (
        kind == dtype
        or kind not in FLOATING
        or dtype not in FLOATING
        or not self.flags.c_contiguous
    ):
        return NotImplemented
    out = xp.empty(self.shape, dtype)
    size = self.size
    if not size:
        return out
    threads = -(-size // PACK)
    if not direct.possible(xp):
        MODULE.launch(
            xp, ("cast", kind, dtype), blocks_for(threads), 256, self, out, np.int64(size)
        )
        return out
    key = xp.current_device(), kind, dtype
    launch = _ready.get(key)
    if launch is None:
        launch = _ready[key] = direct.launch_of(xp, MODULE, "cast", kind, dtype)
    launch(threads, (self, out, size), 0, 256)
    return out


def cast_all(xp: Any, arrays: Sequence[Any], dtype: np.dtype) -> list[Any]:
    """Copies of arrays in a half type, a launch for 48 of them; None in the place of one that it does not fit.

    arrays: device arrays of any shapes. Those fit that are float32 without gaps; a copy has the order of its strides.
    """
    outs = [_like(xp, a, dtype) for a in arrays]
    chosen = [i for i, out in enumerate(outs) if out is not None]
    if chosen:
        lists: dict[int, Sequence[Any]] = {
            0: [outs[i] for i in chosen],
            1: [arrays[i] for i in chosen],
        }
        for table, blocks in tables(xp, TABLE, lists, [arrays[i].size for i in chosen]):
            MODULE.launch(xp, ("cast_list", dtype), blocks, 256, table)
    return outs


def _like(xp: Any, array: Any, dtype: np.dtype) -> Any:
    """An array of that type for the elements of `array` in their order in memory; None if there are gaps."""
    if array.dtype != F4 or dtype not in HALVES:
        return None
    if array.flags.c_contiguous:
        return xp.empty(array.shape, dtype)
    out = xp.empty_like(array, dtype)
    return out if out.strides == tuple([s // 2 for s in array.strides]) else None
