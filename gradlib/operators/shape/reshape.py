"""Shapes: views with other dimensions over the same elements.

Sizes and dimensions are normalised (no -1, no negative dims) before an op is called, because views
are made anew from these attributes after in-place operations.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from ...op.declare import declare
from ...op.expose import function, method
from ...op.formulas import formula_function
from ...tape import dtypes, errors, override
from ...tape.lazy import CONJ, bits_of
from ...tape.tensor import Tensor, wrap_dim
from ..elementwise.cast import clone_op, contiguous

# -- arguments ---------------------------------------------------------------------------------------------------


def size_of(size: tuple) -> tuple[int, ...]:
    """The ints of ``f(2, 3)`` or ``f((2, 3))``."""
    if len(size) == 1:
        if size[0].__class__ is int:
            return size
        if not hasattr(size[0], "__index__"):
            size = size[0]
    return tuple([n if n.__class__ is int else operator.index(n) for n in size])


def given(name: str, argument: str, values: tuple, keywords: dict) -> tuple:
    """The ints of a varargs call ``f(2, 3)``, or of its keyword ``f(size=(2, 3))``; TypeError without any."""
    if values and not keywords:
        return values
    if values or set(keywords) - {argument}:
        wrong = next(iter(keywords))
        raise TypeError(
            f"{name}() got multiple values for argument '{wrong}'"
            if wrong == argument
            else f"{name}() got an unexpected keyword argument '{wrong}'"
        )
    if not keywords:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
    return (keywords[argument],)


def dims_once(dims, ndim: int) -> tuple[int, ...]:
    """Dimensions as non-negative ints; RuntimeError for one given twice."""
    found = tuple([wrap_dim(operator.index(d), ndim) for d in dims])
    if len(set(found)) != len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found


def infer(size: tuple, numel: int) -> tuple[int, ...]:
    """`size` with its -1 filled in; RuntimeError if it cannot hold `numel` elements."""
    total = math.prod(size)
    if total == numel and (not size or min(size) >= 0):
        return size
    holes = size.count(-1)
    if holes > 1:
        raise RuntimeError("only one dimension can be inferred")
    for i, n in enumerate(size):
        if n < -1:
            raise RuntimeError(
                f"invalid shape dimension {n} at index {i} of shape {errors.size(size)}"
            )
    if holes and total:
        if numel % total == 0:
            i = size.index(-1)
            return (*size[:i], numel // -total, *size[i + 1 :])
    elif holes and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {errors.size(size)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    raise RuntimeError(f"shape '{errors.size(size)}' is invalid for input of size {numel}")


def viewable(array, size: tuple) -> bool:
    """Whether a strided array can take the shape `size` without a copy."""
    if array.size == 0:
        return True
    runs: list[list[int]] = []  # dimensions that lie one behind the other in memory: length, stride
    for n, stride in zip(array.shape, array.strides):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * stride:
            runs[-1] = [runs[-1][0] * n, stride]
        else:
            runs.append([n, stride])
    left, lengths = 1, iter([n for n, _ in runs])
    for n in size:
        if n == 1:
            continue
        if left == 1:
            left = next(lengths, 0)
        if left % n:
            return False
        left //= n
    return True


# -- view and reshape --------------------------------------------------------------------------------------------

view_op = declare(
    "view", lambda xp, self, *, size: self.reshape(size), view=True, complex=True,
    self=lambda F, g, self_shape: F.reshape(g, self_shape), jvp=lambda F, self_t, size: F.reshape(self_t, size),
    samples=lambda t: [(t(3, 4), (2, 6)), (t(), (1, 1)), (t(0, 2), (4, 0))],
    batch="view",
)  # fmt: skip
unsafe_view_op = declare(
    "unsafe_view", lambda xp, self, *, size: self.reshape(size), public="_unsafe_view", complex=True,
    self=lambda F, g, self_shape: F.reshape(g, self_shape), jvp="linear",
    samples=lambda t: [(t(3, 4), (2, 6)), (t(), (1, 1)), (t(0, 2), (4, 0))],
    batch="view",
)  # fmt: skip
alias_op = declare(
    "alias", lambda xp, self: self[...], view=True, self=lambda g: g, jvp="linear", complex=True,
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
    batch="elementwise",
)  # fmt: skip
view_dtype_op = declare(
    "view_dtype", lambda xp, self, *, dtype: _reinterpret(self, dtype), public="view",
    view=True, nondifferentiable="bits", carries="",
    samples=lambda t: [(t(3, 4), np.dtype("i8")), (t(), np.dtype("i8")), (t(0, 2), np.dtype("i4"))],
    batch="view_dtype",
)  # fmt: skip


def _reinterpret(array, dtype):
    if array.ndim == 0:
        return array.reshape(1).view(dtype).reshape(())
    return array.view(dtype)


def reshape_to(x: Tensor, size: tuple) -> Tensor:
    """`x` with the shape `size` (no -1): a view if possible, else a copy."""
    array = x._array
    if array.flags.c_contiguous or viewable(array, size):
        return view_op.call(x, size)
    return unsafe_view_op.call(clone_op.call(x, "C"), size)


@formula_function("reshape")
def _reshape(F, x, shape):
    """`x` in another shape: a view if possible."""
    return reshape_to(x, infer(shape, x._array.size)) if hasattr(x, "_array") else x.reshape(shape)


@function("reshape", method=True)
def reshape(input, *shape, **kw):
    """The elements of a tensor in another shape, in row-major order.

    Args:
        shape: ints, or a tuple of them; one may be -1: what is left.

    Returns:
        A view where the strides allow one, else a copy.

    Raises:
        RuntimeError: another number of elements.

    Example:
        >>> gradlib.reshape(gradlib.arange(4), (2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    try:
        size = input._array.size
    except AttributeError:
        return override.again(reshape, input, *shape, **kw)
    wanted = size_of(shape if shape and not kw else given("reshape", "shape", shape, kw))
    return reshape_to(input, infer(wanted, size))


@method("view")
def view(self, *size, dtype=None, **kw):
    """A view in another shape, or with another dtype of the same bytes.

    Args:
        size: ints, or a tuple of them; one may be -1: what is left. Or a dtype.
        dtype: a dtype; of another size than this one it changes the last dimension.
        kw: size or shape by keyword.

    Returns:
        A view of the same memory.

    Raises:
        RuntimeError: strides that the shape cannot have without a copy, or another number of elements.

    Example:
        >>> gradlib.arange(4).view(2, 2), gradlib.tensor([1.0]).view(gradlib.int32)
        (tensor([[0, 1],
                [2, 3]]), tensor([1065353216], dtype=torch.int32))
    """
    if dtype is not None or (size and isinstance(size[0], (dtypes.dtype, type))):
        return _view_dtype(self, dtypes.of(dtype or size[0]))
    if kw:
        size = given("view", "size", size, kw)
    array = self._array
    if not size:
        raise TypeError(
            "view() received an invalid combination of arguments - got (), but expected one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    size = infer(size_of(size), array.size)
    if array.flags.c_contiguous or viewable(array, size):
        return view_op.call(self, size)
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead."
    )


def _view_dtype(x: Tensor, dtype: dtypes.dtype) -> Tensor:
    have, want = x.dtype, dtype
    if have is want:
        return alias_op.call(x)
    if bits := bits_of(x):
        kind = "conjugate view tensors" if bits & CONJ else "tensors with negative bit set"
        raise RuntimeError(
            f"torch.Tensor.view is not supported for {kind} when converting to a different dtype."
        )
    array = x._array
    if have.itemsize != want.itemsize:
        what = f"to view {have.scalar_type} as {want.scalar_type} (different element sizes)"
        if array.ndim == 0:
            raise RuntimeError(f"self.dim() cannot be 0 {what}")
        strides = x.stride()
        if strides[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {what}, but got {strides[-1]}")
        if array.shape[-1] * have.itemsize % want.itemsize:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {want.itemsize // have.itemsize} {what}, but got {array.shape[-1]}"
            )
        ratio = want.itemsize // have.itemsize
        places = [("storage_offset()", x.storage_offset())]
        places += [(f"stride({d})", stride) for d, stride in enumerate(strides[:-1])]
        for place, number in places if ratio > 1 else ():
            if number % ratio:
                raise RuntimeError(
                    f"self.{place} must be divisible by {ratio} {what}, but got {number}"
                )
    return view_dtype_op.call(x, want.np)


@method("view_as")
def view_as(self, other):
    """A view of this tensor in the shape of `other`: ``view(other.shape)``, with its errors.

    Args:
        other: a tensor with as many elements, of which only the shape counts.

    Returns:
        A view of the same memory.

    Raises:
        RuntimeError: another number of elements, or strides that the shape cannot have without a copy.

    Example:
        >>> gradlib.tensor([1, 2, 3, 4]).view_as(gradlib.zeros(2, 2))
        tensor([[1, 2],
                [3, 4]])
    """
    return view(self, other._array.shape)


@method("reshape_as")
def reshape_as(self, other):
    """This tensor in the shape of `other`: ``reshape(other.shape)``.

    Args:
        other: a tensor with as many elements, of which only the shape counts.

    Returns:
        A view where the strides allow one, else a copy.

    Raises:
        RuntimeError: another number of elements.

    Example:
        >>> gradlib.tensor([1, 2, 3, 4]).reshape_as(gradlib.zeros(2, 2))
        tensor([[1, 2],
                [3, 4]])
    """
    return reshape_to(self, infer(other._array.shape, self._array.size))


@function("flatten", method=True)
def flatten(input, start_dim=0, end_dim=-1):
    """The dimensions from `start_dim` to `end_dim` merged into one; itself if there is nothing to merge.

    Raises RuntimeError: `start_dim` comes after `end_dim`. A view where the strides allow it, else a copy.

    Example:
        >>> gradlib.flatten(gradlib.zeros(2, 3, 4), 1).shape
        torch.Size([2, 12])
    """
    shape = input._array.shape
    n = len(shape)
    first, last = wrap_dim(start_dim, n), wrap_dim(end_dim, n)
    if n == 0:
        return reshape_to(input, (1,))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last:
        return input
    merged = math.prod(shape[first : last + 1])
    return reshape_to(input, (*shape[:first], merged, *shape[last + 1 :]))


@function("ravel", method=True)
def ravel(input):
    """All elements in one dimension, in row-major order.

    Args:
        input: a tensor of any shape.

    Returns:
        A vector: a view of a contiguous tensor (itself if it is a vector), else a copy.

    Example:
        >>> gradlib.ravel(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([1, 2, 3, 4])
    """
    return view_op.call(contiguous(input), (input._array.size,))


@function("unflatten", method=True)
def unflatten(input, dim, sizes):
    """The dimension `dim` split into `sizes` (one may be -1).

    Raises RuntimeError: the sizes do not multiply to the length of the dimension.

    Example:
        >>> gradlib.unflatten(gradlib.zeros(6), 0, (2, 3)).shape
        torch.Size([2, 3])
    """
    shape = input._array.shape
    if not len(shape):
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, len(shape))
    sizes = size_of((sizes,))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        inner = infer(sizes, shape[dim])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {errors.size(sizes)} don't multiply up to the size of dim {dim} "
            f"({shape[dim]}) in the input tensor"
        ) from None
    return view(input, (*shape[:dim], *inner, *shape[dim + 1 :]))
