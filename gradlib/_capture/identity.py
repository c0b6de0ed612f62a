"""Whether things are the same objects as before: in each replay of a step, of all that the step can reach."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from ctypes import string_at

_WORD = struct.calcsize("P")


def _in_memory(things: tuple) -> bytes:
    """As CPython keeps them: behind the fixed part of a tuple."""
    return string_at(id(things) + tuple.__basicsize__, _WORD * len(things))


def _one_by_one(things: tuple) -> bytes:
    return struct.pack(f"{len(things)}P", *map(id, things))


_SOME = None, True, ()
_kept_so = sys.implementation.name == "cpython" and _in_memory(_SOME) == _one_by_one(_SOME)
addresses = _in_memory if _kept_so else _one_by_one


class Same:
    """Objects that are kept, to be compared with others: one comparison of memory for all."""

    def __init__(self, things: Iterable) -> None:
        self.things = tuple(things)
        self._addresses = addresses(self.things)

    def add(self, thing: object) -> None:
        """One more."""
        self.things = (*self.things, thing)
        self._addresses += addresses((thing,))

    def are(self, things: Iterable) -> bool:
        """Whether these are the same objects in the same order."""
        return addresses(tuple(things)) == self._addresses
