"""Sliding windows as kernels take them (`Windows` in `kernels/windows.cuh`)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

NAMES = ("space", "out", "kernel", "stride", "padding", "dilation")
LAYOUT = np.dtype([(name, "i4", 3) for name in NAMES])
MOST = 2**31  # elements of a plane, which kernels count in 32 bits


@lru_cache(1024)
def layout(
    space: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> Any:
    """The struct for windows over one to three dimensions; None if they are too large for the kernels."""
    reach = [k * d + s * o for k, d, s, o in zip(kernel, dilation, stride, out, strict=True)]
    if not 1 <= len(space) <= 3 or max(*map(math.prod, (space, out, kernel)), *reach) >= MOST:
        return None
    made = np.zeros(1, LAYOUT)
    given = (space, out, kernel, stride, padding, dilation)
    for name, values, missing in zip(NAMES, given, (1, 1, 1, 1, 0, 1), strict=True):
        made[name] = (missing,) * (3 - len(values)) + values
    return made
