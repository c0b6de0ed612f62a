"""Modules as functions of their parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..operators.shape.join import stack
from ..tape.tensor import Tensor

if TYPE_CHECKING:
    from ..nn.modules.module import Module


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
        ValueError: no dict is given, a name is in several, or the names of a shared parameter have different tensors.
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
    tensors: dict[str, Tensor] = {}
    for part in parts:
        repeated = tensors.keys() & part.keys()
        if repeated:
            raise ValueError(
                f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        tensors.update(part)
    with replaced_tensors(module, tensors, tie_weights=tie_weights, strict=strict):
        return module(*_arguments(args), **(kwargs or {}))


def _arguments(args: Any) -> tuple:
    if args is None:
        return ()
    return args if isinstance(args, tuple) else (args,)


@contextlib.contextmanager
def replaced_tensors(
    module: Module,
    tensors: Mapping[str, Tensor],
    *,
    tie_weights: bool = False,
    strict: bool = False,
) -> Iterator[None]:
    """Put `tensors` in place for a block."""
    names: dict[str, int] = {}
    for name, t in module.named_parameters(remove_duplicate=False):
        names[name] = id(t)
    for name, t in module.named_buffers(remove_duplicate=False):
        names[name] = id(t)
    replaced = dict(tensors)
    if strict:
        missing, unexpected = names.keys() - tensors.keys(), tensors.keys() - names.keys()
        if missing or unexpected:
            raise RuntimeError(
                "Missing key(s): "
                + ", ".join(sorted(missing))
                + ". Unexpected key(s): "
                + ", ".join(sorted(unexpected))
                + "."
            )
    if tie_weights:
        given: dict[int, Tensor] = {}
        for name, t in tensors.items():
            if name in names and given.setdefault(names[name], t) is not t:
                tied = sorted(n for n in names if names[n] == names[name])
                raise ValueError(
                    f"functional_call got multiple values for keys {tied}, which are tied. "
                    "Consider using tie_weights=False"
                )
        for name, identity in names.items():
            if identity in given:
                replaced.setdefault(name, given[identity])
    undo: list[tuple[dict, str, Any]] = []
    try:
        for name, tensor in replaced.items():
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path)
            registry = next((r for r in (owner._parameters, owner._buffers) if leaf in r), None)
            if registry is None:
                raise AttributeError(f"{owner._get_name()} has no attribute `{leaf}`")
            undo.append((registry, leaf, registry[leaf]))
            registry[leaf] = tensor
        yield
    finally:
        for registry, leaf, original in reversed(undo):
            registry[leaf] = original


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
