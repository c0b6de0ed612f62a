"""Sums, means, products, and the log of a sum of exponentials. An attribute `dim` of () stands for all dimensions."""

from __future__ import annotations

import math
import operator
from typing import Any

from numpy import ndarray

from ...op.declare import declare
from ...op.expose import EXPECTED, function, need_tensor, write_out, write_same
from ...op.formulas import formula_function
from ...tape import dtypes, errors
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import narrow, unsupported

F4, F8 = dtypes.float32.np, dtypes.float64.np
I8 = dtypes.int64.np
FEW = 4096  # elements that every library sums well in one call


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
    """A reduced value with the reduced dimensions of `shape` put back as ones (a 0-dim one broadcasts as it is)."""
    return x if keepdim or not dim else F.reshape(x, kept(shape, dim))


@formula_function()
def spread(F, x, shape, dim, keepdim):
    """A value of reduced shape repeated over the reduced dimensions of `shape`."""
    if x.__class__ is ndarray and len(dim) == 1 and not keepdim:
        (d,), strides = dim, x.strides
        return F.backend.as_strided(x, shape, (*strides[:d], 0, *strides[d:]))
    return F.expand(x if keepdim or not dim else F.reshape(x, kept(shape, dim)), shape)


def over(F, g, n):
    """``g / n`` for a count, which half types may not hold."""
    if n > 256 and not hasattr(g, "_array") and g.dtype.itemsize == 2:
        return narrow(F.backend.wide(g) / n, g.dtype)
    return g / n


def result_dtype(input: Tensor, dtype, out: Tensor | None = None) -> tuple[Tensor, Any]:
    """`input` in the dtype asked for, by `dtype` or by the tensor given as ``out=``, and that dtype (or None).

    RuntimeError if the two differ.
    """
    if out is not None:
        if dtype is not None and dtypes.of(dtype) is not out.dtype:
            names = [errors.C_TYPES.get(d.name, d.name) for d in (dtypes.of(dtype), out.dtype)]
            raise RuntimeError(EXPECTED.format(want=names[0], got=names[1]))
        dtype = out.dtype
    return (input if dtype is None else input.to(dtype)), dtype


# -- sum and mean ------------------------------------------------------------------------------------------------


def _sum(xp, self, *, dim, keepdim):
    d = self.dtype
    if d is F4 or d is F8:
        return xp.add_up(self, dim, keepdim)
    if d.kind in "iub":
        return xp.add.reduce(self, dim or None, I8, None, keepdim)
    wide = self if self.size > FEW and self.__class__ is ndarray else xp.wide(self)
    total = xp.add_up(wide, dim, keepdim)
    return total if total.dtype is d else total.astype(d) if total.size < FEW else narrow(total, d)


def _sum_all(xp, self):
    if self.size < FEW and (self.dtype is F4 or self.dtype is F8):
        return xp.add.reduce(self, None)
    return _sum(xp, self, dim=(), keepdim=False)


def _mean(xp, self, *, dim, keepdim):
    d, n = self.dtype, count(self.shape, dim)
    if d is F4 or d is F8:
        total = xp.add_up(self, dim, keepdim)
        return total / n if n else total * math.nan
    wide = self if self.size > FEW and self.__class__ is ndarray else xp.wide(self)
    total = xp.add_up(wide, dim, keepdim)
    total = total / n if n else total * math.nan
    return total if total.dtype is d else narrow(total, d)


def _mean_all(xp, self):
    n = self.size
    if 0 < n < FEW and (self.dtype is F4 or self.dtype is F8):
        return xp.add.reduce(self, None) / n
    return _mean(xp, self, dim=(), keepdim=False)


sum_all = declare(
    "sum_all", _sum_all, autocast="cuda:float32", public="sum", node="SumBackward0", jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.expand(g, self_shape),
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 3),)],
    batch="sum_all",
)  # fmt: skip
sum_dim = declare(
    "sum", _sum, autocast="cuda:float32", row_major=True, node="SumBackward1", jvp="linear", complex=True,
    self=lambda F, g, self_shape, dim, keepdim: F.spread(g, self_shape, dim, keepdim),
    samples=lambda t: [
        (t(3, 4), (1,), False), (t(3, 4), (0,), True), (t(2, 3, 4), (0, 2), False), (t(), (), True), (t(0, 3), (0,),
        False),
    ],
    batch="same_rank",
)  # fmt: skip
mean_all = declare(
    "mean_all", _mean_all, node="MeanBackward0", jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.expand(over(F, g, math.prod(self_shape) or 1), self_shape),
    public="mean",
    samples=lambda t: [(t(3, 4),), (t(),)],
    batch="mean_all",
)  # fmt: skip
mean_dim = declare(
    "mean", _mean, row_major=True, node="MeanBackward1", jvp="linear", complex=True,
    self=lambda F, g, self_shape, dim, keepdim: F.spread(
        over(F, g, count(self_shape, dim) or 1), self_shape, dim, keepdim
    ),
    samples=lambda t: [
        (t(3, 4), (1,), False), (t(3, 4), (0,), True), (t(2, 3, 4), (0, 2), False), (t(), (), True), (t(3, 0), (0,),
        False),
    ],
    batch="same_rank",
)  # fmt: skip


@function("sum", method=True)
def sum(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=False):
    """The sum over all elements, or over dimensions.

    Args:
        input: a tensor of any dtype.
        dim: a dimension or a tuple of them, also under the name `axis`; all if None.
        keepdim: whether the dimensions that are gone stay with length one; also under the name `keepdims`.
        dtype: the input is converted to it first.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the dtype of `input`, int64 of integers and bool; 0 where there is nothing to add.

    Raises:
        IndexError: no such dimension.
        RuntimeError: a dimension is named twice.

    Example:
        >>> gradlib.sum(gradlib.tensor([[1, 2], [3, 4]]), 0)
        tensor([4, 6])
    """
    if dim is None and dtype is None and out is None and axis is None and not (keepdim or keepdims):
        return sum_all.call(input)
    if not isinstance(input, Tensor):
        raise need_tensor("sum", input)
    x, dtype = result_dtype(input, dtype, out)
    if dim is None and axis is None and not (keepdim or keepdims):
        result = sum_all.call(x)
    else:
        result = sum_dim.call(x, dims_of(axis if dim is None else dim, x.ndim), keepdim or keepdims)
    if dtype is not None and dtype is not result.dtype:
        result = result.to(dtype)
    return write_out(out, result) if out is not None else result


@function("mean", method=True)
def mean(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=False):
    """The mean over all elements, or over the dimension(s) `dim`. Integer input needs a floating `dtype`.

    Raises RuntimeError: an integer tensor without `dtype`. IndexError: no such dimension.

    Example:
        >>> gradlib.mean(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), 1)
        tensor([1.5000, 3.5000])
    """
    x = input if dtype is None else input.to(dtype)
    if x._array.dtype not in dtypes.DIFFERENTIABLE:
        what = "could not infer output dtype. Input dtype" if dtype is None else "optional dtype"
        raise RuntimeError(
            f"mean(): {what} must be either a floating point or complex dtype. Got: {x.dtype.scalar_type}"
        )
    if dim is None and out is None and axis is None and not (keepdim or keepdims):
        return mean_all.call(x)
    result = mean_dim.call(x, dims_of(axis if dim is None else dim, x.ndim), keepdim or keepdims)
    return (write_out if dtype is None else write_same)(out, result)


# -- sums without nan --------------------------------------------------------------------------------------------


def _nansum(xp, self, *, dim, keepdim):
    kept_values = (
        self
        if self.dtype.kind in "iub"
        else xp.where(xp.isnan(self), xp.zeros((), self.dtype), self)
    )
    return _sum(xp, kept_values, dim=dim, keepdim=keepdim)


nansum_op = declare(
    "nansum", _nansum, row_major=True,
    self=lambda F, g, self, dim, keepdim: F.where(F.isnan(self), 0, F.spread(g, self.shape, dim, keepdim)),
    jvp=lambda F, self, self_t, dim, keepdim: F.sum(F.where(F.isnan(self), 0, self_t), dim, keepdim),
    samples=lambda t: [(t(3, 4), (1,), False), (t(2, 3), (), True), (t(), (), False), (t(0, 3), (0,), False)],
    batch="same_rank",
)  # fmt: skip


@function("nansum", method=True)
def nansum(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=False):
    """The sum over dimensions with nan counted as zero.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension or a tuple of them, also under the name `axis`; all if None.
        keepdim: whether the dimensions that are gone stay with length one; also under the name `keepdims`.
        dtype: the input is converted to it first.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the dtype of `input`, int64 of integers and bool; its gradient is 0 where a nan was.

    Raises:
        IndexError: no such dimension.
        RuntimeError: complex numbers.

    Example:
        >>> gradlib.nansum(gradlib.tensor([1.0, float("nan"), 2.0]))
        tensor(3.)
    """
    dims = dims_of(dim if axis is None else axis, input._array.ndim)
    if input.is_complex():
        raise RuntimeError("nansum on CPU does not support complex inputs")
    x, dtype = result_dtype(input, dtype, out)
    if x.dtype.category < dtypes.FLOATING <= input.dtype.category:
        raise unsupported("nansum_cpu", x)
    result = nansum_op.call(x, dims, keepdim or keepdims)
    if dtype is not None and dtype is not result.dtype:
        result = result.to(dtype)
    return write_out(out, result)


@function("nanmean", method=True)
def nanmean(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=False):
    """The mean over dimensions of the elements that are not nan.

    Args:
        input: a floating or complex tensor.
        dim: a dimension or a tuple of them, also under the name `axis`; all if None.
        keepdim: whether the dimensions that are gone stay with length one; also under the name `keepdims`.
        dtype: the input is converted to it first.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the dtype of `input`; nan where there is no other element.

    Raises:
        IndexError: no such dimension.
        RuntimeError: integers.

    Example:
        >>> gradlib.nanmean(gradlib.tensor([1.0, float("nan"), 2.0]))
        tensor(1.5000)
    """
    dim, keepdim = dim if axis is None else axis, keepdim or keepdims
    if input._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype.scalar_type}"
        )
    valid = sum(input.isnan().logical_not(), dim, keepdim)
    result = nansum(input, dim, keepdim, dtype=dtype) / valid
    return (write_out if dtype is None else write_same)(out, result)


# -- products ----------------------------------------------------------------------------------------------------


def _others(xp, x, dim: int):
    """For each element the product of the others along `dim`: products of what is before and what is after it."""
    n, lead = x.shape[dim], (slice(None),) * dim
    out = xp.ones_like(x)
    if n > 1:
        xp.multiply.accumulate(x[(*lead, slice(0, n - 1))], dim, None, out[(*lead, slice(1, n))])
        after = xp.multiply.accumulate(x[(*lead, slice(n - 1, 0, -1))], dim)
        out[(*lead, slice(0, n - 1))] *= after[(*lead, slice(None, None, -1))]
    return out


@formula_function()
def prod_gradient(F, g, x, dim):
    """For each element the product of the others along `dim`, times g, which has length 1 there.

    A tree of pairwise products down and back up: exact where elements are zero, and differentiable again.
    """
    levels, n = [], x.shape[dim]
    if not hasattr(x, "_array"):
        return g * _others(F.backend, x, dim)
    if n == 0:
        return F.expand(g, x.shape)
    while n > 1:
        half = n // 2
        a, b = F.slice(x, dim, 0, half, 1), F.slice(x, dim, half, 2 * half, 1)
        levels.append((a, b, n))
        x = a * b if n == 2 * half else F.cat([a * b, F.slice(x, dim, 2 * half, n, 1)], dim)
        n = x.shape[dim]
    for a, b, n in reversed(levels):
        half = n // 2
        if n == 2 * half:
            g = F.cat([g * b, g * a], dim)
        else:
            first = F.slice(g, dim, 0, half, 1)
            g = F.cat([first * b, first * a, F.slice(g, dim, half, half + 1, 1)], dim)
    return g


def _prod(xp, self, *, dim, keepdim):
    d = self.dtype
    if d.kind in "iub":
        return xp.multiply.reduce(self, dim or None, I8, None, keepdim)
    wide = xp.wide(self)
    result = xp.multiply.reduce(wide, dim or None, None, None, keepdim)
    return result if wide is self else narrow(result, d)


def _prod_all_self(F, g, self, self_shape):
    flat = F.reshape(self.conjugate(), (-1,))
    return F.reshape(F.prod_gradient(F.reshape(g, (1,)), flat, 0), self_shape)


def _prod_self(F, g, self, self_shape, dim, keepdim):
    if not dim:
        return g
    return F.prod_gradient(F.keep_dims(g, self_shape, dim, keepdim), self.conjugate(), dim[0])


prod_all = declare(
    "prod_all", lambda xp, self: _prod(xp, self, dim=(), keepdim=False), autocast="float32", public="prod",
    node="ProdBackward0", complex=True,
    self=_prod_all_self, samples=lambda t: [(t(5),), (t(2, 3),), (t(),), (t(0),)],
    batch="prod_all",
)  # fmt: skip
prod_dim = declare(
    "prod", _prod, autocast="float32", node="ProdBackward1", row_major=True, complex=True, self=_prod_self,
    samples=lambda t: [(t(3, 4), (1,), False), (t(2, 3, 2), (1,), True), (t(), (), False), (t(2, 0), (1,), False),
    (t(3, 1), (1,), False)],
    batch="same_rank",
)  # fmt: skip


@function("prod", method=True)
def prod(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=False):
    """The product of all elements, or over the dimension `dim` (an int). Exact gradients where elements are zero.

    Raises IndexError: no such dimension.

    Example:
        >>> gradlib.prod(gradlib.tensor([2.0, 3.0]))
        tensor(6.)
    """
    if not isinstance(input, Tensor):
        raise need_tensor("prod", input)
    x, dtype = result_dtype(input, dtype, out)
    dim = axis if dim is None else dim
    result = (
        prod_all.call(x)
        if dim is None
        else prod_dim.call(x, dims_of(operator.index(dim), x.ndim), keepdim or keepdims)
    )
    if dtype is not None and dtype is not result.dtype:
        result = result.to(dtype)
    return write_out(out, result)


# -- log of the sum of exponentials ------------------------------------------------------------------------------


def _logsumexp(xp, self, *, dim, keepdim):
    wide = xp.wide(self)
    if not self.size:
        return xp.log(xp.add.reduce(wide, dim or None, None, None, keepdim)).astype(self.dtype)
    top = wide.real.max(dim or None, None, True)
    top = xp.where(xp.isfinite(top), top, xp.zeros((), top.dtype))
    total = xp.log(xp.add.reduce(xp.exp(wide - top), dim or None, None, None, True)) + top
    result = (
        total
        if keepdim
        else total.reshape([n for i, n in enumerate(self.shape) if dim and i not in dim])
    )
    return result if wide is self else narrow(result, self.dtype)


logsumexp_op = declare(
    "logsumexp", _logsumexp, autocast="cuda:float32", row_major=True, promote="float", complex=True,
    self=lambda F, g, self, result, dim, keepdim: F.keep_dims(g, self.shape, dim, keepdim)
    * F.exp(self - F.keep_dims(result, self.shape, dim, keepdim)).conjugate(),
    samples=lambda t: [(t(3, 4), (1,), False), (t(2, 3, 4), (0, 2), True), (t(), (), False), (t(0, 3), (1,), False)],
    batch="same_rank",
)  # fmt: skip


@function("logsumexp", method=True)
def logsumexp(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False):
    """``log(sum(exp(input)))`` over the dimension(s) `dim`, without overflow.

    Raises IndexError: no such dimension. Integers become floating.

    Example:
        >>> gradlib.logsumexp(gradlib.tensor([1000.0, 1000.0]), 0)
        tensor(1000.6932)
    """
    dim = axis if dim is None else dim
    if dim is None:
        raise TypeError("logsumexp(): argument 'dim' must be tuple of ints, not NoneType")
    dims = dims_of(dim, input._array.ndim)
    return write_out(out, logsumexp_op.call(input, dims, keepdim or keepdims))
