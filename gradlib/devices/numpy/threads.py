"""How many threads NumPy's linear algebra library uses."""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from typing import Any

import numpy as np

_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "")


@cache
def openblas() -> Any:
    """The OpenBLAS that NumPy's wheels bring along, as a library of ctypes, or None."""
    from pathlib import Path  # of all that `import gradlib` imports nothing else needs it

    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            return ctypes.CDLL(str(path))
    return None


@cache
def _openblas() -> tuple[Any, Any] | None:
    """The functions (set, get) of that library, if there is one and it has them."""
    library = openblas()
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            name = f"{prefix}_set_num_threads{suffix}"
            if hasattr(library, name):
                return getattr(library, name), getattr(library, name.replace("set", "get"))
    return None


def limit(n: int) -> None:
    """Let linear algebra use `n` threads; a warning where the library cannot be told."""
    found = _openblas()
    if found is None:
        warnings.warn(
            "set_num_threads: NumPy's linear algebra library cannot be told at run time; set OMP_NUM_THREADS before "
            "Python starts",
            UserWarning,
            stacklevel=3,
        )
        return
    found[0](ctypes.c_int(n))


def count() -> int:
    """How many threads linear algebra uses."""
    found = _openblas()
    return int(found[1]()) if found is not None else os.cpu_count() or 1
