"""How the rule of an elementwise optimizer is applied to the arrays of a group.

- A large tensor is updated in cache-sized pieces of its own memory.
- All small tensors of one kind are updated at once: their gradients are gathered into one flat array, their state lives
  in flat arrays of which the tensors in `optimizer.state` are views, and only the final subtraction happens per tensor;
  so a hundred small tensors cost little more than one.
- Tensors of half precision or with unusual strides are updated through float32 or contiguous copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import is_
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices.numpy.blocks import spans
from ..op import spreading
from ..tape import errors
from ..tape.arrays import backend_of
from ..tape.device import beside
from ..tape.memory import repeats_itself
from ..tape.tensor import Tensor
from ._rules import Program

if TYPE_CHECKING:
    from ._elementwise import ElementwiseOptimizer

PACK_LIMIT = 1 << 15  # elements: larger tensors are updated in their own memory
CHUNK = 1 << 20  # bytes of an array that a rule works on at a time: all stay in the last cache
PART = (
    1 << 19
)  # the same where there are several threads: shorter ones wait for the lock of Python more often
SHARED = 1 << 18  # elements from which the pieces run on several threads
MAX_REPACKS = 16  # a set of parameters that changes all the time is not worth packing


class Plan:
    """How the parameters of one group are updated, as long as they stay the same."""

    __slots__ = ("arrays", "batches", "params", "repacks")

    def __init__(
        self,
        optimizer: ElementwiseOptimizer,
        group: dict[str, Any],
        params: list[Tensor],
        repacks: int,
        begin: set[int],
    ):
        self.params, self.repacks = params, repacks
        self.arrays = [p._array for p in params]
        self.batches: list[Any] = []
        small: dict[Any, list[Tensor]] = {}
        for p in params:
            if repeats_itself(p._array):
                raise RuntimeError(errors.OVERLAP)
            state = optimizer.init_state(p, group)
            a = p._array
            if a.dtype.itemsize == 2:
                with device_of(p):
                    self.batches.append(CopiedBatch(optimizer, group, p, np.dtype(np.float32)))
            elif a.size <= PACK_LIMIT and repacks <= MAX_REPACKS:
                key = (a.dtype, str(p.device), id(p) in begin, optimizer.phase(p, group))
                small.setdefault(key, []).append(p)
            else:
                with device_of(p):
                    self.batches.append(_single(optimizer, group, p, state))
        for members in small.values():
            with device_of(members[0]):
                if len(members) == 1:
                    (p,) = members
                    state = optimizer.init_state(p, group)
                    self.batches.append(_single(optimizer, group, p, state))
                else:
                    self.batches.append(PackedBatch(optimizer, group, members))
        for batch in self.batches:
            batch.begins = id(batch.params[0]) in begin

    def fits(self, params: list[Tensor]) -> bool:
        """Whether parameters, their arrays and their state are those of the plan."""
        return (
            len(params) == len(self.params)
            and all(map(is_, params, self.params))
            and all(map(is_, [p._array for p in params], self.arrays))
            and all(batch.intact() for batch in self.batches)
        )


def device_of(p: Tensor) -> Any:
    """A context manager in which the device of a parameter is current: kernels run there."""
    return beside(p._array)


def _single(
    optimizer: ElementwiseOptimizer, group: dict[str, Any], p: Tensor, state: dict[str, Any]
) -> Any:
    arrays = [p._array, *(state[name]._array for name in optimizer.slots(group))]
    if all(a.flags.c_contiguous and a.dtype == p._array.dtype for a in arrays):
        return DirectBatch(optimizer, group, p)
    return CopiedBatch(optimizer, group, p, p._array.dtype)


class Scratch:
    """Spare arrays, for each thread its own."""

    def __init__(self, xp: Any, size: int, dtype: Any, count: int):
        self.make, self.count = (lambda: [xp.empty(size, dtype) for _ in range(count)]), count
        self.arrays: dict[int, list[Any]] = {}

    def of(self, n: int) -> list[Any]:
        """The first `n` elements of those of the thread that asks."""
        found = self.arrays.get(get_ident())
        if found is None:
            found = self.arrays[get_ident()] = self.make()
        return [t[:n] for t in found]


class Batch:
    """Parameters that are updated with the same constants."""

    begins = False  # whether the next step is their first, with settings of its own

    def __init__(
        self, optimizer: ElementwiseOptimizer, group: dict[str, Any], params: list[Tensor]
    ):
        self.params: list[Any] = params
        self.states = [optimizer.init_state(p, group) for p in params]
        self.xp = backend_of(params[0]._array).xp
        self.on_cpu = isinstance(params[0]._array, np.ndarray)
        self.names = optimizer.slots(group)
        self.scalar_names = tuple(optimizer.scalars(group))
        for state in self.states:
            optimizer.host_counters(state, group)
        self.complex = params[0]._array.dtype.kind == "c"

    def begin(
        self, optimizer: ElementwiseOptimizer, settings: dict[str, Any]
    ) -> tuple[Program, dict[str, Any]]:
        """Count the step; the code of the rule and the constants of this step."""
        if self.begins:
            settings, self.begins = settings | optimizer.beginning, False
        first = self.states[0]
        counters = {name: first[name]._array for name in self.scalar_names}
        h = optimizer.all_constants(settings, counters)
        self.set_scalars(counters)
        return optimizer.program(self.names, h), h

    def set_scalars(self, new: dict[str, float]) -> None:
        for name, value in new.items():
            for state in self.states:
                state[name]._array[...] = value

    def real(self, array: Any) -> Any:
        """Complex numbers as pairs: a flat array of twice the length."""
        return array.view(array.real.dtype) if self.complex else array

    def cut(self, flat: Any) -> None:
        """(begin, end) of what the rule works on at a time, and how much that is at most."""
        n, width = flat.size, flat.dtype.itemsize
        size = max(1, CHUNK // width) if self.on_cpu else max(1, n)
        self.ranges = spans(n, size)
        shared = self.on_cpu and n >= SHARED
        self.parts = spans(n, PART // width) if shared else self.ranges
        self.size = min(size, n)

    def each(self, piece: Callable[[int, int], None]) -> None:
        """``piece(begin, end)`` for what `cut` found: on several threads where that is much."""
        parts = self.parts
        if parts is not self.ranges and spreading.width() > 1:
            spreading.share(len(parts), lambda k: piece(*parts[k]))
        else:
            for lo, hi in self.ranges:
                piece(lo, hi)


class DirectBatch(Batch):
    """One contiguous tensor, updated in its own memory piece by piece."""

    def __init__(self, optimizer: ElementwiseOptimizer, group: dict[str, Any], p: Tensor):
        super().__init__(optimizer, group, [p])
        self.p = self.real(p._array.reshape(-1))
        self.given = [self.states[0][name]._array for name in self.names]
        self.flat = [self.real(a.reshape(-1)) for a in self.given]
        self.cut(self.p)

    def intact(self) -> bool:
        state = self.states[0]
        return all(state[name]._array is a for name, a in zip(self.names, self.given))

    def run(self, optimizer: ElementwiseOptimizer, settings: dict[str, Any]) -> None:
        program, h = self.begin(optimizer, settings)
        xp, run = self.xp, program.run
        g = self.real(xp.ascontiguousarray(self.params[0]._grad._array).reshape(-1))
        scratch = Scratch(xp, self.size, self.p.dtype, program.spare + 1)

        def piece(lo: int, hi: int) -> None:
            p = self.p[lo:hi]
            change, *spare = scratch.of(hi - lo)
            run(xp, h, p, g[lo:hi], [a[lo:hi] for a in self.flat], change, spare)
            xp.subtract(p, change, p)

        self.each(piece)


class CopiedBatch(Batch):
    """One tensor, updated through contiguous copies in another dtype."""

    def __init__(
        self, optimizer: ElementwiseOptimizer, group: dict[str, Any], p: Tensor, dtype: Any
    ):
        super().__init__(optimizer, group, [p])
        self.dtype = dtype

    def intact(self) -> bool:
        return True  # everything is read anew each time

    def run(self, optimizer: ElementwiseOptimizer, settings: dict[str, Any]) -> None:
        program, h = self.begin(optimizer, settings)
        xp, state = self.xp, self.states[0]
        array = self.params[0]._array

        def flat(a: Any) -> Any:
            return self.real(xp.ascontiguousarray(a).reshape(-1).astype(self.dtype))

        p, g = flat(array), flat(self.params[0]._grad._array)
        slots = [flat(state[name]._array) for name in self.names]
        out, *spare = (xp.empty_like(p) for _ in range(program.spare + 1))
        program.run(xp, h, p, g, slots, out, spare)
        xp.subtract(p, out, p)
        for a, values in zip((array, *(state[name]._array for name in self.names)), (p, *slots)):
            a[...] = values.view(self.dtype).reshape(a.shape).astype(a.dtype)


class PackedBatch(Batch):
    """Small tensors of one dtype, device and phase, updated as one flat array."""

    def __init__(
        self, optimizer: ElementwiseOptimizer, group: dict[str, Any], params: list[Tensor]
    ):
        super().__init__(optimizer, group, params)
        xp, dtype = self.xp, params[0]._array.dtype
        sizes = [p._array.size for p in params]
        starts = np.cumsum([0, *sizes]).tolist()
        total = starts[-1]
        self.arrays = [p._array for p in params]

        def views(flat: Any) -> list[Any]:
            return [
                flat[lo:hi].reshape(a.shape) for lo, hi, a in zip(starts, starts[1:], self.arrays)
            ]

        self.flat: dict[str, Any] = {}
        self.views: dict[str, list[Any]] = {}
        for name in self.names:
            flat = self.flat[name] = xp.empty(total, dtype)
            self.views[name] = views(flat)
            for state, view in zip(self.states, self.views[name]):
                view[...] = state[name]._array
                state[name]._array = view  # the Tensor stays the same object
        self.counters: dict[str, Any] = {}
        for name in self.scalar_names:
            old = [state[name]._array for state in self.states]
            flat = self.counters[name] = np.array(old, dtype=old[0].dtype)
            for i, state in enumerate(self.states):
                state[name]._array = flat[i, ...]
        self.g = xp.empty(total, dtype)
        self.p = xp.empty(total, dtype)
        self.out = xp.empty(total, dtype)
        self.steps = views(self.out)
        self.real_slots = [self.real(self.flat[name]) for name in self.names]
        self.scratch: Scratch | None = None
        self.cut(self.real(self.g))

    def intact(self) -> bool:
        return all(
            all(map(is_, [state[name]._array for state in self.states], self.views[name]))
            for name in self.names
        )

    def set_scalars(self, new: dict[str, float]) -> None:
        for name, value in new.items():
            self.counters[name].fill(value)

    def run(self, optimizer: ElementwiseOptimizer, settings: dict[str, Any]) -> None:
        program, h = self.begin(optimizer, settings)
        xp, run = self.xp, program.run
        xp.concatenate([p._grad._array for p in self.params], None, self.g)
        if program.reads_param:
            xp.concatenate(self.arrays, None, self.p)
        p, g, out = self.real(self.p), self.real(self.g), self.real(self.out)
        if self.scratch is None or self.scratch.count < program.spare:
            self.scratch = Scratch(xp, self.size, out.dtype, program.spare)
        scratch = self.scratch

        def piece(lo: int, hi: int) -> None:
            slots, spare = [a[lo:hi] for a in self.real_slots], scratch.of(hi - lo)
            run(xp, h, p[lo:hi], g[lo:hi], slots, out[lo:hi], spare[: program.spare])

        self.each(piece)
        deque(map(xp.subtract, self.arrays, self.steps, self.arrays), 0)
