"""Numbers of eight bits: what they are rounded to, and their values.

Their arrays have a NumPy type of one field, so that NumPy moves and indexes them, and refuses to compute with them, as
PyTorch does. Conversion is that of ml_dtypes, except where a number does not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes

_E4M3FN, _E5M2 = dtypes.float8_e4m3fn.np, dtypes.float8_e5m2.np
_E8M0FNU = dtypes.float8_e8m0fnu.np


def narrowed(array: Any, dtype: np.dtype) -> Any:
    """A raw array rounded to one of the float8 types.

    e4m3fn, which has no infinity, saturates; the two types without a sign of zero make nan of what is too large;
    e8m0fnu, which has powers of two alone, takes the next one of the absolute value.
    """
    if array.dtype in dtypes.FLOAT8:
        array = values(array)
    wide = np.asarray(array.real).astype(np.float32)
    if dtype == _E8M0FNU:
        return _powers(wide).view(dtype)
    if dtype == _E4M3FN:
        limit = dtypes.finfo(dtypes.float8_e4m3fn).max
        return np.clip(wide, -limit, limit).astype(dtype)
    out = wide.astype(dtype)
    if dtype == _E5M2 and (missing := np.isnan(wide)).any():
        bits = out.view(np.uint8)
        bits[missing] |= 0x7F  # the nan that PyTorch has
    return out


def _powers(wide: np.ndarray) -> np.ndarray:
    """The exponents of float32 numbers, rounded to the nearest: uint8."""
    bits = wide.view(np.uint32) & np.uint32(0x7FFFFFFF)
    exponent, fraction = bits >> 23, bits & np.uint32(0x7FFFFF)
    half = np.uint32(0x400000)
    # half way goes up; of a number below the smallest, only what is more than half
    up = np.where(exponent == 0, fraction > half, fraction >= half) & (exponent < 255)
    return (exponent + up).astype(np.uint8)


def values(array: Any) -> Any:
    """The numbers of a raw float8 array as float32."""
    return array.astype(np.float32)
