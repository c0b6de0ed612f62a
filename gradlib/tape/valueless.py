"""Arrays that tell shape, dtype and strides, and have no values: what stands in a Tensor whose values are elsewhere."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def _refuse(*args: Any, **kwargs: Any) -> Any:
    name = sys._getframe(1).f_code.co_name
    raise RuntimeError(args[0].refusal.format(name))


class Valueless(np.ndarray):
    """Metadata without values: whoever asks for values, also by way of a ufunc, gets a RuntimeError.

    `physical` is the Tensor that the values come from.
    """

    physical: Any
    refusal = (
        "{} needs the values of an array that has none"  # what to say to the function of that name
    )

    __array_ufunc__ = __array_function__ = _refuse


def stand_in(array: Any) -> np.ndarray:
    """An array of the same layout whose values nobody asks for: the memory is its own all the same.

    What reads it without asking (NumPy's own conversions do) finds nothing of the program's there.
    """
    low = high = 0
    for n, step in zip(array.shape, array.strides, strict=True):
        if step < 0:
            low += max(n - 1, 0) * step
        else:
            high += max(n - 1, 0) * step
    size = high - low + array.dtype.itemsize
    memory = np.full(size, 0xFF, np.uint8) if size <= 4096 else np.empty(size, np.uint8)
    return np.ndarray(array.shape, array.dtype, memory, -low, array.strides)


_METADATA = set(
    "base ctypes data device dtype flags itemsize nbytes ndim shape size strides view T mT".split()
)
_OPERATORS = (
    "add and bool complex contains copy deepcopy divmod eq float floordiv ge getitem gt iadd iand ifloordiv ilshift "
    "imatmul imod imul index int invert ior ipow irshift isub iter itruediv ixor le lshift lt matmul mod mul ne neg or "
    "pos pow radd rand rdivmod reduce reduce_ex rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rshift rsub "
    "rtruediv rxor setitem str sub truediv xor dlpack"
)
for _name in dir(np.ndarray):
    if not _name.startswith("_") and _name not in _METADATA:
        setattr(
            Valueless, _name, property(_refuse) if _name in ("flat", "imag", "real") else _refuse
        )
for _name in _OPERATORS.split():
    setattr(Valueless, f"__{_name}__", _refuse)
