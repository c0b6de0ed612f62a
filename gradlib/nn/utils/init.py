"""Making modules without initialising their parameters."""

from __future__ import annotations

import inspect
from typing import Any

from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Make a module whose parameters are left undefined: no random numbers are drawn.

    Args:
        module_cls: a module class that takes `device`.
        *args: of its constructor.
        **kwargs: of its constructor.

    Example:
        >>> tuple(nn.utils.skip_init(nn.Linear, 5, 1).weight.shape)
        (1, 5)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    saved = getattr(module_cls, "reset_parameters", None)
    if saved is None:
        return module_cls(*args, **kwargs)
    bare = type(module_cls.__name__, (module_cls,), {"reset_parameters": lambda self: None})
    module = bare(*args, **kwargs)
    module.__class__ = module_cls  # type: ignore[assignment]
    return module
