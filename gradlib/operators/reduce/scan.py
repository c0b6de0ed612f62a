"""Scans along a dimension: cumsum, cumprod, logcumsumexp, cummax, cummin."""

from __future__ import annotations

import operator
from functools import wraps

import numpy as np

from ... import return_types
from ...op.declare import Op, declare
from ...op.describe import in_place_text
from ...op.expose import c_type, function, method, write_out, write_same
from ...op.formulas import formula_function
from ...op.inplace import inplace
from ...tape import dtypes, errors
from ...tape.tensor import Tensor, wrap_dim
from ..elementwise.transcendental import logaddexp_kernel
from ..kinds import F4, narrow, refuse, unsupported
from .sort import taking
from .sums import result_dtype

I8 = dtypes.int64.np
LARGE = 512  # elements from which an array is long
FEW = 32  # most single-precision numbers whose running sum is kept in single precision; products leave its range
SMALLEST, LARGEST = 1e-250, 1e250  # products between these have all digits of double precision


def backwards(ndim: int, dim: int) -> tuple:
    """An index that reverses `dim`."""
    return (*(slice(None),) * dim, slice(None, None, -1), *(slice(None),) * (ndim - dim - 1))


# -- sums --------------------------------------------------------------------------------------------------------


def accumulate(xp, ufunc: str, x, dim: int):
    """A running sum or product; integers become int64, half types are accumulated in float32."""
    if not x.ndim:
        return x.astype(I8) if x.dtype.kind in "iub" else x.copy()
    d = x.dtype
    if d.kind in "iub":
        return getattr(xp, ufunc).accumulate(x, dim, I8)
    wide = xp.wide(x)
    out = xp.accumulate(ufunc, wide, dim)
    return out if wide is x else narrow(out, d)


WIDER = {
    **dict.fromkeys((dtypes.float32.np, dtypes.float16.np, dtypes.bfloat16.np), dtypes.float64.np),
    dtypes.complex64.np: dtypes.complex128.np,
}


def _cumsum_back(xp, self, *, dim):
    if not self.ndim:
        return self.copy()
    flip, wide = backwards(self.ndim, dim), xp.wide(self)
    out = xp.empty(wide.shape, wide.dtype)
    xp.accumulate("add", wide[flip], dim, out[flip])
    return out.astype(self.dtype, copy=False)


_SAMPLES = lambda t: [
    (t(3, 4), 1),
    (t(3, 4), 0),
    (t(5), 0),
    (t(), 0),
    (t(0, 3), 0),
    (t(0, 3), 1),
    (t(2, 3, 1), 2),
]
cumsum_op = declare(
    "cumsum", lambda xp, self, *, dim: accumulate(xp, "add", self, dim),
    autocast="cuda:float32", jvp="linear", complex=True, samples=_SAMPLES,
    row_major=True, self=lambda F, g, dim: F.cumsum_back(g, dim),
    batch="same_rank",
)  # fmt: skip
cumsum_back_op = declare(
    "cumsum_back", _cumsum_back, jvp="linear", complex=True, node="FlipBackward0", samples=_SAMPLES,
    self=lambda F, g, dim: F.cumsum(g, dim),
    batch="same_rank",
)  # fmt: skip


# -- products and log-sums: gradients through a scan of log2(n) steps, exact at zeros and infinities ---------------


def _split(F, x, dim, at):
    return F.slice(x, dim, 0, at, 1), F.slice(x, dim, at, x.shape[dim], 1)


def _steps(F, x, dim, combine):
    """The states of a doubling scan: after step k each element covers the 2**k elements before and at it."""
    states, n, step = [], x.shape[dim], 1
    while step < n:
        states.append((x, step))
        first, late = _split(F, x, dim, step)
        early = F.slice(x, dim, 0, n - step, 1)
        x = F.cat([first, combine(early, late)], dim)
        step *= 2
    return states


def _precise(quotient):
    """For the gradient of a scan: raw numbers are computed in wider ones, by `quotient` where it can."""

    def wrap(gradient):
        @wraps(gradient)
        def formula(F, g, x, dim):
            if not x.shape or 0 in x.shape:
                return g
            wider = None if hasattr(x, "_array") else WIDER.get(x.dtype)
            if wider is None:
                return gradient(F, g, x, dim)
            g, wide = g.astype(wider), x.astype(wider)
            found = quotient(F.backend, g, wide, dim) if x.dtype is F4 else None
            if found is None:
                found = gradient(F, g, wide, dim)
            return narrow(found, x.dtype)

        return formula

    return wrap


def _sums_to_end(xp, x, dim: int):
    """The sums of each element and all after it along `dim`."""
    flip, out = backwards(x.ndim, dim), np.empty(x.shape, x.dtype)
    xp.accumulate("add", x[flip], dim, out[flip])
    return out


def _cumprod_quotient(xp, g, x, dim: int):
    """The gradient of cumprod as a running sum divided by `x`; None where a factor or a product is too extreme.

    g, x: arrays of double precision that hold single-precision numbers.
    """
    if xp.waits:  # for a look at its numbers
        return None
    products = xp.accumulate("multiply", x, dim)
    size = np.absolute(products)
    if not (size.min() > SMALLEST and size.max() < LARGEST):
        return None
    products *= g
    out = _sums_to_end(xp, products, dim)
    out /= x
    return out


@formula_function()
@_precise(_cumprod_quotient)
def cumprod_gradient(F, g, x, dim):
    """The gradient of cumprod, g and x of the same shape, x conjugated."""
    for state, step in reversed(_steps(F, x, dim, lambda early, late: early * late)):
        n = state.shape[dim]
        first, late = _split(F, g, dim, step)
        early = F.slice(state, dim, 0, n - step, 1)
        to_late = F.cat([first, late * early], dim)
        to_early = late * F.slice(state, dim, step, n, 1)
        g = to_late + F.cat([to_early, F.zeros_like(first)], dim)
    return g


cumprod_op = declare(
    "cumprod", lambda xp, self, *, dim: accumulate(xp, "multiply", self, dim),
    autocast="cuda:float32", row_major=True, complex=True,
    samples=_SAMPLES, self=lambda F, g, self, dim: F.cumprod_gradient(g, self.conjugate(), dim),
    batch="same_rank",
)  # fmt: skip


@formula_function()
def log_weight(F, part, total):
    """exp(part - total): the share of a term in a sum of exponentials, 0 in an empty sum."""
    none = total == -float("inf")
    return F.exp(part - F.where(none, 0, total)).conjugate()


def _logcumsumexp_quotient(xp, g, x, dim: int):
    """The gradient of logcumsumexp by running sums of exp(x); None where one of them is too small, or not a number.

    g, x: arrays of double precision that hold single-precision numbers. With S the running sums of exp(x), the
    gradient is exp(x) times the sums of g / S from each place to the end.
    """
    if xp.waits:  # for a look at its numbers
        return None
    shifted = x - x.max(dim, keepdims=True)
    if not np.isfinite(shifted).all():
        return None
    terms = np.exp(shifted)
    sums = xp.accumulate("add", terms, dim)
    if not sums.min() > SMALLEST:
        return None
    np.divide(g, sums, sums)
    out = _sums_to_end(xp, sums, dim)
    out *= terms
    return out if np.isfinite(out).all() else None


@formula_function()
@_precise(_logcumsumexp_quotient)
def logcumsumexp_gradient(F, g, x, dim):
    """The gradient of logcumsumexp: every factor is a share of a sum, so nothing overflows."""
    for state, step in reversed(_steps(F, x, dim, lambda early, late: F.logaddexp(early, late))):
        n = state.shape[dim]
        early, late = F.slice(state, dim, 0, n - step, 1), F.slice(state, dim, step, n, 1)
        total = F.logaddexp(early, late)
        first, g_late = _split(F, g, dim, step)
        to_late = F.cat([first, g_late * F.log_weight(late, total)], dim)
        g = to_late + F.cat([g_late * F.log_weight(early, total), F.zeros_like(first)], dim)
    return g


def _logcumsumexp(xp, self, *, dim):
    refuse("logcumsumexp_out_cpu", self, "iub")
    if self.dtype.kind != "c" or not self.ndim:
        return accumulate(xp, "logaddexp", self, dim)
    out, lead = self.copy(), (slice(None),) * dim
    for i in range(
        1, self.shape[dim]
    ):  # one after the other: it decides the branch of the logarithm
        here = (*lead, i)
        out[here] = logaddexp_kernel(xp, out[here], out[(*lead, i - 1)])
    return out


logcumsumexp_op = declare(
    "logcumsumexp", _logcumsumexp, row_major=True, samples=_SAMPLES, complex=True,
    self=lambda F, g, self, dim: F.logcumsumexp_gradient(g, self, dim),
    batch="same_rank",
)  # fmt: skip


# -- running extrema ---------------------------------------------------------------------------------------------


def _running_index(ufunc: str):
    def forward(xp, self, *, dim):
        if not self.ndim:
            return xp.zeros((), I8)
        if not self.size:
            return xp.zeros(self.shape, I8)
        best = xp.accumulate(ufunc, self, dim)
        own = (self == best) | (self != self)
        if dim == self.ndim - 1 and own.size >= LARGE and not xp.waits:
            # each place stands until the next one
            spots = xp.flatnonzero(own)
            found = xp.repeat(spots % self.shape[dim], xp.diff(spots, append=self.size))
            return found.reshape(self.shape)
        steps = xp.arange(self.shape[dim]).reshape((-1, *(1,) * (self.ndim - dim - 1)))
        return xp.accumulate("maximum", xp.where(own, steps, 0), dim)

    return forward


def _dim_of(name: str, input: Tensor, dim, axis) -> int:
    """The dimension of `input` given as `dim` or `axis`; TypeError if there is none."""
    ndim = input._array.ndim
    if dim is None and axis is None:
        raise TypeError(f'{name}() missing 1 required positional arguments: "dim"')
    return wrap_dim(operator.index(axis if dim is None else dim), ndim)


SCALAR = "expected scalar_type {Want} but found {Got}"


def _running(name: str, ufunc: str, result_type) -> None:
    find = declare(
        name + "_index",
        _running_index(ufunc),
        row_major=True,
        nondifferentiable="integer",
        batch="same_rank",
        samples=lambda t: [(t(3, 4), 1), (t(), 0)],
    )
    take = taking(name)

    def call(input, dim=None, *, out=None, axis=None):
        d = _dim_of(name, input, dim, axis)
        if input.ndim and input.numel():
            refuse(f"{name}_cpu", input, "c")
        indices = find.call(input, d)
        return write_same(out, result_type(take.call(input, indices, d), indices), SCALAR)

    call.__name__ = call.__qualname__ = name
    largest = ufunc == "maximum"
    call.__doc__ = f"""The {"largest" if largest else "smallest"} element so far along a dimension, and where it is.

Args:
    input: a tensor of a real dtype.
    dim: the dimension, also under the name `axis`.
    out: a tuple of tensors, written to instead of new ones.

Returns:
    A named tuple (values, indices) of tensors of the shape of `input`; of equal elements the last place counts.

Raises:
    IndexError: no such dimension.

Example:
    >>> gradlib.{name}(gradlib.tensor([2, 1, 3, 3]), 0).values
    tensor([{"2, 2, 3, 3" if largest else "2, 1, 1, 1"}])
"""
    function(name, method=True)(call)


_running("cummax", "maximum", return_types.cummax)
_running("cummin", "minimum", return_types.cummin)


# -- public functions --------------------------------------------------------------------------------------------


def _publish(op: Op, text: str, shown: str) -> None:
    """The function and the in-place method; shown: what it gives of 1, 2, 3."""

    def call(input, dim=None, *, dtype=None, out=None, axis=None):
        d = _dim_of(op.name, input, dim, axis)
        x, dtype = result_dtype(input, dtype, out)
        result = op.call(x, d)
        if dtype is dtypes.bool_ and x.ndim:
            raise unsupported(f"{op.name}_out_cpu", dtypes.bool_)
        if dtype is not None and dtype is not result.dtype:
            result = result.to(dtype)
        return result if out is None else write_out(out, result)

    def call_inplace(self, dim, *, dtype=None):
        if dtype is not None and dtype is not self.dtype:
            raise RuntimeError(
                f"Bad in-place call: input tensor dtype {c_type(self)} and output tensor dtype "
                f"{errors.C_TYPES.get(dtype.name, dtype.name)} should match"
            )
        return inplace(op, self, (), (wrap_dim(operator.index(dim), self.ndim),))

    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = f"""The {text} along a dimension.

Args:
    input: a tensor of any dtype.
    dim: the dimension, also under the name `axis`.
    dtype: the input is converted to it first.
    out: written to instead of a new tensor.

Returns:
    A tensor of the same shape and dtype; int64 of integers and bool.

Raises:
    IndexError: no such dimension.

Example:
    >>> gradlib.{op.name}(gradlib.tensor([1, 2, 3]), 0)
    tensor([{shown}])
"""
    call_inplace.__name__ = call_inplace.__qualname__ = op.name + "_"
    call_inplace.__doc__ = in_place_text(op.name)
    function(op.name, method=True)(call)
    method(op.name + "_")(call_inplace)


_publish(cumsum_op, "running sum", "1, 3, 6")
_publish(cumprod_op, "running product", "1, 2, 6")


@function("logcumsumexp", method=True)
def logcumsumexp(input, dim=None, *, out=None, axis=None):
    """The logarithm of the running sum of exponentials along a dimension, without overflow.

    Args:
        input: a floating or complex tensor.
        dim: the dimension, also under the name `axis`.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        IndexError: no such dimension.
        NotImplementedError: integers.

    Example:
        >>> gradlib.logcumsumexp(gradlib.tensor([0.0, 0.0, 1000.0]), 0)
        tensor([0.0000e+00, 6.9315e-01, 1.0000e+03])
    """
    d = _dim_of("logcumsumexp", input, dim, axis)
    return write_same(out, logcumsumexp_op.call(input, d), SCALAR)
