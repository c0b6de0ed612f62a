"""The array functions of the meta device: NumPy's, which its arrays answer for, and those that make arrays."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...op import overlays
from ...tape import arrays
from ...tape.device import device
from ..numpy.namespace import backend as numpy_backend
from . import functions
from .array import MetaArray, fresh, refuse_data

META = device("meta")
_DEVICE = np.dtype(np.float32)


class MetaBackend:
    """The namespace of kernels on arrays without values. Nothing of it is ever waited for, and nothing is looked at."""

    name = "meta"
    fuses = False
    waits = True
    cached = 1 << 62
    overlays = overlays.on("meta")
    rng: MetaRng
    checked_linalg = np.linalg
    to_host = staticmethod(refuse_data)
    convolution_product = staticmethod(np.matmul)

    @property
    def xp(self) -> MetaBackend:
        """The array library: this is one."""
        return self

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(np, name)
        return value

    def on(self, index: int | None) -> MetaBackend:
        return self

    def call(self, fn: Any, *args: Any) -> Any:
        return fn(*args)

    def in_pieces(self, kernel: Any, *arrays: Any) -> Any:
        return kernel(self, *arrays)

    def device_of(self, array: Any) -> device:
        return META

    # -- arrays are made here ------------------------------------------------------------------------------------

    def empty(self, shape: Any, dtype: Any = float, order: str = "C") -> MetaArray:
        return fresh(shape, dtype)

    zeros = ones = empty

    def full(self, shape: Any, value: Any, dtype: Any = None) -> MetaArray:
        return fresh(shape, np.asarray(value).dtype if dtype is None else dtype)

    def number(self, value: Any, dtype: np.dtype) -> MetaArray:
        return fresh((), dtype)

    def asarray(self, array: Any, dtype: Any = None) -> MetaArray:
        if not isinstance(array, MetaArray):
            array = np.asarray(array, dtype)
            return fresh(array.shape, array.dtype)
        return array if dtype is None else array.astype(dtype, copy=False)

    table = asarray

    def array(
        self, array: Any, dtype: Any = None, copy: bool = True, order: str = "K"
    ) -> MetaArray:
        array = self.asarray(array, dtype)
        return array.copy(order or "K")

    def ascontiguousarray(self, array: Any, dtype: Any = None) -> MetaArray:
        array = self.asarray(array, dtype)
        return array if array.flags.c_contiguous else array.copy()

    def to_backend(self, array: Any, device: Any = None) -> MetaArray:
        """An array without values, with the shape, dtype and order of strides of `array`."""
        if isinstance(array, MetaArray):
            return array
        like = fresh(array.shape, array.dtype)
        if array.flags.c_contiguous:
            return like
        span = sum([(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)])
        room = fresh(span // array.itemsize + 1, array.dtype) if array.size else like
        return room.as_strided(array.shape, array.strides, 0).astype(array.dtype)

    def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> MetaArray:
        start, stop = (0, start) if stop is None else (start, stop)
        n = max(math.ceil((stop - start) / step), 0)
        return fresh(n, np.arange(start, start + step, step).dtype if dtype is None else dtype)

    def linspace(
        self, start: Any, stop: Any, num: int = 50, dtype: Any = None, **kwargs: Any
    ) -> MetaArray:
        return fresh(num, float if dtype is None else dtype)

    def eye(self, n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> MetaArray:
        return fresh((n, n if m is None else m), dtype)

    def identity(self, n: int, dtype: Any = float) -> MetaArray:
        return fresh((n, n), dtype)

    def tri(self, n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> MetaArray:
        return fresh((n, n if m is None else m), dtype)

    def triu_indices(self, n: int, k: int = 0, m: int | None = None) -> tuple:
        return tuple([self.asarray(part) for part in np.triu_indices(n, k, m)])

    def tril_indices(self, n: int, k: int = 0, m: int | None = None) -> tuple:
        return tuple([self.asarray(part) for part in np.tril_indices(n, k, m)])

    def as_strided(
        self, array: Any, shape: tuple, strides: tuple, offset_bytes: int = 0
    ) -> MetaArray:
        return array.as_strided(tuple(shape), tuple(strides), offset_bytes)

    def empty_like_layout(self, array: Any) -> MetaArray:
        return array.copy("K")

    # -- what the namespaces of kernels have beyond NumPy --------------------------------------------------------

    def wide(self, array: Any) -> Any:
        return (
            array.astype(_DEVICE)
            if array.dtype.itemsize == 2 and array.dtype.kind in "fV"
            else array
        )

    def may(self, condition: Any) -> bool:
        return True

    def surely(self, condition: Any) -> bool:
        return False

    def add_at(self, out: Any, key: Any, values: Any) -> None:
        """Nothing: there is no memory."""

    add_flat = add_at

    def sum_at(self, shape: Any, positions: Any, values: Any) -> MetaArray:
        return fresh(shape, values.dtype)

    def add_up(self, array: Any, dim: tuple, keepdim: bool = False) -> Any:
        return np.add.reduce(array, axis=dim or None, keepdims=keepdim)

    def sum_of_squares(self, flat: Any) -> MetaArray:
        return fresh((), flat.dtype)

    def accumulate(self, ufunc: str, array: Any, dim: int, into: Any = None) -> Any:
        made = getattr(np, ufunc).accumulate(array, dim)
        return made.astype(array.dtype, copy=False) if into is None else into


class MetaRng:
    """Draws numbers that have a shape and a dtype. It has no state: nothing depends on a seed."""

    current = nullcontext

    def random(self, size: Any = (), dtype: Any = float) -> MetaArray:
        return fresh(size, dtype)

    standard_normal = random

    def integers(
        self, low: int, high: int | None = None, size: Any = (), dtype: Any = np.int64
    ) -> MetaArray:
        return fresh(size, dtype)

    def permutation(self, n: int) -> MetaArray:
        return fresh(n, np.int64)

    def exponential(self, scale: float = 1.0, size: Any = ()) -> MetaArray:
        return fresh(size)

    def geometric(self, p: float, size: Any = ()) -> MetaArray:
        return fresh(size)

    def standard_cauchy(self, size: Any = ()) -> MetaArray:
        return fresh(size)

    gumbel = standard_cauchy

    def lognormal(self, mean: float = 0.0, sigma: float = 1.0, size: Any = ()) -> MetaArray:
        return fresh(size)

    def words(self, count: int) -> MetaArray:
        return fresh(count, np.uint32)


def _kernel(what: str, op: Any) -> Any:
    return functions.kernel_of(op, numpy_backend) if what == "forward" else None


overlays.on("meta").come_from(lambda: None, _kernel)
backend = MetaBackend()
backend.rng = MetaRng()
arrays.enter("meta", lambda: backend, lambda: None, MetaArray)
