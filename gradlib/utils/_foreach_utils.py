"""Tensors in groups of one device and dtype, for code that works on many at once."""

from __future__ import annotations

from typing import Any

from ..tape.device import device
from ..tape.dtypes import dtype
from ..tape.tensor import Tensor

__all__ = [
    "_device_has_foreach_support",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype",
    "_has_foreach_support",
]

Groups = dict[tuple[device, dtype], tuple[list[list[Any]], list[int]]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The devices that have functions of lists of tensors."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The devices on which an optimizer's step is one kernel."""
    return ["cuda", "cpu"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
) -> Groups:
    """Several lists of tensors, of one length, cut by the device and dtype of the first one's.

    Args:
        tensorlistlist: the first list has no None in it.
        with_indices: give the places in the lists, too.

    Example:
        >>> groups = _group_tensors_by_device_and_dtype([[gradlib.ones(1), gradlib.ones(2, dtype=gradlib.int8)]], True)
        >>> [indices for _, indices in groups.values()]
        [[0], [1]]
    """
    groups: Groups = {}
    for i, row in enumerate(zip(*tensorlistlist, strict=True)):
        assert row[0] is not None
        lists, indices = groups.setdefault(
            (row[0].device, row[0].dtype), ([[] for _ in tensorlistlist], [])
        )
        for held, tensor in zip(lists, row):
            held.append(tensor)
        if with_indices:
            indices.append(i)
    return groups


def _device_has_foreach_support(device: device) -> bool:
    """Whether a device has functions of lists of tensors."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Tensor | None], device: device) -> bool:
    """Whether tensors can be given to those functions together."""
    return _device_has_foreach_support(device) and all(
        t is None or type(t) is Tensor or isinstance(t, Tensor) for t in tensors
    )
