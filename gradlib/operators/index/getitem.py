"""Indexing with ``x[...]``: basic keys are chains of views, index tensors and masks gather and scatter.

A key is taken apart as PyTorch does: ints, slices, None and Ellipsis give one view op each, from left to right; index
tensors and masks are collected, and one op `index` (or `index_put` when assigning) applies them together.
"""

from __future__ import annotations

import operator
import re
import warnings
from typing import Any, NamedTuple

import numpy as np

from ...op import captures
from ...op import vmap_texts as batching
from ...op.declare import declare
from ...op.expose import function, method
from ...op.plain_numbers import check_fits, is_number, single_number
from ...op.updates import in_the_way, repeats_itself
from ...op.vmap import Logical
from ...op.writing import InPlace, quiet, wrote
from ...tape import dtypes, errors
from ...tape.arrays import backend_of
from ...tape.device import beside, copied
from ...tape.errors import type_name
from ...tape.interop import host_reads
from ...tape.layout import in_order
from ...tape.lazy import raw_values
from ...tape.modes import NO_GRAD, state, unrecorded
from ...tape.tensor import Tensor
from ..create.data import infer, to_array
from ..kinds import same_dtype
from ..shape.dims import unsqueeze_op
from ..shape.expand import expand_to
from ..shape.reshape import alias_op, reshape_to
from ..shape.slicing import ALL, select_op, slice_op
from .fill import copy_, fill_

ndarray, int64 = np.ndarray, np.dtype(np.int64)

# -- ops ---------------------------------------------------------------------------------------------------------


def _key(indices: tuple) -> tuple:
    """The NumPy key of collected indices, where None stands for a whole dimension."""
    return tuple([ALL if i is None else i for i in indices])


def _index(xp, self, *, indices):
    dense = self.flags.c_contiguous
    if len(indices) == 1:
        dense = dense and indices[0].flags.c_contiguous
        if dense and indices[0].dtype.kind != "b":
            return self.take(indices[0], 0)
    elif dense:
        dense = all([i is None or i.flags.c_contiguous for i in indices])
    if dense:
        out = self[_key(indices)]
        if 1 in out.shape:  # for whose dimension NumPy takes any stride
            return out.reshape(-1).reshape(out.shape)
        return out if out.flags.c_contiguous else xp.ascontiguousarray(out)
    out = self[_key(indices)]
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
    xp.add_at(out, _key(indices), grad)
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


def _index_put_into(xp, out, values, *, indices, accumulate):
    if accumulate:
        xp.add_at(out, _key(indices), values)
    else:
        out[_key(indices)] = values


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


# -- keys --------------------------------------------------------------------------------------------------------


def _sequence_is_tuple(key) -> bool:
    """A short list with anything but numbers in it is read as a tuple of indices."""
    return len(key) < 32 and any(
        [item is None or item is Ellipsis or isinstance(item, (slice, Tensor, list, tuple, ndarray,
        range)) for item in key]
    )  # fmt: skip


def _item(item, like: Tensor) -> Any:
    """One entry of a key: an int, slice, None, Ellipsis, bool, or a raw index array."""
    if item is None or item is Ellipsis or item.__class__ in (int, slice, bool):
        return item
    if isinstance(item, Tensor):
        array = raw_values(item)
        while array.__class__ is Logical and not array.batched:
            array = array.physical._array  # the same for all entries of a vmap
        kind, itemsize = array.dtype.kind, array.itemsize
        if not array.ndim and kind in "iub" and array.__class__ is not Logical:
            host_reads("__getitem__", item)
            return bool(array) if kind == "b" or (kind == "u" and itemsize == 1) else int(array)
        if (
            kind not in "iub"
            or (kind == "i" and itemsize < 4 and array.ndim)
            or (kind == "u" and itemsize > 1)
        ):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if array.__class__ is Logical:
            if kind in "bu":
                raise RuntimeError(batching.MASK)
            return array
        if kind == "u":  # a mask, of which assignment wants to know that it is no bool one
            warnings.warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                UserWarning,
                stacklevel=4,
            )
        if array.__class__ is not like._array.__class__ and like._array.__class__ is not Logical:
            array = backend_of(like._array).to_backend(array, like.device)
        elif like._rg and not state.bits & NO_GRAD:
            array = unrecorded(copied, array)  # backward must not see later changes of the index
        return array
    if isinstance(item, (list, tuple, range, ndarray)):
        return _item(Tensor._make(_index_array(item)), like)
    if isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    try:
        return operator.index(item)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type_name(item)})"
        ) from None


def _index_array(data) -> np.ndarray:
    """A sequence or array as an index: masks stay, other numbers become int64, their fractions cut off."""

    if not len(data) if isinstance(data, (list, tuple, range)) else not data.size:
        kept = isinstance(data, ndarray) and data.dtype.kind == "b"
        return np.zeros(np.shape(data), bool if kept else int64)
    if isinstance(data, ndarray):
        array = data.copy()
    else:
        try:
            array = to_array(list(data), None)
        except ValueError:
            infer(data)  # which names a type that is no number
            raise
        if array.dtype.kind == "c":
            raise TypeError("'complex' object cannot be interpreted as an integer")
    if array.dtype.kind == "b" or array.dtype == np.uint8:
        return array
    if array.dtype.kind == "c":
        array = np.real(array)
    return array.astype(int64, copy=False)


def _width(item) -> int:
    """How many dimensions an entry of a key stands for."""
    if item.__class__ is int or item.__class__ is slice:
        return 1
    if item is None or item is Ellipsis or item.__class__ is bool:
        return 0
    return item.ndim if item.dtype.kind in "bu" else 1


def _bounds(part: slice, n: int) -> tuple[int, int, int]:
    """(start, end, step) of a slice of `n` entries; ValueError for a step that is not positive."""
    step = part.step
    if step is not None and operator.index(step) <= 0:
        raise ValueError(
            "step must be greater than zero"
            if operator.index(step)
            else "slice step cannot be zero"
        )
    start, end, step = part.indices(n)
    return start, end if end > start else start, step


def _pick(x: Tensor, dim: int, index: int, place: int) -> Tensor:
    """One entry of `dim`, which was dimension `place` of the tensor that is indexed."""
    n = x._array.shape[dim]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {place} with size {n}")
    return select_op.call(x, dim, index + n if index < 0 else index)


def _apply(x: Tensor, key) -> tuple[Tensor, tuple]:
    """The view that the basic entries of `key` give, and the index arrays that remain to be applied to it."""
    if key.__class__ is not tuple:
        key = tuple(key) if isinstance(key, (list, tuple)) and _sequence_is_tuple(key) else (key,)
    items = [_item(item, x) for item in key]
    total = 0
    for item in items:
        total += _width(item)
    ndim = x._array.ndim
    if total > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    out, dim, rest, place, found = x, 0, ndim - total, 0, []
    for item in items:
        kind = item.__class__
        if kind is int:
            out = _pick(out, dim, item, place)
            place += 1
            continue
        if kind is slice:
            n = out._array.shape[dim]
            start, end, step = _bounds(item, n)
            if start or end != n or step != 1:
                out = slice_op.call(out, dim, start, end, step)
            found.append(None)
            dim, place = dim + 1, place + 1
        elif item is None or kind is bool:
            out = unsqueeze_op.call(out, dim)
            found.append(
                None if item is None else backend_of(out._array).zeros(1 if item else 0, int64)
            )
            dim += 1
        elif item is Ellipsis:
            found += [None] * rest
            dim, place, rest = dim + rest, place + rest, 0
        else:
            if item.dtype.kind in "bu":
                _check_mask(item, out._array.shape, dim)
            found.append(item)
            dim, place = dim + _width(item), place + _width(item)
    while found and found[-1] is None:
        found.pop()
    return out, tuple(found)


def _basic(x: Tensor, key: tuple):
    """What `_apply` gives, for the most usual keys: ints and slices; None for any other."""
    if len(key) > x._array.ndim:
        return None
    out, dim = x, 0
    for place, item in enumerate(key):  # each item stands for one dimension of x
        kind = item.__class__
        if kind is int:
            out = _pick(out, dim, item, place)
        elif kind is slice:
            n = out._array.shape[dim]
            start, end, step = _bounds(item, n)
            if start or end != n or step != 1:
                out = slice_op.call(out, dim, start, end, step)
            dim += 1
        else:
            return None
    return out, ()


def _check_mask(mask, shape: tuple, dim: int) -> None:
    for i, n in enumerate(mask.shape):
        if n != shape[dim + i]:
            raise IndexError(
                f"The shape of the mask {errors.size(mask.shape)} at index {i} does not match the shape of the indexed "
                f"tensor {errors.size(shape)} at index {dim + i}"
            )


def _say(exc: Exception) -> Exception:
    """A NumPy complaint about indices in PyTorch's words."""
    text = str(exc)
    if isinstance(exc, IndexError):
        text = text.replace("for axis", "for dimension").replace(
            "indexing arrays could", "indexing tensors could"
        )
        if "broadcast together" in text:
            text = re.sub(r"\(([\d, ]*?),?\)", r"[\1]", text).replace("] [", "], [").rstrip()
            text = re.sub(r"(\d),(\d)", r"\1, \2", text)
        if text.endswith("with size 0") or "non-empty take" in text:
            text = "index is out of bounds for dimension with size 0"
        return IndexError(text)
    counts = re.search(r"cannot assign (\d+) input values to the (\d+) output values", text)
    found = counts or re.search(
        r"value array of shape \((.*?),?\)\s*could not be broadcast to indexing result of shape \((.*?),?\)",
        text,
    )
    if found:
        have, want = (", ".join(g.replace(" ", "").split(",")) for g in found.groups())
        return RuntimeError(
            f"shape mismatch: value tensor of shape [{have}] cannot be broadcast to indexing result of shape [{want}]"
        )
    return exc


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
        return slice_op.call(self, 0, *_bounds(key, shape[0]))
    view, indices = (_basic(self, key) if kind is tuple else None) or _apply(self, key)
    if not indices:
        return alias_op.call(self) if view is self else view
    try:
        return index_op.call(view, _bool_masks(indices))
    except IndexError as exc:
        raise _say(exc) from None


def _bool_masks(indices: tuple) -> tuple:
    """Collected indices with masks of uint8 as bool ones."""
    for i in indices:
        if i is not None and i.dtype.kind == "u":
            return tuple([_as_mask(i) for i in indices])
    return indices


def _as_mask(index: Any) -> Any:
    if index is None or index.dtype.kind != "u":
        return index
    with beside(index):
        return index.astype(bool)


@method("__contains__")
def contains(self, element):
    """Whether any element equals `element`, a number or a tensor."""
    if not isinstance(element, Tensor) and not is_number(element):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )
    return bool((element == self).any().item())


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
        view, indices = _apply(self, key)
    if not indices:
        _copy_to(view, value)
        return
    if not tensor:
        value = Tensor._make(backend_of(self._array).asarray(value, self._array.dtype))
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
            want = whole[_key(_bool_masks(indices))].shape
    except IndexError as exc:
        if "broadcast" in str(exc):
            raise _say(exc) from None
        return  # an index out of range, which comes after all that is checked here
    have = values._array.shape
    if errors.broadcast(have, want) is not None or np.broadcast_shapes(have, want) != want:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {errors.size(have)} cannot be broadcast to indexing result of "
            f"shape {errors.size(want)}"
        )


def _put(x: Tensor, indices: tuple, values: Tensor, accumulate: bool) -> Tensor:
    values = _put_values(x, indices, values, accumulate)
    indices = _bool_masks(indices)
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
        raise _say(exc) from None


# -- index_put and take-alikes of the same ops --------------------------------------------------------------------


def _given(x: Tensor, indices) -> tuple:
    """The indices argument of index_put as raw arrays; None for a whole dimension."""
    found = [None if i is None else _item(i if i._array.ndim else i.reshape(1), x) for i in indices]
    if sum([1 if i is None else _width(i) for i in found]) > x._array.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {x._array.ndim} (got {len(found)})"
        )
    for d, item in enumerate(found):
        if item is not None and item.dtype.kind in "bu":
            _check_mask(item, x._array.shape, d)
    while found and found[-1] is None:
        found.pop()
    return tuple(found)


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
    found = _given(input, indices)
    values = _put_values(input, found, values, bool(accumulate))
    try:
        return index_put_op.call(input, values, _bool_masks(found), bool(accumulate))
    except (IndexError, ValueError, TypeError) as exc:
        _check_shapes(input, found, values)
        raise _say(exc) from None


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
    return _put(input, _given(input, indices), values, bool(accumulate))


@function("_unsafe_index")
def _unsafe_index(input, indices):
    """``input[indices]`` for a tuple of index tensors, None for a whole dimension."""
    return index_op.call(input, _bool_masks(_given(input, indices)))
