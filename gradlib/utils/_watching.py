"""Interposers of checkpointed parts: contexts that see the ops of a run, after autocast."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..op import interpret
from ..ops import aten
from ..tape import source
from ..tape.modes import OBSERVE, Interposer, set_flag, state
from ..tape.tensor import Tensor


class Watching(Interposer):
    """An interposer that is asked last, while its block runs."""

    def __enter__(self):
        self.had = set_flag(OBSERVE, True)
        state.interposers = (self, *state.interposers)
        return self

    def __exit__(self, *exc) -> None:
        state.interposers = tuple(i for i in state.interposers if i is not self)
        set_flag(OBSERVE, self.had)


class Logging(Watching):
    """Remembers the ops of a run, each with the line that called it, for the text of an error."""

    def __enter__(self):
        self.ops: list[tuple] = []
        return super().__enter__()

    def call(self, op, args: tuple, attrs: tuple, proceed: Callable, compute: Any = None) -> Any:
        return self.remember(op, args, False, proceed)

    def call_inplace(self, op, tensor, others: tuple, attrs: tuple, proceed: Callable) -> Any:
        return self.remember(op, (tensor, *others), True, proceed)

    def remember(self, op, args: tuple, inplace: bool, proceed: Callable) -> Any:
        frame = source.user_frame(sys._getframe(2))
        given = ", ".join(map(_brief, args[0] if op.variadic else args))
        entry = [f"{aten.of_call(op, args, inplace)}({given})", (frame.f_code, frame.f_lasti)]
        self.ops.append(tuple(entry))
        out = proceed()
        entry[0] += f" -> {_brief(out)}"
        self.ops[-1] = tuple(entry)
        return out

    def text(self) -> str:
        """The ops, numbered, with their lines."""
        n = len(self.ops)
        return "\n".join(
            f"{i} of {n}: {what}\n  {source.describe(site)}"
            for i, (what, site) in enumerate(self.ops, 1)
        )


def execute(op, args: tuple, attrs: tuple, compute: Callable) -> Any:
    """`op` with `compute` in the place of its kernel; a context around the running one sees it, too."""
    outer = state.interposers
    if outer:
        state.interposers = outer[:-1]
        try:
            return outer[-1].call(
                op, args, attrs, lambda: execute(op, args, attrs, compute), compute
            )
        finally:
            state.interposers = outer
    args = tuple(args[0]) if op.variadic else args
    return interpret.execute(op, interpret.prepare(op, args), attrs, compute)


def _brief(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_brief, value))})"
    if not isinstance(value, Tensor):
        return repr(value)
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
