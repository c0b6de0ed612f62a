"""Random integers and permutations."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np

from ...op.expose import function
from ...op.plain_numbers import plain_number, python_number
from ...op.vmap import draws
from ...tape import dtypes, errors
from ...tape.device import beside
from ...tape.layout import check_layout
from ..create.base import finish, place, sizes
from ..kinds import unsupported
from .draw import as_array, draw_new, laid_out, on_device


def draw_integers(rng, low, high, shape, d):
    """Integers in [low, high) as a raw array of NumPy dtype `d`."""
    values = rng.integers(low, high, shape, dtype=np.int64)
    with beside(values):
        return as_array(values).astype(d)


def draw_permutation(rng, n, d):
    """0 to n - 1 in a random order, as a raw array of NumPy dtype `d`."""
    return rng.permutation(n).astype(d)


def check_random_bounds(low: int, high: int, d: np.dtype) -> None:
    """RuntimeError unless integers in [low, high) exist, and have a place in the NumPy dtype `d`."""
    if high <= low:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    kind = dtypes.from_np(d)
    if kind.is_complex:
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    if kind is dtypes.bool_:
        lowest, highest = 0, 1
    else:
        info = dtypes.iinfo(kind) if kind.category == dtypes.INTEGER else dtypes.finfo(kind)
        lowest, highest = info.min, info.max
    for which, number in (("from", low), ("to - 1", high - 1)):
        if not lowest <= number <= highest:
            name = errors.C_TYPES.get(kind.name, kind.name)
            raise RuntimeError(f"{which} is out of bounds for {name}")


@function("randint")
@draws
def randint(
    low=None,
    high: Any = None,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Raises RuntimeError: `low` is not below `high`, or the dtype does not hold them.

    Example:
        >>> gradlib.randint(10, (2, 3)).shape
        torch.Size([2, 3])
    """
    if layout is not None:
        check_layout(layout)
    if size is None:
        high, size = None, high
    if high is None:
        low, high = 0, low
    low = 0 if low is None else low
    if isinstance(size, int) or size is None:
        raise TypeError(
            f"randint(): argument 'size' (position 2) must be tuple of ints, not {type(size).__name__}"
        )
    for which, bound in (("low", low), ("high", high)):
        if isinstance(bound, bool) or not hasattr(bound, "__index__"):
            raise TypeError(
                f"randint(): argument '{which}' must be int, not {type(bound).__name__}"
            )
    low, high = operator.index(low), operator.index(high)
    xp, d, target = place(dtype or (dtypes.int64 if out is None else None), device, out=out)
    check_random_bounds(low, high, d)
    shape = sizes((size,))
    errors.check_room(xp, shape, d.itemsize)
    values = draw_new(generator, target, draw_integers, low, high, shape, d)
    return finish(on_device(values, target), requires_grad, out)


@function("randint_like")
@draws
def randint_like(
    input,
    low=None,
    high=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """Integers in [low, high) in a tensor of the size of `input`.

    Args:
        input: a tensor.
        low, high: the bounds; a single number is `high`, and `low` is 0.
        dtype, device: those of `input` if None.
        layout: accepted as in ``randint``.
        requires_grad: whether the new leaf requires grad.
        memory_format: the order of strides; by default that of `input`.

    Returns:
        A leaf.

    Raises:
        RuntimeError: an empty range.

    Example:
        >>> gradlib.randint_like(gradlib.zeros(3), 1)
        tensor([0., 0., 0.])
    """
    if layout is not None:
        check_layout(layout)
    if high is None:
        low, high = 0, low
    out = randint(low, high, input.shape, dtype=dtype or input.dtype, device=device or input.device)
    out._array = laid_out(out._array, input, memory_format)
    return out.requires_grad_(requires_grad)


def _check_permutation(n: int, kind) -> None:
    """The errors for 0..n-1 in a dtype that has not so many whole numbers."""
    dtype = dtypes.BY_NP[kind]
    if kind.kind in "bc":
        raise unsupported("randperm", kind)
    if kind.kind in "iu":
        plain_number(max(n - 1, 0), dtype)
        return
    digits = ml_dtypes.finfo(kind).nmant + 1
    if n > 2**digits + 1:
        last = str(2**digits + 1) if digits < 20 else f"2^{digits}+1"
        raise RuntimeError(f"n cannot be greater than {last} for {dtype.scalar_type} type.")


@function("randperm")
@draws
def randperm(
    n,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A random permutation of 0..n-1.

    Raises RuntimeError: a negative `n`, or one whose numbers the dtype cannot tell apart. NotImplementedError: bool or
    complex.

    Example:
        >>> gradlib.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    if layout is not None:
        check_layout(layout)
    n = python_number(n, "randperm(): argument 'n'")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    _, d, target = place(dtype or (dtypes.int64 if out is None else None), device, out=out)
    _check_permutation(n, d)
    order = draw_new(generator, target, draw_permutation, n, d)
    return finish(on_device(order, target), requires_grad, out)
