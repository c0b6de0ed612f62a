"""The CPU backend: NumPy's functions under NumPy's names, plus the few that need another meaning here.

An instance stands for the array namespace `xp` of kernels: what is not defined on the class is NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.device import CPU

_FLOAT = np.dtype(np.float32)


class NumpyBackend:
    """NumPy as the namespace of kernels."""

    name = "numpy"
    xp = np

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        self.__dict__[name] = value
        return value

    def device_of(self, array):
        return CPU

    def number(self, value, dtype):
        """A Python number as a 0-dim array."""
        return np.asarray(value, dtype)

    def to_backend(self, array, device=None):
        """A raw array of any backend as an array here."""
        return array if isinstance(array, np.ndarray) else array.get()

    def wide(self, array):
        """`array` in the dtype that sums are kept in: float32 for half types, itself otherwise."""
        return (
            array.astype(_FLOAT)
            if array.dtype.itemsize == 2 and array.dtype.kind in "fV"
            else array
        )

    def as_strided(self, array, shape, strides, offset_bytes: int = 0):
        """A view of the memory of `array` with byte strides, starting `offset_bytes` after its first element."""
        if offset_bytes == 0:
            return np.lib.stride_tricks.as_strided(array, shape, strides)
        raw = np.ndarray(
            shape, array.dtype, np.lib.stride_tricks.as_strided(array, (1,), (0,)).data, 0, None
        )
        return raw

    def empty_like_layout(self, array):
        """An uninitialised array with the shape and the order of strides of `array`, dense."""
        return np.empty_like(array, order="K")


backend = NumpyBackend()
_ = dtypes
