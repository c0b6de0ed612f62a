"""The state of an optimizer by names of parameters, nested or flat, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...autograd.grad_mode import no_grad
from ...optim.optimizer import Optimizer
from ...tape.tensor import Tensor
from ._model_names import Names, cut_into, shared_out
from ._nested import flatten, insert
from ._ranks import Ranks
from ._shards import is_sharded, is_tensor

__all__ = ["flat", "from_first", "named", "take"]

State = dict[str, Any]


def named(optimizer: Optimizer, names: Names) -> State:
    """`optimizer.state_dict()` with the names of parameters in place of their numbers."""
    state = optimizer.state_dict()
    known = names.of_parameters()
    params = [p for group in optimizer.param_groups for p in group["params"]]
    number: dict[int, str] = {}
    for i, p in enumerate(params):
        if p not in known:
            raise RuntimeError(
                f"parameter {i} of the optimizer, of shape {tuple(p.shape)}, is none of the model's: the model must be "
                "the one that the optimizer was made for"
            )
        number[i] = known[p][0]
    return {
        "state": {number[i]: dict(values) for i, values in state["state"].items()},
        "param_groups": [
            {**group, "params": [number[i] for i in group["params"]]}
            for group in state["param_groups"]
        ],
    }


def flat(state: State) -> State:
    """One dict: ``state.<name>.<what>`` and, for each parameter, ``param_groups.<name>.<setting>``."""
    found = {}
    for name, values in state["state"].items():
        for what, value in _leaves(values, ""):
            if not isinstance(value, Tensor | int | float) and not is_tensor(value):
                raise NotImplementedError(
                    "Flattening optimizer state_dict only supports tensor, int, float, dict states now. "
                    f"Type is {type(value)}."
                )
            found[f"state.{name}.{what}"] = value
    for group in state["param_groups"]:
        for name in group["params"]:
            for key, value in group.items():
                if key != "params":
                    found[f"param_groups.{name}.{key}"] = value
    return found


def _leaves(values: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def from_first(state: State, ranks: Ranks) -> State:
    """The state that the first process has, in every process."""
    values, paths = flatten(state) if ranks.is_coordinator else ({}, {})
    paths = ranks.broadcast(paths)
    found: State = {}
    for name, value in shared_out(values, ranks, list(paths)).items():
        insert(found, paths[name], value)
    if "param_groups" in found:
        found.setdefault("state", {})  # of an optimizer that keeps nothing there is no path
    return found


# -- back ------------------------------------------------------------------------------------------------------------


def take(optimizer: Optimizer, state: State, names: Names, strict: bool) -> None:
    """Load the part of a state, nested or flat, that belongs to the parameters of an optimizer."""
    known = names.of_parameters()
    source = _Nested(state) if "param_groups" in state else _Flat(state, known)
    numbers = iter(range(10**9))
    taken: State = {"state": {}, "param_groups": []}
    for group in optimizer.param_groups:
        settings: State | None = None
        params = []
        for p in group["params"]:
            i = next(numbers)
            params.append(i)
            name = next(
                (n for n in known.get(p, ()) if source.settings(n, group) is not None), None
            )
            if name is None:
                raise RuntimeError(
                    f"the state of the optimizer has no group with the parameter {' or '.join(known.get(p, ['?']))}"
                )
            settings = _agreed(settings, source.settings(name, group), name)
            values = source.values(name)
            if values is not None:
                taken["state"][i] = _placed(name, values, optimizer.state.get(p, {}))
            elif p.requires_grad and strict and optimizer.state.get(p):
                raise RuntimeError(
                    f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires gradients "
                    "but has no saved optimizer state. To load anyway, use StateDictOptions(strict=False)."
                )
        if settings is None:
            settings = source.of_empty_group()
        taken["param_groups"].append({**settings, "params": params})
    optimizer.load_state_dict(taken)


def _agreed(before: State | None, now: State | None, name: str) -> State:
    """The settings of a group; RuntimeError if its parameters were saved with different ones."""
    assert now is not None
    if before is None or before is now:
        return now
    for key, value in now.items():
        if key not in before or not _same(before[key], value):
            raise RuntimeError(
                "All the parameters in the same parameter group should have the same saved param_group value. But "
                f"{name}.{key} is {value} while other(s) is {before.get(key)}."
            )
    return before


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return (
            isinstance(a, Tensor)
            and isinstance(b, Tensor)
            and a.shape == b.shape
            and bool((a == b).all())
        )
    return a == b


def _placed(name: str, values: State, present: State) -> State:
    """The values of a parameter; whole tensors are cut where the optimizer has pieces."""
    placed = dict(values)
    with no_grad():
        for key, value in values.items():
            target = present.get(key)
            if is_sharded(target) and is_tensor(value) and not is_sharded(value) and value.ndim:
                placed[key] = cut_into(f"{name}.{key}", target, value)
    return placed


class _Nested:
    """A state with "state" and "param_groups"."""

    def __init__(self, state: State):
        self.state, self.groups = state.get("state", {}), state["param_groups"]
        self.group_of = {name: group for group in self.groups for name in group["params"]}
        self.stripped: dict[int, State] = {}

    def settings(self, name: str, group: State) -> State | None:
        """Those of the group that had a parameter; each group gives one object."""
        found = self.group_of.get(name)
        if found is None:
            return None
        return self.stripped.setdefault(
            id(found), {key: value for key, value in found.items() if key != "params"}
        )

    def values(self, name: str) -> State | None:
        return self.state.get(name)

    def of_empty_group(self) -> State:
        empty = [group for group in self.groups if not group["params"]]
        if len(empty) != 1:
            raise ValueError(
                "There are param groups that have zero parameters. In such a case, DSD only support exactly one param "
                "group with zero parameters.But the loaded state_dict has zero or more than one param groups that have "
                "zero parameters."
            )
        return {key: value for key, value in empty[0].items() if key != "params"}


class _Flat:
    """A state of names such as "state.layer.weight.exp_avg"."""

    def __init__(self, state: State, known: dict[Tensor, list[str]]):
        names = {name for of_one in known.values() for name in of_one}
        self.kept: dict[str, State] = {}
        self.groups: dict[str, State] = {}
        for key, value in state.items():
            part, _, rest = key.partition(".")
            name, inner = _split(rest, names)
            if name is not None:
                into = {"state": self.kept, "param_groups": self.groups}[part].setdefault(name, {})
                insert(into, tuple(inner.split(".")), value)

    def settings(self, name: str, group: State) -> State | None:
        return self.groups.get(name)

    def values(self, name: str) -> State | None:
        return self.kept.get(name)

    def of_empty_group(self) -> State:
        raise ValueError("a flat state does not keep the settings of groups without parameters")


def _split(rest: str, names: set[str]) -> tuple[str | None, str]:
    """The longest name of a parameter that a key begins with, and what follows."""
    at = rest.rfind(".")
    while at > 0:
        if rest[:at] in names:
            return rest[:at], rest[at + 1 :]
        at = rest.rfind(".", 0, at)
    return None, rest
