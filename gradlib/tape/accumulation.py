"""Adding what arrives at a leaf into its ``.grad``, by the gradient layout contract."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from . import errors, sparse
from .arrays import backend_for
from .device import copied
from .dtypes import HALVES, bfloat16
from .lazy import Lazy, raw_values, store
from .memory import repeats_itself
from .modes import RAW, shared
from .node import total
from .storage import before_write, bump
from .tensor import Tensor, new

_accumulating = threading.RLock()
_BFLOAT16 = bfloat16.np


def accumulate(leaf: Tensor, grads: list, traced: int, create_graph: bool) -> None:
    """Add the one gradient in `grads` into ``leaf.grad`` by the gradient layout contract."""
    with _accumulating:  # the one place where passes of several threads meet
        have = leaf._grad
        if shared.sparse is not None and sparse.among_gradients(have, grads[0], leaf):
            leaf._grad = with_sparse(have, grads.pop(), create_graph)
            return
        if traced:
            grad = grads.pop()
            subclasses = shared.subclasses
            if subclasses is not None and subclasses.among((have, grad)):
                leaf._grad = subclasses.accumulated(have, grad, create_graph)
            elif have is None:
                leaf._grad = stored(leaf, grad, create_graph)
            elif create_graph:
                leaf._grad = have + grad
            else:
                add_into(have, raw_values(grad))
        elif have is None:
            leaf._grad = first_gradient(leaf, grads)
        elif have._array.__class__ is Lazy:
            add_into(have, grads.pop())
        else:  # also where the gradient that is there has a history: it keeps that
            before_write(have)
            array = have._array
            if 0 in array.strides and repeats_itself(array):
                raise RuntimeError(errors.OVERLAP)
            array += grads.pop()
            bump(have)


def take(leaves: tuple[Tensor, ...], arrays: tuple[np.ndarray, ...]) -> None:
    """`accumulate` of a raw gradient for each leaf that has its layout, and that the caller alone has and drops.

    Outside of inference mode.
    """
    with _accumulating:
        for leaf, array in zip(leaves, arrays, strict=True):
            if leaf._grad is not None:
                accumulate(leaf, [array], RAW, False)
                continue
            grad = leaf._grad = new(Tensor)
            grad._array, grad._ver = array, 0
            grad._rg, grad._fn, grad._nr, grad._grad, grad._view = False, None, 0, None, None


def with_sparse(have: Tensor | None, grad: Any, create_graph: bool) -> Tensor:
    """The new ``.grad`` of a leaf where what is there or what arrives is sparse.

    What is there takes a sparse gradient in place; where it is sparse and a dense one arrives, that is a new tensor.
    """
    if create_graph:
        if have is None:
            return grad.clone()
        return total(have, grad)
    raw = getattr(grad, "_array", grad)
    if have is None:
        return Tensor._make(raw.copy())
    if not sparse.is_sparse(have):
        add_into(have, raw)
        return have
    if raw.__class__ is not shared.sparse:
        return Tensor._make(have._array + raw)
    before_write(have)
    have._array.assign(have._array + raw)
    bump(have)
    return have


def add_into(have: Tensor, array: Any) -> None:
    """Add a raw array to a gradient in place."""
    before_write(have)
    if have._array.__class__ is Lazy:  # the program set it
        store(have, raw_values(have) + array)
    elif array.__class__ is shared.sparse:
        sparse.scattered(array, have._array)
    elif repeats_itself(have._array):
        raise RuntimeError(errors.OVERLAP)
    elif array.__class__ is np.ndarray and array.dtype in HALVES and array.dtype is have.dtype.np:
        backend_for("cpu").through_float32(np.add, have._array, array, out=have._array)
    else:
        have._array += array
    bump(have)


def stored(leaf: Tensor, grad: Tensor, create_graph: bool) -> Tensor:
    """A Tensor gradient in the leaf's layout that aliases nothing the user can reach."""
    if create_graph:
        return grad.clone()
    array = raw_values(grad)
    return Tensor._make(laid_out(leaf._array, array, _dtype(leaf, array)))


def first_gradient(leaf: Tensor, grads: list) -> Tensor:
    """Take the raw gradient itself if nobody else holds its memory and its layout fits; else copy it."""
    grad = grads.pop()
    array = leaf._array
    if (
        grad.__class__ is array.__class__
        and grad.strides == array.strides
        and grad.shape == array.shape
        and (
            grad.dtype is array.dtype
            or (shared.gradient_dtype is not None and grad.dtype == _dtype(leaf, grad))
        )
        and sys.getrefcount(grad) <= STEALABLE
        and (
            grad.base is None
            or (
                sys.getrefcount(grad.base) <= 2
                and grad.base.__class__ is grad.__class__
                and grad.base.base is None
            )
        )
        and (grad.__class__ is not np.ndarray or grad.flags.writeable)
    ):
        return Tensor._make(grad)
    return Tensor._make(laid_out(array, grad, _dtype(leaf, grad)))


def _dtype(leaf: Tensor, grad: Any) -> np.dtype:
    """The dtype of the ``.grad`` of a leaf, at which `grad` arrives first."""
    if shared.gradient_dtype is None:
        return leaf._array.dtype
    return shared.gradient_dtype(leaf) or grad.dtype


def _probe(values: list) -> int:
    value = values.pop()
    return sys.getrefcount(value)


STEALABLE = _probe([object()])


def laid_out(array, grad, dtype):
    """A copy of `grad` of a dtype, with the strides of `array` if they are dense, else row-major."""
    if array.__class__ is Lazy:
        array = array.physical._array
    if array.size and is_dense(array):
        strides = array.strides
        if dtype is not array.dtype:
            strides = tuple([s // array.itemsize * dtype.itemsize for s in strides])
        out = (
            np.empty_like(array, dtype, order="K")
            if array.__class__ is np.ndarray
            else array.__class__(array.shape, dtype, strides=strides)
        )
        if out.strides != strides:
            out = np.lib.stride_tricks.as_strided(out, array.shape, strides)
    else:
        out = (np.empty if array.__class__ is np.ndarray else array.__class__)(array.shape, dtype)
    if grad.dtype is _BFLOAT16 and dtype is _BFLOAT16 and out.__class__ is np.ndarray:
        out.view(np.uint16)[...] = grad.view(np.uint16)  # NumPy repeats numbers of its own sooner
    else:
        out[...] = grad
    return out


def is_dense(array) -> bool:
    """Whether the elements fill one block of memory without overlap, in whatever order."""
    expected = array.dtype.itemsize
    for stride, length in sorted(zip(array.strides, array.shape, strict=True)):
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True


def keep_gradient(tensor: Tensor, grad: Tensor | None, create_graph: bool) -> None:
    """retain_grad: add into the .grad of a non-leaf."""
    if grad is not None and hasattr(grad._array, "level") and not hasattr(tensor._array, "level"):
        return  # one entry of batched gradients: there is no one gradient to keep
    have = tensor._grad
    if have is None:
        tensor._grad = (
            grad if create_graph or grad is None else Tensor._make(copied(raw_values(grad)))
        )
    else:
        tensor._grad = total(have, grad)
