"""What a step does, op by op: a plan is used once a second run of the step has done the same.

The run that is written down and the one that is only followed note the same things in the same order: ops and writes
with the tensors that they are called with, passes of backward, methods of optimizers, what is drawn and read, and the
results. A tensor is noted as the number of its array, in the order in which arrays come up.
"""

from __future__ import annotations

import functools
import hashlib
import types
from typing import Any

import numpy as np

from ..op.interpret import Number
from ..tape.modes import state
from ..tape.node import AccumulateGrad, peek_seq
from ..tape.tensor import Tensor
from .plan import alike
from .state import State

READ = "a number that was read"


class Notes:
    """What one run of a step does.

    Args:
        reached: the tensors that were there before. arguments: those that the step is called with.

    Attributes:
        plain: whether they tell all: nothing ran beside them that depends on more (hooks, custom Functions).
    """

    def __init__(self, reached: State, arguments: list[Any]):
        self.plain = True
        self.events: list[tuple] = []
        self._reached, self._first = reached.tensors, peek_seq()
        self._numbers: dict[int, Any] = {}  # of arrays, by id
        self._made: dict[int, Any] = {}  # tensors that no op made, by the ids of their arrays
        self._kept: list[Any] = []  # so that ids stay theirs
        self._count = 0
        self.spec: Any = None  # of what the step returns
        for t in reached.tensors.values():
            self._numbers.setdefault(id(t._array), id(t))
        for i, t in enumerate(arguments):
            self._numbers[id(t._array)] = "argument", i

    def note(self, what: Any, *values: Any) -> None:
        """One more thing that the step does."""
        self.events.append((what, state.bits, *map(self._noted, values)))

    def backward(
        self, roots: Any, grads: Any, keep: bool, create: bool, inputs: Any, add: bool
    ) -> None:
        """A pass begins; see `engine.run_backward`."""
        wanted = None if inputs is None else [self._edge(e) for e in inputs]
        self.note("backward", [self._edge(e) for e in roots], grads, keep, create, wanted, add)

    def created(self, tensor: Any) -> None:
        """A tensor that no op made: which numbers it has is of interest as soon as it is used."""
        self._made[id(tensor._array)] = tensor
        self._kept.append(tensor)

    def made(self, arrays: Any) -> None:
        """Arrays that an op or a draw made."""
        for array in arrays:
            if id(array) not in self._numbers:
                self._count += 1
                self._numbers[id(array)] = self._count
                self._kept.append(array)

    def result(self, leaves: list, spec: Any) -> None:
        """What the step returns, with `READ` for numbers that it read; there is nothing more to come."""
        self.spec = spec
        self.note("result", leaves)
        self._numbers, self._made, self._kept, self._reached = {}, {}, [], {}

    def differ(self, others: Notes) -> Any:
        """What is not done in another run, "the end" if that goes on; None if both are the same."""
        for mine, other in zip(self.events, others.events, strict=False):
            if not (alike(mine, other) or (mine[0] == "result" and _same_result(mine, other))):
                return mine[0]
        same = len(self.events) == len(others.events) and self.spec == others.spec
        return None if same else "the end"

    def _edge(self, edge: tuple) -> tuple:
        """A node by the number with which it was made; of a leaf, the leaf."""
        node, nr = edge
        if node.__class__ is AccumulateGrad:
            return "leaf", self._noted(node.variable)
        return node.name(), node.seq - self._first, nr

    def _noted(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._number(value._array), value._rg
        if isinstance(value, np.ndarray):
            return self._number(value)
        if value.__class__ is Number:
            return value.value, value.dtype
        if isinstance(value, (tuple, list)):  # a list that is filled by the op is empty yet
            return [self._noted(v) for v in value]
        if isinstance(value, dict):
            return {k: self._noted(v) for k, v in value.items()}
        if isinstance(value, functools.partial):
            return [value.func, *map(self._noted, value.args), self._noted(value.keywords)]
        if isinstance(value, types.MethodType):
            return value.__func__, self._noted(value.__self__)
        return value

    def _number(self, array: Any) -> Any:
        number = self._numbers.get(id(array))
        if number is None:
            number = self._numbers[id(array)] = self._origin(array)
            self._kept.append(array)
        return number

    def _origin(self, array: Any) -> Any:
        """What an array is that comes up for the first time."""
        self._count += 1
        made = self._made.get(id(array))
        if made is not None and made._array is array and array.__class__ is np.ndarray:
            raw: Any = np.ascontiguousarray(array).view(np.uint8)
            digest = hashlib.blake2b(raw, digest_size=16).digest()
            return self._count, array.shape, array.strides, array.dtype, digest
        for key, t in self._reached.items():
            if t._grad is not None and t._grad._array is array:
                return self._count, "gradient", key
        return self._count


def _same_result(mine: tuple, other: tuple) -> bool:
    """Whether results are the same but for numbers that were read."""
    pairs = list(zip(mine[-1], other[-1], strict=False))
    same = [alike(x, y) or (x is READ and isinstance(y, (int, float, complex))) for x, y in pairs]
    return other[0] == "result" and len(mine[-1]) == len(other[-1]) and all(same)
