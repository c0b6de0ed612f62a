"""What kernels ask of dtypes: half types computed in float32, refusals, PyTorch's names of kinds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from numpy import ndarray

from ..tape import dtypes, handed
from ..tape.arrays import kernels_of
from ..tape.lazy import raw_values
from ..tape.modes import AUTOCAST, state

F4, F8 = dtypes.float32.np, dtypes.float64.np


def is_half(array) -> bool:
    d = array.dtype
    return d.itemsize == 2 and d.kind in "fV"


def at_most(xp, x, limit: float):
    """The smaller one of each element and a number, in a floating array; nan stays."""
    return xp.clip(x, -math.inf, limit)


def at_least(xp, x, limit: float):
    """The larger one."""
    return xp.clip(x, limit, math.inf)


def floating(kernel: Callable, *, otherwise: Callable | None = None, refused: str = "") -> Callable:
    """A kernel for float32 and float64 made to take half types too (through float32) and to refuse integers.

    otherwise: called with the other arrays and the attributes, in place of the error. refused: how PyTorch calls the
    kernel in that error, where it is not the function's own name with "_cpu" behind.
    """

    @wraps(kernel)
    def forward(xp, self, *rest, **attrs):
        d = self.dtype
        if d is F4 or d is F8 or (d.kind == "f" and d.itemsize > 2):
            return kernel(xp, self, *rest, **attrs)
        if is_half(self):
            wide = [xp.wide(r) if hasattr(r, "dtype") else r for r in rest]
            out = kernel(xp, xp.wide(self), *wide, **attrs)
            return narrow(out, d)
        if otherwise is not None:
            return otherwise(self, **attrs)
        name = kernel.__name__.strip("_")
        if name == "<lambda>":  # the caller knows the op and turns this into its error
            raise TypeError("not supported for the input types")
        raise unsupported(refused or name + "_cpu", self)

    return forward


def narrow(out: Any, d) -> Any:
    """Results in the dtype `d` of the arguments; the first alone if there are hidden values after it."""
    if isinstance(out, tuple):
        return (narrow(out[0], d), *out[1:])
    if out.dtype is d:
        return out
    return kernels_of(out).narrow_half(out, d) if out.__class__ is ndarray else out.astype(d)


def widened(*tensors: Any) -> tuple:
    """Arguments of a function that is no op as autocast has them on the CPU: in float32; to be checked after that."""
    if not state.bits & AUTOCAST:
        return tensors
    return tuple([handed.in_autocast(t, False) for t in tensors])


def lowered(*tensors: Any) -> tuple:
    """Arguments of a function that is no op as autocast has those of products; to be checked after that."""
    if not state.bits & AUTOCAST:
        return tensors
    return tuple([handed.in_autocast(t, True) for t in tensors])


def raw(value: Any) -> Any:
    """The raw array of a Tensor; anything else as it is."""
    return raw_values(value) if hasattr(value, "_array") else value


def named(x: Any) -> str:
    """A dtype, or that of a raw array or a tensor, as error texts name it ('Long')."""
    kind = getattr(x, "dtype", x)
    return (kind if isinstance(kind, dtypes.dtype) else dtypes.from_np(kind)).scalar_type


def unsupported(kernel: str, x: Any) -> NotImplementedError:
    """The error of a kernel for a dtype, or that of a raw array or a tensor."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{named(x)}'")


def refuse(kernel: str, x: Any, kinds: str) -> None:
    """The error of `kernel` for an array or a tensor of float8, or of a kind in `kinds`, which are NumPy's letters."""
    kind = getattr(x, "_array", x).dtype
    if kind.kind in kinds or kind.names is not None:
        raise unsupported(kernel, x)


def same_dtype(a: Any, b: Any, text: str = "expected scalar type {} but found {}") -> None:
    """RuntimeError of `text`, with the names of both dtypes, unless two tensors, or raw arrays, have the same."""
    if a.dtype != b.dtype:
        raise RuntimeError(text.format(*[named(x) for x in (a, b)]))


def check_kind(array, name: str) -> None:
    if array.dtype.kind not in "fV":
        raise unsupported(name, array)


def check_parameters(x, *parameters) -> None:
    """RuntimeError for parameters of a normalisation that are not of the dtype of `x`, a raw array.

    Half types may have float32 parameters: all of them.
    """
    given = [p for p in parameters if p is not None]
    if all(p.dtype == x.dtype for p in given):
        return
    if given[0].dtype == x.dtype:
        same_dtype(x, next(p for p in given if p.dtype != x.dtype))
    if any(p.dtype != F4 for p in given):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if not is_half(x):
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def mixed_kinds(args: tuple) -> RuntimeError | None:
    """The error of an op (its `check`) whose target must have the dtype of its input."""
    kinds = [a.dtype.scalar_type for a in args[:2]]
    if kinds[0] == kinds[1]:
        return None
    return RuntimeError(f"Found dtype {kinds[1]} but expected {kinds[0]}")


def wide_or_none(xp, a) -> Any:
    return xp.wide(a) if a is not None else None


def missing(what: str, whole: bool = False):
    """The gradient formula of an argument in which an op has no derivative: backward says so.

    whole: there is no derivative in any argument, which PyTorch reports by another exception.
    """

    def formula():
        if whole:
            raise RuntimeError(f"derivative for aten::{what} is not implemented")
        raise NotImplementedError(f"the derivative for '{what}' is not implemented.")

    formula.missing = True
    return formula


def refused(what: str):
    """The same for an op that PyTorch records without any derivative."""

    def formula():
        raise RuntimeError(f"derivative for {what} is not implemented")

    formula.missing = True
    return formula


def warn_of_lost_part(target) -> None:
    """Warn that complex numbers lose a part when they become numbers of the NumPy dtype `target`; bool asks both."""
    if target.kind not in "cb":
        warnings.warn("Casting complex values to real discards the imaginary part", stacklevel=4)
