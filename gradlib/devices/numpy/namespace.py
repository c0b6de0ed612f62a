"""The CPU backend: NumPy's functions under NumPy's names, plus the few that need another meaning here.

An instance stands for the array namespace `xp` of kernels: what is not defined on the class is NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import overlays
from ...op.plain_numbers import number_array
from ...operators.kinds import F4, F8
from ...tape.device import CPU
from . import accumulate, blocks, halves, mkl, parallel, scan, select, sums, threads

_NDARRAY = np.ndarray
_PLAIN = (float, int)
_FLOAT = np.dtype(np.float32)
CLIP = getattr(np, "_core").umath.clip  # noqa: B009 (what np.clip and the method `clip` call, after a detour)


def _of_numbers(function: Any, narrows: bool = False) -> staticmethod:
    """A function of NumPy that orders numbers: of bfloat16 in float32, since ml_dtypes leaves nan where it stands.

    It takes float8 arrays, too, and would look at their bytes: refused for those.
    narrows: the result, or the first of them, has the dtype of the argument.
    """

    def call(array: Any, *args: Any, **kwargs: Any) -> Any:
        kind = getattr(array, "dtype", _FLOAT)
        if kind.names is not None:
            raise TypeError(f"{function.__name__} is not for arrays of {kind}")
        if kind.kind != "V":
            return function(array, *args, **kwargs)
        args = tuple([a.astype(_FLOAT) if getattr(a, "dtype", None) == kind else a for a in args])
        out = function(array.astype(_FLOAT), *args, **kwargs)
        if not narrows:
            return out
        return (out[0].astype(kind), *out[1:]) if isinstance(out, tuple) else out.astype(kind)

    return staticmethod(call)


class NumpyBackend:
    """NumPy as the namespace of kernels."""

    name = "numpy"
    fuses = False  # whether kernels of the package's own can be launched
    overlays = overlays.on("numpy")
    waits = False  # whether a look at the values of an array means waiting for a device
    cached = blocks.PIECE  # elements of temporaries that stay in the cache
    xp = np
    checked_linalg = np.linalg
    where = staticmethod(select.where)
    convolution_product = staticmethod(
        np.matmul
    )  # inside a convolution: a setting of its own on CUDA
    count_threads, limit_threads = staticmethod(threads.count), staticmethod(threads.limit)
    work_alone = staticmethod(parallel.alone)
    add_up = staticmethod(sums.add_up)
    sum_of_squares = staticmethod(sums.sum_of_squares)
    accumulate = staticmethod(scan.accumulate)
    through_float32 = staticmethod(halves.through_float32)
    formula_through_float32 = staticmethod(halves.formula_through_float32)
    whole_through_float32 = staticmethod(halves.whole_through_float32)
    gradient_through_float32 = staticmethod(halves.gradient_through_float32)
    widen_half = staticmethod(halves.widen_half)
    narrow_half = staticmethod(halves.narrow_half)

    sort, unique = _of_numbers(np.sort, True), _of_numbers(np.unique, True)
    argsort, argpartition, nonzero = map(_of_numbers, (np.argsort, np.argpartition, np.nonzero))
    searchsorted, isin = map(_of_numbers, (np.searchsorted, np.isin))

    def __getattr__(self, name: str) -> Any:
        value = mkl.quicker(name, getattr(np, name))
        self.__dict__[name] = value
        return value

    def call(self, fn, *args):
        """``fn(*args)``, for a function that computes with arrays of this namespace."""
        return fn(*args)

    def in_pieces(self, kernel, *arrays):
        """``kernel(xp, *arrays)`` of an elementwise kernel, piece by piece so that its temporaries stay in cache."""
        return blocks.in_pieces(self, kernel, *arrays)

    def clip(self, array, low, high):
        """The numbers of a floating array within two limits; nan stays."""
        kind = array.dtype
        if (kind is F4 or kind is F8) and low.__class__ in _PLAIN and high.__class__ in _PLAIN:
            return CLIP(array, number_array(low, kind), number_array(high, kind))
        return np.clip(array, low, high)

    def to_host(self, array):
        """A raw array as a NumPy array."""
        return array

    def device_of(self, array):
        return CPU

    def number(self, value, dtype):
        """A Python number as a 0-dim array; negative ones wrap around in unsigned types."""
        try:
            return np.asarray(value, dtype)
        except OverflowError:
            if dtype.kind == "u" and -np.iinfo(dtype).max <= value < 0:
                return np.asarray(value).astype(dtype)
            name = f"{dtype.name}_t"
            raise RuntimeError(
                f"value cannot be converted to type {name} without overflow"
            ) from None

    def to_backend(self, array, device=None):
        """A raw array of any backend as an array here."""
        return array if isinstance(array, np.ndarray) else array.get()

    def wide(self, array):
        """`array` in the dtype that sums are kept in: float32 for half types, itself otherwise."""
        if array.dtype.itemsize != 2 or array.dtype.kind not in "fV":
            return array
        return halves.widen_half(array) if array.__class__ is _NDARRAY else array.astype(_FLOAT)

    def as_strided(self, array, shape, strides, offset_bytes: int = 0):
        """A view of the memory of `array` with byte strides, starting `offset_bytes` after its first element.

        Raises ValueError if the view would leave the memory of the array's owner.
        """
        if isinstance(array, np.generic):  # whose memory is read-only
            array = np.asarray(array)
        if array.flags.c_contiguous and not offset_bytes and array.size:
            try:
                return _NDARRAY(shape, array.dtype, array, 0, strides)
            except (TypeError, ValueError):
                pass  # outside of `array`: perhaps within its owner
        root = array
        while isinstance(root.base, _NDARRAY):
            root = root.base
        memory = root.ravel(order="K")
        start = array.__array_interface__["data"][0] + offset_bytes
        start -= root.__array_interface__["data"][0]
        if 0 in shape:
            return np.lib.stride_tricks.as_strided(array, shape, strides)
        if not root.size:
            raise ValueError("there is no memory for a view with elements")
        if memory.base is not root:  # foreign memory with gaps
            return np.lib.stride_tricks.as_strided(array, shape, strides)
        return _NDARRAY(shape, array.dtype, memory, start, strides)

    def may(self, condition) -> bool:
        """Whether any element holds, or could: a device, where looking means waiting, answers True."""
        return bool(condition.any())

    def surely(self, condition) -> bool:
        """Whether any element is known to hold: a device, where looking means waiting, answers False."""
        return bool(condition.any())

    def table(self, array, dtype=None):
        """A constant NumPy array (indices, weights of a geometry) as an array here; devices keep it for next time."""
        return np.asarray(array, dtype)

    def add_at(self, out, key, values) -> None:
        """``out[key] += values`` where entries that `key` names several times are added every time."""
        accumulate.add_at(out, key, values)

    def add_flat(self, out, positions, values) -> None:
        """The same for integer positions in the contiguous array `out`, read as flat."""
        accumulate.add_flat(out.reshape(-1), positions, values)

    def sum_at(self, shape, positions, values):
        """Zeros of `shape` with each of `values` added at its flat position."""
        return accumulate.sum_at(shape, positions, values)

    def empty_like_layout(self, array):
        """An uninitialised array with the shape and the order of strides of `array`, dense."""
        return np.empty_like(array, order="K")


backend = NumpyBackend()
