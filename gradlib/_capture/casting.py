"""The recorder's part for autocast whose block is around the step: casts of parameters outlive the step.

Autocast casts a parameter once for the outermost block, and all that is computed in it shares that. So such casts are
no lines of a plan. A replay asks for them as the ops would do, in the same order, and is given them beside its
arguments: what they were cast to before, or anew. A plan is for the casts that were there when the step began, since
backward comes to those last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..amp._casts import casts, local
from ..tape.modes import AUTOCAST, resume, state
from ..tape.storage import version_of
from .plan import Learned
from .state import State
from .writer import Writer, root_of


class Cast(NamedTuple):
    """A parameter that is cast: ("argument", i) or ("tensor", id), to which dtype, and whether it was before."""

    of: tuple[str, int]
    target: Any
    known: bool
    layout: tuple


def around() -> tuple | None:
    """What autocast does in the block that is open, as a part of a key; None if others stand beside it."""
    outer = state.interposers
    if not outer:
        return ()
    if len(outer) != 1 or outer[0].on is None or state.cast_as is not None:
        return None
    return tuple(outer[0].on.items())


class Casting(Writer):
    """Is asked for what autocast casts parameters to."""

    def __init__(self, reached: State, arguments: list[Any], learned: Learned, fuses: bool = False):
        super().__init__(reached, arguments, learned, fuses)
        self.casts: list[Cast] = self.draft.casts
        self.cast_nodes: set[int] = set()  # of tensors that parameters are cast to
        # of parameters that are cast here: the number of the node, and of the argument
        self.new_casts: dict[tuple[str, int], tuple[int, int]] = {}
        self.called_with = len(arguments)  # tensors; casts come behind them
        self.outlives = local.keeps  # whether casts outlive the step
        self.around = around()
        tensors = (*reached.tensors.values(), *arguments) if self.outlives else ()
        self._began = {id(t): version_of(t) for t in tensors if t._rg}

    def casts_are_forgotten(self) -> None:
        """The program asks for new casts, or a block has ended."""
        if self.outlives and not self.off:
            self.refuse("it makes autocast forget what was cast before")

    def cast_once(self, tensor: Any, target: Any) -> Any:
        """A parameter in a half type, as `Casts.of` gives it."""
        known = casts.known(tensor, target)
        of = self._whose(tensor) if self.outlives and not (self.off or self.depth) else None
        if of is None or (known is not None and id(known._array) in self.names):
            return casts.make(tensor, target) if known is None else known
        made: Any = known
        if made is None:
            with self.quiet():
                made = casts.make(tensor, target)
        if version_of(tensor) != self._began.get(id(tensor)):
            self.refuse("a parameter is changed and then cast, in a block that is around the step")
        elif any([c.of == of for c in self.casts]):
            self.refuse("a parameter is cast to several dtypes, in a block that is around the step")
        elif made._fn.extra is not None:
            self.refuse("hooks wait for the gradient of a parameter that is cast")
        else:
            self.notes.plain = False
            layout = made._array.shape, made._array.strides, made._array.dtype
            self.casts.append(Cast(of, target, known is not None, layout))
            if known is None:
                self.new_casts[of] = made._fn.seq, len(self.arguments)
            self._also_given(made)
        return made

    def _whose(self, tensor: Any) -> tuple[str, int] | None:
        given = self.arguments[: self.called_with]
        at = next((i for i, t in enumerate(given) if t is tensor), None)
        if at is not None:
            return "argument", at
        return ("tensor", id(tensor)) if id(tensor) in self.reached.tensors else None

    def _also_given(self, made: Any) -> None:
        """One more thing that replays are called with."""
        n = len(self.arguments)
        self.arguments.append(made)
        self.cast_nodes.add(id(made._fn))
        self.versions[id(made)] = [made, version_of(made)]
        if self._roots:
            self._roots.add(id(root_of(made._array)))
        self._name(made._array, f"a{n}")
        self.emit(f"a{n} = A{n}._array", (f"a{n}",), ())

    def casts_come_late(self) -> bool:
        """Whether hooks would see gradients of parameters in another order than in eager mode.

        In a replay backward comes to new casts after all nodes of the step.
        """
        ends = [*self.new_casts, *self.graph.targets] if self.new_casts and self.graph else ()
        given = [self.arguments[k] if s == "argument" else self.reached.tensors[k] for s, k in ends]
        return any([t._backward_hooks or t._post_accumulate_grad_hooks for t in given])


class Asked:
    """The casts that a plan needs."""

    def __init__(self, recorder: Casting):
        self.casts, self.reached = recorder.casts, recorder.reached.tensors

    def _parameter(self, cast: Cast, tensors: list) -> Any:
        kind, k = cast.of
        return tensors[k] if kind == "argument" else self.reached[k]

    def fit(self, tensors: list) -> bool:
        """Whether just those were cast before that were then."""
        for cast in self.casts:
            known = casts.known(self._parameter(cast, tensors), cast.target)
            if (known is not None) is not cast.known:
                return False
            if known is not None:
                array: Any = known._array
                if (array.shape, array.strides, array.dtype) != cast.layout:
                    return False
                if known._fn is None or known._fn.extra is not None:  # hooks, perhaps
                    return False
        return True

    def beside(self, tensors: list) -> list:
        """What a replay is called with: `tensors`, and what the parameters are cast to."""
        bits, outer = state.bits, state.interposers
        state.bits, state.interposers = bits & ~AUTOCAST, ()  # as in an op; see amp._casting
        try:
            made = [casts.of(self._parameter(c, tensors), c.target) for c in self.casts]
        finally:
            state.interposers = outer
            resume(bits, bits & ~AUTOCAST)
        return [*tensors, *made]

    def back(self, tensors: list) -> None:
        """The replay is undone: so are its casts."""
        for cast in self.casts:
            if not cast.known:
                casts.kept.pop(id(self._parameter(cast, tensors)), None)
                casts.used.pop()
