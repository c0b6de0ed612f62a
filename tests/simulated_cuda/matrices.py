"""Column-major matrices at addresses, as arrays of NumPy."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import ml_dtypes
import numpy as np

TYPES = {
    0: np.dtype("f4"), 1: np.dtype("f8"), 2: np.dtype("f2"), 4: np.dtype("c8"), 5: np.dtype("c16"),
    14: np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip


def rounded(a: np.ndarray, bits: int) -> np.ndarray:
    """float32 numbers with `bits` bits of mantissa."""
    shift = np.uint32(23 - bits)
    whole = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return (((whole + (np.uint32(1) << (shift - 1))) >> shift) << shift).view(np.float32)


@functools.cache  # ctypes makes a class for every length, which only the garbage collector frees
def bytes_type(size: int) -> Any:
    return ctypes.c_uint8 * size


def number(address: int, kind: np.dtype) -> Any:
    return np.frombuffer(bytes_type(kind.itemsize).from_address(address), kind)[0]


def flipped(a: np.ndarray, how: int) -> np.ndarray:
    return a if how == 0 else a.swapaxes(1, 2) if how == 1 else a.swapaxes(1, 2).conj()


def stack(address: int, kind: int, shape: tuple, leading: int, step: int, batch: int) -> np.ndarray:
    """[batch, rows, columns] over column-major matrices that start `step` elements apart."""
    dtype, (rows, columns) = TYPES[kind], shape
    last = (batch - 1) * step + (columns - 1) * leading + rows
    raw = np.frombuffer(bytes_type(last * dtype.itemsize).from_address(address), dtype)
    strides = tuple(n * dtype.itemsize for n in (step, 1, leading))
    return np.lib.stride_tricks.as_strided(raw, (batch, rows, columns), strides)
