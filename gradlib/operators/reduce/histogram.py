"""Counting: bincount, histc, histogram and histogramdd."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np

from ... import return_types
from ...op.expose import c_type, function, write_same
from ...op.vmap import each_entry
from ...tape.arrays import backend_of
from ...tape.device import beside_first
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor
from ..create.ranges import linspace
from ..kinds import refuse, unsupported
from ..linalg.base import without_derivative
from .sort import I8

# -- bincount ----------------------------------------------------------------------------------------------------


@function("bincount", method=True)
@each_entry
@beside_first
def bincount(input, weights=None, minlength=0):
    """How often each of 0, 1, 2... occurs in an integer vector, or the sum of the weights of its occurrences.

    Raises RuntimeError: not a vector, or a negative number. NotImplementedError: no integers.

    Example:
        >>> gradlib.bincount(gradlib.tensor([0, 2, 2]))
        tensor([1, 0, 2])
    """
    array = input._array
    refuse("bincount_cpu", input, "fcVb")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if array.ndim != 1 or (array.size and int(array.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    xp = backend_of(array)
    array = array.astype(I8, copy=False)
    if weights is None:
        return Tensor._make(xp.bincount(array, minlength=minlength).astype(I8))
    if weights._array.shape != array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kind = weights._array.dtype
    sums = xp.bincount(array, weights._array.astype("f8"), minlength)
    sums = Tensor._make(sums.astype(kind if kind == np.float32 else "f8"))
    return without_derivative("bincount", sums, weights)


# -- histc -------------------------------------------------------------------------------------------------------


_OTHER_HIST = (
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {want} and "
    "hist {got}"
)


def _check_bins(bins: int, dim: int = 0) -> int:
    if bins <= 0:
        raise RuntimeError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}"
        )
    return bins


@function("histc", method=True)
@each_entry
@beside_first
def histc(input, bins=100, min=0, max=0, *, out=None):
    """How many elements fall into each of equal intervals.

    Args:
        input: a real tensor of any shape; elements outside and nan count nowhere.
        bins: the number of intervals.
        min, max: the ends; where both are equal, those of the data.
        out: written to instead of a new tensor.

    Returns:
        A vector of `bins` numbers of the dtype of `input`, without gradient.

    Raises:
        RuntimeError: `bins` is not positive, or `max` is below `min`.

    Example:
        >>> gradlib.histc(gradlib.tensor([1.0, 2.0, 2.5, 4.0]), 4, 0, 4)
        tensor([0., 1., 2., 1.])
    """
    array = input._array
    refuse("histogram_cpu", input, "iucb")
    _check_bins(bins)
    xp = backend_of(array)
    counts = unrecorded(xp.call, _histc, xp, array, bins, min, max)
    return write_same(out, Tensor._make(counts), _OTHER_HIST)


def _histc(xp, array, bins: int, min, max):
    low, high = float(min), float(max)
    if low == high and array.size:
        low, high = float(array.min()), float(array.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    kind = array.dtype.type  # places are computed in the dtype of the data
    first, last, values = kind(low), kind(high), array.reshape(-1)
    values = values[(values >= first) & (values <= last)]
    spots = (values - first) * kind(bins) / (last - first)
    spots = xp.minimum(spots.astype(I8), bins - 1)
    return xp.bincount(spots, minlength=bins).astype(array.dtype)


# -- histograms of several variables -----------------------------------------------------------------------------


def _range_of(xp, column, given, dim: int) -> tuple[float, float]:
    """The outer edges of the bins of one variable."""
    if given is not None:
        low, high = (float(v) for v in given)
    elif column.size:
        if column.dtype.itemsize == 2:
            raise unsupported("histogramdd", column)
        low, high = float(column.min()), float(column.max())
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {dim}'s range [{low:g}, {high:g}] is not finite"
        )
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {dim}"
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _edges(input: Tensor, rows, bins, spans, dim: int) -> Tensor:
    """The edges of the bins of one variable, given as such or as their number."""
    if not isinstance(bins, Tensor):
        low, high = _range_of(
            None, rows[:, dim], None if spans is None else spans[2 * dim : 2 * dim + 2], dim
        )
        n = _check_bins(operator.index(bins), dim) + 1
        return linspace(low, high, n, dtype=input.dtype, device=input.device)
    if bins._array.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {bins._array.ndim} dimensions in the "
            f"bins tensor for dimension {dim}"
        )
    if bins.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
            f"{c_type(input)} and bins for dimension {dim} with dtype {c_type(bins)}"
        )
    return bins.detach().clone()


def _check(input: Tensor, bins, spans, weight) -> None:
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    refuse("histogramdd", input, "iucb")
    if len(bins) != shape[-1]:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if spans is not None and len(spans) != 2 * shape[-1]:
        raise RuntimeError(
            f"torch.histogramdd: for a {shape[-1]}-dimensional histogram range should have {2 * shape[-1]} elements, "
            f"but got {len(spans)}"
        )
    if weight is None:
        return
    if weight._array.shape != shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(shape)} and weight with shape "
            f"{list(weight.shape)}"
        )
    if weight.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({c_type(input)}), and weight({c_type(weight)})"
        )


def _count(input: Tensor, bins, spans, weight, density: bool) -> tuple[Tensor, tuple]:
    """(hist, edges) of points, which are the last dimension of `input`."""
    _check(input, bins, spans, weight)
    xp = backend_of(input._array)
    return xp.call(_count_in, xp, input, bins, spans, weight, density)


def _count_in(xp, input: Tensor, bins, spans, weight, density: bool) -> tuple[Tensor, tuple]:
    array = input._array
    rows = array.reshape(-1, array.shape[-1])
    wide = np.promote_types(array.dtype, np.float32)  # NumPy does not search bfloat16
    edges = tuple([_edges(input, rows, b, spans, d) for d, b in enumerate(bins)])
    shape = tuple([max(e._array.size - 1, 0) for e in edges])
    flat, inside = xp.zeros(rows.shape[0], I8), xp.ones(rows.shape[0], bool)
    for d, (edge, n) in enumerate(zip(edges, shape)):
        spots, found = _place(
            xp, rows[:, d].astype(wide, copy=False), edge._array.astype(wide, copy=False), n
        )
        flat, inside = flat * n + spots, inside & found
    weights = None if weight is None else weight._array.reshape(-1)[inside].astype(wide, copy=False)
    counts = xp.bincount(flat[inside], weights, math.prod(shape))
    hist = counts.reshape(shape)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            hist = hist / xp.diff(edge._array.astype(wide, copy=False)).reshape(
                (-1,) + (1,) * (len(shape) - d - 1)
            )
    return Tensor._make(hist.astype(array.dtype)), edges


def _place(xp, column, edges, n: int) -> tuple[Any, Any]:
    """(bin of each value, whether it is in one); the last bin includes its right edge."""
    if not n:
        return xp.zeros(column.shape, I8), xp.zeros(column.shape, bool)
    spots = xp.minimum(xp.searchsorted(edges, column, "right") - 1, n - 1)
    return spots, (column >= edges[0]) & (column <= edges[-1])


@function("histogram", method=True)
@each_entry
def histogram(input, bins=100, *, range=None, weight=None, density=False, out=None):
    """How many elements fall into each of several intervals, and the edges of these.

    Args:
        input: a floating tensor of any shape.
        bins: the number of equal intervals, or a vector with their edges.
        range: (lowest, highest) edge; those of the data if None.
        weight: of the shape of `input`: what each element counts.
        density: whether the result is normalised so that its integral is 1.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (hist, bin_edges).

    Raises:
        RuntimeError: `bins` is not positive, or `weight` does not fit.

    Example:
        >>> gradlib.histogram(gradlib.tensor([1.0, 2.0, 2.5, 4.0]), 2, range=(0.0, 4.0)).hist
        tensor([1., 3.])
    """
    points = input.detach().reshape((-1, 1))
    flat = None if weight is None else weight.detach()
    if flat is not None and flat._array.shape == input._array.shape:
        flat = flat.reshape((-1,))
    hist, (edges,) = _count(points, (bins,), range, flat, density)
    sources = [t for t in (input, bins, weight) if isinstance(t, Tensor)]
    hist, edges = (without_derivative("histogram", t, *sources) for t in (hist, edges))
    return write_same(out, return_types.histogram(hist, edges), _OTHER_HIST)


@function("histogramdd")
@each_entry
def histogramdd(input, bins, range=None, weight=None, density=False):
    """How many points fall into each cell of a grid, and the edges of the grid.

    Args:
        input: points (..., number of variables).
        bins: one number of intervals for all variables, a sequence with one for each, or one of tensors of edges.
        range: a lowest and a highest edge for each variable, one after the other; those of the data if None.
        weight: (...): what each point counts.
        density: whether the result is normalised so that its integral is 1.

    Returns:
        A named tuple (hist, bin_edges): a tensor with a dimension for each variable, and a tuple of vectors.

    Example:
        >>> gradlib.histogramdd(gradlib.tensor([[0.0, 1.0], [1.0, 0.0]]), 2).hist
        tensor([[0., 1.],
                [1., 0.]])
    """
    n = input._array.shape[-1] if input._array.ndim else 0
    bins = tuple(itertools.repeat(bins, n)) if isinstance(bins, int) else tuple(bins)
    flat = None if weight is None else weight.detach()
    hist, edges = _count(input.detach(), bins, range, flat, density)
    sources = [t for t in (input, *bins, weight) if isinstance(t, Tensor)]
    hist = without_derivative("_histogramdd_from_bin_cts", hist, *sources)
    edges = tuple([without_derivative("_histogramdd_bin_edges", e, *sources) for e in edges])
    return return_types.histogramdd(hist, edges)
