"""Memory of a plan: which results of its lines lie in arrays that are kept from replay to replay, and which share one.

A line whose NumPy call makes a new array may write into a kept one instead, with the same bits, as long as nobody can
see the difference: the result must not leave the plan. What may be the memory of what is decided by the lines alone. A
result that is known to be new has memory of its own; any other result may be a view of whatever its line was given. All
names that may share memory make a group. A group of which one leaves (as a result, a gradient, an argument of something
with effects) gets no kept array, nor does anything in it. The others have their array from the line that makes them to
the last one that names one of the group; from then on it is that of a later result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

INTO = re.compile(r"\bout=(t\d+)\)$")  # a call that gives back the array that it writes to
_SAME = re.compile(r"t\d+ = t\d+")
OUT = "@out"  # stands for the kept array in the text of a line
ALIGNED = 64  # bytes: a line of the cache
APART = 320  # bytes between two arrays, so that they do not lie at the same places of pages


class Made(NamedTuple):
    """A result that is a new C-contiguous array.

    text: the same call, with `OUT` for the array that it then writes into; "" if there is none such.
    """

    text: str
    shape: tuple[int, ...]
    dtype: np.dtype


def made(value: Any, text: str = "", into: Any = None) -> Made | None:
    """What is known of a new array that a NumPy call gave; None if that is no such array.

    into: ``into(out)`` makes the same call with a result array; it has to give the same bits. None: it is known to.
    """
    if value.__class__ is not np.ndarray or value.base is not None or not value.flags.c_contiguous:
        return None
    if text and into is not None and value.ndim and value.size:
        out = np.empty(value.shape, value.dtype)
        try:
            into(out)
        except (TypeError, ValueError):  # a call that takes no result array of that kind
            return Made("", value.shape, value.dtype)
        if out.tobytes() == value.tobytes():
            return Made(text, value.shape, value.dtype)
        text = ""
    return Made(text if value.ndim and value.size else "", value.shape, value.dtype)


class Groups:
    """Names that may share memory, found from the lines of a plan."""

    def __init__(self, lines: list, returned: Iterable[str]):
        self._parent: dict[str, str] = {}
        self._several: set[str] = set()  # groups of more than one name
        self._new = {line.outs[0] for line in lines if line.made is not None}
        self._new -= {n for line in lines if line.made is None for n in line.outs}
        viewed: list[str] = []
        self.last: dict[str, int] = {}  # of a group: the last line that names one of it
        for line in lines:
            if line.made is None and line.outs:
                into = INTO.search(line.text) if len(line.outs) == 1 else None
                names = [
                    n for n in (*line.outs, *(into.groups() if into else line.ins)) if n[0] == "t"
                ]
                if into is None and not _SAME.fullmatch(line.text):
                    viewed += names
                for n in names[1:]:
                    self._join(names[0], n)
        self._leave = {self.of(n) for n in returned if n[0] == "t"}
        self._viewed = {self.of(n) for n in viewed}
        for i, line in enumerate(lines):
            for n in (*line.outs, *line.ins):
                if n[0] == "t":
                    self.last[self.of(n)] = i
                    if line.effect:
                        self._leave.add(self.of(n))

    def of(self, name: str) -> str:
        """The group of a name."""
        found = name
        while (parent := self._parent.get(found, found)) != found:
            found = parent
        self._parent[name] = found
        return found

    def _join(self, a: str, b: str) -> None:
        a, b = self.of(a), self.of(b)
        if a != b:
            self._parent[b] = a
        self._several.add(a)

    def alone(self, name: str) -> bool:
        """Whether a name is that of a new array, whose memory no other name can have."""
        return name in self._new and self.of(name) not in self._several

    def whole(self, name: str) -> bool:
        """Whether a name is that of a new array, and each other name of its memory is that of the same array."""
        return name[0] == "t" and self.of(name) not in self._viewed

    def stays(self, name: str) -> bool:
        """Whether nothing outside of the plan gets the memory of a name."""
        return self.of(name) not in self._leave


class Layout:
    """Which lines write where.

    Attributes:
        places: of each line that writes into a kept array, the number of that array.
        size: bytes of all.
    """

    def __init__(self, lines: list, groups: Groups):
        self.places: dict[int, int] = {}
        self._arrays: dict[tuple, int] = {}  # (slot, shape, dtype) -> number
        sizes: list[int] = []  # of slots, in bytes
        free: list[int] = []  # the one that was used last comes last
        ends: dict[int, list[int]] = {}  # line -> slots that are free after it
        for i, line in enumerate(lines):
            free += ends.pop(i - 1, ())
            if line.made is None or not line.made.text or not groups.stays(line.outs[0]):
                continue
            _, shape, dtype = line.made
            need = math.prod(shape) * dtype.itemsize
            slot = _best(free, sizes, need)
            if slot is None:
                slot = len(sizes)
                sizes.append(need)
            else:
                free.remove(slot)
                sizes[slot] = max(sizes[slot], need)
            ends.setdefault(groups.last[groups.of(line.outs[0])], []).append(slot)
            key = slot, shape, dtype
            self.places[i] = self._arrays.setdefault(key, len(self._arrays))
        starts, at = [], 0
        for size in sizes:
            starts.append(at)
            at += -(-size // ALIGNED) * ALIGNED + APART
        self._starts, self.size = starts, at

    def arrays(self) -> tuple:
        """New memory: the arrays by number."""
        memory = np.empty(self.size + ALIGNED, np.uint8)
        begin = -memory.__array_interface__["data"][0] % ALIGNED
        found = []
        for slot, shape, dtype in self._arrays:
            lo = begin + self._starts[slot]
            hi = lo + math.prod(shape) * dtype.itemsize
            found.append(memory[lo:hi].view(dtype).reshape(shape))
        return tuple(found)

    def __len__(self) -> int:
        return len(self._arrays)


def _best(free: list[int], sizes: list[int], need: int) -> int | None:
    """Of the free slots the nearest in size, and of several the one that was used last; None if none is near."""
    best, least = None, need * 3  # farther away from what is needed: rather a slot of its own
    for slot in reversed(free):
        distance = abs(sizes[slot] - need)
        if distance < least:
            best, least = slot, distance
    return best
