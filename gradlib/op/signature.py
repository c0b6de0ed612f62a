"""What the parameters of a function are called: of formulas and overlays they say what is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def plain_form(fn: Callable) -> Any:
    """The function whose code object tells the parameters of `fn`: itself, or what it wraps; None if none does."""
    while True:
        if hasattr(fn, "__signature__"):
            return None
        inner = getattr(fn, "__wrapped__", None)
        if inner is None:
            break
        fn = inner
    code = getattr(fn, "__code__", None)
    return None if code is None or code.co_flags & 0x0C else fn  # *args and **kwargs


def parameters(fn: Callable) -> tuple[str, ...]:
    """The parameter names of a formula; of plain functions from the code object, which is quicker."""
    found = plain_form(fn)
    if found is None:
        return tuple(inspect.signature(fn).parameters)
    code = found.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
