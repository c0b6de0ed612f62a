"""From a list of samples to a batch, and from NumPy values to tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ....operators import public as ops
from ....tape.dtypes import float64
from ....tape.tensor import Tensor

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def _is_numbers(array: np.ndarray) -> bool:
    """Whether a Tensor can hold the elements; not text and Python objects."""
    return array.dtype.kind in "biufc" or array.dtype.name == "bfloat16"


def _same(value: Any, items: Any) -> Any:
    """A container like `value` with other items; a plain list or dict if its class refuses."""
    is_map = isinstance(value, Mapping)
    try:
        if isinstance(value, (MutableMapping, MutableSequence)):
            made = copy.copy(value)
            if is_map:
                made.update(items)  # type: ignore[union-attr]
            else:
                made[: len(made)] = items  # type: ignore[index]
            return made
        return type(value)(items)  # type: ignore[call-arg]
    except TypeError:
        return dict(items) if is_map else list(items)


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars in `data` as tensors; everything else stays.

    Args:
        data: tensors, NumPy values, and lists, tuples and dicts of such; other objects too.

    Returns:
        `data` itself, or a container of the same type with converted items; a tuple becomes a list.

    Example:
        >>> default_convert([numpy.ones(2), "name"])
        [tensor([1., 1.], dtype=torch.float64), 'name']
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return ops.as_tensor(data) if _is_numbers(np.asarray(data)) else data
    if isinstance(data, Mapping):
        return _same(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _same(data, [default_convert(value) for value in data])
    return data


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """A batch from samples, with given functions for the types of the leaves.

    Args:
        batch: list of samples of one kind, at least one.
        collate_fn_map: from a type, or tuple of types, to a function
            `(samples, *, collate_fn_map) -> batch`; the exact type is looked up first.

    Returns:
        What the function for the type makes; containers of that, for samples that are containers.

    Raises:
        TypeError: there is no function for the type of the samples.
        RuntimeError: sequences of different lengths.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)

    def again(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _same(first, {key: again([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(again(column) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [again(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _same(first, columns)
    raise TypeError(_refusal(kind))


def _refusal(found: Any) -> str:
    return (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {found}"
    )


def _collate_tensors(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return ops.stack(list(batch), 0)


def _collate_arrays(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    first = batch[0]
    if not _is_numbers(first):
        raise TypeError(_refusal(first.dtype))
    if all(type(a) is type(first) and a.dtype == first.dtype for a in batch):
        shape = first.shape
        if all(a.shape == shape for a in batch):
            return ops.from_numpy(np.stack(batch))
    return ops.stack([ops.as_tensor(array) for array in batch], 0)


def _collate_scalars(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return ops.as_tensor(np.stack(batch))


def _collate_floats(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return ops.tensor(batch, dtype=float64)


def _collate_ints(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return ops.tensor(batch)


def _collate_text(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: _collate_tensors,
    np.ndarray: _collate_arrays,
    (np.bool_, np.number): _collate_scalars,
    float: _collate_floats,
    int: _collate_ints,
    str: _collate_text,
    bytes: _collate_text,
}
"""What `default_collate` does with each type of leaf; add to it for types of your own."""


def default_collate(batch: Any) -> Any:
    """A batch from samples: tensors are stacked, numbers become tensors, containers stay.

    Args:
        batch: list of samples: Tensors or NumPy arrays [...] of one shape, numbers, text, or lists,
            tuples and dicts of such.

    Returns:
        Tensor [batch, ...] of tensors, arrays and numbers (float64 of Python floats, int64 of
        ints), a list of text, and a list or dict of batches for samples that are containers.

    Raises:
        TypeError: samples of a type that cannot be batched.
        RuntimeError: tensors of different shapes, or sequences of different lengths.

    Example:
        >>> default_collate([(1, "a"), (2, "b")])
        [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
