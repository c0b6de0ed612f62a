"""The declared ops by name, and how formulas are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .declare import Op

REGISTRY: dict[str, Op] = {}
"""Every declared op, by its name."""


def plainly_written(fn: Callable) -> bool:
    """Whether the code object tells the parameters: a function without decorator, *args and **kwargs."""
    code = getattr(fn, "__code__", None)
    return code is not None and not code.co_flags & 0x0C and not hasattr(fn, "__wrapped__")


def parameters(fn: Callable) -> tuple[str, ...]:
    """The parameter names of a formula; of plain functions without inspect, which would slow importing down."""
    if not plainly_written(fn):
        import inspect

        return tuple(inspect.signature(fn).parameters)
    code = fn.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
