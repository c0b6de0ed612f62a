"""Batches cut into a piece for each device, and results joined again; both are differentiable."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..._refused import refuse
from ...operators import public as ops
from ...tape.device import device as Device
from ...tape.tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]
__getattr__ = refuse(__name__)


def device_of(device: Any) -> Any:
    """A device, of one or of a GPU's number."""
    return Device("cuda", device) if isinstance(device, int) else Device(device)


def rebuild(like: Any, values: Any) -> Any:
    """`values` in a container of the type of `like`."""
    return type(like)(*values) if hasattr(like, "_fields") else type(like)(values)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Cut the tensors of `inputs` into pieces, one for each device; everything else is given to all of them.

    Args:
        inputs: a tensor, or tuples, lists and dicts of tensors and other things.
        target_gpus: devices, or numbers of GPUs.
        dim: along which tensors are cut.

    Returns:
        A tuple of tensors for a tensor, else a list: as many as the smallest batch gives.

    Example:
        >>> [piece.tolist() for piece in scatter(gradlib.arange(3), ["cpu", "cpu"])]
        [[0, 1], [2]]
    """
    devices = [device_of(d) for d in target_gpus]

    def cut(value: Any) -> Any:
        if isinstance(value, Tensor):
            parts = value.chunk(len(devices), dim)
            return tuple([part.to(device) for part, device in zip(parts, devices)])
        if isinstance(value, (tuple, list)) and value:
            return [rebuild(value, row) for row in zip(*map(cut, value))]
        if isinstance(value, dict) and value:
            return [type(value)(row) for row in zip(*map(cut, value.items()))]
        return [value for _ in devices]

    return cut(inputs)


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The arguments of a call, cut as by `scatter`: as many of either kind.

    Args:
        inputs: positional arguments.
        kwargs: keyword arguments.
        target_gpus: devices, or numbers of GPUs.
        dim: along which tensors are cut.

    Returns:
        A tuple of the positional arguments of each call, and one of its keyword arguments.
    """
    rows = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    rows += [() for _ in range(len(named) - len(rows))]
    named += [{} for _ in range(len(rows) - len(named))]
    return tuple(rows), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Join what several calls have returned: their tensors, in tuples, lists and dicts.

    Args:
        outputs: results of one form.
        target_device: where the joined tensors are.
        dim: along which they are joined. Tensors without dimensions make a vector.

    Raises:
        ValueError: dicts with other keys.
        TypeError: something else than tensors, None and containers of them.

    Example:
        >>> gather([gradlib.ones(1), gradlib.zeros(2)], "cpu")
        tensor([1., 0., 0.])
    """
    device = device_of(target_device)
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [value.to(device) for value in outputs]
        if first.dim() or dim:
            return ops.cat(moved, dim)
        warnings.warn(
            "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and "
            "return a vector.",
            stacklevel=2,
        )
        return ops.stack(moved)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(value) != len(first) for value in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([v[k] for v in outputs], device, dim)) for k in first)
    if not isinstance(first, (tuple, list)):
        raise TypeError(
            f"gather joins tensors, in tuples, lists and dicts, not {type(first).__name__}"
        )
    return rebuild(first, [gather(column, device, dim) for column in zip(*outputs)])
