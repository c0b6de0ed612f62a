"""Views of parts: select, slice, diagonal, windows, strides, and writing into such parts of a copy."""

from __future__ import annotations

import math
import operator

import numpy as np

from ...op.declare import REGISTRY, declare
from ...op.expose import function, method, write_same
from ...op.formulas import formula_function
from ...tape import errors, memory
from ...tape.arrays import backend_of
from ...tape.memory import extent, owner
from ...tape.tensor import Tensor, wrap_dim
from .dims import relabel
from .reshape import size_of

ALL = slice(None)


def at(dim: int, item) -> tuple:
    """The key that applies `item` to dimension `dim`; always gives a view, never a NumPy scalar."""
    return (item, ...) if dim == 0 else (ALL,) * dim + (item, ...)


@formula_function()
def new_zeros(F, like, shape):
    """Zeros of another shape with the dtype (and device) of `like`."""
    if hasattr(like, "_array"):
        return like.new_zeros(tuple(shape))
    return F.backend.zeros(tuple(shape), like.dtype)


# -- select and slice --------------------------------------------------------------------------------------------


def _select_backward(xp, grad, *, shape, dim, index):
    out = xp.zeros(shape, grad.dtype)
    out[at(dim, index)] = grad
    return out


select_op = declare(
    "select", lambda xp, self, *, dim, index: self[index, ...] if dim == 0 else self[(ALL,) * dim + (index, ...)],
    view=True, jvp="linear", complex=True,
    self=lambda F, g, self_shape, dim, index: F.select_backward(g, self_shape, dim, index),
    samples=lambda t: [(t(3, 4), 0, 2), (t(3, 4), 1, 0), (t(3), 0, 1), (t(2, 0), 0, 1)],
    batch="same_rank",
)  # fmt: skip
select_backward_op = declare(
    "select_backward", _select_backward, jvp="linear", complex=True,
    grad=lambda F, g, dim, index: F.select(g, dim, index),
    samples=lambda t: [(t(4), (3, 4), 0, 2), (t(), (3,), 0, 1), (t(0), (2, 0), 0, 1)],
    batch="same_rank",
)  # fmt: skip


def _slice(xp, self, *, dim, start, end, step):
    part = slice(start, end, step)
    return self[part] if dim == 0 else self[(ALL,) * dim + (part,)]


def _slice_backward(xp, grad, *, shape, dim, start, end, step):
    out = xp.zeros(shape, grad.dtype)
    out[at(dim, slice(start, end, step))] = grad
    return out


slice_op = declare(
    "slice", _slice, view=True, jvp="linear", complex=True,
    self=lambda F, g, self_shape, dim, start, end, step: F.slice_backward(g, self_shape, dim, start, end, step),
    samples=lambda t: [(t(5, 4), 0, 1, 4, 2), (t(3, 4), 1, 0, 2, 1), (t(3), 0, 1, 1, 1), (t(2, 0), 1, 0, 0, 1)],
    batch="same_rank",
)  # fmt: skip
slice_backward_op = declare(
    "slice_backward", _slice_backward, jvp="linear", complex=True,
    grad=lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step),
    samples=lambda t: [(t(2, 4), (5, 4), 0, 1, 4, 2), (t(0), (3,), 0, 1, 1, 1)],
    batch="same_rank",
)  # fmt: skip


narrow_copy_op = declare(
    "narrow_copy", lambda xp, self, *, dim, start, end: self[at(dim, slice(start, end))].copy(), jvp="linear",
        complex=True,
    self=lambda F, g, self_shape, dim, start, end: F.slice_backward(g, self_shape, dim, start, end, 1),
    samples=lambda t: [(t(5, 4), 0, 1, 4), (t(3), 0, 1, 1), (t(2, 0), 1, 0, 0)],
)  # fmt: skip


@function("select", method=True)
def select(input, dim, index):
    """A view of the entries at `index` of dimension `dim`, which goes away.

    Raises IndexError: `index` or `dim` is out of range.

    Example:
        >>> gradlib.select(gradlib.tensor([[1, 2], [3, 4]]), 0, 1)
        tensor([3, 4])
    """
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = wrap_dim(dim, len(shape)), operator.index(index)
    n = shape[dim]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {errors.size(shape)} at dimension {dim}"
        )
    return select_op.call(input, dim, index + n if index < 0 else index)


@function("narrow", method=True)
def narrow(input, dim, start, length):
    """A view of `length` entries of dimension `dim` from `start` on.

    Raises RuntimeError: the part reaches beyond the end. IndexError: no such dimension.

    Example:
        >>> gradlib.narrow(gradlib.tensor([1, 2, 3]), 0, 1, 2)
        tensor([2, 3])
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start._array.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    dim, start = wrap_dim(dim, len(shape)), operator.index(start)
    n = shape[dim]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(
            f"start out of range (expected to be in range of [{-n}, {n}], but got {start})"
        )
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return slice_op.call(input, dim, start, start + length, 1)


@function("narrow_copy", method=True)
def narrow_copy(input, dim, start, length, *, out=None):
    """The entries ``start, ..., start + length - 1`` of `dim` with memory of their own: a copy of ``narrow``.

    Args:
        dim: the dimension.
        start: the first entry; negative ones count from the end.
        length: how many.
        out: written to instead of a new tensor.

    Returns:
        A new tensor; gradients flow to `input`.

    Raises:
        IndexError: no such start.
        RuntimeError: no such dimension; the length is negative, or goes beyond the end.

    Example:
        >>> gradlib.narrow_copy(gradlib.tensor([1, 2, 3]), 0, 1, 2)
        tensor([2, 3])
    """
    if not 0 <= wrap_dim(dim, max(input._array.ndim, dim + 1)) < max(input._array.ndim, 1):
        raise RuntimeError(
            f"narrow_copy(): dim {dim} is not one of the {input._array.ndim} dimensions of the input"
        )
    part = narrow(input.detach(), dim, start, length)
    dim = wrap_dim(dim, part._array.ndim)
    start = start + input._array.shape[dim] if start < 0 else start
    return write_same(
        out,
        narrow_copy_op.call(input, dim, start, start + length),
        "Expected self.dtype() == output.dtype() to be true, but got false.",
    )


@function("slice_inverse", method=True)
def slice_inverse(input, src, dim=0, start=None, end=None, step=1):
    """The tensor that `input` is a slice of, laid out in memory as `src` is: the opposite of slicing.

    Args:
        input: the slice ``start:end:step`` of `dim` of the wanted tensor.
        src: a tensor of the shape and strides of the result; its values do not count.
        dim, start, end, step: which slice it is.

    Returns:
        A view of the memory of `input` around it.
    """
    return as_strided(input, src.shape, src.stride(), src.storage_offset())


# -- diagonals ---------------------------------------------------------------------------------------------------


def _diagonal(xp, self, *, offset, dim1, dim2):
    out = xp.diagonal(self, offset, dim1, dim2)
    if getattr(out.flags, "writeable", True) is False and self.flags.writeable:
        out.setflags(write=True)  # NumPy hands it out read-only
    return out


def _diagonal_backward(xp, grad, *, shape, offset, dim1, dim2):
    out = xp.zeros(shape, grad.dtype)
    _diagonal(xp, out, offset=offset, dim1=dim1, dim2=dim2)[...] = grad
    return out


diagonal_op = declare(
    "diagonal", _diagonal, view=True, jvp="linear", complex=True,
    self=lambda F, g, self_shape, offset, dim1, dim2: F.diagonal_backward(g, self_shape, offset, dim1, dim2),
    samples=lambda t: [(t(3, 4), 0, 0, 1), (t(2, 3, 4), 1, 2, 0), (t(3, 3), 5, 0, 1)],
    batch="same_rank",
)  # fmt: skip
diagonal_backward_op = declare(
    "diagonal_backward", _diagonal_backward, jvp="linear", complex=True,
    grad=lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2),
    samples=lambda t: [(t(3), (3, 4), 0, 0, 1), (t(0), (3, 3), 5, 0, 1)],
    batch="same_rank",
)  # fmt: skip


def two_dims(dim1: int, dim2: int, n: int) -> tuple[int, int]:
    """Both dimensions of a diagonal, not negative; RuntimeError if they are one."""
    d1, d2 = wrap_dim(dim1, n), wrap_dim(dim2, n)
    if d1 == d2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return d1, d2


@function("diagonal", method=True)
def diagonal(input, offset=0, dim1=0, dim2=1):
    """A view of the diagonal of the dimensions `dim1` and `dim2`, which go; it is the last dimension.

    Raises RuntimeError: the dimensions are one. IndexError: no such dimension.

    Example:
        >>> gradlib.diagonal(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return diagonal_op.call(input, offset, *two_dims(dim1, dim2, input._array.ndim))


# -- windows and strides -----------------------------------------------------------------------------------------


def _unfold(xp, self, *, dim, size, step):
    if not self.ndim:
        return self.reshape(1)[:size]
    n, stride = self.shape[dim], self.strides[dim]
    shape = (*self.shape[:dim], (n - size) // step + 1, *self.shape[dim + 1 :], size)
    strides = (*self.strides[:dim], stride * step, *self.strides[dim + 1 :], stride)
    return xp.as_strided(self, shape, strides)


def _unfold_backward(xp, grad, *, shape, dim, size, step):
    out = xp.zeros(shape, grad.dtype)
    if not shape:
        return out + grad.sum()
    count = grad.shape[dim]
    for k in range(size):
        out[at(dim, slice(k, k + (count - 1) * step + 1, step))] += grad[..., k]
    return out


unfold_op = declare(
    "unfold", _unfold, view=True, jvp="linear", complex=True,
    self=lambda F, g, self_shape, dim, size, step: F.unfold_backward(g, self_shape, dim, size, step),
    samples=lambda t: [(t(7, 2), 0, 3, 2), (t(2, 5), 1, 2, 1), (t(), 0, 1, 1), (t(0, 4), 1, 2, 2)],
    batch="same_rank",
)  # fmt: skip
unfold_backward_op = declare(
    "unfold_backward", _unfold_backward, jvp="linear", complex=True,
    grad=lambda F, g, dim, size, step: F.unfold(g, dim, size, step),
    samples=lambda t: [(t(3, 2, 3), (7, 2), 0, 3, 2)],
    batch="same_rank",
)  # fmt: skip


@method("unfold")
def unfold(self, dimension, size, step):
    """A view of all windows of one dimension: each is a new last dimension.

    Args:
        dimension: the dimension, of length n.
        size: the length of a window.
        step: how far the next window is from the one before.

    Returns:
        A view (..., (n - size) // step + 1, ..., size), in which windows that overlap share memory.

    Raises:
        RuntimeError: `size` is negative or more than n, or `step` is not positive.
        IndexError: no such dimension.

    Example:
        >>> gradlib.tensor([1, 2, 3, 4]).unfold(0, 2, 1)
        tensor([[1, 2],
                [2, 3],
                [3, 4]])
    """
    shape = self._array.shape
    dim = wrap_dim(dimension, len(shape))
    n = shape[dim] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return unfold_op.call(self, dim, size, step)


def _positions(shape, stride, offset: int = 0):
    """For each element of a strided layout its place in memory, as a flat integer array."""
    places = np.full((), offset, np.int64)
    for n, s in zip(shape, stride):
        places = places[..., None] + np.arange(n) * s
    return places.reshape(-1)


def _as_strided_backward(F, g, self_shape, self_stride, size, stride, offset):
    """Gradients of what lies at the same place in memory are added, and shared among input elements there."""
    read, own = _positions(size, stride, offset), _positions(self_shape, self_stride)
    if not own.size:
        return F.new_zeros(g, self_shape)
    low = min(int(own.min()), int(read.min(initial=0)))
    length = max(int(own.max()), int(read.max(initial=0))) - low + 1
    memory = F.index_backward(
        F.reshape(g, (read.size,)), (length,), (F.places_like(g, read - low),)
    )
    spread = F.index(memory, (F.places_like(g, own - low),))
    counts = np.bincount(own - low, minlength=length)
    if (counts > 1).any():
        shared = counts[own - low].astype(np.float32)
        spread = spread / (F.constant(g, shared))
    return F.reshape(spread, self_shape)


@formula_function()
def constant(F, like, array):
    """A NumPy array as a constant of the kind of `like`."""
    if not hasattr(like, "_array"):
        return F.backend.table(array).astype(like.real.dtype)

    return Tensor._make(backend_of(like._array).asarray(array).astype(like._array.real.dtype))


@formula_function()
def places_like(F, like, array):
    """A NumPy index array as a raw one where `like` is."""

    return backend_of(getattr(like, "_array", like)).table(array)


def _as_strided(xp, self, *, self_stride, size, stride, offset):
    item = self.itemsize
    if any(
        [s != item * want for n, s, want in zip(self.shape, self.strides, self_stride) if n > 1]
    ):
        places = _positions(
            self.shape, self_stride
        )  # another layout: as if it had the one asked for
        memory = xp.zeros(int(places.max(initial=0)) + 1, self.dtype)
        memory[xp.table(places)] = self.reshape(-1)
        self = xp.as_strided(memory, self.shape, tuple([s * item for s in self_stride]))
    return xp.as_strided(self, size, tuple([s * item for s in stride]), offset * item)


as_strided_op = declare(
    "as_strided", _as_strided, view=True, by_place=True, complex=True, self=_as_strided_backward,
    samples=lambda t: [
        (t(3, 4), (4, 1), (2, 2), (1, 4), 1), (t(6), (1,), (3, 2), (1, 1), 0), (t(), (), (3,), (0,), 0), (t(4),
        (1,), (0, 2), (1, 1), 1),
    ],
    batch="as_strided",
    aten="(self, size, stride, offset)",
)  # fmt: skip


def _strided_attrs(x: Tensor, size, stride, storage_offset) -> tuple:
    """The attributes of `as_strided`; RuntimeError for sizes and strides that make no sense."""
    size, stride = size_of((size,)), size_of((stride,))
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any([n < 0 for n in size]):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}"
        )
    if any([s < 0 for s in stride]):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {errors.size(stride)}"
        )
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    own = x.storage_offset()
    offset = (own if storage_offset is None else storage_offset) - own
    if x.is_cuda and 0 not in size and not _inside(x, size, stride, own + offset):
        raise _outside(x, size, stride, offset)  # NumPy refuses it by itself
    return x.stride(), size, stride, offset


def _needed(size, stride, start: int) -> int:
    return start + 1 + sum([(n - 1) * s for n, s in zip(size, stride)])


def _inside(x: Tensor, size, stride, start: int) -> bool:
    room = extent(x._array)[1] // x._array.itemsize
    return start >= 0 and _needed(size, stride, start) <= room


def _outside(x: Tensor, size, stride, offset: int) -> RuntimeError:
    start = x.storage_offset() + offset
    need = _needed(size, stride, start)
    item = x._array.itemsize
    return RuntimeError(
        f"setStorage: sizes {errors.size(size)}, strides {errors.size(stride)}, storage offset {start}, and itemsize "
        f"{item} requiring a storage size of {need * item} are out of bounds for storage of size "
        f"{memory.size_of(owner(x._array))}"
    )


@function("as_strided", method=True)
def as_strided(input, size, stride, storage_offset=None):
    """A view of the memory of `input` with any size and strides.

    Args:
        size, stride: tuples of as many ints, strides in elements.
        storage_offset: the place of the first element in the memory; as that of `input` if None.

    Returns:
        A view; the gradient of elements that are seen several times is a sum.

    Raises:
        RuntimeError: negative numbers, tuples of different lengths, or places beyond the memory.

    Example:
        >>> gradlib.as_strided(gradlib.arange(4), (2, 2), (1, 1))
        tensor([[0, 1],
                [1, 2]])
    """
    attrs = _strided_attrs(input, size, stride, storage_offset)
    try:
        return as_strided_op.call(input, *attrs)
    except (ValueError, TypeError):
        raise _outside(input, *attrs[1:]) from None


def _undone(x: Tensor, attrs: tuple) -> tuple:
    """The (op, attributes) that lead back from ``as_strided`` with `attrs` to `x`."""
    _, _, stride, offset = attrs
    return as_strided_op, (stride, tuple(x._array.shape), x.stride(), -offset)


@method("as_strided_")
def as_strided_(self, size, stride, storage_offset=None):
    """In-place version of ``as_strided``: the tensor itself gets another shape and strides over its memory.

    Args:
        size, stride: tuples of as many ints, strides in elements.
        storage_offset: the place of the first element in the memory; as it is if None.

    Returns:
        This tensor.

    Raises:
        RuntimeError: negative numbers, tuples of different lengths, or places beyond the memory; a leaf that requires
            grad.

    Example:
        >>> gradlib.tensor([1, 2, 3, 4]).as_strided_((2,), (2,))
        tensor([1, 3])
    """
    attrs = _strided_attrs(self, size, stride, storage_offset)
    try:
        return relabel(as_strided_op, self, attrs, _undone(self, attrs))
    except (ValueError, TypeError):
        raise _outside(self, *attrs[1:]) from None


# -- copies with a part replaced ---------------------------------------------------------------------------------


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


def refuse_step(step: int) -> None:
    """RuntimeError unless the step of a slice leads forward."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")


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
    places = _memory_places(size, stride, offset)
    if input.is_contiguous() and offset >= 0 and places.max(initial=0) < max(input.numel(), 1):
        attrs = (input.stride(), size, stride, offset)
        return REGISTRY["as_strided_scatter"].call(input, src, *attrs)
    element = {
        int(place): k for k, place in enumerate(_memory_places(input.shape, input.stride(), 0))
    }
    found = np.array([element.get(int(place), -1) for place in places], np.int64)
    kept = np.flatnonzero(found >= 0)
    at, of = (Tensor._make(backend_of(input._array).asarray(k)) for k in (found[kept], kept))
    flat = input.reshape(-1).index_copy(0, at, src.reshape(-1).index_select(0, of))
    return flat.reshape(input.shape)


def _memory_places(size, stride, offset: int) -> np.ndarray:
    """Where in memory the elements of a strided tensor lie, in their order, from the first element of its base on."""
    grids = np.indices(tuple(size)).reshape(len(size), math.prod(size))
    return offset + np.asarray(stride, np.int64) @ grids
