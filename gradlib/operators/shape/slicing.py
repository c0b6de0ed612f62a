"""Views of parts: select, slice, narrow, diagonals, and windows."""

from __future__ import annotations

import operator

from ...op.declare import declare
from ...op.expose import function, method, write_same
from ...op.formulas import formula_function
from ...tape import errors
from ...tape.tensor import Tensor, wrap_dim

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


# -- windows -----------------------------------------------------------------------------------------------------


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


def refuse_step(step: int) -> None:
    """RuntimeError unless the step of a slice leads forward."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
