"""Views of parts: select, slice, diagonal, windows, strides; and cutting a tensor into pieces."""

from __future__ import annotations

import builtins
import math
import operator

from ..core import errors
from ..core.formulas import formula_function
from ..core.op import declare
from ..core.tensor import Tensor, wrap_dim
from .expose import function, method
from .shape import size_of

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
)  # fmt: skip
select_backward_op = declare(
    "select_backward", _select_backward, jvp="linear", complex=True, node="SelectBackwardBackward0",
    grad=lambda F, g, dim, index: F.select(g, dim, index),
    samples=lambda t: [(t(4), (3, 4), 0, 2), (t(), (3,), 0, 1), (t(0), (2, 0), 0, 1)],
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
)  # fmt: skip
slice_backward_op = declare(
    "slice_backward", _slice_backward, jvp="linear", complex=True, node="SliceBackwardBackward0",
    grad=lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step),
    samples=lambda t: [(t(2, 4), (5, 4), 0, 1, 4, 2), (t(0), (3,), 0, 1, 1, 1)],
)  # fmt: skip


@function("select", method=True)
def select(input, dim, index):  # noqa: A002
    """A view of the entries at `index` of dimension `dim`, which goes away."""
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
def narrow(input, dim, start, length):  # noqa: A002
    """A view of `length` entries of dimension `dim` from `start` on."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
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
def narrow_copy(input, dim, start, length, *, out=None):  # noqa: A002
    """A copy of ``narrow``."""
    from .expose import write_out

    return write_out(out, narrow(input, dim, start, length).clone())


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
)  # fmt: skip
diagonal_backward_op = declare(
    "diagonal_backward", _diagonal_backward, jvp="linear", complex=True, node="DiagonalBackwardBackward0",
    grad=lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2),
    samples=lambda t: [(t(3), (3, 4), 0, 0, 1), (t(0), (3, 3), 5, 0, 1)],
)  # fmt: skip


@function("diagonal", method=True)
def diagonal(input, offset=0, dim1=0, dim2=1):  # noqa: A002
    """A view of the diagonal of the dimensions `dim1` and `dim2`, which go; it is the last dimension."""
    n = input._array.ndim
    d1, d2 = wrap_dim(dim1, n), wrap_dim(dim2, n)
    if d1 == d2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return diagonal_op.call(input, offset, d1, d2)


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
)  # fmt: skip
unfold_backward_op = declare(
    "unfold_backward", _unfold_backward, jvp="linear", complex=True, node="UnfoldBackwardBackward0",
    grad=lambda F, g, dim, size, step: F.unfold(g, dim, size, step),
    samples=lambda t: [(t(3, 2, 3), (7, 2), 0, 3, 2)],
)  # fmt: skip


@method("unfold")
def unfold(self, dimension, size, step):
    """A view of all windows of `size` entries of `dimension`, `step` apart; the window is a new last dimension."""
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
    import numpy as np

    places = np.full((), offset, np.int64)
    for n, s in zip(shape, stride):
        places = places[..., None] + np.arange(n) * s
    return places.reshape(-1)


def _as_strided_backward(F, g, self_shape, self_stride, size, stride, offset):
    """Gradients of what lies at the same place in memory are added, and shared among input elements there."""
    import numpy as np

    read, own = _positions(size, stride, offset), _positions(self_shape, self_stride)
    if not own.size:
        return F.new_zeros(g, self_shape)
    low = min(int(own.min()), int(read.min(initial=0)))
    length = max(int(own.max()), int(read.max(initial=0))) - low + 1
    memory = F.index_backward(F.reshape(g, (read.size,)), (length,), (read - low,))
    spread = F.index(memory, (own - low,))
    counts = np.bincount(own - low, minlength=length)
    if (counts > 1).any():
        shared = counts[own - low].astype(np.float32)
        spread = spread / (F.constant(g, shared))
    return F.reshape(spread, self_shape)


@formula_function()
def constant(F, like, array):
    """A NumPy array as a constant of the kind of `like`."""
    if not hasattr(like, "_array"):
        return F.backend.asarray(array).astype(like.real.dtype)
    from ..backends import backend_of

    return Tensor._make(backend_of(like._array).asarray(array).astype(like._array.real.dtype))


def _as_strided(xp, self, *, self_stride, size, stride, offset):
    item = self.itemsize
    return xp.as_strided(self, size, tuple([s * item for s in stride]), offset * item)


as_strided_op = declare(
    "as_strided", _as_strided, view=True, complex=True, self=_as_strided_backward,
    samples=lambda t: [
        (t(3, 4), (4, 1), (2, 2), (1, 4), 1), (t(6), (1,), (3, 2), (1, 1), 0), (t(), (), (3,), (0,), 0), (t(4), (1,), (0, 2), (1, 1), 1),
    ],
)  # fmt: skip


@function("as_strided", method=True)
def as_strided(input, size, stride, storage_offset=None):  # noqa: A002
    """A view of the memory of `input` with any size and strides (in elements) from `storage_offset` on.

    Raises RuntimeError if it would leave the memory.
    """
    size, stride = size_of((size,)), size_of((stride,))
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {errors.size(stride)}"
        )
    own = input.storage_offset()
    start = own if storage_offset is None else storage_offset
    try:
        return as_strided_op.call(input, input.stride(), size, stride, start - own)
    except (ValueError, TypeError):
        need = start + 1 + sum([(n - 1) * s for n, s in zip(size, stride)])
        item = input._array.itemsize
        raise RuntimeError(
            f"setStorage: sizes {errors.size(size)}, strides {errors.size(stride)}, storage offset {start}, and "
            f"itemsize {item} requiring a storage size of {need * item} are out of bounds for storage of size "
            f"{_storage_bytes(input)}"
        ) from None


def _storage_bytes(x: Tensor) -> int:
    root = x._array
    while isinstance(root.base, type(root)):
        root = root.base
    return root.nbytes


# -- pieces ------------------------------------------------------------------------------------------------------


@formula_function()
def filled(F, gs, shapes):
    """Gradients of several outputs, zeros where none arrived."""
    like = next(g for g in gs if g is not None)
    return [F.new_zeros(like, s) if g is None else g for g, s in zip(gs, shapes)]


unbind_op = declare(
    "unbind", lambda xp, self, *, dim: [self[at(dim, i)] for i in range(self.shape[dim])], n_out=None,
    view=lambda i, attrs, self, outs: (select_op, (attrs[0], i)), jvp="linear", complex=True,
    self=lambda F, gs, self_shape, dim: F.stack(F.filled(gs, [self_shape[:dim] + self_shape[dim + 1 :]] * len(gs)), dim),
    samples=lambda t: [(t(3, 4), 0), (t(3, 4), 1), (t(2, 0), 0), (t(1), 0)],
)  # fmt: skip


def _pieces(self, sizes, dim) -> list:
    out, start = [], 0
    for n in sizes:
        out.append(self[at(dim, slice(start, start + n))])
        start += n
    return out


def _join_pieces(F, gs, shape, sizes, dim):
    return F.cat(F.filled(gs, [(*shape[:dim], n, *shape[dim + 1 :]) for n in sizes]), dim)


def _equal(n: int, size: int) -> list[int]:
    """The lengths that `n` entries are cut into, `size` each."""
    if size == 0:
        return [0]
    return [size] * (n // size) + ([n % size] if n % size or n == 0 else [])


def _slice_step(sizes, dim: int, i: int):
    start = builtins.sum(sizes[:i])
    return slice_op, (dim, start, start + sizes[i], 1)


def _split_samples(t):
    return [(t(5, 4), 2, 0), (t(3, 4), 2, 1), (t(0, 2), 1, 0), (t(2), 3, 0)]


for _name in ("split", "unsafe_split"):
    declare(
        _name, lambda xp, self, *, split_size, dim: _pieces(self, _equal(self.shape[dim], split_size), dim),
        n_out=None, jvp="linear", complex=True, samples=_split_samples,
        view=False if _name == "unsafe_split" else lambda i, attrs, self, outs: (
            _slice_step(_equal(self.shape[attrs[1]], attrs[0]), attrs[1], i)
        ),
        self=lambda F, gs, self_shape, split_size, dim: _join_pieces(
            F, gs, self_shape, _equal(self_shape[dim], split_size), dim
        ),
    )  # fmt: skip
for _name in ("split_with_sizes", "unsafe_split_with_sizes"):
    declare(
        _name, lambda xp, self, *, split_sizes, dim: _pieces(self, split_sizes, dim), n_out=None, jvp="linear",
        view=False if _name == "unsafe_split_with_sizes" else lambda i, attrs, self, outs: _slice_step(*attrs, i),
        self=lambda F, gs, self_shape, split_sizes, dim: _join_pieces(F, gs, self_shape, split_sizes, dim),
        samples=lambda t: [(t(5, 4), (2, 0, 3), 0), (t(2, 3), (1, 2), 1), (t(0), (0,), 0)], complex=True,
    )  # fmt: skip
