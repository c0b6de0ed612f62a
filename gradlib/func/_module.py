"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nn.modules.module import Module
from ..nn.utils import stateless
from ..operators.shape.join import stack
from ..tape.tensor import Tensor


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with some of its parameters and buffers replaced; the module is as it was afterwards.

    Args:
        module: what is called.
        parameter_and_buffer_dicts: tensors by dotted name, or several such dicts with different names.
        args: a tuple of arguments, or one argument.
        kwargs: keyword arguments.
        tie_weights: a shared parameter is replaced under all of its names.
        strict: raise for names that are missing or unexpected.

    Raises:
        ValueError: no dict is given, or a name is in several.
        RuntimeError: with `strict`, names are missing or unexpected.

    Example:
        >>> layer = gradlib.nn.Linear(1, 1, bias=False)
        >>> gradlib.func.functional_call(layer, {"weight": gradlib.ones(1, 1)}, gradlib.ones(1)).tolist()
        [1.0]
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, Mapping):
        parts: tuple = (given,)
    elif isinstance(given, Sequence):
        parts = tuple(given)
        if not all(isinstance(p, Mapping) for p in parts):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            )
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    return stateless.functional_call(
        module, parts, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of several modules of one class, each stacked along a new first dimension.

    Args:
        models: at least one; all of one class, and all in training or all in evaluation mode.

    Returns:
        Two dicts from name to tensor of shape ``(len(models), *)``: parameters (leaves that require grad as those of
        the models do) and buffers.

    Raises:
        RuntimeError: there is no model, or they differ in class or mode.

    Example:
        >>> layers = [gradlib.nn.Linear(2, 3) for _ in range(4)]
        >>> parameters, buffers = gradlib.func.stack_module_state(layers)
        >>> parameters["weight"].shape
        torch.Size([4, 3, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {name: _stacked(name, parameters) for name in parameters[0]},
        {name: _stacked(name, buffers) for name in buffers[0]},
    )


def _stacked(name: str, states: Sequence[Mapping[str, Tensor]]) -> Tensor:
    tensors = [s[name] for s in states]
    requires_grad = {t.requires_grad for t in tensors}
    if len(requires_grad) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return stack([t.detach() for t in tensors]).requires_grad_(requires_grad.pop())
