"""Calling a module: forward, and the hooks around it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...tape import recording
from ...tape.hooks import RemovableHandle, add_hook
from ...tape.modes import state
from ...tape.tensor import Tensor
from . import _global_hooks as everywhere
from ._backward_hooks import BackwardHook, attach_non_full
from ._base import ModuleFields, hooks_of
from ._global_hooks import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
)


class Calling(ModuleFields):
    """The part of `Module` that runs `forward` and hooks.

    Without hooks a call costs one test: `_hooked`, False on this class. A module with hooks has
    it True in its own `__dict__`, a global hook makes it True on the class; both are taken back
    by the first call that finds no hooks any more.
    """

    forward: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, with the hooks that are registered here or globally."""
        if self._hooked:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        outer = state.modules
        if outer is None:
            return self._with_hooks(args, kwargs)
        state.modules = (*outer, type(self).__name__)  # somebody records the modules around each op
        try:
            return self._with_hooks(args, kwargs)
        finally:
            state.modules = outer

    def _with_hooks(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if not self._any_hook():
            return self.forward(*args, **kwargs)
        called: set[int] = set()
        result = None
        try:
            result, args, kwargs = self._run_hooks_and_forward(args, kwargs, called)
        except Exception:
            self._run_always_called(args, kwargs, result, called)
            raise
        return result

    def _any_hook(self) -> bool:
        """Whether hooks exist; forgets the mark on this instance when its own are gone."""
        fields = self.__dict__
        if (
            fields.get("_forward_hooks")
            or fields.get("_forward_pre_hooks")
            or fields.get("_backward_hooks")
            or fields.get("_backward_pre_hooks")
        ):
            return True
        fields.pop("_hooked", None)
        if everywhere.any_call_hook() or recording.modules_watched():
            return True
        Calling._hooked = False
        return False

    def _run_hooks_and_forward(
        self, args: tuple, kwargs: dict[str, Any], called: set[int]
    ) -> tuple[Any, tuple, dict[str, Any]]:
        full, non_full = self._get_backward_hooks()
        pre = self._get_backward_pre_hooks()
        for hook in _global_forward_pre_hooks.values():
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        for hook_id, hook in tuple(hooks_of(self, "_forward_pre_hooks").items()):
            if hook_id in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, args, kwargs)
                if replaced is not None:
                    if not (isinstance(replaced, tuple) and len(replaced) == 2):
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of "
                            f"(new_args, new_kwargs), but got {replaced}."
                        )
                    args, kwargs = replaced
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        backward = BackwardHook(self, full, pre) if full or pre else None
        if backward is not None:
            args = backward.setup_input_hook(args)
        result = self.forward(*args, **kwargs)
        for hook_id, hook, with_kwargs in self._all_forward_hooks():
            called.add(hook_id)
            replaced = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if replaced is not None:
                result = replaced
        if backward is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a "
                    f"tuple of Tensors but received {type(result)}",
                    stacklevel=4,
                )
            result = backward.setup_output_hook(result)
        if non_full:
            attach_non_full(self, non_full, args, result)
        return result, args, kwargs

    def _all_forward_hooks(self) -> list[tuple[int, Callable, bool]]:
        """(id, hook, whether it takes kwargs), the global hooks first."""
        return [
            (i, hook, i in _global_forward_hooks_with_kwargs)
            for i, hook in _global_forward_hooks.items()
        ] + [
            (i, hook, i in self._forward_hooks_with_kwargs)
            for i, hook in hooks_of(self, "_forward_hooks").items()
        ]

    def _run_always_called(
        self, args: tuple, kwargs: dict[str, Any], result: Any, called: set[int]
    ) -> None:
        """After an error: run the hooks that asked for it and have not run yet."""
        for hook_id, hook, with_kwargs in self._all_forward_hooks():
            own = hook_id in hooks_of(self, "_forward_hooks_always_called")
            if hook_id in called or not (own or hook_id in _global_forward_hooks_always_called):
                continue
            try:
                replaced = (
                    hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                )
                if replaced is not None:
                    result = replaced
            except Exception as error:
                kind = "module" if own else "global module"
                warnings.warn(
                    f"{kind} forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=4,
                )

    def _get_backward_hooks(self) -> tuple[list[Callable], list[Callable]]:
        """(full, non-full) backward hooks, the global ones first."""
        full: list[Callable] = []
        non_full: list[Callable] = []
        (full if everywhere.has_full_backward_hooks() else non_full).extend(
            _global_backward_hooks.values()
        )
        (full if self._is_full_backward_hook is True else non_full).extend(
            hooks_of(self, "_backward_hooks").values()
        )
        return full, non_full

    def _get_backward_pre_hooks(self) -> list[Callable]:
        return [
            *_global_backward_pre_hooks.values(),
            *hooks_of(self, "_backward_pre_hooks").values(),
        ]

    def _add_hook(
        self, registry: str, hook: Callable, extra: tuple[str, ...] = (), prepend: bool = False
    ) -> RemovableHandle:
        extras = [getattr(self, name) for name in extra]
        handle = add_hook(getattr(self, registry), hook, *extras, prepend=prepend)
        self.__dict__["_hooked"] = True
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args)` before `forward`.

        Args:
            hook: what it returns, unless None, replaces the positional arguments; a single
                value is put into a tuple.
            prepend: run it before the hooks that are there already.
            with_kwargs: call it as `hook(module, args, kwargs)`; it returns None or (args, kwargs).

        Returns:
            A handle whose `remove()` takes the hook away.

        Example:
            >>> layer = nn.Identity()
            >>> handle = layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
            >>> layer(gradlib.zeros(1)).tolist()
            [1.0]
        """
        handle = self._add_hook(
            "_forward_pre_hooks", hook, ("_forward_pre_hooks_with_kwargs",), prepend
        )
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Run `hook(module, args, output)` after `forward`.

        Args:
            hook: what it returns, unless None, replaces the output.
            prepend: run it before the hooks that are there already.
            with_kwargs: call it as `hook(module, args, kwargs, output)`.
            always_call: run it even when `forward` raises.

        Example:
            >>> layer = nn.Identity()
            >>> handle = layer.register_forward_hook(lambda m, args, out: out * 2)
            >>> layer(gradlib.ones(1)).tolist()
            [2.0]
        """
        extra = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called")
        handle = self._add_hook("_forward_hooks", hook, extra, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, grad_output)` before the module's backward.

        Args:
            hook: what it returns, unless None, is used as the gradient of the outputs.
            prepend: run it before the hooks that are there already.
        """
        return self._add_hook("_backward_pre_hooks", hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, grad_input, grad_output)` once the input gradients are known.

        Args:
            hook: gets tuples with one entry per positional input and per output, None for what
                is not a tensor; what it returns, unless None, is used as `grad_input`.
            prepend: run it before the hooks that are there already.

        Example:
            >>> layer, seen = nn.Linear(2, 1), []
            >>> handle = layer.register_full_backward_hook(lambda m, gin, gout: seen.append(gout))
            >>> layer(gradlib.ones(1, 2, requires_grad=True)).sum().backward()
            >>> seen[0][0].tolist()
            [[1.0]]
        """
        self._set_full_backward(True)
        return self._add_hook("_backward_hooks", hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, grad_input, grad_output)` at the module's last node (deprecated).

        Use `register_full_backward_hook`: this one sees the gradients of one graph node only.
        """
        self._set_full_backward(False)
        return self._add_hook("_backward_hooks", hook)

    def _set_full_backward(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self.__dict__["_is_full_backward_hook"] = full


def _mark_all_hooked() -> None:
    Calling._hooked = True


everywhere._on_call_hook.append(_mark_all_hooked)
recording.tell_modules = _mark_all_hooked  # taken back by the first call that finds nothing to do
if recording.modules_watched():
    _mark_all_hooked()
