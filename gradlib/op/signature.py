"""What the parameters of a function are called: of formulas and overlays they say what is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def is_plain(fn: Callable) -> bool:
    """Whether the code object tells the parameters: a function without decorator, *args and **kwargs."""
    code = getattr(fn, "__code__", None)
    return code is not None and not code.co_flags & 0x0C and not hasattr(fn, "__wrapped__")


def parameters(fn: Callable) -> tuple[str, ...]:
    """The parameter names of a formula; of plain functions from the code object, which is quicker."""
    if not is_plain(fn):
        return tuple(inspect.signature(fn).parameters)
    code = fn.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
