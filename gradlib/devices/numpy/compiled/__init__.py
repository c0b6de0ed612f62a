"""Kernels that numba compiles (the extra `fast`), tried before those of NumPy.

NumPy reads and writes memory once for every operation; a compiled loop keeps a whole formula in registers. That pays
for float32 arrays in formulas of many operations (gelu, silu), in norms, softmax and cross-entropy, in running sums
and products, where rows are added at places that repeat, and in depthwise convolutions; and for half types, whose
conversions NumPy makes one by one, also in arithmetic, comparisons and sums.

They are used where ``GRADLIB_NUMBA=1`` is in the environment, and not because numba happens to be installed: to import
it takes most of a second, and each kernel a second or two when it is compiled for the first time on a machine (numba
keeps it on disk, beside this file or in the user's cache). Results differ from NumPy's in the last bits, and are as
exact; they do not depend on the number of threads. Arithmetic of half types, which is rounded once, has the same bits.

A kernel is a function of contiguous arrays that returns nothing, and lets go of the interpreter's lock: blocks of it
run on the threads of `parallel`, like blocks of NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

MODULES = (
    "elementwise", "rows", "norms", "batch_norm", "classes", "attention", "pool", "depthwise", "index",
    "scans", "halves",
)  # fmt: skip
FEW = 16  # elements up to which NumPy computes: with more, a compiled function is called as quickly


def wanted() -> bool:
    """Whether the environment asks for compiled kernels."""
    return os.environ.get("GRADLIB_NUMBA", "0") not in ("", "0")


def numba() -> Any:
    """The module; ImportError that names the extra where it is missing."""
    try:
        return import_module("numba")
    except ImportError as error:
        raise ImportError(
            "GRADLIB_NUMBA asks for compiled kernels, and numba cannot be imported "
            f"({error}): pip install 'gradlib[fast]', or unset GRADLIB_NUMBA"
        ) from error


def jit(*fastmath: str, rounded: bool = False) -> Callable[[Callable], Any]:
    """The decorator of kernels: products are fused with sums; `fastmath` names what else LLVM may do.

    rounded: each product is rounded, as NumPy does it. Without "reassoc" a loop over an array computes each element
    as it is written.
    """
    allowed = {*fastmath} if rounded else {"contract", *fastmath}
    return numba().njit(nogil=True, cache=True, error_model="numpy", fastmath=allowed)


def load() -> None:
    """Import every module, which registers its overlays."""
    for name in MODULES:
        import_module(f"{__name__}.{name}")


def report(overlays: Any) -> str:
    """What is compiled, in one line: ops with an overlay, and what several ops use; "" where nothing is."""
    if not wanted():
        return ""
    overlays.names()  # which imports them
    tables = {**overlays.vjps, **overlays.forwards}
    names = sorted([n for n, f in tables.items() if f.__module__.startswith(__name__)])
    return f"numba {numba().__version__}: {', '.join(names)}, running sums and products, sums of rows by index"
