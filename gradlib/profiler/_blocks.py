"""Blocks of memory as the profiler follows them: who allocated them, which nodes keep them, when they are gone."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..tape.memory import kept, owner
from ..tape.memory import key as memory_key
from ..tape.modes import shared
from ..tape.source import LIBRARY, is_library, learn
from ..tape.tensor import Tensor


class Save:
    """The time in which a node keeps a block for backward."""

    __slots__ = ("details", "end_ns", "start_ns")

    def __init__(self, details: Any, start_ns: int):
        self.details, self.start_ns = details, start_ns  # details of the op that made the node
        self.end_ns: int | None = None


class Block:
    """Memory that was allocated during the profile: by an op (`details`), or else by the function `name`."""

    __slots__ = (
        "details",
        "device",
        "end_ns",
        "end_thread",
        "name",
        "nbytes",
        "reference",
        "saves",
        "stack",
        "start_ns",
        "thread",
    )

    def __init__(self, array: Any, details: Any, start_ns: int):
        self.details, self.nbytes = details, array.nbytes
        self.device = None if isinstance(array, np.ndarray) else array.device.id
        self.start_ns, self.thread = start_ns, get_ident()
        self.end_ns: int | None = None
        self.end_thread = 0
        self.name, self.stack = "", []
        self.saves: list[Save] = []
        self.reference: Any = None


class Watch(weakref.ref):
    """A reference to an array that knows the array's block."""

    __slots__ = ("block", "key")
    block: Block
    key: int


class Memory:
    """All blocks that were allocated since the profile began.

    Args:
        with_stack: keep the user's calls for blocks that no op allocated.
    """

    def __init__(self, with_stack: bool):
        self.with_stack = with_stack
        self.blocks: list[Block] = []
        self._live: dict[int, Block] = {}  # by memory_key
        self._saving: dict[int, tuple[Any, list[Save]]] = {}  # by sequence number of the node

    def results(self, details: Any, args: Any, result: Any) -> None:
        """Note what an op allocated: its results and what its node keeps, if it is no memory of the arguments."""
        now, node = perf_counter_ns(), None
        known = {memory_key(a._array) for a in flat(args) if isinstance(a, Tensor)}
        for out in result if isinstance(result, tuple) else (result,):
            if isinstance(out, Tensor):
                self._allocate(out._array, known, details, now)
                node = out._fn if node is None else node
        if node is None or node.seq in self._saving:
            return
        blocks = [self._allocate(array, known, details, now) for array in kept(node)]
        seq, saves = node.seq, []
        for block in dict.fromkeys(blocks):  # each once
            if block is not None:
                saves.append(Save(details, now))
                block.saves.append(saves[-1])
        if saves:
            self._saving[seq] = weakref.ref(node, lambda _: self.freed(seq)), saves

    def created(self, tensor: Tensor) -> None:
        """Note the memory of a new tensor that no op made."""
        block = self._allocate(tensor._array, (), None, perf_counter_ns())
        if block is not None:
            block.name = creator()
            block.stack = user_stack() if self.with_stack else []

    def accumulated(self, details: Any, leaf: Tensor, known: Iterable[int]) -> None:
        """Note the memory of a gradient, if it is new: not that of `known`."""
        if leaf._grad is not None:
            self._allocate(leaf._grad._array, known, details, perf_counter_ns())

    def freed(self, seq: int) -> None:
        """The node of this number keeps nothing from now on."""
        now = perf_counter_ns()
        _, saves = self._saving.pop(seq, (None, ()))
        for save in saves:
            save.end_ns = now

    def stop(self) -> None:
        """Follow no block any longer."""
        for block in self.blocks:
            block.reference = None
        self._live.clear()
        self._saving.clear()

    def _allocate(self, array: Any, known: Iterable[int], details: Any, now: int) -> Block | None:
        """The block of `array`, a new one if need be; None for memory from before the profile."""
        array = owner(array.values if array.__class__ is shared.sparse else array)
        key = memory_key(array)
        block = self._live.get(key)
        if block is not None or key in known:
            return block
        try:
            reference = Watch(array, self._released)
        except TypeError:  # some array classes cannot be watched
            return None
        block = reference.block = self._live[key] = Block(array, details, now)
        reference.key, block.reference = key, reference
        self.blocks.append(block)
        if details is not None:
            if block.device is None:
                details.allocated += block.nbytes
            else:
                details.device_allocated += block.nbytes
        return block

    def _released(self, reference: Any) -> None:
        block = self._live.pop(reference.key, None)
        if block is not None:
            block.end_ns, block.end_thread, block.reference = perf_counter_ns(), get_ident(), None

    def changes(self) -> list[tuple[int, int, int, bool]]:
        """(time_ns, thread, bytes, on a device) of what ops did not allocate and of what was released, by time."""
        found = [
            (b.start_ns, b.thread, b.nbytes, b.device is not None)
            for b in self.blocks
            if b.details is None
        ]
        found += [
            (b.end_ns, b.end_thread, -b.nbytes, b.device is not None)
            for b in self.blocks
            if b.end_ns is not None
        ]
        return sorted(found, key=lambda change: change[0])


def flat(args: Any) -> Iterable[Any]:
    """Arguments, those in a list one by one."""
    for a in args:
        if isinstance(a, (list, tuple)):
            yield from a
        else:
            yield a


def user_stack() -> list[tuple]:
    """Sites of the user's calls, innermost first: (code, instruction), from which lines are made when asked for."""
    frame, stack, known = sys._getframe(2), [], LIBRARY
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if not (known[name] if name in known else learn(name)):
            stack.append((code, frame.f_lasti))
        frame = frame.f_back
    return stack


def creator() -> str:
    """The name of gradlib's function that the user called."""
    frame, name = sys._getframe(1), ""
    while frame is not None and is_library(frame.f_code.co_filename):
        name, frame = frame.f_code.co_name, frame.f_back
    return name
