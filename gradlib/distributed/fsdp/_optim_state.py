"""The state of an optimizer of sharded parameters, by names: whole, or parts as DTensors."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import no_grad
from ...tape.tensor import Tensor
from ..tensor._dtensor import DTensor
from ..tensor._factories import distribute_tensor


@no_grad()
def full_or_parts(value: Any, full: bool, to_cpu: bool, like: DTensor | None = None) -> Any:
    """A tensor as it is wanted.

    Args:
        value: any value; what is no tensor is given back.
        full: whether a DTensor becomes the whole; all ranks call it then.
        to_cpu: whether tensors are moved to the CPU.
        like: cut a plain tensor of its shape as it is cut.
    """
    if not isinstance(value, Tensor):
        return value
    if isinstance(value, DTensor):
        value = value.detach()
        if full:
            value = value.full_tensor()
    elif like is not None and value.shape == like.shape and value.ndim:
        moved = value.detach().to(like.device)
        value = distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)
    return value.cpu() if to_cpu else value


def optimizer_state(
    optim: Any, state: dict[str, Any], names: dict[int, str], full: bool, to_cpu: bool
) -> dict[str, Any]:
    """What ``optim.state_dict()`` gave, by names of parameters instead of numbers.

    Args:
        optim: the optimizer.
        state: what it gave.
        names: of parameters, by id.
        full, to_cpu: as for `full_or_parts`.
    """
    numbered = _numbered(optim, names)
    by_name = {
        numbered[number]: {k: full_or_parts(v, full, to_cpu) for k, v in values.items()}
        for number, values in state["state"].items()
    }
    groups = [{**g, "params": [numbered[i] for i in g["params"]]} for g in state["param_groups"]]
    return {"state": by_name, "param_groups": groups}


def optimizer_state_to_load(
    optim: Any, state: dict[str, Any], names: dict[int, str]
) -> dict[str, Any]:
    """The way back of `optimizer_state`; whole tensors become parts."""
    numbered = _numbered(optim, names)
    numbers = {name: i for i, name in numbered.items()}
    params = dict(enumerate(p for g in optim.param_groups for p in g["params"]))
    by_number = {}
    for name, values in state["state"].items():
        like = params[numbers[name]]
        cut = like if isinstance(like, DTensor) else None
        by_number[numbers[name]] = {
            k: full_or_parts(v, False, False, cut) for k, v in values.items()
        }
    groups = [{**g, "params": [numbers[n] for n in g["params"]]} for g in state["param_groups"]]
    return {"state": by_number, "param_groups": groups}


def _numbered(optim: Any, names: dict[int, str]) -> dict[int, str]:
    """The name of each parameter by the number that an optimizer's state_dict gives it."""
    params = [p for g in optim.param_groups for p in g["params"]]
    missing = [i for i, p in enumerate(params) if id(p) not in names]
    if missing:
        raise ValueError(
            f"parameters {missing} of the optimizer are not of this model: make the optimizer after wrapping it, from "
            "model.parameters()"
        )
    return {i: names[id(p)] for i, p in enumerate(params)}
