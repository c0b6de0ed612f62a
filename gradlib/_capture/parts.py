"""A step that cannot be replayed as a whole: the modules and functions that it calls are captured, each by itself.

What is between them runs as it is: prints, lists that grow, values that are read, hooks. Of a module that cannot be
replayed either the modules in it are, and so with functions. Functions are those that the step's own code calls as
globals, with tensors; while the step runs their captured forms have their places.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from ..nn import Module
from ..tape.dtypes import dtype
from ..tape.source import is_library
from ..tape.tensor import Tensor
from .state import StandIn, codes_of

MOST = 64  # modules at most
# what may see which function runs, or who calls it
_SEEING = frozenset(
    "__builtins__ _getframe currentframe eval exec globals inspect locals logging pickle stack sys traceback vars warn "
    "warnings".split()
)
_PLAIN = (Tensor, Module, int, float, str, type(None), dtype)
_DELAYED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class OfTensors(StandIn):
    """A captured function in the place of the plain one.

    That is called where no tensor is given, or an object that may be a new one each time, which a plan would keep.
    """

    def __init__(self, captured: Any):
        self.captured, self.step = captured, captured.step

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given: list[Any] = []
        for value in (*args, *kwargs.values()):
            given += value if value.__class__ in (list, tuple) else (value,)
        plain = all([isinstance(v, _PLAIN) for v in given])
        suits = plain and any([isinstance(v, Tensor) for v in given])
        return (self.captured if suits else self.step)(*args, **kwargs)


def called_functions(step: Any, found: list[Any]) -> list[tuple[dict, str, FunctionType]]:
    """Functions of the program that a step's own code calls as globals: of each the dict, the name, and itself.

    Not those that are used for anything but a call, in code that is known to run.

    Args:
        found: all that the step can reach.
    """
    step = inspect.unwrap(getattr(step, "__func__", step))
    if not isinstance(step, FunctionType) or is_library(step.__code__.co_filename):
        return []
    space = step.__globals__
    functions = [
        f for f in (step, *found) if isinstance(f, FunctionType) and f.__globals__ is space
    ]
    codes = {id(c): c for f in functions for c in codes_of(f.__code__)}
    if any([not _SEEING.isdisjoint(c.co_names) for c in codes.values()]):
        return []
    other = {n for c in codes.values() for n in _used_otherwise(c)}
    names = dict.fromkeys(n for c in codes_of(step.__code__) for n in c.co_names)
    pairs = [(n, space[n]) for n in names if n in space and n not in other]
    return [(space, n, f) for n, f in pairs if _can_be_captured(f, step)]


def names_in(step: Any) -> set[str]:
    """The attributes that a step's own code names."""
    step = inspect.unwrap(getattr(step, "__func__", step))
    if not isinstance(step, FunctionType):
        return set()
    return {n for c in codes_of(step.__code__) for n in c.co_names}


def _can_be_captured(f: Any, step: FunctionType) -> bool:
    if f.__class__ is not FunctionType or f is step or is_library(f.__code__.co_filename):
        return False
    plain = not f.__code__.co_flags & _DELAYED
    return plain and all([_SEEING.isdisjoint(c.co_names) for c in codes_of(f.__code__)])


def _used_otherwise(code: CodeType) -> set[str]:
    """Globals that some code loads as values, not to call them, or sets."""
    return {
        i.argval
        for i in dis.get_instructions(code)
        if (i.opname == "LOAD_GLOBAL" and not (i.arg or 0) & 1)
        or i.opname in ("LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
    }


class Parts:
    """The outermost modules that a step calls, those in them that its own code names, and functions.

    Args:
        found: all that the step can reach.
        step: the step itself, or the object that it is a method of.
        capture: makes a captured function of a method.
    """

    def __init__(self, found: list[Any], step: Any, capture: Callable[[Callable], Any]):
        found = [*found, *step.children()] if isinstance(step, Module) else found
        self._functions = [
            (d, n, f, OfTensors(capture(f))) for d, n, f in called_functions(step, found)
        ]
        modules = {id(m): m for m in found if isinstance(m, Module) and m is not step}
        inside = {id(c) for m in modules.values() for c in m.modules() if c is not m}
        todo = [m for m in modules.values() if id(m) not in inside]
        names = names_in(step)  # of modules in others that it calls by themselves
        todo += [c for m in modules.values() for n, c in m.named_children() if n in names]
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
        functions = [part.captured for *_, part in self._functions]
        return [*[part for _, part in self._parts], *functions]

    @property
    def replays(self) -> int:
        """How many plans they have, and their parts."""
        parts = self.captured()
        inner = [part.parts.replays for part in parts if part.parts is not None]
        return sum([part.replays for part in parts]) + sum(inner)

    def run(self, step: Callable, args: tuple, kwargs: dict) -> Any:
        """Call the step while its modules are captured."""
        mine = [(d, part) for d, part in self._parts if "forward" not in d]
        called = [x for x in self._functions if x[0].get(x[1]) is x[2]]
        for fields, part in mine:
            fields["forward"] = part
        for space, name, _, part in called:
            space[name] = part
        try:
            return step(*args, **kwargs)
        finally:
            for fields, _ in mine:
                fields.pop("forward", None)
            for space, name, function, part in called:
                if space.get(name) is part:
                    space[name] = function
