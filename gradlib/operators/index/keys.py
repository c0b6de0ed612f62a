"""Keys of ``x[...]``, taken apart.

This is done as PyTorch does it: ints, slices, None and Ellipsis give one view op each, from left to right; index
tensors and masks are collected, and one op `index` (or `index_put` when assigning) applies them together.
"""

from __future__ import annotations

import operator
import re
import warnings
from typing import Any

import numpy as np

from ...op import vmap_texts as batching
from ...op.vmap import Logical
from ...tape import errors
from ...tape.arrays import backend_of
from ...tape.device import beside, copied
from ...tape.errors import type_name
from ...tape.interop import host_reads
from ...tape.lazy import raw_values
from ...tape.modes import NO_GRAD, made_of_numbers, state, unrecorded
from ...tape.tensor import Tensor
from ..create.data import infer, to_array
from ..shape.dims import unsqueeze_op
from ..shape.slicing import ALL, select_op, slice_op

ndarray, int64 = np.ndarray, np.dtype(np.int64)


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
        index = Tensor._make(_index_array(item))
        plain = item.__class__ is range
        if item.__class__ is list or item.__class__ is tuple:
            plain = all([i.__class__ is int for i in item])
        return _item(made_of_numbers(index) if plain else index, like)
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


def bounds_of(part: slice, n: int) -> tuple[int, int, int]:
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


def apply_key(x: Tensor, key) -> tuple[Tensor, tuple]:
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
            start, end, step = bounds_of(item, n)
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


def apply_plain_key(x: Tensor, key: tuple):
    """What `apply_key` gives, for the most usual keys: ints and slices; None for any other."""
    if len(key) > x._array.ndim:
        return None
    out, dim = x, 0
    for place, item in enumerate(key):  # each item stands for one dimension of x
        kind = item.__class__
        if kind is int:
            out = _pick(out, dim, item, place)
        elif kind is slice:
            n = out._array.shape[dim]
            start, end, step = bounds_of(item, n)
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


def given_indices(x: Tensor, indices) -> tuple:
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


# -- index arrays for NumPy --------------------------------------------------------------------------------------


def bool_masks(indices: tuple) -> tuple:
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


def numpy_key(indices: tuple) -> tuple:
    """The NumPy key of collected indices, where None stands for a whole dimension."""
    return tuple([ALL if i is None else i for i in indices])


def index_error(exc: Exception) -> Exception:
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
