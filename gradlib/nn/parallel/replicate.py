"""Copies of a module on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..modules.module import Module
from .scatter_gather import device_of

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Copies of a module, whose parameters are differentiable copies: gradients of all add up in the original.

    The first copy shares its buffers with the original, so that running statistics are kept.

    Args:
        network: the module.
        devices: devices, or numbers of GPUs: one for each copy.
        detach: no gradients go back.

    Example:
        >>> [copy] = replicate(nn.Linear(2, 1), ["cpu"])
        >>> copy(gradlib.ones(1, 2)).shape
        torch.Size([1, 1])
    """
    return [_copy(network, device_of(d), i == 0, detach, {}) for i, d in enumerate(devices)]


def _copy(old: Module, device: Any, first: bool, detach: bool, known: dict[int, Module]) -> Module:
    if id(old) in known:
        return known[id(old)]
    new = known[id(old)] = old._replicate_for_data_parallel()
    for name, child in old._modules.items():
        new._modules[name] = None if child is None else _copy(child, device, first, detach, known)
    for name, param in old._parameters.items():
        if param is None:
            new._parameters[name] = None
        else:  # a computed tensor: an attribute, not a parameter
            moved = param.to(device) if param.device != device else param
            new.__dict__[name] = moved.detach() if detach else moved
    for name, buf in old._buffers.items():
        new._buffers[name] = buf if buf is None or first else buf.to(device, copy=True)
    return new
