"""Putting two arrays together, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["COMBINE", "HALVES"]

HALVES = frozenset((np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)))

# op -> f(a, b, out): the lower ranks' values come first, so that all ranks get the same bits
COMBINE: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
