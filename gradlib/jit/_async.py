"""Futures of `fork`: outside of TorchScript a forked call is done at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Done:
    """The result of a call that is over."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def done(self) -> bool:
        return True

    def wait(self) -> Any:
        return self._result

    value = wait

    def then(self, callback: Callable[[_Done], Any]) -> _Done:
        return _Done(callback(self))


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> _Done:
    """Call `func` now; `wait` gives its result.

    Args:
        func: a function or Module.
        args: its arguments.
        kwargs: the same by name.

    Returns:
        A future that is done.

    Example:
        >>> gradlib.jit.wait(gradlib.jit.fork(abs, -1))
        1
    """
    return _Done(func(*args, **kwargs))


def wait(future: _Done) -> Any:
    """The result of what was forked.

    Args:
        future: what `fork` gave.
    """
    return future.wait()
