"""Copies with repeated elements: repeat, tile, repeat_interleave."""

from __future__ import annotations

from ...op.declare import declare
from ...op.expose import function, method
from ...op.vmap import each_entry
from ...tape.arrays import backend_of
from ...tape.device import beside_first
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor, wrap_dim
from ..elementwise.cast import clone_op
from ..kinds import refuse
from .dims import unsqueeze_op
from .expand import expand_op
from .reshape import given, reshape_to, size_of, view_op


def _repeat(xp, self, *, repeats):
    shape = (1,) * (len(repeats) - self.ndim) + self.shape
    if 0 in repeats:
        return xp.zeros([n * r for n, r in zip(shape, repeats)], self.dtype)
    return xp.tile(self, repeats) if repeats else self.copy()


def _repeat_backward(F, g, self_shape, repeats):
    if 0 in repeats:
        return F.new_zeros(g, self_shape)
    full = (1,) * (len(repeats) - len(self_shape)) + self_shape
    parts = [m for pair in zip(repeats, full) for m in pair]
    summed = (
        F.sum(F.reshape(g, tuple(parts)), tuple(range(0, len(parts), 2)), False) if parts else g
    )
    return F.reshape(summed, self_shape)


repeat_op = declare(
    "repeat", _repeat, jvp="linear", complex=True, self=_repeat_backward,
    samples=lambda t: [(t(2, 3), (2, 1, 3)), (t(), (2,)), (t(), ()), (t(2), (0,)), (t(0, 2), (1, 2))],
    batch="repeat",
)  # fmt: skip


@method("repeat")
def repeat(self, *repeats, **kw):
    """A copy with all entries repeated so many times along each dimension.

    Args:
        repeats: ints, or a tuple of them, 0 or more: one for each dimension, with further ones in front for new
            dimensions.

    Returns:
        A tensor of shape ``(repeats[0] * n0, ...)``; the gradient is summed over the repetitions.

    Raises:
        RuntimeError: fewer numbers than dimensions; a negative number.

    Example:
        >>> gradlib.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    repeats = size_of(given("repeat", "repeats", repeats, kw))
    if len(repeats) < self._array.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(r < 0 for r in repeats):
        have = (1,) * (len(repeats) - self._array.ndim) + self._array.shape
        size = [n * r for n, r in zip(have, repeats)]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {size}")
    return repeat_op.call(self, repeats)


@function("tile", method=True)
def tile(input, *dims, **kw):
    """``repeat``; missing leading counts are ones.

    Raises RuntimeError: a negative count.

    Example:
        >>> gradlib.tile(gradlib.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """
    dims = size_of(given("tile", "dims", dims, kw))
    return repeat(input, (1,) * (input._array.ndim - len(dims)) + dims)


@function("repeat_interleave")
def repeat_interleave(input, repeats=None, dim=None, *, axis=None, output_size=None):
    """Each entry of a dimension repeated in place.

    Args:
        input: a tensor; or alone, as `repeats`: then the result holds indices, each i repeated repeats[i] times.
        repeats: an int, or an integer tensor with one number for each entry.
        dim: the dimension, also under the name `axis`; without it the tensor is taken as flat.
        output_size: the sum of `repeats`, if it is known.

    Returns:
        A tensor whose `dim` has the sum of `repeats` entries.

    Raises:
        RuntimeError: a negative number, or as many numbers as there are no entries.

    Example:
        >>> gradlib.repeat_interleave(gradlib.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
    """
    if repeats is None:
        return _repeated_indices(input)
    dim = dim if axis is None else axis
    if dim is None:
        input, dim = reshape_to(input, (input._array.size,)), 0
    shape = input._array.shape
    if not shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, len(shape))
    if isinstance(repeats, Tensor) and repeats._array.size == 1:
        repeats = int(raw_values(repeats).reshape(()))
    if isinstance(repeats, Tensor):
        if repeats._array.ndim > 1:
            raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
        if repeats._array.size != shape[dim]:
            raise RuntimeError(
                f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats._array.size} "
                f"and input.size({dim}) = {shape[dim]}"
            )
        index = _repeated_indices(repeats)
        if output_size is not None and index._array.size != output_size:
            raise RuntimeError("allocated size does not match required size")
        return input.index_select(dim, index)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    wide = (*shape[: dim + 1], repeats, *shape[dim + 1 :])
    copy = clone_op.call(expand_op.call(unsqueeze_op.call(input, dim + 1), wide), "C")
    return view_op.call(copy, (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))


@method("repeat_interleave")
def _repeat_interleave(self, repeats, dim=None, *, axis=None, output_size=None):
    """Each entry of `dim` repeated: ``gradlib.repeat_interleave`` of this tensor, with its arguments and errors.

    Args:
        repeats: an int, or an integer tensor with one number for each entry.
        dim: the dimension, also under the name `axis`; without it the tensor is taken as flat.
        output_size: the sum of `repeats`, if it is known.

    Returns:
        A tensor whose `dim` has the sum of `repeats` entries.

    Raises:
        RuntimeError: a negative number, or as many numbers as there are no entries.

    Example:
        >>> gradlib.tensor([1, 2]).repeat_interleave(gradlib.tensor([2, 1]))
        tensor([1, 1, 2])
    """
    return repeat_interleave(self, repeats, dim, axis=axis, output_size=output_size)


@each_entry
@beside_first
def _repeated_indices(repeats: Tensor) -> Tensor:

    counts = repeats._array
    refuse("repeat_interleave_cpu", repeats, "bfcV")
    if counts.size and int(counts.min()) < 0:
        raise RuntimeError("repeats can not be negative")
    xp = backend_of(counts)
    return Tensor._make(xp.repeat(xp.arange(counts.size), counts).astype("i8"))
