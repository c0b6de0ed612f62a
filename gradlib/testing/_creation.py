"""make_tensor: tensors of random numbers for tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor


def make_tensor(
    *shape: Any,
    dtype: dtypes.dtype,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of `dtype` with uniform values in [low, high), bounds that the dtype does not reach cut to it.

    Args:
        shape: lengths, or one sequence of them.
        low, high: by default -9 and 9 for floating types, -9 and 10 for integers (0 if unsigned), 0 and 2 for bool.
        noncontiguous: every second element of a tensor that is twice as long.
        exclude_zero: zeros become 1, or the smallest normal number of a floating type.

    Raises:
        ValueError: bounds that are nan, out of order or beyond the dtype; arguments that exclude each other.

    Example:
        >>> gradlib.testing.make_tensor(2, 3, dtype=gradlib.float32).shape
        torch.Size([2, 3])
    """
    lengths = (
        tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
    )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    whole = dtype.category < dtypes.FLOATING
    if requires_grad and whole:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}"
        )
    noncontiguous = noncontiguous and math.prod(lengths) > 1
    size = (*lengths[:-1], 2 * lengths[-1]) if noncontiguous else lengths
    least, most = _bounds(dtype, low, high)
    if whole:
        made = ops.randint(math.ceil(least), math.ceil(most), size, device=device, dtype=dtype)
    else:
        made = ops.empty(size, device=device, dtype=dtype)
        numbers = ops.view_as_real(made) if dtype.is_complex else made
        if most - least >= dtypes.finfo(dtype).max:  # more than a number of the dtype says
            numbers.uniform_(least / 2, most / 2).mul_(2)
        else:
            numbers.uniform_(least, most)
    if noncontiguous:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = 1 if whole else dtypes.finfo(dtype).tiny
    return made if whole else made.requires_grad_(requires_grad)


def _bounds(dtype: dtypes.dtype, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds of random values of a dtype: those given, within those it has."""
    if dtype is dtypes.bool_:
        least, most, usual = 0, 2, (0, 2)
    elif dtype.category < dtypes.FLOATING:
        info = dtypes.iinfo(dtype)
        least, most, usual = info.min, info.max + (dtype is not dtypes.int64), (-9, 10)
    else:
        least, most, usual = dtypes.finfo(dtype).min, dtypes.finfo(dtype).max, (-9, 9)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and dtype.category >= dtypes.FLOATING:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {most})"
        )
    return min(max(low, least), most), min(max(high, least), most)
