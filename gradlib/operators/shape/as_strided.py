"""Views with any strides over the memory of a tensor."""

from __future__ import annotations

import numpy as np

from ...op.declare import declare
from ...op.expose import function, method
from ...op.formulas import formula_function
from ...tape import errors, memory
from ...tape.arrays import backend_of
from ...tape.memory import extent, owner
from ...tape.tensor import Tensor
from .dims import relabel
from .reshape import size_of


def positions(shape, stride, offset: int = 0):
    """For each element of a strided layout its place in memory, as a flat integer array."""
    places = np.full((), offset, np.int64)
    for n, s in zip(shape, stride):
        places = places[..., None] + np.arange(n) * s
    return places.reshape(-1)


def _as_strided_backward(F, g, self_shape, self_stride, size, stride, offset):
    """Gradients of what lies at the same place in memory are added, and shared among input elements there."""
    read, own = positions(size, stride, offset), positions(self_shape, self_stride)
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
    real = like.dtype if not like.is_complex() else like.dtype.to_real()
    return Tensor._make(backend_of(like._array).asarray(array).astype(real.np))


@formula_function()
def places_like(F, like, array):
    """A NumPy index array as a raw one where `like` is."""

    return backend_of(getattr(like, "_array", like)).table(array)


def _as_strided(xp, self, *, self_stride, size, stride, offset):
    item = self.itemsize
    if any(
        [s != item * want for n, s, want in zip(self.shape, self.strides, self_stride) if n > 1]
    ):
        places = positions(
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
