"""Calling a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from gradlib.nn.modules.module import Module
from gradlib.tape.tensor import Tensor

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor] | tuple[Mapping[str, Tensor], ...],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with some of its parameters and buffers replaced.

    Args:
        module: what is called; as it was afterwards.
        parameters_and_buffers: tensors by dotted name; a tuple of mappings is joined.
        args: a tuple of arguments, or one argument.
        kwargs: keyword arguments.
        tie_weights: a shared parameter is replaced under all of its names.
        strict: raise for names that are missing or unexpected.

    Example:
        >>> net = nn.Linear(1, 1, bias=False)
        >>> functional_call(net, {"weight": gradlib.ones(1, 1)}, gradlib.ones(1)).tolist()
        [1.0]
    """
    tensors: dict[str, Tensor] = {}
    if isinstance(parameters_and_buffers, Mapping):
        tensors.update(parameters_and_buffers)
    else:
        for part in parameters_and_buffers:
            repeated = tensors.keys() & part.keys()
            if repeated:
                raise ValueError(
                    f"{sorted(repeated)} appeared in multiple dictionaries; behavior of "
                    "functional call is ambiguous"
                )
            tensors.update(part)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, tensors, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))


@contextlib.contextmanager
def _reparametrize_module(
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
        given = {names[name]: t for name, t in tensors.items() if name in names}
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
