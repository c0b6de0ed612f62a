"""Copies with a part replaced: ``<view>_scatter`` writes where the view ``<view>`` would read."""

from __future__ import annotations

import numpy as np

from ...op.declare import REGISTRY, declare
from ...op.expose import function, write_same
from ...tape import errors
from ...tape.arrays import backend_of
from ...tape.tensor import Tensor, wrap_dim
from .as_strided import as_strided, as_strided_op, positions
from .reshape import size_of
from .slicing import diagonal, diagonal_op, refuse_step, select, select_op, slice_op


def _declare_scatter(op, samples) -> None:
    """``<view>_scatter(self, src, ...)``: a copy of `self` whose view, given by `op`, holds `src`."""
    names = ", ".join(op.attrs)
    keywords = ", ".join(f"{a}={a}" for a in op.attrs)
    name = op.name + "_scatter"

    def written(xp, self, src, kwargs):
        out = xp.array(self, order="C")
        op.forward(xp, out, **kwargs)[...] = src
        return out

    text = (
        f"lambda xp, self, src, *, {names}: written(xp, self, src, dict({keywords}))",
        f"lambda F, g, src_shape, {names}: F.{name}(g, F.new_zeros(g, src_shape), {names})",
        f"lambda F, g, {names}: F.{op.name}(g, {names})",
    )
    forward, to_self, to_src = (eval(t, {"written": written}) for t in text)
    declare(
        name, forward, self=to_self, src=to_src, jvp="linear", complex=True, samples=samples,
        batch="" if op.by_place else "same_rank",
    )  # fmt: skip


_declare_scatter(select_op, lambda t: [(t(3, 4), t(4), 0, 1), (t(3), t(), 0, 1)])
_declare_scatter(slice_op, lambda t: [(t(5, 4), t(2, 4), 0, 1, 4, 2), (t(3), t(0), 0, 1, 1, 1)])
_declare_scatter(diagonal_op, lambda t: [(t(3, 4), t(3), 0, 0, 1), (t(3, 3), t(0), 5, 0, 1)])
_declare_scatter(
    as_strided_op,
    lambda t: [(t(3, 4), t(2, 2), (4, 1), (2, 2), (1, 4), 1), (t(4), t(0), (1,), (0,), (1,), 0)],
)


def _part(part: Tensor, src: Tensor) -> Tensor:
    """`src` in the dtype of the view that it replaces. RuntimeError unless their shapes agree."""
    if part.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {errors.size(src.shape)}, slice size "
            f"= {errors.size(part.shape)}"
        )
    return src if src.dtype is part.dtype else src.to(part.dtype)


@function("select_scatter", method=True)
def select_scatter(input, src, dim, index, *, out=None):
    """A copy of `input` with `src` in place of ``input.select(dim, index)``.

    Args:
        src: a tensor of the shape of that selection; it takes the dtype of `input`.
        dim: the dimension.
        index: the entry of `dim`, negative ones from the end.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`; gradients flow to both.

    Raises:
        RuntimeError: `src` has another shape.
        IndexError: no such dimension or entry.

    Example:
        >>> gradlib.select_scatter(gradlib.zeros(2, 2), gradlib.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
    """
    src = _part(select(input.detach(), dim, index), src)
    dim = wrap_dim(dim, input._array.ndim)
    n = input._array.shape[dim]
    result = REGISTRY["select_scatter"].call(input, src, dim, index + n if index < 0 else index)
    return write_same(out, result)


@function("slice_scatter", method=True)
def slice_scatter(input, src, dim=0, start=None, end=None, step=1, *, out=None):
    """A copy of `input` with `src` in place of the slice ``start:end:step`` of `dim`.

    Args:
        src: a tensor of the shape of that slice.
        dim: the dimension.
        start, end, step: as in a slice of a list, with a positive `step`.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`; gradients flow to both.

    Raises:
        RuntimeError: `src` has another shape, or `step` is not positive.
        IndexError: no such dimension.

    Example:
        >>> gradlib.slice_scatter(gradlib.zeros(4), gradlib.ones(2), 0, 0, 4, 2)
        tensor([1., 0., 1., 0.])
    """
    dim = wrap_dim(dim, input._array.ndim)
    refuse_step(step)
    start, end, step = slice(start, end, step).indices(input._array.shape[dim])
    bounds = (dim, start, max(start, end), step)
    src = _part(slice_op.call(input.detach(), *bounds), src)
    return write_same(out, REGISTRY["slice_scatter"].call(input, src, *bounds))


@function("diagonal_scatter", method=True)
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1, *, out=None):
    """A copy of `input` with `src` in place of ``input.diagonal(offset, dim1, dim2)``.

    Args:
        src: a tensor of the shape of that diagonal.
        offset: which diagonal: 0 the main one, above it positive, below it negative.
        dim1, dim2: the two dimensions that it lies in.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`; gradients flow to both.

    Raises:
        RuntimeError: `src` has another shape, or twice the same dimension.

    Example:
        >>> gradlib.diagonal_scatter(gradlib.zeros(2, 2), gradlib.ones(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    src = _part(diagonal(input.detach(), offset, dim1, dim2), src)
    n = input._array.ndim
    result = REGISTRY["diagonal_scatter"].call(
        input, src, offset, wrap_dim(dim1, n), wrap_dim(dim2, n)
    )
    return write_same(out, result)


@function("as_strided_scatter", method=True)
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of `input` with `src` in place of ``input.as_strided(size, stride, storage_offset)``.

    Args:
        src: a tensor of shape `size`; what comes to lie between or outside of the elements of `input` is left out.
        size, stride, storage_offset: as of ``as_strided``.

    Returns:
        A tensor like `input`; gradients flow to both.

    Raises:
        RuntimeError: `src` has another shape.

    Example:
        >>> gradlib.as_strided_scatter(gradlib.zeros(4), gradlib.ones(2), (2,), (2,))
        tensor([1., 0., 1., 0.])
    """
    size, stride = size_of((size,)), size_of((stride,))
    own = input.storage_offset()
    offset = (own if storage_offset is None else storage_offset) - own
    src = _part(as_strided(input.detach(), size, stride, storage_offset), src)
    places = positions(size, stride, offset)
    if input.is_contiguous() and offset >= 0 and places.max(initial=0) < max(input.numel(), 1):
        attrs = (input.stride(), size, stride, offset)
        return REGISTRY["as_strided_scatter"].call(input, src, *attrs)
    element = {int(place): k for k, place in enumerate(positions(input.shape, input.stride()))}
    found = np.array([element.get(int(place), -1) for place in places], np.int64)
    kept = np.flatnonzero(found >= 0)
    at, of = (Tensor._make(backend_of(input._array).asarray(k)) for k in (found[kept], kept))
    flat = input.reshape(-1).index_copy(0, at, src.reshape(-1).index_select(0, of))
    return flat.reshape(input.shape)
