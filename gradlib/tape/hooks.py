"""RemovableHandle: what every function that registers a hook returns; hooks inside transforms."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

from .modes import state


class RemovableHandle:
    """Removes one entry of a dict of hooks; also a context manager.

    Args:
        hooks_dict: the dict, which is not kept alive; the entry's key is `id`.
        extra_dict: another dict, or several, with an entry of the same key.
    """

    next_id = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = (
            extra_dict
            if isinstance(extra_dict, (list, tuple))
            else ()
            if extra_dict is None
            else (extra_dict,)
        )
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extras)

    def remove(self) -> None:
        """Remove the hook.

        Nothing happens if it is gone already, or if what it was registered on is.
        """
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, type: Any, value: Any, tb: Any) -> None:
        self.remove()

    def __getstate__(self):
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state) -> None:
        hooks, self.id, extras = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extras)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)


def add_hook(hooks: Any, hook: Any, *extra: Any, prepend: bool = False) -> RemovableHandle:
    """Enter a hook into an ordered dict of hooks, as the first one if `prepend`; `extra` as in the handle."""
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class _Owned:
    """A hook that was registered in a function which a transform differentiates, on what that function made.

    It is called in the backward pass of that transform, and in passes of the function itself: not in those of
    transforms around it, nor in those that a jvp is made of.
    """

    __slots__ = ("hook", "owner")

    def __init__(self, hook: Any, owner: Any):
        self.hook, self.owner = hook, owner

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args) if self._is_of(state.pulling) else None

    def _is_of(self, transform: Any) -> bool:
        if transform is not None or self.owner is None:
            return transform is self.owner
        running = state.writes
        while running is not None and running is not self.owner:
            running = running.around
        return running is not None

    def __getattr__(self, name: str) -> Any:
        if name in _Owned.__slots__:  # `copy` and `pickle` ask before they fill it
            raise AttributeError(name)
        return getattr(self.hook, name)


def owned(hook: Any, seq: float) -> Any:
    """`hook`, of the node with the number `seq`, as it is to be called; see `func._recording`."""
    around, inside = state.writes, False
    while around is not None and (around.forward or around.start >= seq):
        inside |= around.start < seq
        around = around.around
    return _Owned(hook, around) if inside or around is not None else hook


def in_forward_mode() -> bool:
    """Whether the innermost transform that differentiates is a jvp: no backward pass of a transform will come by."""
    around = state.writes
    if around is not None and around.forward:
        return True
    if state.dual_level < 0 or state.of_transform != state.dual_serial:
        return False
    return around is None or around.dual_serial != state.dual_serial
