"""What is compiled for GPUs only, done by NumPy on the same memory: sorting by Thrust, transforms by cuFFT."""

from __future__ import annotations

import ctypes
import importlib
import math
from typing import Any

import numpy as np


def memory(pointer: int, shape: tuple, dtype: Any) -> np.ndarray:
    """The array that lies at an address of a device."""
    dtype = np.dtype(dtype)
    raw = (ctypes.c_byte * max(math.prod(shape) * dtype.itemsize, 1)).from_address(pointer)
    return np.frombuffer(raw, dtype, math.prod(shape)).reshape(shape)


def refuse_capture(what: str) -> None:
    """Thrust and plans of cuFFT allocate memory, which a captured stream does not allow."""
    cupy = importlib.import_module("cupy")
    if cupy.cuda.runtime.streamIsCapturing(cupy.cuda.get_current_stream().ptr):
        raise RuntimeError(f"{what} was called while a stream is captured")


def refuse_dtype(dtype: Any) -> None:
    """Thrust was compiled for the types that NumPy itself has: not for bfloat16."""
    if np.dtype(dtype).kind == "V":
        raise NotImplementedError(f"Sorting arrays with dtype '{np.dtype(dtype)}' is not supported")


def sort(dtype: Any, data: int, keys: int, shape: Any) -> None:
    """Sort the last dimension, nan last; `keys` is room that Thrust needs for the numbers of rows."""
    refuse_dtype(dtype)
    refuse_capture("thrust.sort")
    array = memory(data, tuple(shape), dtype)
    array.sort(axis=-1, kind="stable")


def argsort(dtype: Any, places: int, data: int, keys: int, shape: Any) -> None:
    """Sort the last dimension and write where each element was."""
    refuse_dtype(dtype)
    refuse_capture("thrust.argsort")
    array, order = memory(data, tuple(shape), dtype), memory(places, tuple(shape), np.int64)
    order[...] = np.argsort(array, axis=-1, kind="stable")
    array[...] = np.take_along_axis(array, order, -1)


def lexsort(dtype: Any, places: int, keys: int, k: int, n: int) -> None:
    """The order of n columns by k rows of keys, the last one first."""
    refuse_dtype(dtype)
    refuse_capture("thrust.lexsort")
    memory(places, (n,), np.int64)[...] = np.lexsort(memory(keys, (k, n), dtype))


def host_transform(name: str) -> Any:
    """A function of numpy.fft for device arrays, with the types that CuPy gives."""
    function = getattr(np.fft, name)

    def transform(a, *args, **kwargs):
        cupy = importlib.import_module("cupy")
        refuse_capture(f"cupy.fft.{name}")
        if not isinstance(a, cupy.ndarray):
            raise TypeError(f"cupy.fft.{name} takes an array of CuPy, not {type(a).__name__}")
        host = a.get()
        if host.dtype.char == "e" or host.dtype.kind in "biu":
            host = host.astype(np.float32 if host.dtype.char == "e" else np.float64)
        single = host.dtype.char in "fF"
        result = np.ascontiguousarray(function(host, *args, **kwargs))
        if single:
            result = result.astype(np.complex64 if result.dtype.kind == "c" else np.float32)
        return cupy.asarray(result)

    return transform


def install() -> None:
    thrust, fft = importlib.import_module("cupy.cuda.thrust"), importlib.import_module("cupy.fft")
    thrust.sort, thrust.argsort, thrust.lexsort = sort, argsort, lexsort
    for name in ("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "rfft", "rfft2", "rfftn",
                 "irfft", "irfft2", "irfftn", "hfft", "ihfft"):  # fmt: skip
        setattr(fft, name, host_transform(name))
