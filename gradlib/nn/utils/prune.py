"""Pruning: parameters multiplied by a mask of zeros and ones before every call of their module.

A pruned parameter `weight` becomes the parameter `weight_orig` and the buffer `weight_mask`; `weight` itself is their
product, made anew by a forward pre-hook, which is the pruning method. Pruning again what is pruned narrows the mask;
the methods are then kept in order in one `PruningContainer`. `remove` makes the product a parameter again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gradlib
from gradlib.nn.modules.module import Module
from gradlib.nn.utils._prune_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    _prunes,
)
from gradlib.nn.utils.convert_parameters import parameters_to_vector
from gradlib.tape.tensor import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(module: Module, name: str) -> Module:
    """Apply `Identity` to the parameter `name`; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Apply `RandomUnstructured` to the parameter `name`; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Apply `L1Unstructured` to the parameter `name`; returns the module.

    Example:
        >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 3), "weight", amount=0.5)
        >>> int(layer.weight_mask.sum()), [name for name, _ in layer.named_parameters()]
        (6, ['bias', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Apply `RandomStructured` to the parameter `name`; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Apply `LnStructured` to the parameter `name`; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one vector.

    Args:
        parameters: pairs (module, name).
        pruning_method: a class with PRUNING_TYPE "unstructured".
        importance_scores: pair -> scores, for the pairs that are not ranked by their own values.
        kwargs: what the class is made with.

    Raises:
        TypeError: the pairs are no iterable, the scores no dict, or the method is of another kind.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 3))
        >>> pairs = [(net[0], "weight"), (net[1], "weight")]
        >>> nn.utils.prune.global_unstructured(pairs, nn.utils.prune.L1Unstructured, amount=4)
        >>> int(net[0].weight_mask.sum() + net[1].weight_mask.sum())
        8
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    values = [getattr(module, name) for module, name in pairs]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    scores: list[Any] = [given.get(pair, value) for pair, value in zip(pairs, values)]
    masks = [
        getattr(module, name + "_mask", gradlib.ones_like(value))
        for (module, name), value in zip(pairs, values)
    ]
    flat = PruningContainer._narrowed(
        method, parameters_to_vector(scores), parameters_to_vector(masks)
    )
    parts = flat.split([value.numel() for value in values])
    for (module, name), value, part in zip(pairs, values, parts):
        custom_from_mask(module, name, mask=part.view_as(value))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Apply `CustomFromMask` to the parameter `name`; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruned values of `name` the parameter itself; returns the module. ValueError if it is not pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if _prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether the module or one inside of it is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
