"""Which ops compute half types in float32 and round once, as PyTorch does, whatever their formulas are.

The generated code asks for the dtype where it calls a kernel; what then runs is `devices/numpy/halves.py`. Other
devices have loops of their own for halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numpy as np

from ..tape.arrays import backend_for
from ..tape.dtypes import HALVES

# elements up to which NumPy's loops for halves take no longer than conversions: of ufuncs of one operand, of several
FEW_OF_ONE, FEW_OF_SEVERAL = 1 << 7, 1 << 11


def suits(op: Any) -> bool:
    """Whether an op of NumPy arrays of a half type is computed in float32."""
    return op.in_float32 == "whole" or by_place(op)


def by_place(op: Any) -> bool:
    """Whether, moreover, elements of the result depend on those at their places alone."""
    return (
        op.pointwise
        and op.in_float32
        and op.pieces
        and op.n_out == 1
        and op.promote in ("same", "float", "number")
        and not (
            op.hidden
            or op.leaves_device
            or op.sparse
            or op.variadic
            or op.view
            or op.copies
            or op.arrays
        )
    )


def differentiable(op: Any, wants: tuple) -> bool:
    """Whether a gradient formula of an op, which wants these values, is of the same kind."""
    return (
        by_place(op)
        and "g" in wants
        and {"g", "F", "result", *op.tensors, *op.attrs}.issuperset(wants)
    )


def forward_of(op: Any, arrays: Iterable) -> Callable:
    """The forward of an op, ``f(xp, *arrays, **attrs)``, for these raw arrays and numbers."""
    if suits(op) and any([isinstance(a, _ARRAYS) and a.dtype in HALVES for a in arrays]):
        return _in_float32(op)
    return op.forward


def runs(op: Any) -> Callable:
    """What calls the kernel of such an op: a ufunc, or a formula whose first argument is `xp`."""
    if op.in_float32 == "whole":
        return backend_for("cpu").whole_through_float32
    xp = backend_for("cpu")
    return xp.through_float32 if op.ufunc else xp.formula_through_float32


@cache
def _in_float32(op: Any) -> Callable:
    name = op.ufunc
    if not name:
        return partial(runs(op), op.forward)
    return lambda xp, *arrays, **how: xp.through_float32(getattr(xp, name), *arrays, **how)


_ARRAYS = (np.ndarray, np.generic)
