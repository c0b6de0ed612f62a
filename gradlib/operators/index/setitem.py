"""Writing with ``x[key] = value`` and with ``index_put``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import captures
from ...op.declare import declare
from ...op.expose import function, method
from ...op.plain_numbers import check_fits, is_number, single_number
from ...op.updates import in_the_way
from ...op.writing import InPlace, quiet, wrote
from ...tape import dtypes, errors
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.errors import type_name
from ...tape.memory import repeats_itself
from ...tape.modes import made_of_numbers
from ...tape.tensor import Tensor
from ..kinds import same_dtype
from ..shape.expand import expand_to
from ..shape.reshape import reshape_to
from .fill import copy_, fill_
from .keys import apply_key, bool_masks, given_indices, index_error, numpy_key


def _index_put_into(xp, out, values, *, indices, accumulate):
    if accumulate:
        xp.add_at(out, numpy_key(indices), values)
    else:
        out[numpy_key(indices)] = values


def _index_put(xp, self, values, *, indices, accumulate):
    out = self.copy(order="K")
    _index_put_into(xp, out, values, indices=indices, accumulate=accumulate)
    return out


def _put_samples(t):
    a = np.array([2, 0])
    return [
        (t(3, 4), t(2, 4), (a,), False), (t(3, 4), t(), (None, a), False), (t(3, 4), t(2), (a, a), True),
        (t(3), t(3), (np.array([1, 1, 0]),), True), (t(3, 4), t(4), (np.arange(12).reshape(3, 4) % 3 == 0,), False),
    ]  # fmt: skip


index_put_op = declare(
    "index_put", _index_put,
    captures=captures.of_indices,
    autocast="cuda:promote", promote="none", jvp="linear", complex=True, arrays=("indices",), samples=_put_samples,
    overlapping="warn", sharing="apart",
    self=lambda F, g, indices, accumulate: g if accumulate else F.index_put(g, F.new_zeros(g, ()), indices, False),
    values=lambda F, g, indices, values_shape: F.sum_to_size(F.index(g, indices), values_shape),
    batch="index_put",
    aten="(self, indices, values, accumulate)",
)  # fmt: skip
index_put_into = InPlace(index_put_op, _index_put_into)


_BASIC = frozenset({int, type(None), type(Ellipsis)})


def _raw_target(array, key):
    """The part of `array` under a basic key, or None if the key needs more care."""
    items = key if key.__class__ is tuple else (key,)
    for item in items:
        if item.__class__ not in _BASIC and (
            item.__class__ is not slice
            or (item.step is not None and not (item.step.__class__ is int and item.step > 0))
        ):
            return None
    try:
        return array[items if Ellipsis in items else (*items, ...)]
    except (IndexError, TypeError):
        return None


def _number(value, dtype: dtypes.dtype) -> Any:
    """An assigned Python number as it is stored in `dtype`; integers must fit into int64 in any case."""
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    value = single_number(value, dtype)
    if dtype.itemsize == 2 and dtype.category == dtypes.FLOATING:
        value = float(np.asarray(value).astype(dtype.np))  # infinite, if it is too large
    return value


@method("__setitem__")
def setitem(self, key, value):
    """``x[key] = value`` for every key that ``x[key]`` takes; `value` is a number or a tensor that broadcasts."""
    tensor = isinstance(value, Tensor)
    if not tensor:
        if not is_number(value):
            kind = errors.tensor_type(self)
            raise TypeError(f"can't assign a {type_name(value)} to a {kind}")
        value = _number(value, self.dtype)
    alias = tensor and value._ver is self._ver and self._ver.__class__ is not int
    if not alias and quiet(self, value):
        target = _raw_target(self._array, key)
        if target is not None and (not tensor or _plainly_fits(target, value._array)):
            target[...] = value._array if tensor else value
            wrote(self, "copy_")
            return
        if key.__class__ is Tensor and _raw_put(self._array, key._array, value):
            wrote(self, "index_put_")
            return
    if key is False:
        return
    if key is True:
        view, indices = self, ()
    else:
        view, indices = apply_key(self, key)
    if not indices:
        _copy_to(view, value)
        return
    if not tensor:
        array = backend_of(self._array).asarray(value, self._array.dtype)
        value = made_of_numbers(Tensor._make(array))
    _put(view, indices, _without_ones(value, ()), False)


@method("__delitem__")
def delitem(self, key):
    """Tensors keep all of their elements: TypeError."""
    raise TypeError("Tensor does not support deleting items")


def _raw_put(array, index, value) -> bool:
    """``array[index] = value`` if that is all there is to do; False if the general way must look at it."""
    if index.__class__ is not array.__class__ or index.dtype.kind not in "ib" or not index.ndim:
        return False
    if isinstance(value, Tensor):
        value = value._array
        if value.__class__ is not array.__class__ or value.dtype != array.dtype:
            return False
    try:
        array[index] = value
    except (IndexError, ValueError, TypeError):
        return False
    return True


def _plainly_fits(target, array) -> bool:
    if array.__class__ is not target.__class__ or array.dtype.kind == "c" != target.dtype.kind:
        return False
    return array.shape == target.shape or (
        array.ndim <= target.ndim
        and all(
            [m in (1, n) for n, m in zip(target.shape[target.ndim - array.ndim :], array.shape)]
        )
    )


def _without_ones(value: Tensor, shape: tuple) -> Tensor:
    """Without the leading dimensions of length one that `shape` does not have."""
    have = value._array.shape
    drop = 0
    while len(have) - drop > len(shape) and have[drop] == 1:
        drop += 1
    return reshape_to(value, have[drop:]) if drop else value


def _copy_to(view: Tensor, value) -> None:
    if not isinstance(value, Tensor) or (not value._array.ndim and value.is_cpu):
        if repeats_itself(view._array):
            raise RuntimeError(errors.OVERLAP)
        fill_(view, value)
    else:
        shape = view._array.shape
        copy_(view, expand_to(_without_ones(value, shape), shape))


def _put_values(x: Tensor, indices: tuple, values: Tensor, accumulate: bool) -> Tensor:
    """The values in the dtype of `x`; errors for shapes and dtypes that do not go together.

    One value under one mask is a fill, which converts it.
    """
    masks = [i for i in indices if i is not None]
    if (
        values._array.size == 1
        and not accumulate
        and len(masks) == 1
        and masks[0].dtype.kind in "bu"
    ):
        if masks[0].dtype.kind == "u":
            raise RuntimeError(
                "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
            )
        check_fits(values, x.dtype)
        return values.to(x.dtype)
    if values._array.dtype != x._array.dtype:
        _check_shapes(x, indices, values)
        text = "Index put requires the source and destination dtypes match, got {} for the destination and {} for"
        same_dtype(x, values, text + " the source.")
    return values


def _check_shapes(x: Tensor, indices: tuple, values: Tensor) -> None:
    """The error for indices that do not broadcast together, or values that do not broadcast to their result."""
    xp = backend_of(x._array)
    try:
        with beside(x._array):
            whole = xp.broadcast_to(xp.zeros((), x._array.dtype), x._array.shape)
            want = whole[numpy_key(bool_masks(indices))].shape
    except IndexError as exc:
        if "broadcast" in str(exc):
            raise index_error(exc) from None
        return  # an index out of range, which comes after all that is checked here
    have = values._array.shape
    if errors.broadcast(have, want) is not None or np.broadcast_shapes(have, want) != want:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {errors.size(have)} cannot be broadcast to indexing result of "
            f"shape {errors.size(want)}"
        )


def _put(x: Tensor, indices: tuple, values: Tensor, accumulate: bool) -> Tensor:
    values = _put_values(x, indices, values, accumulate)
    indices = bool_masks(indices)
    if values.device != x.device and not values._array.ndim:
        values = values.to(x.device)
    try:
        if quiet(x, values) and not in_the_way(index_put_op, x, values):
            array = x._array
            _index_put_into(
                backend_of(array), array, values._array, indices=indices, accumulate=accumulate
            )
            return wrote(x, "index_put_")
        return index_put_into(x, (values,), (indices, accumulate))
    except (IndexError, ValueError, TypeError) as exc:
        _check_shapes(x, indices, values)
        raise index_error(exc) from None


@function("index_put", method=True)
def index_put(input, indices, values, accumulate=False):
    """A copy of `input` with `values` at ``input[indices]``.

    Args:
        indices: a tuple of index tensors or masks, None for a whole dimension.
        values: a tensor of the same dtype that broadcasts to the shape of that selection.
        accumulate: add instead; then repeated indices all count, otherwise one of them is kept.

    Returns:
        A tensor like `input`; gradients flow to `input` and `values`.

    Raises:
        IndexError: an index is out of range.
        RuntimeError: another dtype, or `values` does not broadcast.

    Example:
        >>> gradlib.index_put(gradlib.zeros(3), (gradlib.tensor([0, 2]),), gradlib.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    found = given_indices(input, indices)
    values = _put_values(input, found, values, bool(accumulate))
    try:
        return index_put_op.call(input, values, bool_masks(found), bool(accumulate))
    except (IndexError, ValueError, TypeError) as exc:
        _check_shapes(input, found, values)
        raise index_error(exc) from None


@function("index_put_")
@method("index_put_")
def index_put_(input, indices, values, accumulate=False):
    """``values`` written to ``input[indices]``: ``index_put`` into `input` itself.

    Args:
        indices: a tuple of index tensors or masks, None for a whole dimension.
        values: a tensor of the same dtype that broadcasts to the shape of that selection.
        accumulate: add instead; then repeated indices all count, otherwise one of them is kept.

    Returns:
        `input`.

    Raises:
        IndexError: an index is out of range.
        RuntimeError: another dtype, or `values` does not broadcast; a leaf that requires grad.

    Example:
        >>> gradlib.zeros(3).index_put_((gradlib.tensor([0, 0]),), gradlib.ones(2), accumulate=True)
        tensor([2., 0., 0.])
    """
    return _put(input, given_indices(input, indices), values, bool(accumulate))
