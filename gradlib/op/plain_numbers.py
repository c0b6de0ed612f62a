"""Python numbers that become elements: converted to a dtype as PyTorch does, or refused where they do not fit."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from ..tape import dtypes
from ..tape.lazy import raw_values
from ..tape.tensor import Tensor

_LIMITS: dict[dtypes.dtype, tuple[float, float]] = {
    d: (int(np.iinfo(d.np).min), int(np.iinfo(d.np).max))
    if d.category == dtypes.INTEGER
    else (-math.inf, math.inf)
    if d.category == dtypes.BOOL
    else (dtypes.finfo(d).min, dtypes.finfo(d).max)
    for d in dtypes.ALL
}

SMALL = 1 << 15  # no integer up to here leaves the range of a floating type


def plain_number(value, dtype: dtypes.dtype) -> Any:
    """A Python number as NumPy will store it in `dtype`; RuntimeError if it does not fit.

    A fraction is cut off for integer types, and negative integers wrap around in unsigned ones, as in PyTorch.
    OverflowError for integers of more than 64 bits.
    """
    low, high = _LIMITS[dtype]
    if value.__class__ is float:
        if dtype.category == dtypes.FLOATING and low <= value <= high:
            return value
    elif value.__class__ is int:
        if dtype.category == dtypes.FLOATING and -SMALL <= value <= SMALL and dtype.itemsize > 1:
            return float(value)
        return _plain_integer(value, dtype)
    elif isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, (complex, np.complexfloating)):
        return _plain_complex(complex(value), dtype)
    if isinstance(value, (int, np.integer)):
        return _plain_integer(int(value), dtype)
    if not low <= value <= high:
        if dtype.category == dtypes.INTEGER:
            raise _overflow(dtype)
        if value == value and not math.isinf(
            value
        ):  # nan and infinities have a place in floating types
            raise _overflow(dtype)
    if dtype.category == dtypes.INTEGER:
        return int(value)
    return bool(value) if dtype.category == dtypes.BOOL else value


def _plain_integer(value: int, dtype: dtypes.dtype) -> Any:
    low, high = _LIMITS[dtype]
    if not -(2**63) <= value < 2**63:
        if value >= 2**64:
            raise OverflowError("int too big to convert")
        if value < 0:
            raise OverflowError("can't convert negative int to unsigned")
    if dtype.category == dtypes.BOOL:
        return bool(value)
    if low <= value <= high:
        return value if dtype.category == dtypes.INTEGER else float(value)
    if dtype.category == dtypes.INTEGER and not dtype.is_signed and -high <= value < 0:
        return value % (int(high) + 1)
    raise _overflow(dtype)


def _plain_complex(value: complex, dtype: dtypes.dtype) -> Any:
    if dtype.category == dtypes.BOOL:
        return value != 0
    if dtype.category < dtypes.COMPLEX:
        if value.imag:
            raise _overflow(dtype)
        return plain_number(value.real, dtype)
    for part in (value.real, value.imag):
        plain_number(part, dtype)
    return value


def single_number(value, dtype: dtypes.dtype) -> Any:
    """`plain_number` for a single element, where too large numbers are infinite in half types, as in PyTorch."""
    half = dtype.itemsize == 2 and dtype.category == dtypes.FLOATING
    return plain_number(value, dtypes.float64 if half else dtype)


def check_factor(value, dtype: dtypes.dtype) -> Any:
    """`plain_number` for a factor of a product, which half types compute in float32."""
    half = dtype.itemsize == 2 and dtype.category == dtypes.FLOATING
    return plain_number(value, dtypes.float32 if half else dtype)


def check_fits(value: Tensor, dtype: dtypes.dtype) -> None:
    """RuntimeError for a 0-dim tensor in host memory whose number does not fit in `dtype`."""
    if value.dtype is not dtype and raw_values(value).__class__ is np.ndarray:
        plain_number(value, dtype)


def _overflow(dtype: dtypes.dtype) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {_c_name(dtype)} without overflow")


_C_NAMES = {
    "int32": "int", "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def _c_name(dtype: dtypes.dtype) -> str:
    return _C_NAMES.get(dtype.name, dtype.name + "_t")


_NUMBERS = frozenset((bool, int, float))
_arrays: dict[tuple, np.ndarray] = {}


def number_array(value: float, dtype: np.dtype) -> Any:
    """A number as an array without dimensions, kept for the next time.

    NumPy takes longer to convert a number than to compute with it and a few elements.
    """
    key = value or str(value), dtype  # 0.0 and -0.0 are equal
    found = _arrays.get(key)
    if found is None:
        if len(_arrays) > 256:
            _arrays.clear()
        found = _arrays[key] = np.array(value, dtype)
    return found


def python_number(value, where: str = "") -> Any:
    """`value`, or Python's number for one of NumPy or a tensor of one element.

    NumPy's take part in promotion: a float64 would widen float32, and a float32 lend its range to no one.
    where: "function(): argument 'name'"; a tensor that is no number is refused there with TypeError, as one that
    requires grad is: its gradient would be lost.
    """
    if value.__class__ in _NUMBERS:
        return value
    if isinstance(value, np.generic) or (
        isinstance(value, Tensor) and not value._rg and value.numel() == 1
    ):
        value = value.item()
        return float(value) if isinstance(value, np.generic) else value  # a longdouble
    if where and isinstance(value, Tensor):
        raise TypeError(f"{where} must be Number, not {type(value).__name__}")
    return value


def is_number(value) -> bool:
    return value.__class__ in _NUMBERS or isinstance(value, (numbers.Number, np.number, np.bool_))
