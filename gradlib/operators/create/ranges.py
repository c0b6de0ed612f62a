"""Ranges and patterns: arange, linspace, logspace, eye, and the indices of triangles."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np

from ...op.expose import function
from ...op.plain_numbers import plain_number
from ...op.tangents import any_tangent
from ...op.vmap import is_logical
from ...tape import dtypes, errors
from ...tape.layout import check_layout
from ...tape.modes import FORWARD_AD, shared, state
from ...tape.tensor import Tensor
from ..create.base import need_number
from ..kinds import unsupported
from .base import finish, place

# -- numbers -----------------------------------------------------------------------------------------------------


def _end(name: str, which: str, position: int, value):
    """A bound of a range as a number."""
    if isinstance(value, Tensor):
        return value.item()
    return need_number(name, which, position, value)


_PLAIN = {int, float}

# -- arange ------------------------------------------------------------------------------------------------------


def _length(start, end, step, d: np.dtype) -> int:
    """How many numbers a range has. int64 ones count with whole numbers, all others with floating point."""
    if d == np.int64:
        start, end, step = (plain_number(v, dtypes.int64) for v in (start, end, step))
        if not step:
            raise ValueError("step must be nonzero")
        return max(0, -((start - end) // step))
    start, end, step = (float(plain_number(v, dtypes.float64)) for v in (start, end, step))
    return _ceil((end - start) / step)


def _ceil(length: float) -> int:
    if not -(2**63) <= length < 2**63:
        raise RuntimeError("invalid size, possible overflow?")
    return math.ceil(length)


def _check_range(start, end, step) -> None:
    if not (step > 0 or step < 0):
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (step > 0 and end < start) or (step < 0 and end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


@function("arange")
def arange(
    start: Any = None,
    end: Any = None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """The numbers start, start + step, ... below `end`.

    Args:
        start, end, step: numbers, or tensors without dimensions; of a single one it is `end` and the start is 0.
        dtype: int64 where all three are integers, else the default floating dtype.
        device: the default one if None, see `set_default_device`.
        requires_grad: whether the new leaf requires grad.
        layout, pin_memory: accepted as in ``zeros``.
        out: written to instead of a new tensor.

    Returns:
        A vector of ``ceil((end - start) / step)`` numbers.

    Raises:
        RuntimeError: `step` is 0 or leads away from the end.

    Example:
        >>> gradlib.arange(1, 6, 2)
        tensor([1, 3, 5])
    """
    if layout is not None:
        check_layout(layout)
    if end is None:
        start, end = 0, start
        if end is None:
            raise TypeError('arange() missing 1 required positional arguments: "end"')
    elif start is None:
        start = 0
    if dtype is None and out is None and start.__class__ is end.__class__ is step.__class__ is int:
        _check_range(start, end, step)
        xp, d, _ = place(dtypes.int64, device)
        try:
            return finish(xp.arange(start, end, step, d), requires_grad)
        except (MemoryError, ValueError, OverflowError) as exc:
            n = -((start - end) // step)
            raise (errors.allocation(exc, (n,), d.itemsize) or exc) from None
    if dtype is out is device is None and _PLAIN.issuperset(
        (start.__class__, end.__class__, step.__class__)
    ):
        _check_range(start, end, step)
        xp, d, _ = place(None, None)
        n = _ceil((end - start) / step)
        errors.check_room(xp, (n,), d.itemsize)
        return finish(xp.call(_progression, xp, n, start, step, np.float64, d), requires_grad)
    start, end, step = (
        _end("arange", which, i + 1, v)
        for i, (which, v) in enumerate((("start", start), ("end", end), ("step", step)))
    )
    if dtype is None and out is None:
        whole = all(isinstance(v, (int, np.integer)) for v in (start, end, step))
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    xp, d, _ = place(dtype, device, out=out)
    if d.kind in "bc":
        raise unsupported("arange_cpu", d)
    start, end, step = (plain_number(v, dtypes.float64) for v in (start, end, step))  # not complex
    _check_range(start, end, step)
    n = _length(start, end, step, d)
    if d.kind in "iu":
        start, step = (plain_number(v, dtypes.int64) for v in (start, step))
    errors.check_room(xp, (n,), d.itemsize)
    wide = np.dtype(np.int64) if d.kind in "iu" else np.dtype(np.float64)
    values = xp.call(_progression, xp, n, start, step, wide, d)
    return _finish(values, requires_grad, out, "arange")


def _progression(xp, n: int, start, step, wide, kind):
    """start, start + step, ...: `n` numbers, computed in the dtype `wide`."""
    return (xp.arange(n, dtype=wide) * step + start).astype(kind)


def _finish(values, requires_grad: bool, out: Tensor | None, name: str = ""):
    """The numbers as a tensor; in `out` they fill any shape that has as many elements, row by row.

    name: of the function, if it warns when it makes a vector of `out`.
    """
    if out is None:
        return finish(values, requires_grad)
    n = values.shape[0]
    if out._array.size != n:
        if name and out._array.size:
            warnings.warn(
                f"The number of elements in the out tensor of shape {errors.size(out.shape)} is {out._array.size} "
                f"which does not match the computed number of elements {n}. Note that this may occur as a result of "
                f"rounding error. The out tensor will be resized to a tensor of shape ({n},).",
                UserWarning,
                stacklevel=3,
            )
        out.resize_((n,))
    return finish(values.reshape(out._array.shape), requires_grad, out)


# -- linspace and logspace ---------------------------------------------------------------------------------------


def _bounds(name: str, start, end, steps, dtype, device, out) -> tuple:
    """(backend, NumPy dtype, start, end, steps) of a call, checked."""
    if state.bits & FORWARD_AD and any_tangent((start, end)):
        raise NotImplementedError(
            f"Trying to use forward AD with aten::{name} that does not support it."
        )
    for which, v in (("start", start), ("end", end)):
        if isinstance(v, Tensor) and v._array.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {which} with {v._array.ndim} "
                "dimension(s)."
            )
    if (
        steps.__class__ is int
        and steps >= 0
        and dtype is device is out is None
        and start.__class__ in _PLAIN
        and end.__class__ in _PLAIN
    ):
        return (*place(None, None)[:2], start, end, steps)
    start, end = _end(name, "start", 1, start), _end(name, "end", 2, end)
    try:
        steps = operator.index(steps)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'steps' (position 3) must be int, not {type(steps).__name__}"
        ) from None
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if isinstance(start, complex) or isinstance(end, complex):
        inferred = dtypes.get_default_dtype().to_complex()
        if dtype is None and out is None:
            dtype = inferred
        elif (dtypes.of(dtype) if dtype is not None else out.dtype).category < dtypes.COMPLEX:
            raise RuntimeError(
                f"torch.{name}(): inferred dtype {inferred} can't be safely cast to passed dtype {dtype}"
            )
    xp, d, _ = place(dtype, device, out=out)
    if d.kind == "b":
        raise unsupported(f"{name}_cpu", d)
    kind = dtypes.from_np(d)
    start, end = (plain_number(v, kind) for v in (start, end))
    if d == np.uint8:
        start, end = start % 256, end % 256
    return xp, d, start, end, steps


def _grid(xp, d, start, end, steps: int, base=None):
    """Evenly spaced numbers of the dtype `d`, or the powers of `base` with them as exponents."""
    errors.check_room(xp, (steps,), d.itemsize)
    wide = d if d.kind in "fcV" else np.dtype(np.float64)
    values = _evenly(xp, wide, start, end, steps)
    if base is not None:
        values = xp.power(xp.asarray(base, wide), values)
    return values.astype(d, copy=False)


def _evenly(xp, wide, start, end, steps: int):
    """Evenly spaced numbers, counted from the nearer end: symmetric, and exact at both."""
    start, end = (np.asarray(v, wide)[()] for v in (start, end))
    if steps < 2:
        return xp.full(steps, start, wide)
    half = steps // 2
    out = xp.arange(steps).astype(wide)
    late = out[: steps - half][::-1] * ((end - start) / (steps - 1))
    out *= (end - start) / (steps - 1)
    out += start
    out[half:] = end - late
    return out


@function("linspace")
def linspace(
    start,
    end,
    steps,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """`steps` evenly spaced numbers from `start` to `end`, both included.

    Args:
        start, end: numbers, or tensors without dimensions.
        steps: how many there are.
        dtype: the default one if None; of an integer dtype what is behind the point is cut off.
        device: the default one if None, see `set_default_device`.
        requires_grad: whether the new leaf requires grad.
        layout, pin_memory: accepted as in ``zeros``.
        out: written to instead of a new tensor.

    Returns:
        A vector.

    Raises:
        RuntimeError: a negative number of steps.

    Example:
        >>> gradlib.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if layout is not None:
        check_layout(layout)
    if shared.batches and (is_logical(start) or is_logical(end)):
        return _steps_of_batch(start, end, steps, dtype)
    xp, d, start, end, steps = _bounds("linspace", start, end, steps, dtype, device, out)
    values = xp.call(_grid, xp, d, start, end, steps)
    return _finish(values, requires_grad, out)


def _steps_of_batch(start, end, steps: int, dtype) -> Tensor:
    """``linspace`` inside vmap with a bound of each entry's own: by ops, from both ends so that both are met."""
    kind = dtype or dtypes.get_default_dtype()
    where = start.device if isinstance(start, Tensor) else end.device
    if steps == 1:
        return (start + 0 * end).reshape(1).to(kind)
    place = arange(steps, device=where)
    width = (end - start) / (steps - 1)
    first = start + place * width
    return first.where(place < steps // 2, end - (steps - 1 - place) * width).to(kind)


@function("logspace")
def logspace(
    start,
    end,
    steps,
    base=10.0,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """``base ** linspace(start, end, steps)``: numbers whose exponents are evenly spaced, both ends included.

    Args:
        start, end: the first and the last exponent, numbers or tensors without dimensions.
        steps: how many there are.
        base: a number.
        dtype: the default one if None; of an integer dtype the exponents are cut off first.
        layout, device, requires_grad: as of ``zeros``.
        out: written to instead of a new tensor.

    Returns:
        A vector.

    Raises:
        RuntimeError: a negative number of steps.

    Example:
        >>> gradlib.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    if layout is not None:
        check_layout(layout)
    if shared.batches and (is_logical(start) or is_logical(end)):
        return base ** _steps_of_batch(start, end, steps, dtype)
    xp, d, start, end, steps = _bounds("logspace", start, end, steps, dtype, device, out)
    values = xp.call(_grid, xp, d, start, end, steps, base)
    return _finish(values, requires_grad, out)


# -- patterns ----------------------------------------------------------------------------------------------------


def _count(name: str, which: str, position: int, n) -> int:
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(
            f"{name}(): argument '{which}' (position {position}) must be int, not {type(n).__name__}"
        ) from None
    return n


@function("eye")
def eye(
    n,
    m=None,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """The n x m matrix with ones on the diagonal.

    Raises RuntimeError: a negative size.

    Example:
        >>> gradlib.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    if layout is not None:
        check_layout(layout)
    n = _count("eye", "n", 1, n)
    m = n if m is None else _count("eye", "m", 2, m)
    for which, length in (("n", n), ("m", m)):
        if length < 0:
            raise RuntimeError(f"{which} must be greater or equal to 0, got {length}")
    xp, d, _ = place(dtype, device, out=out)
    try:
        array = xp.eye(n, m, dtype=d)
    except (MemoryError, ValueError) as exc:
        raise (errors.allocation(exc, (n, m), d.itemsize) or exc) from None
    return finish(array, requires_grad, out)


def _triangle_indices(name: str, row, col, offset, dtype, device):
    row, col = _count(name, "row", 1, row), _count(name, "col", 2, col)
    for which, length in (("row", row), ("col", col)):
        if length < 0:
            raise RuntimeError(f"{which} must be non-negative, got{length}")
    xp, d, _ = place(dtype, device)
    if d.kind not in "iu":
        raise unsupported(name, d)
    errors.check_room(xp, (row, col), d.itemsize)
    return finish(xp.call(lambda: xp.stack(getattr(xp, name)(row, offset, col)).astype(d)))


@function("tril_indices")
def tril_indices(
    row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None, pin_memory=False
):
    """The indices of the lower triangle of a matrix, in the order of its rows.

    Args:
        row, col: the size of the matrix.
        offset: the last diagonal that counts: 0 the main one, above it positive, below it negative.
        dtype, layout, device, pin_memory: as of ``zeros``.

    Returns:
        A (2, number of them) tensor of int64: the rows, and the columns.

    Raises:
        RuntimeError: a negative size.

    Example:
        >>> gradlib.tril_indices(2, 2)
        tensor([[0, 1, 1],
                [0, 0, 1]])
    """
    if layout is not None:
        check_layout(layout)
    return _triangle_indices("tril_indices", row, col, offset, dtype, device)


@function("triu_indices")
def triu_indices(
    row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None, pin_memory=False
):
    """The indices of the upper triangle of a matrix, in the order of its rows.

    Args:
        row, col: the size of the matrix.
        offset: the first diagonal that counts: 0 the main one, above it positive, below it negative.
        dtype, layout, device, pin_memory: as of ``zeros``.

    Returns:
        A (2, number of them) tensor of int64: the rows, and the columns.

    Raises:
        RuntimeError: a negative size.

    Example:
        >>> gradlib.triu_indices(2, 2)
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    if layout is not None:
        check_layout(layout)
    return _triangle_indices("triu_indices", row, col, offset, dtype, device)


@function("range")
def range_(
    start=0,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """The numbers start, start + step, ... up to `end`, that one included; deprecated, ``arange`` leaves the end out.

    Args:
        start, end, step: numbers; of a single one it is the end and the start is 0.
        dtype: the default one if None, also for integers.
        layout, device, requires_grad: as of ``zeros``.
        out: written to instead of a new tensor.

    Returns:
        A vector.

    Raises:
        RuntimeError: `step` is 0 or leads away from the end.
    """
    if layout is not None:
        check_layout(layout)
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    start, end, step = (float(v) for v in (start, end, step))
    _check_range(start, end, step)
    xp, d, _ = place(dtype, device, out=out)
    if d.kind in "bc":
        raise unsupported("range_cpu", d)
    n = math.floor((end - start) / step) + 1
    errors.check_room(xp, (n,), d.itemsize)
    values = (xp.arange(n, dtype=np.float64) * step + start).astype(d)
    return _finish(values, requires_grad, out)
