"""The recorder's part for custom Functions: their backward runs while a pass is written down, as recorded ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tape import errors, modes
from ..tape.modes import OBSERVE, PROFILE, state
from ..tape.tensor import Tensor
from .casting import Casting


class Functions(Casting):
    """Runs nodes of custom Functions."""

    class _Loud:
        """A block inside of a quiet one in which ops are recorded: code of the program runs."""

        def __init__(self, recorder: Any):
            self.recorder = recorder

        def __enter__(self) -> None:
            recorder = self.recorder
            self.before = state.bits, state.capture, state.recorder
            self.depth, recorder.depth = recorder.depth, 0
            state.capture, state.recorder = recorder, recorder
            modes.set_bits(state.bits | OBSERVE | PROFILE)
            recorder.watch.start()

        def __exit__(self, *exc: object) -> None:
            self.recorder.watch.stop()
            self.recorder.depth = self.depth
            bits, state.capture, state.recorder = self.before
            modes.set_bits(bits)

    def blamed(self, node: Any, run: Callable[[], Any]) -> Any:
        """``run()`` with recorded ops; an exception tells of the node, as in the engine."""
        try:
            if self.off:
                return run()
            with self._Loud(self):
                return run()
        except Exception as exc:
            told = errors.in_backward(exc)
            errors.note(told, node)
            if told is exc:
                raise
            raise told from exc

    def run_function(self, node: Any, grad: Any) -> list[tuple[int, tuple[Any, str]]]:
        """(position of the edge, its gradient and the variable of that) for each that the backward gives.

        grad: a gradient with its variable; for several outputs a list of them or of None; None if none came.
        """
        pairs = [grad] if node.n_out == 1 else list(grad or [None] * node.n_out)
        missing = node._outputs if node.ctx.materialize_grads else [None] * len(pairs)
        pairs = [p or self._zeros(like) for p, like in zip(pairs, missing, strict=True)]
        given = [None if p is None else self._tensor_of(*p) for p in pairs]
        writes = len(self.writes)
        outs = self.blamed(node, lambda: node.gradients(given, 1))
        if len(self.writes) != writes:
            self.refuse(f"{node.name()} writes in place")
        result = []
        for i, ((target, _), out) in enumerate(zip(node.edges(), outs, strict=False)):
            if target is not None and out is not None:
                result.append((i, self._given_back(out)))
        return result

    def _zeros(self, like: tuple | None) -> tuple[Any, str] | None:
        """In the place of a gradient that did not come."""
        if like is None or like[2] is not np.ndarray:
            return None
        name, array = self.draft.fresh(), np.zeros(*like[:2])
        self.emit(f"{name} = {self.draft.constant(array)}.copy()", (name,), ())
        return array, name

    def _tensor_of(self, array: Any, name: str) -> Tensor:
        """A gradient as a tensor; what it is called from now on is no name of a sum that others are added to."""
        self._name(array, self._alias(name))
        return Tensor._make(array)

    def _alias(self, name: str) -> str:
        new = self.draft.fresh()
        self.emit(f"{new} = {name}", (new,), (name,))
        return new

    def _given_back(self, out: Any) -> tuple[Any, str]:
        array = out._array
        if array.__class__ is not np.ndarray:
            self.refuse(
                "a custom Function gives a gradient that is not an ordinary tensor of the CPU"
            )
        name = None if self.off else self.tensor(out)
        if name is None:  # there will be no plan, but the pass goes on
            self.refuse("a custom Function gives a gradient of unknown origin")
            return array, self._name(array, self.draft.fresh())
        return array, self._name(array, self._alias(name))
