"""Hooks that apply to every module of the process.

`Module.__call__` makes one test, `self._hooked`. Registering a hook here sets that attribute on
the class `Module`, so every module sees it; a hook of one module sets it on that instance.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...tape.hooks import RemovableHandle, add_hook

_global_backward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Callable] = OrderedDict()

_on_call_hook: list[Callable[[], None]] = []  # filled by module.py: marks the class as hooked


def any_call_hook() -> bool:
    """Whether a global hook exists that `Module.__call__` has to run."""
    return bool(
        _global_forward_pre_hooks
        or _global_forward_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
    )


def _register_call(hooks: OrderedDict, hook: Callable, *extra: OrderedDict) -> RemovableHandle:
    handle = add_hook(hooks, hook, *extra)
    for mark in _on_call_hook:
        mark()
    return handle


def register_module_buffer_registration_hook(
    hook: Callable[..., Any],
) -> RemovableHandle:
    """Run `hook(module, name, buffer)` whenever a buffer is registered.

    What the hook returns, unless None, is registered instead.

    Example:
        >>> handle = register_module_buffer_registration_hook(lambda m, name, b: print(name))
        >>> handle.remove()
    """
    return add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(
    hook: Callable[..., Any],
) -> RemovableHandle:
    """Run `hook(module, name, submodule)` whenever a submodule is registered.

    What the hook returns, unless None, is registered instead.

    Example:
        >>> handle = register_module_module_registration_hook(lambda m, name, sub: print(name))
        >>> handle.remove()
    """
    return add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(
    hook: Callable[..., Any],
) -> RemovableHandle:
    """Run `hook(module, name, parameter)` whenever a parameter is registered.

    What the hook returns, unless None, is registered instead.

    Example:
        >>> handle = register_module_parameter_registration_hook(lambda m, name, p: print(name))
        >>> handle.remove()
    """
    return add_hook(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, args)` before the `forward` of every module.

    What the hook returns, unless None, replaces the positional arguments. Global hooks run
    before the module's own.

    Example:
        >>> handle = register_module_forward_pre_hook(lambda m, args: print(type(m).__name__))
        >>> handle.remove()
    """
    return _register_call(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Run `hook(module, args, output)` after the `forward` of every module.

    Args:
        hook: what it returns, unless None, replaces the output.
        with_kwargs: call it as `hook(module, args, kwargs, output)`.
        always_call: run it even when `forward` raises.

    Example:
        >>> handle = register_module_forward_hook(lambda m, args, out: print(out.shape))
        >>> handle.remove()
    """
    handle = _register_call(
        _global_forward_hooks,
        hook,
        _global_forward_hooks_with_kwargs,
        _global_forward_hooks_always_called,
    )
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, grad_input, grad_output)` at the last node of every module (deprecated).

    Use `register_module_full_backward_hook`: this one sees the gradients of one graph node only.
    """
    _set_full(False)
    return _register_call(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, grad_output)` before the backward of every module.

    What the hook returns, unless None, is used as the gradient of the module's outputs.

    Example:
        >>> handle = register_module_full_backward_pre_hook(lambda m, grads: print(grads))
        >>> handle.remove()
    """
    return _register_call(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, grad_input, grad_output)` once a module's input gradients are known.

    `grad_input` and `grad_output` are tuples, one entry per positional tensor input and per
    output, None for what is not a tensor. What the hook returns, unless None, is used as
    `grad_input` from there on.

    Example:
        >>> handle = register_module_full_backward_hook(lambda m, gin, gout: print(gout))
        >>> handle.remove()
    """
    _set_full(True)
    return _register_call(_global_backward_hooks, hook)


def _set_full(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _global_is_full_backward_hook = full


def has_full_backward_hooks() -> bool:
    """Whether the global backward hooks are full ones."""
    return _global_is_full_backward_hook is True
