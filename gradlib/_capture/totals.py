"""Kernels that look at an array by its sum alone: a fused run that makes the array adds it up on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices.numpy import chains


class Total:
    """A kernel that looks at the values of its array by `add_up` of all of it alone: a function of that sum.

    name: the variable of the array.
    """

    def __init__(
        self, name: str, kernel: Callable, xp: Any, array: np.ndarray, attrs: dict[str, Any]
    ):
        self.name, self.kernel, self.xp, self.attrs = name, kernel, xp, attrs
        self.array = np.broadcast_to(np.zeros((), array.dtype), array.shape)

    def __call__(self, total: Any) -> Any:
        return self.kernel(_Told(self.xp, total), self.array, **self.attrs)


class _Told:
    """A namespace that has been told the sum."""

    def __init__(self, xp: Any, total: Any):
        self._xp, self._total = xp, total

    def add_up(self, array: np.ndarray, dim: tuple, keepdim: bool = False) -> Any:
        if keepdim or len(dim) not in (0, array.ndim):
            raise TypeError("this is another sum")
        return self._total

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)


def total_of(
    name: str, kernel: Callable, xp: Any, array: Any, attrs: dict, result: Any
) -> Total | None:
    """What a kernel that gave `result` makes of the sum of an array; None if it is not made like that."""
    if (
        array.__class__ is not np.ndarray
        or array.dtype.char not in "fd"
        or not chains.sums(array.size, 0)
    ):
        return None
    if not array.flags.c_contiguous:
        return None
    found = Total(name, kernel, xp, array, attrs)
    try:
        value = found(xp.add_up(array, ()))
    except Exception:  # whatever it does instead
        return None
    same = isinstance(value, np.generic) and value.dtype == result.dtype
    return found if same and value.tobytes() == result.tobytes() else None
