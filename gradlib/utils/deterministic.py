"""Whether new memory gets a known value under ``use_deterministic_algorithms(True)``.

    gradlib.utils.deterministic.fill_uninitialized_memory = False

True at first: then ``empty`` and its like, and what ``resize_`` adds, hold nan, the largest integer or True.
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..tape.switches import switches


class _Deterministic(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether memory that nobody has written to is filled while deterministic algorithms are asked for."""
        return switches.fill_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"expected a bool, but got {type(mode).__name__}")
        switches.fill_memory = mode


sys.modules[__name__].__class__ = _Deterministic
