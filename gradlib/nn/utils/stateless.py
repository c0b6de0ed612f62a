"""Calling a module with other tensors in place of its own; `gradlib.func.functional_call` is newer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...func import functional_call as _functional_call
from ...tape.tensor import Tensor
from ..modules.module import Module

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

    Raises:
        ValueError: a name is in several mappings.
        RuntimeError: with `strict`, names are missing or unexpected.

    Example:
        >>> net = nn.Linear(1, 1, bias=False)
        >>> functional_call(net, {"weight": gradlib.ones(1, 1)}, gradlib.ones(1)).tolist()
        [1.0]
    """
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
