"""Expansion: views that repeat dimensions of length one, broadcasting, and the sums that undo it."""

from __future__ import annotations

import numpy as np

from ...op.declare import declare
from ...op.expose import function, method
from ...tape import errors
from ...tape.tensor import Size, Tensor
from ..reduce.sums import sum_all, sum_dim
from .reshape import given, size_of, view_op


def _expand(xp, self, *, size):
    shape = self.shape
    if shape == size:
        return self
    if not shape:
        return xp.as_strided(self, size, (0,) * len(size))
    new = len(size) - len(shape)
    strides = [s if n == m or m == 1 else 0 for n, m, s in zip(shape, size[new:], self.strides)]
    for k in reversed(range(new)):  # as of a contiguous tensor where there is one element
        strides.insert(0, size[k + 1] * strides[0] if size[k] == 1 else 0)
    return xp.as_strided(self, size, tuple(strides))


expand_op = declare(
    "expand", _expand, view=True, jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.sum_to_size(g, self_shape),
    samples=lambda t: [(t(3, 1), (2, 3, 4)), (t(), (2, 2)), (t(1), (0,)), (t(3), (3,))],
    batch="expand",
)  # fmt: skip


@function("expand", method=True)
def expand(input, *size, implicit=False, **kw):
    """A view with dimensions of length one repeated up to `size`, without a copy: their elements share memory.

    Args:
        size: ints, or a tuple of them, one for each dimension, -1 to keep one; further ones in front make new
            dimensions.
        implicit: without meaning; PyTorch has it.

    Returns:
        A view of shape `size`. Writing to it in place is refused; its gradient is summed over the repetitions.

    Raises:
        RuntimeError: fewer sizes than dimensions; a dimension of another length than 1 and its size; -1 in front.

    Example:
        >>> gradlib.expand(gradlib.tensor([[1], [2]]), 2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    return expand_to(input, size_of(given("expand", "size", size, kw)))


def expand_to(input: Tensor, size: tuple) -> Tensor:
    """``expand`` for a tuple of ints."""
    shape = input._array.shape
    new = len(size) - len(shape)
    if new < 0:
        kind = errors.tensor_type(input)
        raise RuntimeError(
            f"expand({kind}{{{errors.size(shape)}}}, size={errors.size(size)}): the number of sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    full = list(size)
    for i in reversed(range(len(size))):
        n = size[i]
        have = shape[i - new] if i >= new else None
        if n == -1:
            if have is None:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )
            full[i] = have
        elif n < 0 or (have is not None and have != n and have != 1):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({have}) at non-singleton "
                f"dimension {i}.  Target sizes: {errors.size(size)}.  Tensor sizes: {errors.size(shape)}"
            )
    return expand_op.call(input, tuple(full))


@method("expand_as")
def expand_as(self, other):
    """A view of this tensor with the shape of `other`: ``expand(other.shape)``, with its errors.

    Args:
        other: a tensor, of which only the shape counts.

    Returns:
        A view whose repeated elements share memory.

    Raises:
        RuntimeError: the shape cannot be reached by repeating dimensions of length one.

    Example:
        >>> gradlib.tensor([[1], [2]]).expand_as(gradlib.zeros(2, 2))
        tensor([[1, 1],
                [2, 2]])
    """
    return expand_to(self, other._array.shape)


@function("broadcast_to", method=True)
def broadcast_to(input, size, *more):
    """A view with dimensions of length one repeated up to `size`: ``expand`` under NumPy's name.

    Args:
        size: ints, or a tuple of them, one for each dimension, -1 to keep one; further ones in front make new
            dimensions.

    Returns:
        A view whose repeated elements share memory.

    Raises:
        RuntimeError: the size cannot be reached by repeating dimensions of length one.

    Example:
        >>> gradlib.broadcast_to(gradlib.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return expand_to(input, size_of((size, *more)))


@function("broadcast_shapes")
def broadcast_shapes(*shapes):
    """The shape that tensors of the given shapes broadcast to, without making them.

    Args:
        shapes: tuples of ints, or ints for shapes of one dimension.

    Returns:
        A ``Size``. Shapes are aligned at their ends; lengths agree or one of them is 1.

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: a negative length.

    Example:
        >>> gradlib.broadcast_shapes((4, 1), 3, (2, 1, 1))
        torch.Size([2, 4, 3])
    """
    plain = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    result: tuple = ()
    for shape in plain:
        if any(n < 0 for n in shape):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        try:
            result = np.broadcast_shapes(result, shape)
        except ValueError:
            raise RuntimeError(
                f"Shape mismatch: objects cannot be broadcast to a single shape, {shape} does not go with {result}"
            ) from None
    return Size(result)


@function("broadcast_tensors")
def broadcast_tensors(*tensors):
    """All tensors expanded to the shape that they broadcast to.

    Args:
        tensors: tensors, or one list of them; their dtypes may differ and stay.

    Returns:
        A tuple of views, whose repeated elements share memory.

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> gradlib.broadcast_tensors(gradlib.tensor([[1], [2]]), gradlib.tensor([3, 4]))
        (tensor([[1, 1],
                [2, 2]]), tensor([[3, 4],
                [3, 4]]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape: tuple = ()
    for x in tensors:
        try:
            shape = np.broadcast_shapes(shape, x._array.shape)
        except ValueError:
            raise errors.broadcast(shape, x._array.shape) from None  # type: ignore[misc]
    return tuple([x if x._array.shape == shape else expand_op.call(x, shape) for x in tensors])


@method("sum_to_size")
def sum_to_size(self, *size):
    """The sum over dimensions that leaves the shape `size`: the opposite of ``expand``, and its gradient.

    Args:
        size: ints, or a tuple of them: lengths of this tensor, or 1 where it is summed over; leading dimensions may
            be left out.

    Returns:
        A tensor of shape `size`; this tensor itself if it has that shape.

    Raises:
        RuntimeError: `size` does not broadcast to the shape of this tensor.

    Example:
        >>> gradlib.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
    """

    size = size_of(size)
    shape = self._array.shape
    if not size:
        return sum_all.call(self)
    if shape == size:
        return self
    extra = len(shape) - len(size)
    if extra < 0 or any(n != m and n != 1 for n, m in zip(size, shape[extra:])):
        raise RuntimeError(
            f"size {{{errors.size(size)}}} is not expandable to size {{{errors.size(shape)}}}."
        )
    dims = tuple(range(extra)) + tuple(
        [i + extra for i, n in enumerate(size) if n == 1 and shape[i + extra] != 1]
    )
    out = sum_dim.call(self, dims, True) if dims else self
    return view_op.call(out, size) if extra else out
