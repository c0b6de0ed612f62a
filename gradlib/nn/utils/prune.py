"""Pruning: parameters multiplied by a mask of zeros and ones before every call of their module.

A pruned parameter `weight` becomes the parameter `weight_orig` and the buffer `weight_mask`; `weight` itself is their
product, made anew by a forward pre-hook, which is the pruning method. Pruning again what is pruned narrows the mask;
the methods are then kept in order in one `PruningContainer`. `remove` makes the product a parameter again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...operators import public as ops
from ...tape.tensor import Tensor
from ..modules.module import Module
from ._prune_methods import (
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
from .convert_parameters import parameters_to_vector

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
    """Make the parameter `name` a product with a mask of ones; returns the module.

    Args:
        module: owns the parameter.
        name: of the parameter.

    Example:
        >>> layer = nn.utils.prune.identity(nn.Linear(2, 2), "weight")
        >>> layer.weight_mask.tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune entries of the parameter `name` at random; returns the module.

    Args:
        module: owns the parameter.
        name: of the parameter.
        amount: how many (int), or which fraction (float).

    Raises:
        ValueError: `amount` is negative, a fraction above 1, or more than there are.
        TypeError: `amount` is no number.

    Example:
        >>> layer = nn.utils.prune.random_unstructured(nn.Linear(4, 3), "weight", amount=5)
        >>> int(layer.weight_mask.sum())
        7
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the entries of the parameter `name` with the smallest absolute values; returns the module.

    Args:
        module: owns the parameter.
        name: of the parameter.
        amount: how many (int), or which fraction (float).
        importance_scores: of the shape of the parameter, to be ranked instead of it.

    Raises:
        ValueError: `amount` is negative, a fraction above 1, or more than there are.
        TypeError: `amount` is no number.
        AssertionError: scores of another shape.

    Example:
        >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 3), "weight", amount=0.5)
        >>> int(layer.weight_mask.sum()), [name for name, _ in layer.named_parameters()]
        (6, ['bias', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices of the parameter `name` at random; returns the module.

    Args:
        module: owns the parameter.
        name: of the parameter.
        amount: how many slices (int), or which fraction of them (float).
        dim: the dimension of which slices are pruned.

    Raises:
        ValueError: `amount` does not fit, or the parameter has one dimension only.
        IndexError: it has no such dimension.

    Example:
        >>> layer = nn.utils.prune.random_structured(nn.Linear(4, 3), "weight", amount=1, dim=0)
        >>> sorted(layer.weight_mask.sum(1).tolist())
        [0.0, 4.0, 4.0]
    """
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
    """Prune the slices of the parameter `name` with the smallest norms; returns the module.

    Args:
        module: owns the parameter.
        name: of the parameter.
        amount: how many slices (int), or which fraction of them (float).
        n: which norm, as of ``gradlib.norm``.
        dim: the dimension of which slices are pruned.
        importance_scores: of the shape of the parameter, to be ranked instead of it.

    Raises:
        ValueError: `amount` does not fit, or the parameter has one dimension only.
        IndexError: it has no such dimension.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.weight.data.copy_(gradlib.tensor([[1.0, 1.0], [2.0, 2.0]]))
        >>> nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=0).weight.tolist()
        [[0.0, 0.0], [2.0, 2.0]]
    """
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
        getattr(module, name + "_mask", ops.ones_like(value))
        for (module, name), value in zip(pairs, values)
    ]
    flat = PruningContainer._narrowed(
        method, parameters_to_vector(scores), parameters_to_vector(masks)
    )
    parts = flat.split([value.numel() for value in values])
    for (module, name), value, part in zip(pairs, values, parts):
        custom_from_mask(module, name, mask=part.view_as(value))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the parameter `name` where a given mask is 0; returns the module.

    Args:
        module: owns the parameter.
        name: of the parameter.
        mask: of its shape, zeros and ones.

    Raises:
        AssertionError: another shape.

    Example:
        >>> mask = gradlib.tensor([[1.0, 0.0]])
        >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(2, 1), "weight", mask)
        >>> layer.weight[0, 1].item() == 0
        True
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruned values of `name` the parameter itself; returns the module.

    Args:
        module: owns the parameter.
        name: of the parameter.

    Raises:
        ValueError: it is not pruned.

    Example:
        >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 3), "weight", amount=6)
        >>> layer = nn.utils.prune.remove(layer, "weight")
        >>> [name for name, _ in layer.named_parameters()], int((layer.weight == 0).sum())
        (['bias', 'weight'], 6)
    """
    for key, hook in module._forward_pre_hooks.items():
        if _prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether the module or one inside of it is pruned.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 3))
        >>> before = nn.utils.prune.is_pruned(net)
        >>> _ = nn.utils.prune.random_unstructured(net[0], "bias", amount=1)
        >>> before, nn.utils.prune.is_pruned(net)
        (False, True)
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
