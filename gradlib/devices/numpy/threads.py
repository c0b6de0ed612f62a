"""How many threads kernels and NumPy's linear algebra library use."""

from __future__ import annotations

import ctypes
import os
import threading
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


def _function(name: str) -> Any:
    """A function of that library, whatever its names begin and end with; None where it is missing."""
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            if (found := getattr(openblas(), f"{prefix}_{name}{suffix}", None)) is not None:
                return found
    return None


@cache
def _openblas() -> tuple[Any, Any] | None:
    """The functions (set, get) of that library, if there is one and it has them."""
    found = _function("set_num_threads"), _function("get_num_threads")
    return None if None in found else found


def kernels() -> str:
    """For which processor the kernels of OpenBLAS are, as it names it; "" where that is not known.

    It chooses them when it is loaded, by the processor or as ``OPENBLAS_CORETYPE`` says.
    """
    if (function := _function("get_corename")) is None:
        return ""
    function.restype = ctypes.c_char_p
    return function().decode()


_lock = threading.Lock()
_borrowers = 0  # computations whose threads are busy, so that linear algebra has one in each
_number: int | None = None  # of threads, where linear algebra cannot say it
_meanwhile = 1  # what it is while somebody borrows


def limit(n: int, warn: bool = True) -> None:
    """Let kernels and linear algebra use `n` threads; a warning where the library of that cannot be told."""
    global _number, _meanwhile
    found = _openblas()
    with _lock:
        _number = _meanwhile = n
        if found is not None and not _borrowers:
            found[0](ctypes.c_int(n))
    if found is None and warn:
        warnings.warn(
            "set_num_threads: NumPy's linear algebra library cannot be told at run time; set OMP_NUM_THREADS before "
            "Python starts",
            UserWarning,
            stacklevel=3,
        )


def count() -> int:
    """How many threads kernels and linear algebra use."""
    found = _openblas()
    if found is None:
        return _number or _from_environment()
    with _lock:
        return _meanwhile if _borrowers else int(found[1]())


def _from_environment() -> int:
    """OMP_NUM_THREADS, or as many as there are processors for this process."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if given.isdecimal() and int(given):
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def borrow() -> None:
    """All threads are busy from now on: linear algebra has one for each call."""
    global _borrowers, _meanwhile
    found = _openblas()
    with _lock:
        if found is not None and not _borrowers:
            _meanwhile = int(found[1]())
            found[0](ctypes.c_int(1))
        _borrowers += 1


def give_back() -> None:
    """They are free again."""
    global _borrowers
    found = _openblas()
    with _lock:
        _borrowers -= 1
        if found is not None and not _borrowers:
            found[0](ctypes.c_int(_meanwhile))


def forget() -> None:
    """In the child of a fork: nobody borrows there, whoever did in the parent."""
    global _borrowers, _lock
    _lock = threading.Lock()
    found = _openblas() if _borrowers else None
    if found is not None:
        found[0](ctypes.c_int(_meanwhile))
    _borrowers = 0
