"""In-place operations on NumPy arrays where nothing needs checking: no graph, no mode, one dtype, one shape.

Updates of parameters written by hand are most of what a training loop does beside its products, so they have short
ways: `scaled` (``p.sub_(g, alpha=lr)``) and `combined` (``p.addcdiv_(m, v, value=-lr)``). Where one of these says no,
nothing is written, and `op.inplace` does it. The numbers are the same to the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tape import dtypes, errors, source
from ..tape.arrays import kernels_of
from ..tape.modes import NO_GRAD, shared, state
from ..tape.storage import INFERENCE as INFERENCE_STORAGE
from ..tape.storage import bump, share
from ..tape.strided import overlap
from ..tape.tensor import Tensor
from . import halves, overlays, spreading
from .plain_numbers import number_array

_F4, _F8, _I8 = dtypes.float32.np, dtypes.float64.np, dtypes.int64.np
_BY_NAME = (np.maximum, np.minimum)  # which NumPy wants to be given `out` by its name
_cpu_functions: dict[str, Any] = {}  # those of the backend of CPU arrays
_LARGEST = float(np.finfo(np.float32).max)
WHOLE = 1 << 53  # up to which floats have all whole numbers


def in_the_way(op, tensor: Tensor, other: Tensor) -> bool:
    """Whether the in-place form of `op` refuses to write to `tensor` because of where the operand `other` lies."""
    if other is tensor:
        return op.sharing == "apart"
    counter = tensor._ver
    if counter.__class__ is int or other._ver is not counter or op.sharing == "number":
        return False
    how = overlap(tensor._array, other._array)
    return how == "partly" or (how == "whole" and op.sharing == "apart")


def scaled(op: Any, tensor: Tensor, other: Any, factor: float | None) -> Tensor | None:
    """``inplace(op, tensor, (factor * other,))`` for a method that calls this; None where it has to be done otherwise.

    factor: None for 1.
    """
    array: Any = getattr(tensor, "_array", None)
    value: Any = getattr(other, "_array", None)
    if array.__class__ is not np.ndarray or value.__class__ is not np.ndarray:
        return None
    dtype = array.dtype
    if (
        value.dtype is not dtype
        or (dtype is not _F4 and dtype is not _F8)
        or array.shape != value.shape
        or op.ufunc is None
        or 0 in array.strides
    ):
        return None
    if shared.active:
        bits = state.bits
        if bits > NO_GRAD or (not bits and _recorded(tensor, other)):
            return None
    elif _recorded(tensor, other):
        return None
    counter: Any = tensor._ver
    if counter.__class__ is int:
        counter = share(tensor)
    elif counter is INFERENCE_STORAGE:
        return None
    if other._ver is counter and in_the_way(op, tensor, other):
        if factor is None:
            return None
        raise RuntimeError(errors.PARTIAL_OVERLAP)
    kernel = _cpu_functions.get(op.ufunc) or _cpu_function(array, op.ufunc)
    if factor is None:
        if not (
            spreading.begun
            and array.size >= spreading.LARGE
            and spreading.spread_inplace(kernel, array, value)
        ):
            kernel(array, value, array)
    elif not -_LARGEST < factor < _LARGEST:
        return None
    else:
        number = number_array(factor, dtype)
        if spreading.begun:
            _written(lambda a, v: kernel(a, v * number, a), array, value)
        else:
            kernel(array, value * number, array)
    frame = sys._getframe(2)
    code = frame.f_code
    if source.LIBRARY.get(code.co_filename, True):
        frame = source.user_frame(frame)
        code = frame.f_code
    counter.changed = (code, frame.f_lasti), op.written_by
    counter.version += 1
    return tensor


def _recorded(tensor: Tensor, other: Tensor) -> bool:
    """Whether gradients pass through what is written to `tensor`, or through what it is a view of."""
    view = tensor._view
    return tensor._rg or other._rg or (view is not None and view.base._rg)


def combined(
    op: Any, write: Callable, tensor: Tensor, others: tuple[Tensor, ...], value: float
) -> Tensor | None:
    """``inplace(op, tensor, others, (value,))`` for a method that calls this; None as in `scaled`.

    write: ``write(array, *others, value)`` does it on arrays; `value` is a number of their dtype, or None for 1.
    """
    array: Any = tensor._array
    bits = state.bits if shared.active else 0
    if bits > NO_GRAD or not writable(op, tensor, bits):
        return None
    dtype = array.dtype
    if (dtype is not _F4 and dtype is not _F8) or not -_LARGEST < value < _LARGEST:
        return None
    for other in others:
        given: Any = other._array
        if (
            given.__class__ is not np.ndarray
            or given.dtype is not dtype
            or given.shape != array.shape
            or (other._rg and not bits)
            or in_the_way(op, tensor, other)
        ):
            return None
    number = None if value == 1 else number_array(value, dtype)
    _written(lambda *arrays: write(*arrays, number), array, *[other._array for other in others])
    frame = source.user_frame(sys._getframe(2))
    bump(tensor, (frame.f_code, frame.f_lasti), op.written_by)
    return tensor


def _written(write: Callable, target: np.ndarray, *others: np.ndarray) -> None:
    """``write(target, *others)``, elementwise: piece by piece on threads where that is large."""
    if not (spreading.begun and target.size >= spreading.LARGE and spreading.width() > 1):
        return write(target, *others)
    apart = [
        o.ctypes.data == target.ctypes.data or not np.may_share_memory(o, target) for o in others
    ]
    if not all(apart) or not all([a.flags.c_contiguous for a in (target, *others)]):
        return write(target, *others)
    flat = [a.reshape(-1) for a in (target, *others)]

    def piece(k: int) -> None:
        part = slice(k * spreading.PIECE, (k + 1) * spreading.PIECE)
        write(*[a[part] for a in flat])

    spreading.share(-(-target.size // spreading.PIECE), piece)
    return None


def writable(op, tensor: Tensor, bits: int, whole: bool = False) -> bool:
    """Whether a ufunc may simply write to `tensor`: a NumPy array of floats, no graph, no inference tensor.

    whole: or of int64, by an op that makes nothing else of them.
    """
    array = tensor._array
    if array.__class__ is not np.ndarray or 0 in array.strides:
        return False
    dtype = array.dtype
    if whole and dtype is _I8:
        if op.promote != "same" or op.check is not None:
            return False
    elif dtype is not _F4 and (
        (dtype not in dtypes.NP_FLOATING and dtype not in dtypes.HALVES)
        or (op.complex is False and dtype.kind == "c")
    ):
        return False
    if tensor._ver is INFERENCE_STORAGE:
        return False
    if bits:
        return True
    view = tensor._view
    return not (tensor._rg or (view is not None and view.base._rg))


def quick(op, tensor: Tensor, others: tuple, bits: int) -> bool:
    """Run a ufunc in place where nothing needs checking: no graph, one dtype, the shape of `tensor`."""
    if not writable(op, tensor, bits, True):
        return False
    array = tensor._array
    dtype = array.dtype
    arrays = [array]
    for other in others:
        kind = other.__class__
        if kind is float or kind is int:
            if op.numbers == "none":
                return False
            if dtype is _I8:
                if kind is not int or not -WHOLE < other < WHOLE:
                    return False
                arrays.append(np.array(other, _I8))
                continue
            half = dtype is not _F4 and dtype in dtypes.HALVES
            if half and kind is int and not -WHOLE < other < WHOLE:
                return False
            wide = _F4 if op.wide_numbers else dtype
            arrays.append(np.array(float(other), wide) if half else other)
            continue
        value: Any = getattr(other, "_array", None)
        if (
            value.__class__ is not np.ndarray
            or value.dtype is not dtype
            or (value.shape != array.shape and value.ndim)
            or (other._rg and not bits and op.differentiable)
            or ((other is tensor or other._ver is tensor._ver) and in_the_way(op, tensor, other))
        ):
            return False
        arrays.append(value)
    try:
        function = _cpu_functions.get(op.ufunc) or _cpu_function(array, op.ufunc)
        if dtype is not _F4 and dtype in dtypes.HALVES and halves.suits(op):
            kernels_of(array).through_float32(function, *arrays, out=array)
            return True
        if (
            spreading.begun
            and array.size >= spreading.LARGE
            and spreading.spread_inplace(function, *arrays)
        ):
            return True
        if function in _BY_NAME:
            function(*arrays, out=array)
        else:
            function(*arrays, array)  # `out=` costs as much as a small sum itself
    except TypeError:  # refused by the ufunc: the general way raises the error
        return False
    return True


def _cpu_function(array: np.ndarray, name: str) -> Any:
    found = _cpu_functions[name] = getattr(kernels_of(array), name)
    return found


def quick_formula(op, tensor: Tensor, others: tuple, attrs: tuple, bits: int) -> bool:
    """The same for an elementwise op whose forward is no ufunc, on arrays of one shape."""
    array: Any = tensor._array
    dtype = array.dtype
    if not op.elementwise or (dtype is not _F4 and dtype is not _F8) or op.hidden or op.n_out != 1:
        return False
    if op.check is not None or not writable(op, tensor, bits):
        return False
    arrays = [array]
    for other in others:
        value: Any = getattr(other, "_array", None)
        if (
            value.__class__ is not np.ndarray
            or value.dtype is not dtype
            or value.shape != array.shape
            or (other._rg and not bits)
            or in_the_way(op, tensor, other)
        ):
            return False
        arrays.append(value)
    try:
        xp, given = kernels_of(array), dict(zip(op.attrs, attrs, strict=True))
        if overlays.forward_of(xp, op) is not None:
            return False  # the general way asks it, as the op itself does
        if spreading.begun and array.size >= spreading.LARGE:
            raw = spreading.spread_formula(op.forward, xp, *arrays, **given)
        else:
            raw = op.forward(xp, *arrays, **given)
    except Exception:  # the general way raises the error
        return False
    if raw.__class__ is not np.ndarray or raw.dtype is not dtype or raw.shape != array.shape:
        return False
    if raw is not array:
        array[...] = raw
    return True
