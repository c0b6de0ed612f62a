"""Hooks, as programs import them: the handle that registering returns, and marks for saving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..nn.modules._backward_hooks import BackwardHook
from ..serialization._copies import warn_of_each_hook
from ..tape.hooks import RemovableHandle
from ..tape.tensor import Tensor

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

_Hook = TypeVar("_Hook", bound=Callable[..., Any])


def unserializable_hook(f: _Hook) -> _Hook:
    """Mark a hook as one that need not be saved with its tensor, so that nobody is warned of it.

    Args:
        f: a function that takes attributes; it is marked and returned.

    Returns:
        `f` itself.

    Example::

        >>> import gradlib as torch
        >>> @torch.utils.hooks.unserializable_hook
        ... def hook(grad):
        ...     return grad
        >>> torch.utils.hooks.warn_if_has_hooks(torch.ones(2))
    """
    f.__torch_unserializable__ = True  # pyright: ignore[reportFunctionMemberAccess]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook of a tensor that saving it would lose.

    Hooks that `unserializable_hook` marked are passed over.

    Args:
        tensor: any tensor; its hooks are those of `register_hook`.

    Example:
        >>> warn_if_has_hooks(gradlib.ones(2))
    """
    warn_of_each_hook(tensor, stacklevel=3)
