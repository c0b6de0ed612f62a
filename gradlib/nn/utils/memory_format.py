"""Weights of convolutions in another order in memory."""

from __future__ import annotations

from typing import Any, TypeVar

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: M, kinds: tuple[type, ...], memory_format: Any) -> M:
    for layer in module.modules():
        if isinstance(layer, kinds):
            weight = layer.weight
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Store the weights of all two-dimensional convolutions of a module in another order; returns it.

    Args:
        module: a convolution, transposed or not, or anything that contains some.
        memory_format: ``channels_last`` or ``contiguous_format``.

    Example:
        >>> conv = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(2, 3, 2), gradlib.channels_last)
        >>> conv.weight.stride()
        (8, 1, 4, 2)
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Store the weights of all three-dimensional convolutions of a module in another order; returns it.

    Args:
        module: a convolution, transposed or not, or anything that contains some.
        memory_format: ``channels_last_3d`` or ``contiguous_format``.

    Example:
        >>> conv = nn.Conv3d(2, 3, 1)
        >>> _ = nn.utils.convert_conv3d_weight_memory_format(conv, gradlib.channels_last_3d)
        >>> conv.weight.is_contiguous(memory_format=gradlib.channels_last_3d)
        True
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
