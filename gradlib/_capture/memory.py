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

_INTO = re.compile(r"\bout=(t\d+)\)$")
_SAME = re.compile(r"t\d+ = (t\d+)")
_TURNED = re.compile(r"t\d+ = (t\d+)\.T")
OUT = "@out"  # stands for the kept array in the text of a line
ALIGNED = 64  # bytes: a line of the cache
APART = 320  # bytes between two arrays, so that they do not lie at the same places of pages


def written_into(text: str) -> re.Match | None:
    """The array that a call writes to and gives back, as group 1."""
    return _INTO.search(text) if "out=" in text else None


class Made(NamedTuple):
    """A result that is a new C-contiguous array.

    text: the same call, with `OUT` for the array that it then writes into, or what writes there behind the array and a
        semicolon; "" if there is none such.
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


# elements: below, what NumPy does before a loop over arrays of several shapes takes longer than the loop
FEW = 1 << 12


# ufuncs whose results are those of one operation, rounded: the same in all loops
ROUNDED = frozenset("add subtract multiply divide true_divide maximum minimum".split())


def filled(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of that shape, with `array` in each of its places along the dimensions that `array` lacks."""
    out = np.empty(shape, array.dtype)
    out[...] = array
    return out


def repeated(array: Any, name: str, beside: Any, function: str) -> tuple[str, Made] | None:
    """How a small array is brought to the shape of the one that a ufunc gets beside it: a call, and what it gives.

    None where it has that shape, or the result could lie in memory in another way. The ufunc must round each result as
    it is in `ROUNDED`: other loops of NumPy's may be taken for other strides.

    function: the name of `filled`.
    """
    if array.__class__ is not np.ndarray or beside.__class__ is not np.ndarray:
        return None
    if array.shape == beside.shape or not (array.ndim and array.size and beside.size <= FEW):
        return None
    if array.dtype.kind == "c":  # whose products are fused with sums in some loops
        return None
    if array.dtype is not beside.dtype or not beside.flags.c_contiguous:
        return None
    if np.broadcast_shapes(array.shape, beside.shape) != beside.shape:
        return None
    new = Made(f"{OUT}; {OUT}[...] = {name}", beside.shape, array.dtype)
    return f"{function}({name}, {beside.shape})", new


class Groups:
    """Names that may share memory, found from the lines of a plan.

    Attributes:
        named: of each name, the last line with it.
        last: of each group, the last line that names one of it.
    """

    def __init__(self, lines: list, returned: Iterable[str]):
        self._parent: dict[str, str] = {}
        self._several: set[str] = set()  # groups of more than one name
        self.named: dict[str, int] = {}
        self.last: dict[str, int] = {}
        new, others, viewed = set(), set(), []
        leave = [*returned]
        named = self.named
        for i, line in enumerate(lines):
            outs, ins = line.outs, line.ins
            for n in ins:
                named[n] = i
            for n in outs:
                named[n] = i
            if line.effect:
                leave += (*outs, *ins)
            if line.made is not None:
                new.add(outs[0])
            elif outs:
                others.update(outs)
                self._may_share(line, viewed)
        self._new = new - others
        self._of = {name: self._root(name) for name in self._parent}
        of = self._of.get
        self._several = {of(name, name) for name in self._several}
        self._leave = {of(n, n) for n in leave if n[0] == "t"}
        self._viewed = {of(n, n) for n in viewed}
        last = self.last
        for n, i in named.items():
            if n[0] == "t" and last.get(found := of(n, n), -1) < i:
                last[found] = i

    def _may_share(self, line: Any, viewed: list[str]) -> None:
        """The results of a line that are not known to be new have the memory of what it is given, perhaps as views."""
        into = written_into(line.text) if len(line.outs) == 1 else None
        given = line.ins if into is None else into.groups()
        names = [n for n in (*line.outs, *given) if n[0] == "t"]
        if into is None and (line.text.endswith(")") or not _SAME.fullmatch(line.text)):
            viewed += names
        for n in names[1:]:
            self._join(names[0], n)

    def of(self, name: str) -> str:
        """The group of a name."""
        return self._of.get(name, name)

    def _root(self, name: str) -> str:
        found = name
        while (parent := self._parent.get(found, found)) != found:
            found = parent
        if found != name:
            self._parent[name] = found
        return found

    def _join(self, a: str, b: str) -> None:
        a, b = self._root(a), self._root(b)
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
        turned: of each line that transposes one, the number of the view.
        size: bytes of all.
    """

    def __init__(self, lines: list, groups: Groups):
        self.places: dict[int, int] = {}
        self._arrays: dict[tuple, int] = {}  # (slot, shape, dtype) -> number
        sizes: list[int] = []  # of slots, in bytes
        free: dict[int, list[int]] = {}  # by size; the one that was used last comes last
        ends: dict[int, list[int]] = {}  # line -> slots that are free after it
        for i, line in enumerate(lines):
            for slot in ends.pop(i - 1, ()):
                free.setdefault(sizes[slot], []).append(slot)
            if line.made is None or not line.made.text or not groups.stays(line.outs[0]):
                continue
            _, shape, dtype = line.made
            need = math.prod(shape) * dtype.itemsize
            size = _nearest(free, need)
            if size is None:
                slot = len(sizes)
                sizes.append(need)
            else:
                slot = free[size].pop()
                if not free[size]:
                    del free[size]
                sizes[slot] = max(size, need)
            ends.setdefault(groups.last[groups.of(line.outs[0])], []).append(slot)
            key = slot, shape, dtype
            self.places[i] = self._arrays.setdefault(key, len(self._arrays))
        self._turned: dict[int, int] = {}  # kept array -> number of its transposed view
        self.turned = self._turns(lines)
        starts, at = [], 0
        for size in sizes:
            starts.append(at)
            at += -(-size // ALIGNED) * ALIGNED + APART
        self._starts, self.size = starts, at

    def _turns(self, lines: list) -> dict[int, int]:
        """Which lines transpose a kept array: that view is kept, too."""
        found: dict[int, int] = {}
        where: dict[str, int] = {}  # variables that are a kept array -> which
        for i, line in enumerate(lines):
            if i in self.places:
                where[line.outs[0]] = self.places[i]
                continue
            if line.text.endswith(")"):
                same = written_into(line.text)
            else:
                same = _SAME.fullmatch(line.text) or _TURNED.fullmatch(line.text)
            kept = where.get(same[1]) if same else None
            for out in line.outs:
                where.pop(out, None)
            if kept is not None and line.text.endswith(".T"):
                found[i] = self._turned.setdefault(kept, len(self._arrays) + len(self._turned))
            elif kept is not None and len(line.outs) == 1:
                where[line.outs[0]] = kept
        return found

    def arrays(self) -> tuple:
        """New memory: the arrays by number."""
        memory = np.empty(self.size + ALIGNED, np.uint8)
        begin = -memory.__array_interface__["data"][0] % ALIGNED
        found = []
        for slot, shape, dtype in self._arrays:
            lo = begin + self._starts[slot]
            hi = lo + math.prod(shape) * dtype.itemsize
            found.append(memory[lo:hi].view(dtype).reshape(shape))
        return (*found, *[found[k].T for k in self._turned])

    def __len__(self) -> int:
        return len(self._arrays) + len(self._turned)


def _nearest(sizes: Iterable[int], need: int) -> int | None:
    """The size that is nearest to what is needed; None if none is near: rather a slot of its own."""
    best, least = None, need * 3
    for size in sizes:
        distance = abs(size - need)
        if distance < least:
            best, least = size, distance
    return best
