"""Averaging the parameters of a model over the ranks of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....autograd.grad_mode import no_grad
from ....operators import public as ops
from ....tape.tensor import Tensor
from ... import collectives
from ..._world import is_member, the_group

__all__ = [
    "average_parameters",
    "average_parameters_or_parameter_groups",
    "get_params_to_average",
]


def average_parameters(params: Iterable[Tensor], process_group: Any) -> None:
    """Set each parameter to its average over the ranks, in one collective for each dtype and device.

    Args:
        params: parameters of any shapes, the same on all ranks.
        process_group: whose ranks; all if None. Nothing happens on a rank outside of it.

    Example::

        average_parameters(model.parameters(), None)
    """
    if not is_member(process_group):
        return
    group = the_group(process_group)
    kinds: dict[Any, list[Tensor]] = {}
    for param in params:
        kinds.setdefault((param.dtype, param.device), []).append(param)
    with no_grad():
        for alike in kinds.values():
            flat = ops.cat([p.detach().reshape(-1) for p in alike])
            flat.div_(group.size())
            collectives.all_reduce(flat, group=group)
            for param, part in zip(alike, flat.split([p.numel() for p in alike])):
                param.detach().copy_(part.view(param.shape))


def get_params_to_average(
    params: Iterable[Tensor] | Iterable[dict[str, Any]],
) -> list[Tensor]:
    """The parameters that have a gradient, of a list of them or of an optimizer's groups.

    Args:
        params: parameters, or ``optimizer.param_groups``.

    Returns:
        Those whose ``.grad`` is not None, in order.

    Raises:
        NotImplementedError: something else is among them.

    Example:
        >>> a, b = nn.Parameter(gradlib.zeros(2)), nn.Parameter(gradlib.zeros(2))
        >>> a.grad = gradlib.ones(2)
        >>> get_params_to_average([{"params": [a, b]}])[0] is a
        True
    """
    found: list[Tensor] = []
    for entry in params:
        if isinstance(entry, dict):
            found += [p for p in entry["params"] if p.grad is not None]
        elif isinstance(entry, Tensor):
            found += [entry] if entry.grad is not None else []
        else:
            raise NotImplementedError(f"Parameter input of type {type(entry)} is not supported")
    return found


def average_parameters_or_parameter_groups(
    params: Iterable[Tensor] | Iterable[dict[str, Any]], process_group: Any
) -> None:
    """Set each parameter that has a gradient to its average over the ranks.

    Args:
        params: parameters, or an optimizer's groups.
        process_group: whose ranks; all if None.

    Example::

        average_parameters_or_parameter_groups(optimizer.param_groups, None)
    """
    average_parameters(get_params_to_average(params), process_group)
