"""Reductions: sums, means, products, moments, logical tests. An attribute `dim` of () stands for all dimensions."""

from __future__ import annotations

import builtins
import math
import operator
from typing import NamedTuple

from ..core import dtypes
from ..core.formulas import formula_function
from ..core.op import declare
from ..core.tensor import Tensor, wrap_dim
from .expose import function, write_out

F4, F8 = dtypes.float32.np, dtypes.float64.np
I8 = dtypes.int64.np


# -- dimensions --------------------------------------------------------------------------------------------------


def dims_of(dim, ndim: int) -> tuple[int, ...]:
    """`dim` of a public function as non-negative ints; () stands for all (None, an empty tuple, a 0-dim tensor).

    Raises IndexError for a dimension out of range, RuntimeError for one given twice.
    """
    if dim is None:
        return ()
    if dim.__class__ is int:
        d = wrap_dim(dim, ndim)
        return (d,) if ndim else ()
    if not isinstance(dim, (tuple, list)):
        d = wrap_dim(operator.index(dim), ndim)
        return (d,) if ndim else ()
    dims = tuple([wrap_dim(operator.index(d), ndim) for d in dim])
    if len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return dims if ndim else ()


def kept(shape, dim: tuple) -> tuple:
    """`shape` with the reduced dimensions as ones."""
    if len(dim) == 1:
        (d,) = dim
        return (*shape[:d], 1, *shape[d + 1 :])
    return tuple([1 if i in dim else n for i, n in enumerate(shape)]) if dim else (1,) * len(shape)


def count(shape, dim: tuple) -> int:
    """How many elements are reduced into one."""
    if len(dim) == 1:
        return shape[dim[0]]
    return math.prod([shape[d] for d in dim] if dim else shape)


@formula_function()
def keep_dims(F, x, shape, dim, keepdim):
    """A value of reduced shape with the reduced dimensions of `shape` put back as ones."""
    return x if keepdim or not shape else F.reshape(x, kept(shape, dim))


@formula_function()
def spread(F, x, shape, dim, keepdim):
    """A value of reduced shape repeated over the reduced dimensions of `shape`."""
    return F.expand(x if keepdim or not dim else F.reshape(x, kept(shape, dim)), shape)


def result_dtype(input: Tensor, dtype) -> Tensor:
    """`input` in the dtype asked for."""
    return input if dtype is None else input.to(dtype)


# -- sum and mean ------------------------------------------------------------------------------------------------


def _sum(xp, self, *, dim, keepdim):
    d = self.dtype
    if d is F4 or d is F8 or d.kind == "c":
        return xp.add.reduce(self, dim or None, None, None, keepdim)
    if d.kind in "iub":
        return xp.add.reduce(self, dim or None, I8, None, keepdim)
    return xp.add.reduce(xp.wide(self), dim or None, None, None, keepdim).astype(d)


def _sum_all(xp, self):
    d = self.dtype
    if d is F4 or d is F8:
        return xp.add.reduce(self, None)
    return _sum(xp, self, dim=(), keepdim=False)


def _mean(xp, self, *, dim, keepdim):
    d, n = self.dtype, count(self.shape, dim)
    wide = self if d is F4 or d is F8 else xp.wide(self)
    total = xp.add.reduce(wide, dim or None, None, None, keepdim)
    total = total * math.nan if n == 0 else total / n
    return total if wide is self else total.astype(d)


sum_all = declare(
    "sum_all", _sum_all, node="SumBackward0", jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.expand(g, self_shape),
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 3),)],
)  # fmt: skip
sum_dim = declare(
    "sum", _sum, node="SumBackward1", jvp="linear", complex=True,
    self=lambda F, g, self_shape, dim, keepdim: F.spread(g, self_shape, dim, keepdim),
    samples=lambda t: [
        (t(3, 4), (1,), False), (t(3, 4), (0,), True), (t(2, 3, 4), (0, 2), False), (t(), (), True), (t(0, 3), (0,), False),
    ],
)  # fmt: skip
mean_all = declare(
    "mean_all", lambda xp, self: _mean(xp, self, dim=(), keepdim=False), node="MeanBackward0", jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.expand(g / math.prod(self_shape), self_shape),
    samples=lambda t: [(t(3, 4),), (t(),)],
)  # fmt: skip
mean_dim = declare(
    "mean", _mean, node="MeanBackward1", jvp="linear", complex=True,
    self=lambda F, g, self_shape, dim, keepdim: F.spread(g / count(self_shape, dim), self_shape, dim, keepdim),
    samples=lambda t: [
        (t(3, 4), (1,), False), (t(3, 4), (0,), True), (t(2, 3, 4), (0, 2), False), (t(), (), True), (t(3, 0), (0,), False),
    ],
)  # fmt: skip


@function("sum", method=True)
def sum(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=False):
    """The sum over all elements, or over the dimension(s) `dim`.

    dtype: the input is converted to it first. Sums of bool and integer tensors are int64.
    """
    if dim is None and dtype is None and out is None and axis is None and not (keepdim or keepdims):
        return sum_all.call(input)
    x = result_dtype(input, dtype)
    result = sum_dim.call(x, dims_of(axis if dim is None else dim, x.ndim), keepdim or keepdims)
    if dtype is not None and dtype is not result.dtype:
        result = result.to(dtype)
    return write_out(out, result) if out is not None else result


@function("mean", method=True)
def mean(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=False):
    """The mean over all elements, or over the dimension(s) `dim`. Integer input needs a floating `dtype`."""
    x = input if dtype is None else input.to(dtype)
    if x._array.dtype not in dtypes.DIFFERENTIABLE:
        what = "optional dtype, with value" if dtype is not None else "input dtype"
        how = "is not" if dtype is None else "was"
        if dtype is None:
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                f"Got: {_legacy(x.dtype)}"
            )
        raise RuntimeError(f"mean(): {what} {how} {_legacy(x.dtype)}, must be either a floating point or complex dtype.")
    if dim is None and out is None and axis is None and not (keepdim or keepdims):
        return mean_all.call(x)
    result = mean_dim.call(x, dims_of(axis if dim is None else dim, x.ndim), keepdim or keepdims)
    return write_out(out, result) if out is not None else result


def _legacy(dtype: dtypes.dtype) -> str:
    return dtype.tensor_type.removesuffix("Tensor")
