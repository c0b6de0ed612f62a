"""Functions that a trace records as they are, and what is replaced while it runs."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from typing import Any

from .node import map_aggregate
from .proxy import Proxy

WRAPPED: dict[tuple[int, str], dict[str, Any]] = {}  # (id of globals, name) -> globals


def wrap(fn_or_name: Any) -> Any:
    """Let calls of a function of this module be recorded as they are, instead of being traced through.

    Called at the top of a module, or used there as a decorator.

    Args:
        fn_or_name: the function, or the name of a function or of a builtin.

    Returns:
        `fn_or_name`.

    Raises:
        NotImplementedError: it is not called at the top of a module.
        RuntimeError: `fn_or_name` is neither a function nor a string.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    WRAPPED[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def find_proxy(*values: Any) -> Proxy | None:
    """A Proxy within containers, if there is one."""
    found: list[Proxy] = []
    map_aggregate(values, lambda v: found.append(v) if isinstance(v, Proxy) else None)
    return found[-1] if found else None


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, recorded as it is where a Proxy is among its arguments."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    wrapped._fx_recording = True  # type: ignore[attr-defined]
    return wrapped


class Patcher:
    """Replaces entries of dicts and attributes of classes, until it is left."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._searched: set[int] = set()

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._undo:
            self._undo.pop()()

    def item(self, space: dict[str, Any], name: str) -> None:
        """Let a global function be recorded."""
        original = space.get(name, getattr(builtins, name, None))
        if original is None or getattr(original, "_fx_recording", False):
            return
        self._undo.append(
            functools.partial(space.__setitem__, name, original)
            if name in space
            else functools.partial(space.pop, name)
        )
        space[name] = _recording(original)

    def update(self, space: dict[str, Any], other: dict[str, Any]) -> None:
        """Replace functions by those of the same names in `other`."""
        before = {k: v for k, v in space.items() if callable(v) and other.get(k, v) is not v}
        self._undo.append(functools.partial(space.update, before))
        space.update({k: other[k] for k in before})

    def attribute(self, cls: type, name: str, value: Any) -> None:
        """Give a class an attribute."""
        own = vars(cls).get(name)
        self._undo.append(
            functools.partial(delattr, cls, name)
            if own is None
            else functools.partial(setattr, cls, name, own)
        )
        setattr(cls, name, value)

    def search(self, space: dict[str, Any], functions: set[int]) -> None:
        """Let those of `functions`, by their ids, that are among some globals be recorded."""
        if id(space) in self._searched:
            return
        self._searched.add(id(space))
        for name, value in list(space.items()):
            if not name.startswith("_") and callable(value) and id(value) in functions:
                self.item(space, name)
