"""Order statistics: median, nanmedian, mode, quantile, nanquantile; and covariances."""

from __future__ import annotations

import math
import operator

import numpy as np

from ... import return_types
from ...op.declare import declare
from ...op.expose import function, need_tensor, write_out, write_same
from ...tape import dtypes
from ...tape.lazy import raw_values
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor, wrap_dim
from ..create.data import tensor
from ..kinds import refuse, widened
from .extrema import _share_jvp, grid, taken
from .sort import stable_order

# -- the index of an element by its rank -------------------------------------------------------------------------


def _at(xp, order, rank, dim: int):
    """order[..., rank, ...] along `dim`; `rank` has length 1 there."""
    return order[grid(xp, rank, dim)].squeeze(dim)


def ranked_by(name: str, order):
    """The kernel that finds the index of the median or nanmedian along `dim`; order: as `stable_order`."""

    def forward(xp, self, *, dim):
        refuse("median_out", self, "bc")
        if not self.ndim:
            return xp.zeros((), "i8")
        n = self.shape[dim]
        found = order(xp, xp.wide(self), dim, False)  # nan comes last
        shape = (*self.shape[:dim], 1, *self.shape[dim + 1 :])
        rank = xp.full(shape, (n - 1) // 2)
        if self.dtype.kind in "fV":
            nan = xp.add.reduce(self != self, dim, "i8", None, True)
            rank = (
                xp.where(nan > 0, n - nan, rank)
                if name == "median"
                else xp.maximum(n - nan - 1, 0) // 2
            )
        return _at(xp, found, rank, dim)

    return forward


def _mode_index(xp, self, *, dim):
    """The last place of the most frequent element (of the smallest such element)."""
    refuse("mode_cpu", self, "c")
    if not self.ndim:
        return xp.zeros((), "i8")
    n = self.shape[dim]
    order = xp.argsort(self, dim, kind="stable")
    values = xp.moveaxis(self[grid(xp, order, dim)], dim, -1)
    places = xp.arange(n)
    new = xp.concatenate(
        [xp.ones((*values.shape[:-1], 1), bool), values[..., 1:] != values[..., :-1]], -1
    )
    start = xp.maximum.accumulate(xp.where(new, places, 0), -1)
    end = (places - start).argmax(-1)
    return _at(xp, order, xp.expand_dims(end, dim), dim)


def _samples(t):
    return [(t(3, 4), 1), (t(2, 3), 0), (t(), 0)]


index_ops = {
    name: declare(
        name + "_index",
        ranked_by(name, stable_order),
        nondifferentiable="integer",
        batch="same_rank",
        samples=_samples,
    )
    for name in ("median", "nanmedian")
}
mode_index = declare(
    "mode_index", _mode_index, nondifferentiable="integer", samples=_samples, batch="same_rank"
)
median_dim = taken("median", node="MedianBackward1")
nanmedian_dim = taken("nanmedian", node="NanmedianBackward1")
mode_op = taken("mode")


def median_all_by(name: str, order):
    """The kernel of the median or nanmedian of all elements."""
    index = ranked_by(name, order)

    def forward(xp, self):
        if not self.size:
            with np.errstate(invalid="ignore"):
                return xp.asarray(math.nan).astype(self.dtype)
        refuse("median_cpu", self, "bc")
        flat = self.reshape(-1)
        return flat[index(xp, flat, dim=0)]

    return forward


median_all, nanmedian_all = (
    declare(
        name + "_all", median_all_by(name, stable_order), public=name,
        node=name.capitalize() + "Backward0", samples=lambda t: [(t(3, 4),), (t(),)],
        self=lambda F, g, self, result: F.share_ties(g, self, result, None, False),
        jvp=lambda F, self, self_t, result: _share_jvp(F, self, self_t, result, None, False),
    )
    for name in ("median", "nanmedian")
)  # fmt: skip


def _check(name: str, input: Tensor, dim: int) -> None:
    if input.ndim and not input.shape[dim]:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _median(name, all_op, dim_op, input, dim, keepdim, out):
    if dim is None:
        return write_out(out, all_op.call(input))
    ndim = input._array.ndim
    d = wrap_dim(operator.index(dim), ndim)
    _check(name, input, d)
    return _pair(
        dim_op, index_ops[name].call(input, d), getattr(return_types, name), input, d, keepdim, out
    )


def _pair(op, index, result_type, input, dim, keepdim, out):
    if keepdim and input.ndim:
        index = index.unsqueeze(dim)
    return write_out(out, result_type(op.call(input, index, dim, keepdim), index))


@function("median", method=True)
def median(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False):
    """The middle element, of two the smaller one; nan if there is any.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension, also under the name `axis`; all elements if None.
        keepdim: whether that dimension stays with length one.
        out: written to instead of a new tensor.

    Returns:
        A tensor without dimensions, whose gradient equal elements share; with `dim` a named tuple (values, indices).

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.median(gradlib.tensor([3, 1, 2, 4]))
        tensor(2)
    """
    dim, keepdim = axis if dim is None else dim, keepdim or keepdims
    return _median("median", median_all, median_dim, input, dim, keepdim, out)


@function("nanmedian", method=True)
def nanmedian(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False):
    """The median of the elements that are not nan; of two in the middle the smaller one.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension, also under the name `axis`; all elements if None.
        keepdim: whether that dimension stays with length one.
        out: written to instead of a new tensor.

    Returns:
        A tensor without dimensions; with `dim` a named tuple (values, indices). nan where all elements are.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.nanmedian(gradlib.tensor([1.0, float("nan"), 3.0, 2.0]))
        tensor(2.)
    """
    dim, keepdim = axis if dim is None else dim, keepdim or keepdims
    return _median("nanmedian", nanmedian_all, nanmedian_dim, input, dim, keepdim, out)


@function("mode", method=True)
def mode(input, dim=-1, keepdim=False, *, out=None, axis=None, keepdims=False):
    """The most frequent element along a dimension, the smallest of those.

    Args:
        input: a tensor of a real dtype.
        dim: the dimension, also under the name `axis`.
        keepdim: whether it stays with length one; also under the name `keepdims`.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (values, indices), the index of the last place of that value.

    Raises:
        IndexError: no such dimension, or one of length 0.

    Example:
        >>> gradlib.mode(gradlib.tensor([2, 1, 2, 1, 3]))
        torch.return_types.mode(
        values=tensor(1),
        indices=tensor(3))
    """
    dim, keepdim = dim if axis is None else axis, keepdim or keepdims
    ndim = input._array.ndim
    d = wrap_dim(operator.index(dim), ndim)
    _check("mode", input, d)
    found = _pair(mode_op, mode_index.call(input, d), return_types.mode, input, d, keepdim, None)
    return write_same(out, found, "expected scalar type '{Want}' but got '{Got}' for values output")


# -- quantiles ---------------------------------------------------------------------------------------------------


def _check_quantile(name: str, input: Tensor, q, interpolation: str) -> None:
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    given = raw_values(q)
    if given.__class__ is np.ndarray:
        unrecorded(_refuse_outside, given)
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )


def _refuse_outside(q) -> None:
    if not ((q >= 0) & (q <= 1)).all():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")


def _quantile(name: str, input, q, dim, keepdim, interpolation, out):

    if not isinstance(input, Tensor):
        raise need_tensor(name, input)
    input, q = widened(input, q)
    if out is not None and out.dtype is not input.dtype:
        raise RuntimeError("quantile() out tensor must be same dtype as the input tensor")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
        q = tensor(q, dtype=input.dtype, device=input.device)
    _check_quantile(name, input, q, interpolation)
    ndim = input.ndim
    d = None if dim is None else wrap_dim(dim, ndim)
    x = input.reshape((-1,)) if d is None or not ndim else input.movedim(d, -1)
    values = x.sort(-1)[0]
    n, nan = x.shape[-1], x.detach().isnan()
    if name == "quantile":
        last = nan.any(-1, keepdim=True)
        rank = (q * (n - 1)).expand((*x.shape[:-1], q.numel()))
        rank = rank.where(last.logical_not(), float(n - 1))
    else:
        count = nan.logical_not().sum(-1, keepdim=True).to(input.dtype)
        rank = (q * (count - 1)).clamp_min(0)
    rank = (
        rank.round()
        if interpolation == "nearest"
        else rank.floor()
        if interpolation == "lower"
        else rank
    )
    rank = rank.ceil() if interpolation == "higher" else rank
    low = rank.floor()
    result = values.take_along_dim(low.to(dtypes.int64).detach(), -1)
    if interpolation in ("linear", "midpoint"):
        high = values.take_along_dim(rank.ceil().to(dtypes.int64).detach(), -1)
        weight = rank - low if interpolation == "linear" else (rank != low).to(input.dtype) * 0.5
        # no step from minus infinity to a number, or to itself, leads anywhere
        below, above = result.detach(), high.detach()
        still = (below == above) | ((below == -math.inf) & (above < math.inf))
        result = result + (high - result).where(still.logical_not(), 0.0) * weight
    return write_out(out, _place(result, q, ndim, d, keepdim))


def _place(result, q, ndim: int, d, keepdim: bool):
    """Quantiles are last in `result`: q's dimension goes first, the reduced ones come back if kept."""
    result = result.movedim(-1, 0) if q.ndim else result.squeeze(-1)
    if keepdim and ndim:
        if d is None:
            return result.reshape((*result.shape[: q.ndim], *(1,) * ndim))
        return result.unsqueeze(d + q.ndim)
    return result


@function("quantile", method=True)
def quantile(
    input,
    q,
    dim=None,
    keepdim=False,
    *,
    interpolation="linear",
    out=None,
    axis=None,
    keepdims=False,
):
    """The q-quantiles of all elements or along `dim`; those of a vector q are in the first dimension of the result.

    Raises RuntimeError: q is outside of [0, 1], the tensor is empty, or the dtypes differ.

    Example:
        >>> gradlib.quantile(gradlib.tensor([1.0, 2.0, 4.0]), 0.5)
        tensor(2.)
    """
    dim, keepdim = axis if dim is None else dim, keepdim or keepdims
    return _quantile("quantile", input, q, dim, keepdim, interpolation, out)


@function("nanquantile", method=True)
def nanquantile(
    input,
    q,
    dim=None,
    keepdim=False,
    *,
    interpolation="linear",
    out=None,
    axis=None,
    keepdims=False,
):
    """The quantiles of the elements that are not nan; see ``quantile``.

    Args:
        input: a float32 or float64 tensor.
        q: a number in [0, 1], or a vector of them of the dtype of `input`.
        dim: a dimension, also under the name `axis`; all elements if None.
        keepdim: whether that dimension stays with length one.
        interpolation: between two elements "linear", "lower", "higher", "midpoint" or "nearest".
        out: written to instead of a new tensor.

    Returns:
        A tensor, with a first dimension for `q` if that is a vector.

    Raises:
        RuntimeError: another dtype, or a `q` that is not in [0, 1].

    Example:
        >>> gradlib.nanquantile(gradlib.tensor([1.0, float("nan"), 2.0]), 0.5)
        tensor(1.5000)
    """
    dim, keepdim = axis if dim is None else dim, keepdim or keepdims
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, out)
