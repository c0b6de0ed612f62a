"""Labels around parts of a program: `record_function`."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, TypeVar

from ..tape import recording
from ..tape.modes import PROFILE, state

P = ParamSpec("P")
R = TypeVar("R")


class record_function:
    """A label around a block of code (context manager) or a function (decorator).

    The block is an event with the label's name while a profiler (or `emit_nvtx`) is on; else it costs next to nothing.

    Args:
        name: the label.
        args: a string for the reader, shown by tools that show it.

    Example:
        >>> with profile() as prof:
        ...     with record_function("twice"):
        ...         y = gradlib.ones(2) * 2
        >>> [e.name for e in prof.function_events]
        ['twice', 'mul']
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._spans: list = []  # a decorated function may call itself

    def __enter__(self) -> record_function:
        on = state.bits & PROFILE
        self._spans.append(recording.Span(self.name, recording.LABEL) if on else None)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        span = self._spans.pop()
        if span is not None:
            span.end()

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """`fn` with each call labelled.

        A generator or coroutine has a label for each stretch of it that runs, as others run in between.
        """
        if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn):
            return self._in_stretches(fn)

        @functools.wraps(fn)
        def labelled(*args: P.args, **kwargs: P.kwargs) -> R:
            with record_function(self.name, self.args):
                return fn(*args, **kwargs)

        return labelled

    def _in_stretches(self, fn: Any) -> Any:
        if inspect.iscoroutinefunction(fn):
            awaited = types.coroutine(_stretches)

            @functools.wraps(fn)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                return await awaited(fn(*args, **kwargs), self.name)

            return coroutine

        @functools.wraps(fn)
        def generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from _stretches(fn(*args, **kwargs), self.name))

        return generator


def _stretches(running: Any, name: str) -> Generator[Any, Any, Any]:
    """What a generator or coroutine yields and returns, with a label around each time that it runs."""
    resume, given = running.send, None
    while True:
        try:
            with record_function(name):
                out = resume(given)
        except StopIteration as end:
            return end.value
        try:
            resume, given = running.send, (yield out)
        except BaseException as error:  # thrown in, or closed: the generator decides what happens
            resume, given = running.throw, error
