"""Raw memory behind tensors: which buffer a tensor is a part of, and tensors made on a buffer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradlib.core import dtypes
from gradlib.core.tensor import Tensor

ALIGN = 16  # bytes; a multiple of every itemsize


def root_of(array: Any) -> Any:
    """The array that owns the memory `array` is a view of; `array` itself if it is no view."""
    kind = np.ndarray if isinstance(array, np.ndarray) else type(array)
    while isinstance(array.base, kind):
        array = array.base
    return array


def address(array: Any) -> int:
    """Address of the first element."""
    if isinstance(array, np.ndarray):
        return array.__array_interface__["data"][0]
    return array.data.ptr


def flat_bytes(array: Any) -> Any:
    """A dense array's memory as uint8 [nbytes], shared; None if it has gaps or repeated elements.

    Dense means: C order after a permutation of the dimensions.
    """
    if array.size == 0:
        return None
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    dense = array.transpose(order)
    if not dense.flags.c_contiguous:
        return None
    return dense.reshape(-1).view(np.uint8)


def span(array: Any) -> tuple[int, int] | None:
    """First byte and end of `array` relative to its root; None if it cannot be described so.

    Strides and offset must be whole elements, and not negative, as in a PyTorch tensor.
    """
    item = array.itemsize
    if array.size == 0 or any(stride < 0 or stride % item for stride in array.strides):
        return None
    start = address(array) - address(root_of(array))
    if start < 0 or start % item:
        return None
    last = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return start, start + last + item


def strides_of(array: Any) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(stride // array.itemsize for stride in array.strides)


def view_of(
    raw: Any, dtype: dtypes.dtype, offset: int, shape: Iterable[int], strides: Iterable[int]
) -> Any:
    """An array on the memory of `raw`.

    Args:
        raw: uint8 array [nbytes] on any device.
        dtype: type of the elements.
        offset: position of the first element, in elements.
        shape: lengths of the dimensions.
        strides: strides in elements.

    Raises:
        ValueError: the array would reach outside `raw`; shows the sizes.
    """
    shape, strides = tuple(shape), tuple(strides)
    if not all(isinstance(n, int) for n in (offset, *shape, *strides)):
        raise ValueError("sizes, strides and offset of a tensor must be integers")
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise ValueError(f"invalid geometry: size {shape}, stride {strides}, offset {offset}")
    count = math.prod(shape)
    end = 1 + offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if count and end * dtype.itemsize > raw.nbytes:
        raise ValueError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {dtype.itemsize} requiring a storage size of {end * dtype.itemsize} "
            f"are out of bounds for storage of size {raw.nbytes}"
        )
    if isinstance(raw, np.ndarray):
        steps = tuple(s * dtype.itemsize for s in strides)
        if not count:
            return np.ndarray(shape, dtype.np, strides=steps)
        return np.ndarray(shape, dtype.np, raw, offset * dtype.itemsize, steps)
    whole = raw[: raw.nbytes // dtype.itemsize * dtype.itemsize].view(dtype.np)
    return Tensor._make(whole).as_strided(shape, strides, offset)._array


class Storage:
    """A loaded buffer with the device it is on: what `map_location` functions get and return.

    Attributes:
        array: uint8 array [nbytes], NumPy or CuPy.
    """

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def device(self) -> Any:
        """The device of the buffer."""
        return Tensor._make(self.array).device

    def nbytes(self) -> int:
        """Size in bytes."""
        return self.array.nbytes

    size = __len__ = nbytes

    def to(self, device: Any) -> Storage:
        """The buffer on `device`: this object if it is there already, else a copy."""
        moved = Tensor._make(self.array).to(device)._array
        return self if moved is self.array else Storage(moved)

    def cpu(self) -> Storage:
        """The buffer on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Storage:
        """The buffer on a CUDA device, the current one when left out."""
        if device is None:
            return self.to("cuda")
        return self.to(f"cuda:{device}" if isinstance(device, int) else device)

    def __repr__(self) -> str:
        return f"Storage({self.nbytes()} bytes, device='{self.device}')"
