"""Where the elements of an array lie in the memory that it is a part of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tape.memory import owner

ALIGN = 16  # bytes; a multiple of every itemsize


def address(array: Any) -> int:
    """Address of the first element."""
    if isinstance(array, np.ndarray):
        return array.__array_interface__["data"][0]
    return array.data.ptr


def span(array: Any) -> tuple[int, int] | None:
    """First byte and end of `array` relative to its owner; None if it cannot be described so.

    Strides and offset must be whole elements, and not negative, as in a PyTorch tensor.
    """
    item = array.itemsize
    if array.size == 0 or any(stride < 0 or stride % item for stride in array.strides):
        return None
    start = address(array) - address(owner(array))
    if start < 0 or start % item:
        return None
    last = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return start, start + last + item


def strides_of(array: Any) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(stride // array.itemsize for stride in array.strides)
