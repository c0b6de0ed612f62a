"""A step that cannot be replayed as a whole: the modules that it calls are captured, each by itself.

What is between them runs as it is: prints, lists that grow, values that are read, hooks. Of a module that cannot be
replayed either the modules in it are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..nn import Module

MOST = 64  # modules at most


class Parts:
    """The outermost modules that a step calls.

    Args:
        found: all that the step can reach.
        step: the step itself, or the object that it is a method of.
        capture: makes a captured function of a method.
    """

    def __init__(self, found: list[Any], step: Any, capture: Callable[[Callable], Any]):
        found = [*found, *step.children()] if isinstance(step, Module) else found
        modules = {id(m): m for m in found if isinstance(m, Module) and m is not step}
        inside = {id(c) for m in modules.values() for c in m.modules() if c is not m}
        todo = [m for m in modules.values() if id(m) not in inside]
        self._parts: list[tuple[dict, Any]] = []
        known: set[int] = set()
        while todo and len(self._parts) < MOST:
            m = todo.pop(0)
            if id(m) in known:
                continue
            known.add(id(m))
            if type(m).forward is Module.forward:  # a list of modules, say
                todo += m.children()
            elif "forward" not in vars(m):
                self._parts.append((vars(m), capture(m.forward)))

    def captured(self) -> list[Any]:
        """The captured methods."""
        return [part for _, part in self._parts]

    @property
    def replays(self) -> int:
        """How many plans they have, and their parts."""
        inner = [part.parts.replays for _, part in self._parts if part.parts is not None]
        return sum([part.replays for _, part in self._parts]) + sum(inner)

    def run(self, step: Callable, args: tuple, kwargs: dict) -> Any:
        """Call the step while its modules are captured."""
        mine = [(d, part) for d, part in self._parts if "forward" not in d]
        for fields, part in mine:
            fields["forward"] = part
        try:
            return step(*args, **kwargs)
        finally:
            for fields, _ in mine:
                fields.pop("forward", None)
