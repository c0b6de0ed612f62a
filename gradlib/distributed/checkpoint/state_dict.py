"""States of models and optimizers by names of parameters, the same for every way of running in parallel.

`model.state_dict()` has "module." before its names under DistributedDataParallel, and `optimizer.state_dict()` numbers
parameters by their place. The states here have the names of the model itself, so they fit any wrapping and sharding:

    model_state, optimizer_state = get_state_dict(model, optimizer)
    checkpoint.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id="last")
    set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ...optim.optimizer import Optimizer
from ...tape.tensor import Tensor
from . import _optimizer_state
from ._fresh_state import fill_in, filled_in
from ._model_names import Names, cut_into, shared_out, whole
from ._ranks import Ranks
from ._shards import is_sharded, is_tensor

__all__ = [
    "DictValueType",
    "FQNS_T",
    "ListDictValueType",
    "OptimizerStateType",
    "PrimitiveType",
    "StateDictOptions",
    "ValueType",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

FQNS_T = set[str]
PrimitiveType = Tensor | int | float | str
ValueType = Any  # PrimitiveType, and lists, tuples and dicts of it
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, Any]


@dataclass
class StateDictOptions:
    """How states are given and taken.

    Args:
        full_state_dict: whole tensors in place of pieces: every process gets, or gives, all of each tensor.
        cpu_offload: tensors on the host. Together with `full_state_dict` the first process alone gets them, the others
            an empty dict.
        ignore_frozen_params: without the parameters that need no gradient.
        keep_submodule_prefixes: deprecated; for `submodules`: whether their names stay before those of parameters.
        strict: for a model, every name must be there and no other may be; for an optimizer, every parameter must have
            its state.
        broadcast_from_rank0: the first process gives the whole state, and the others what they get from it. Needs
            `full_state_dict`.
        flatten_optimizer_state_dict: one dict with names such as ``"state.layer.weight.exp_avg"`` and
            ``"param_groups.layer.weight.lr"``, which fits optimizers that group parameters in another way.
        dsd_fqn_modifiers: accepted.

    Example:
        >>> options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        >>> list(get_model_state_dict(model, options=options))
        ['weight', 'bias']
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def get_model_state_dict(
    model: Module,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, ValueType]:
    """The state of a model by the names that its parameters and buffers have without wrappers.

    Args:
        model: a module, within DistributedDataParallel, `compile` and the like or not.
        submodules: deprecated; only what belongs to these modules of it.
        options: whole tensors, on the host and so on.

    Returns:
        Tensors, DTensors where parameters are, and other state by name.

    Raises:
        RuntimeError: the state is empty.

    Example:
        >>> list(get_model_state_dict(model))
        ['weight', 'bias']
    """
    options, names, ranks = _checked(options), Names(model), Ranks()
    state = {names.plain(name): value for name, value in model.state_dict().items()}
    if options.ignore_frozen_params:
        frozen = {n for p, all in names.of_parameters().items() if not p.requires_grad for n in all}
        state = {name: value for name, value in state.items() if name not in frozen}
    if submodules:
        state = _below(state, names, submodules, options)
    elif not state and not options.ignore_frozen_params:
        raise RuntimeError(
            "The option indicates that model state_dict is required to save or load, but model state_dict is empty."
            f"rank = {ranks.rank}."
        )
    return _given(state, options, ranks)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> OptimizerStateType:
    """The states of optimizers together, by names of parameters in place of their numbers.

    An optimizer that has made no step yet gives the state that it will begin with.

    Args:
        model: whose parameters the optimizers have.
        optimizers: one or several.
        submodules: deprecated; only what belongs to these modules of the model.
        options: whole tensors, flat names and so on.

    Returns:
        ``{"state": {name: {"exp_avg": ...}}, "param_groups": [{"lr": ..., "params": [names]}]}``; a flat dict with
        `flatten_optimizer_state_dict`.

    Raises:
        RuntimeError: no optimizer, or one with a parameter that the model does not have.

    Example:
        >>> optimizer = gradlib.optim.Adam(model.parameters(), lr=0.1)
        >>> state = get_optimizer_state_dict(model, optimizer)
        >>> list(state["state"]["weight"]), state["param_groups"][0]["params"]
        (['step', 'exp_avg', 'exp_avg_sq'], ['weight', 'bias'])
    """
    options, names, ranks = _checked(options), Names(model), Ranks()
    state: OptimizerStateType = {"state": {}, "param_groups": []}
    for optimizer in _several(optimizers):
        with filled_in(optimizer):
            part = _optimizer_state.named(optimizer, names)
        state["state"].update(part["state"])
        state["param_groups"] += part["param_groups"]
    if submodules:
        state["state"] = _below(state["state"], names, submodules, options)
        for group in state["param_groups"]:
            group["params"] = list(
                _below(dict.fromkeys(group["params"]), names, submodules, options)
            )
    if options.flatten_optimizer_state_dict:
        state = _optimizer_state.flat(state)
    return _given(state, options, ranks)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, ValueType], OptimizerStateType]:
    """The states of a model and its optimizers, as `get_model_state_dict` and `get_optimizer_state_dict` give them.

    Args:
        model: a module, wrapped or not.
        optimizers: one, several, or an empty list.
        submodules: deprecated; only what belongs to these modules of the model.
        options: of both.

    Returns:
        The two states.

    Example:
        >>> optimizer = gradlib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> model_state, optimizer_state = get_state_dict(model, optimizer)
        >>> optimizer_state["state"]["bias"]
        {'momentum_buffer': tensor([0., 0.])}
    """
    model_state = get_model_state_dict(model, submodules=submodules, options=options)
    several = _several(optimizers, some=False)
    if not several:
        return model_state, {}
    return model_state, get_optimizer_state_dict(
        model, several, submodules=submodules, options=options
    )


def set_model_state_dict(
    model: Module,
    model_state_dict: Mapping[Any, Any],
    *,
    options: StateDictOptions | None = None,
) -> Any:
    """Load a state that has the names of the model without wrappers.

    Args:
        model: a module, wrapped or not.
        model_state_dict: tensors by name; or such dicts by module, for modules within the model.
        options: `strict`; `full_state_dict` for whole tensors, of which each process takes its pieces;
            `broadcast_from_rank0` if the first process alone has them.

    Returns:
        ``missing_keys`` and ``unexpected_keys``, as `load_state_dict` does.

    Raises:
        RuntimeError: names are missing or unknown, with `strict`; or another shape.

    Example:
        >>> set_model_state_dict(model, {"weight": gradlib.ones(2, 3), "bias": gradlib.zeros(2)})
        <All keys matched successfully>
    """
    options, names, ranks = _checked(options), Names(model), Ranks()
    state = _by_name(model, model_state_dict, names)
    inner, targets = names.inner(), model.state_dict(keep_vars=True)
    if options.broadcast_from_rank0:
        extra = ranks.broadcast([name for name in state if name not in inner])
        state = {**shared_out(state, ranks, list(inner)), **dict.fromkeys(extra)}
    taken: dict[str, Any] = {}
    with no_grad():
        for name, value in state.items():
            target = targets.get(inner.get(name, ""))
            if is_sharded(target) and is_tensor(value) and not is_sharded(value):
                value = cut_into(name, target, value)
            taken[inner.get(name, name)] = value
        on_meta = options.full_state_dict and any(
            isinstance(t, Tensor) and t.device.type == "meta" for t in targets.values()
        )
        return model.load_state_dict(taken, strict=options.strict, assign=on_meta)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: OptimizerStateType,
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load states of optimizers that `get_optimizer_state_dict` has given, in any way of running in parallel.

    Args:
        model: whose parameters the optimizers have.
        optimizers: one or several; each takes what belongs to its parameters.
        optim_state_dict: nested or flat.
        options: `strict`; `full_state_dict` for whole tensors; `broadcast_from_rank0` if the first process alone has
            them.

    Raises:
        RuntimeError: a parameter has no state in it, with `strict`, or no group.

    Example:
        >>> optimizer = gradlib.optim.Adam(model.parameters(), lr=0.1)
        >>> state = get_optimizer_state_dict(model, optimizer)
        >>> state["param_groups"][0]["lr"] = 0.01
        >>> set_optimizer_state_dict(model, optimizer, state)
        >>> optimizer.param_groups[0]["lr"]
        0.01
    """
    options, names, ranks = _checked(options), Names(model), Ranks()
    several = _several(optimizers)
    if options.broadcast_from_rank0:
        optim_state_dict = _optimizer_state.from_first(optim_state_dict, ranks)
    if not optim_state_dict:
        raise RuntimeError(
            "The option indicates that model state_dict is required to save, or load but optim state_dict is empty. "
            f"{optim_state_dict}"
        )
    for optimizer in several:
        fill_in(optimizer)
        _optimizer_state.take(optimizer, optim_state_dict, names, options.strict)


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, ValueType],
    optim_state_dict: OptimizerStateType,
    options: StateDictOptions | None = None,
) -> Any:
    """Load the states of a model and its optimizers: `set_model_state_dict` and `set_optimizer_state_dict`.

    Call it before a backward pass or after a step, so that no gradients of the old parameters are left.

    Args:
        model: a module, wrapped or not.
        optimizers: one, several, or an empty list.
        model_state_dict: of the model.
        optim_state_dict: of the optimizers.
        options: of both.

    Returns:
        ``missing_keys`` and ``unexpected_keys`` of the model.

    Example:
        >>> optimizer = gradlib.optim.Adam(model.parameters())
        >>> model_state, optimizer_state = get_state_dict(model, optimizer)
        >>> set_state_dict(
        ...     model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state
        ... )
        <All keys matched successfully>
    """
    several = _several(optimizers, some=False)
    if several:
        set_optimizer_state_dict(model, several, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


# -- common to all ---------------------------------------------------------------------------------------------------


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = replace(options) if options else StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _several(optimizers: Optimizer | Iterable[Optimizer], some: bool = True) -> list[Optimizer]:
    several = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    if some and not several:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    return several


def _given(state: dict[str, Any], options: StateDictOptions, ranks: Ranks) -> dict[str, Any]:
    """The state as the options want it."""
    if not options.full_state_dict and not options.cpu_offload:
        return state
    with no_grad():
        state = whole(state, options.full_state_dict, options.cpu_offload)
    only_first = options.full_state_dict and options.cpu_offload
    return {} if only_first and ranks.rank else state


def _below(
    state: dict[str, Any], names: Names, submodules: set[Module], options: StateDictOptions
) -> dict[str, Any]:
    """The part of a state that belongs to some modules."""
    warnings.warn(
        "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This feature can be "
        "achieved by manually filtering out the state_dict returned from get_state_dict.",
        FutureWarning,
        stacklevel=3,
    )
    prefixes = [
        f"{names.prefixes[name]}." for name, m in names.model.named_modules() if m in submodules
    ]
    found: dict[str, Any] = {}
    for prefix in prefixes:
        for name, value in state.items():
            if prefix == "." or name.startswith(prefix):
                keep = options.keep_submodule_prefixes or prefix == "."
                found[name if keep else name.removeprefix(prefix)] = value
    return found


def _by_name(model: Module, state: Mapping[Any, Any], names: Names) -> dict[str, Any]:
    """A state by name of one by module."""
    if not state or not isinstance(next(iter(state)), Module):
        return dict(state)
    warnings.warn(
        "Passing model_state_dict as a ``Dict[nn.Module, Dict[str, Any]]``is deprecated and will be removed in 2.5. If "
        "you need this feature, please preprocessing the model_state_dict to achieve the same functionality.",
        FutureWarning,
        stacklevel=3,
    )
    paths = {module: names.prefixes[name] for name, module in model.named_modules()}
    found: dict[str, Any] = {}
    for module, part in state.items():
        prefix = f"{paths[module]}." if paths[module] else ""
        found.update({f"{prefix}{name}": value for name, value in part.items()})
    return found
