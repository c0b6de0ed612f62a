"""What creation functions share: sizes, the place of a new array, and the tensor that is made of it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...op.expose import write_out
from ...op.vmap import lift
from ...tape import device as devices
from ...tape import dtypes, handed, recording
from ...tape.arrays import backend_on
from ...tape.modes import PROFILE, note_leaf, shared, state
from ...tape.storage import INFERENCE
from ...tape.tensor import Tensor
from ..elementwise.cast import check_device


def asked(tensor: Any) -> bool:
    """Whether the class of a tensor is asked for what is made like it (``__torch_dispatch__``)."""
    return shared.subclasses is not None and shared.subclasses.among((tensor,))


def wrap_like(array) -> Tensor:
    """A raw array as a Tensor outside any graph."""
    return Tensor._make(array)


def sizes(size: tuple, name: str = "empty") -> tuple:
    """(2, 3) from ``f(2, 3)`` or ``f((2, 3))``; TypeError for what is no size."""
    if len(size) == 1 and not isinstance(size[0], (int, np.integer, Tensor)):
        if not isinstance(size[0], (tuple, list)):
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size[0]).__name__}"
            )
        size = tuple(size[0])
    elif not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    try:
        shape = tuple([operator.index(n) for n in size])
    except TypeError:
        at = next(i for i, n in enumerate(size) if not hasattr(n, "__index__"))
        raise TypeError(
            f"{name}(): argument 'size' failed to unpack the object at pos {at + 1} with error "
            f'"type must be tuple of ints,but got {type(size[at]).__name__}"'
        ) from None
    for n in shape:
        if not 0 <= n < _END:
            raise _no_length(shape, n, name)
    return shape


_END = 2**63


def _no_length(shape: tuple, n: int, name: str) -> Exception:
    if -_END <= n < _END:
        return RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return TypeError(
        f"{name}(): argument 'size' failed to unpack the object at pos {shape.index(n) + 1} with error "
        '"Overflow when unpacking long long"'
    )


def finish(array, requires_grad: bool = False, out: Tensor | None = None) -> Any:
    """Wrap a new raw array, check requires_grad, or write it to `out`."""
    result = Tensor._make(array)
    if shared.active and state.bits & PROFILE:
        recording.created(result)
    elif shared.active and state.capture is not None:  # within an op, whose flag is off
        state.capture.created(result)
    if out is not None:
        if out._array.shape != result._array.shape:
            out.resize_(result._array.shape)
        return write_out(out, result)
    if shared.batches and state.batch is not None:
        result = lift(result)  # so that it can have a history inside of the vmap
    if requires_grad:
        if result._array.dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        result._rg = True
        if result._ver is INFERENCE:
            note_leaf(result)
    return result


def pinned_copy(array):
    """A host array in page-locked memory; RuntimeError without a CUDA device, and for arrays that lie on one."""
    if not isinstance(array, np.ndarray):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return handed.pinned_copy(array)


def place(dtype, dev, like: Tensor | None = None, out: Tensor | None = None):
    """(backend, NumPy dtype, device) for a factory's arguments.

    like, out: the tensor whose dtype and device count where none are given. RuntimeError for another dtype than that
    of `out`.
    """
    if out is not None:
        like = out
        if dtype is not None and dtypes.of(dtype) is not out.dtype:
            given, have = (d.scalar_type for d in (dtypes.of(dtype), out.dtype))
            raise RuntimeError(f"dtype {given} does not match dtype of out parameter ({have})")
    target = (
        like.device
        if dev is None and like is not None
        else devices.default.device
        if dev is None
        else check_device(dev)
    )
    kind = (
        dtypes.of(dtype)
        if dtype is not None
        else like.dtype
        if like is not None
        else dtypes.get_default_dtype()
    )
    return backend_on(target), kind.np, target


def need_number(name: str, which: str, position: int, value):
    """`value`; TypeError if it is no number."""
    if not isinstance(value, (int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"{name}(): argument '{which}' (position {position}) must be Number, not {type(value).__name__}"
        )
    return value
