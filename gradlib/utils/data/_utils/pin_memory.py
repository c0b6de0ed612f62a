"""Tensors of a batch in page-locked memory, from which copies to a CUDA device are quicker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....tape.tensor import Tensor

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """`data` with every tensor in it pinned; an object with a `pin_memory` method pins itself.

    Args:
        data: a tensor, a container of such, or anything else, which is returned as it is.
        device: accepted and ignored; there is one kind of device to pin for.
    """
    if isinstance(data, Tensor):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        pinned = {key: pin_memory(value) for key, value in data.items()}
        try:
            return type(data)(pinned)  # type: ignore[call-arg]
        except TypeError:
            return pinned
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value) for value in data))
    if isinstance(data, Sequence):
        items = [pin_memory(value) for value in data]
        return items if not isinstance(data, tuple) else tuple(items)
    return data
