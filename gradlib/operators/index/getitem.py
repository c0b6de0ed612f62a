"""Reading with ``x[key]``: basic keys give views, index tensors and masks gather."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...op import captures
from ...op.declare import declare
from ...op.expose import function, method
from ...op.plain_numbers import is_number
from ...tape.layout import in_order
from ...tape.tensor import Tensor
from ..shape.reshape import alias_op
from ..shape.slicing import select_op, slice_op
from .keys import (
    apply_key,
    apply_plain_key,
    bool_masks,
    bounds_of,
    given_indices,
    index_error,
    numpy_key,
)


def _index(xp, self, *, indices):
    dense = self.flags.c_contiguous
    if len(indices) == 1:
        dense = dense and indices[0].flags.c_contiguous
        if dense and indices[0].dtype.kind != "b":
            return self.take(indices[0], 0)
    elif dense:
        dense = all([i is None or i.flags.c_contiguous for i in indices])
    if dense:
        out = self[numpy_key(indices)]
        if 1 in out.shape:  # for whose dimension NumPy takes any stride
            return out.reshape(-1).reshape(out.shape)
        return out if out.flags.c_contiguous else xp.ascontiguousarray(out)
    out = self[numpy_key(indices)]
    return in_order(xp, out, _operands(self, indices, out.ndim)) if out.ndim > 1 else out


class _Strides(NamedTuple):
    """What decides about the order of strides of a result: the shape and strides of an operand."""

    shape: tuple
    strides: tuple
    ndim: int


def _operands(self, indices: tuple, ndim: int) -> list:
    """`self` and the index arrays as operands of the loop that gathers, with the dimensions of the result."""
    taken, arrays, dim = set(), [], 0
    for item in indices:
        width = item.ndim if item is not None and item.dtype.kind == "b" else 1
        if item is not None:
            taken.update(range(dim, dim + width))
            arrays.append(item)
        dim += width
    kept = [d for d in range(self.ndim) if d not in taken]
    n = ndim - len(kept)  # dimensions of the indices
    together = max(taken) - min(taken) + 1 == len(taken)
    first = min(taken) if together else 0  # where they are in the result
    before, after = kept[:first], kept[first:]

    def operand(shape, strides):
        return _Strides(tuple(shape), tuple(strides), ndim)

    found = [
        operand(
            [*[self.shape[d] for d in before], *[1] * n, *[self.shape[d] for d in after]],
            [*[self.strides[d] for d in before], *[0] * n, *[self.strides[d] for d in after]],
        )
    ]
    for item in arrays:
        shape, strides = ((1,), (8,)) if item.dtype.kind == "b" else (item.shape, item.strides)
        wide = n - len(shape)
        own = [0 if m == 1 else s for m, s in zip(shape, strides)]
        found.append(
            operand(
                [1] * (len(before) + wide) + [*shape] + [1] * len(after),
                [0] * (len(before) + wide) + own + [0] * len(after),
            )
        )
    return found


def _index_backward(xp, grad, *, shape, indices):
    out = xp.zeros(shape, grad.dtype)
    xp.add_at(out, numpy_key(indices), grad)
    return out


def _index_samples(t):
    a, b = np.array([0, 2, 0]), np.array([[1], [3]])
    return [
        (t(3, 4), (a,)), (t(3, 4), (a, b)), (t(3, 4), (None, a)), (t(3, 4, 2), (a, None, np.array([0, 1, 0]))),
        (t(3, 4), (np.arange(12).reshape(3, 4) % 3 == 0,)), (t(2, 0), (np.array([1, 0]),)),
    ]  # fmt: skip


index_op = declare(
    "index", _index,
    captures=captures.of_indices, jvp="linear", complex=True, arrays=("indices",), samples=_index_samples,
    self=lambda F, g, self_shape, indices: F.index_backward(g, self_shape, indices),
    batch="index",
)  # fmt: skip
index_backward_op = declare(
    "index_backward", _index_backward,
    captures=captures.of_indices, jvp="linear", complex=True, node="IndexPutBackward0", arrays=("indices",),
    grad=lambda F, g, indices: F.index(g, indices),
    samples=lambda t: [(t(3, 4), (3, 4), (np.array([0, 2, 0]),)), (t(3), (3, 4),
        (np.array([0, 2, 0]), np.array([1, 1, 1])))],
    batch="index_backward",
)  # fmt: skip


# -- x[key] ------------------------------------------------------------------------------------------------------


@method("__getitem__")
def getitem(self, key):
    """``x[key]`` for ints, slices, None, Ellipsis, bools, index tensors and masks, and tuples of them.

    Basic keys give views. Raises IndexError for an index out of range, ValueError for a negative step.
    """
    kind = key.__class__
    if kind is int:
        shape = self._array.shape
        if not shape:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
        n = shape[0]
        if 0 <= key < n:
            return select_op.call(self, 0, key)
        if -n <= key < 0:
            return select_op.call(self, 0, key + n)
        raise IndexError(f"index {key} is out of bounds for dimension 0 with size {n}")
    if kind is slice:
        shape = self._array.shape
        if not shape:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        return slice_op.call(self, 0, *bounds_of(key, shape[0]))
    view, indices = (apply_plain_key(self, key) if kind is tuple else None) or apply_key(self, key)
    if not indices:
        return alias_op.call(self) if view is self else view
    try:
        return index_op.call(view, bool_masks(indices))
    except IndexError as exc:
        raise index_error(exc) from None


@method("__contains__")
def contains(self, element):
    """Whether any element equals `element`, a number or a tensor."""
    if not isinstance(element, Tensor) and not is_number(element):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )
    return bool((element == self).any().item())


@function("_unsafe_index")
def _unsafe_index(input, indices):
    """``input[indices]`` for a tuple of index tensors, None for a whole dimension."""
    return index_op.call(input, bool_masks(given_indices(input, indices)))
