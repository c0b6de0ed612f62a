"""Shapes: views with other dimensions over the same elements, and expansion.

Sizes and dimensions are normalised (no -1, no negative dims) before an op is called, because views
are made anew from these attributes after in-place operations.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..core import dtypes, errors
from ..core.formulas import formula_function
from ..core.inplace import check
from ..core.modes import NO_GRAD, state
from ..core.node import edge
from ..core.op import Op, declare
from ..core.storage import bump, share
from ..core.tensor import Size, Tensor, wrap_dim
from .cast import clone_op, contiguous
from .expose import function, method, prop

# -- arguments ---------------------------------------------------------------------------------------------------


def size_of(size: tuple) -> tuple[int, ...]:
    """The ints of ``f(2, 3)`` or ``f((2, 3))``."""
    if len(size) == 1:
        if size[0].__class__ is int:
            return size
        if not hasattr(size[0], "__index__"):
            size = size[0]
    return tuple([n if n.__class__ is int else operator.index(n) for n in size])


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
)  # fmt: skip
unsafe_view_op = declare(
    "unsafe_view", lambda xp, self, *, size: self.reshape(size), complex=True,
    self=lambda F, g, self_shape: F.reshape(g, self_shape), jvp="linear",
    samples=lambda t: [(t(3, 4), (2, 6)), (t(), (1, 1)), (t(0, 2), (4, 0))],
)  # fmt: skip
alias_op = declare(
    "alias", lambda xp, self: self[...], view=True, self=lambda g: g, jvp="linear", complex=True,
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
)  # fmt: skip
view_dtype_op = declare(
    "view_dtype", lambda xp, self, *, dtype: _reinterpret(self, dtype), view=True, nondifferentiable="bits",
    samples=lambda t: [(t(3, 4), np.dtype("i8")), (t(), np.dtype("i8")), (t(0, 2), np.dtype("i4"))],
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
    """The elements of `input` in another shape; one dimension may be -1. A view if possible.

    Raises RuntimeError if the number of elements differs.
    """
    return reshape_to(input, infer(size_of(shape or (kw["shape"],)), input._array.size))


@method("view")
def view(self, *size, dtype=None):
    """A view in another shape (one dimension may be -1), or with another dtype: ``x.view(torch.int32)``.

    Raises RuntimeError if the strides do not allow a view, or the number of elements differs.
    """
    if dtype is not None or (size and isinstance(size[0], dtypes.dtype)):
        return _view_dtype(self, dtype or size[0])
    array = self._array
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
    array = x._array
    if have.itemsize != want.itemsize:
        if array.ndim == 0:
            raise RuntimeError(
                "self.dim() cannot be 0 to view {} as {} (different element sizes)".format(
                    have.tensor_type.removesuffix("Tensor"), want.tensor_type.removesuffix("Tensor")
                )
            )
        if array.strides[-1] != have.itemsize and array.shape[-1] != 1:
            raise RuntimeError(
                "self.stride(-1) must be 1 to view {} as {} (different element sizes), but got {}".format(
                    have.tensor_type.removesuffix("Tensor"), want.tensor_type.removesuffix("Tensor"),
                    array.strides[-1] // have.itemsize,
                )
            )  # fmt: skip
        if array.shape[-1] * have.itemsize % want.itemsize:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {want.itemsize // have.itemsize} to view "
                f"{have.tensor_type.removesuffix('Tensor')} as {want.tensor_type.removesuffix('Tensor')} "
                f"(different element sizes), but got {array.shape[-1]}"
            )
    return view_dtype_op.call(x, want.np)


@method("view_as")
def view_as(self, other):
    """A view in the shape of `other`."""
    return view(self, *other._array.shape)


@method("reshape_as")
def reshape_as(self, other):
    """``reshape`` to the shape of `other`."""
    return reshape_to(self, infer(other._array.shape, self._array.size))


@function("flatten", method=True)
def flatten(input, start_dim=0, end_dim=-1):
    """The dimensions from `start_dim` to `end_dim` merged into one; itself if there is nothing to merge."""
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
    """All elements in one dimension."""
    return view_op.call(contiguous(input), (input._array.size,))


@function("unflatten", method=True)
def unflatten(input, dim, sizes):
    """The dimension `dim` split into `sizes` (one may be -1)."""
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
    return view(input, *shape[:dim], *inner, *shape[dim + 1 :])


# -- order of dimensions -----------------------------------------------------------------------------------------


def _inverse(dims: tuple) -> tuple:
    inverse = [0] * len(dims)
    for i, d in enumerate(dims):
        inverse[d] = i
    return tuple(inverse)


permute_op = declare(
    "permute", lambda xp, self, *, dims: self.transpose(dims), view=True, jvp="linear", complex=True,
    self=lambda F, g, dims: F.permute(g, _inverse(dims)),
    samples=lambda t: [(t(2, 3, 4), (2, 0, 1)), (t(), ()), (t(0, 2), (1, 0))],
)  # fmt: skip
transpose_op = declare(
    "transpose", lambda xp, self, *, dim0, dim1: self.swapaxes(dim0, dim1), view=True, jvp="linear", complex=True,
    self=lambda F, g, dim0, dim1: F.transpose(g, dim0, dim1),
    samples=lambda t: [(t(2, 3, 4), 2, 0), (t(2, 3), 0, 1), (t(0, 2), 1, 0)],
)  # fmt: skip
t_op = declare(
    "t", lambda xp, self: self.T, view=True, jvp="linear", complex=True, self=lambda F, g: F.t(g),
    samples=lambda t: [(t(2, 3),), (t(2),), (t(),), (t(0, 2),)],
)  # fmt: skip


@function("permute", method=True)
def permute(input, *dims, **kw):
    """A view with the dimensions in the order `dims`."""
    order = size_of(dims or (kw["dims"],))
    n = input._array.ndim
    if len(order) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {len(order)}"
        )
    order = tuple([wrap_dim(d, n) for d in order])
    if len(set(order)) != n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return permute_op.call(input, order)


@function("transpose", "swapaxes", "swapdims", method=True)
def transpose(input, dim0: Any = None, dim1: Any = None, *, axis0: Any = None, axis1: Any = None):
    """A view with two dimensions exchanged."""
    n = input._array.ndim
    first = wrap_dim(axis0 if dim0 is None else dim0, n)
    second = wrap_dim(axis1 if dim1 is None else dim1, n)
    return transpose_op.call(input, first, second) if n else alias_op.call(input)


@function("t", method=True)
def t(input):
    """The transpose of a matrix (a view); vectors and scalars as they are."""
    if input._array.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {input._array.ndim}D"
        )
    return t_op.call(input)


@prop("T")
def reversed_dims(self):
    """A view with all dimensions in reverse order."""
    return permute_op.call(self, tuple(range(self._array.ndim - 1, -1, -1)))


@prop("mT")
def matrix_transpose(self):
    """A view with the last two dimensions exchanged."""
    n = self._array.ndim
    if n < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {n}-D tensor."
        )
    return transpose_op.call(self, n - 2, n - 1)


@function("adjoint", method=True)
def adjoint(input):
    """The last two dimensions exchanged, and conjugated if complex."""
    n = input._array.ndim
    if n < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {n}-D tensor."
        )
    return transpose_op.call(input, n - 2, n - 1).conj()


@prop("mH")
def matrix_adjoint(self):
    """``adjoint``."""
    return adjoint(self)


@prop("H")
def conjugate_transpose(self):
    """The conjugate transpose of a matrix."""
    if self._array.ndim != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self._array.ndim}-D tensor."
            + (" For batches of matrices, consider using tensor.mH" if self._array.ndim > 2 else "")
        )
    return adjoint(self)


@function("movedim", "moveaxis", method=True)
def movedim(input, source, destination):
    """A view with the dimension(s) `source` moved to the position(s) `destination`."""
    n = input._array.ndim
    sources = (source,) if not isinstance(source, (tuple, list)) else source
    targets = (destination,) if not isinstance(destination, (tuple, list)) else destination
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should contain the same "
            f"number of dims as destination ({list(targets)} dims)"
        )
    sources, targets = (tuple(wrap_dim(d, n) for d in dims) for dims in (sources, targets))
    for name, dims in (("source", sources), ("destination", targets)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
    if n == 0:
        return alias_op.call(input)
    order: list[int] = [-1] * n
    for s, d in zip(sources, targets):
        order[d] = s
    rest = iter([d for d in range(n) if d not in sources])
    return permute_op.call(input, tuple([next(rest) if d < 0 else d for d in order]))


# -- dimensions of length one ------------------------------------------------------------------------------------


def _declare_squeeze(name: str, node: str) -> Op:
    return declare(
        name, lambda xp, self, *, dims: self.squeeze(dims), view=True, jvp="linear", complex=True, node=node,
        self=lambda F, g, self_shape: F.reshape(g, self_shape),
        samples=lambda t: [(t(1, 3, 1), (0,)), (t(1, 3, 1), (0, 2)), (t(1, 0), (0,)), (t(), ())],
    )  # fmt: skip


squeeze_op = _declare_squeeze("squeeze", "SqueezeBackward2")
squeeze_dim_op = _declare_squeeze("squeeze_dim", "SqueezeBackward1")
squeeze_all_op = _declare_squeeze("squeeze_all", "SqueezeBackward0")


def _unsqueeze(xp, self, *, dim):
    shape = self.shape
    return self.reshape((*shape[:dim], 1, *shape[dim:]))


unsqueeze_op = declare(
    "unsqueeze", _unsqueeze, view=True, jvp="linear", complex=True,
    self=lambda F, g, dim: F.squeeze(g, (dim,)),
    samples=lambda t: [(t(3, 4), 1), (t(3, 4), 2), (t(), 0), (t(0), 0)],
)  # fmt: skip


def _squeeze_plan(input, dim) -> tuple[Op, tuple]:
    shape = input._array.shape
    n = len(shape)
    if dim is None:
        return squeeze_all_op, (tuple([i for i in range(n) if shape[i] == 1]),)
    if isinstance(dim, (tuple, list)):
        dims = dims_once(dim, n)
        return squeeze_op, (tuple([d for d in dims if n and shape[d] == 1]),)
    d = wrap_dim(operator.index(dim), n)
    return squeeze_dim_op, ((d,) if n and shape[d] == 1 else (),)


@function("squeeze", method=True)
def squeeze(input, dim=None):
    """A view without dimensions of length one: all of them, or those among `dim` (an int or a tuple)."""
    op, attrs = _squeeze_plan(input, dim)
    return op.call(input, *attrs)


@function("unsqueeze", method=True)
def unsqueeze(input, dim):
    """A view with a dimension of length one inserted at `dim`."""
    return unsqueeze_op.call(input, wrap_dim(dim, input._array.ndim + 1))


def relabel(op: Op, tensor: Tensor, *attrs) -> Tensor:
    """Make `tensor` itself the view that `op` gives of it."""
    tensor._refuse_metadata("set_sizes_and_strides")
    records = tensor._rg and not state.bits & NO_GRAD
    if records:
        check(tensor, op.name, True)
    share(tensor)
    old = Tensor._make(tensor._array)
    old._rg, old._fn, old._nr, old._ver, old._view = (
        tensor._rg, tensor._fn, tensor._nr, tensor._ver, tensor._view,
    )  # fmt: skip
    out = op.call(old, *attrs)
    tensor._array = out._array
    if tensor._view is not None:
        tensor._view, tensor._fn = out._view, None
    elif records:
        tensor._fn, tensor._nr = edge(out)
    bump(tensor)
    return tensor


@method("transpose_", "swapaxes_", "swapdims_")
def transpose_(self, dim0, dim1):
    """In-place version of ``transpose``: the tensor itself gets the new order of dimensions."""
    n = self._array.ndim
    return relabel(transpose_op, self, wrap_dim(dim0, n), wrap_dim(dim1, n)) if n else self


@method("t_")
def t_(self):
    """In-place version of ``t``."""
    if self._array.ndim > 2:
        raise RuntimeError(
            f"t_() expects a tensor with <= 2 dimensions, but self is {self._array.ndim}D"
        )
    return relabel(t_op, self)


@method("squeeze_")
def squeeze_(self, dim=None):
    """In-place version of ``squeeze``."""
    op, attrs = _squeeze_plan(self, dim)
    return relabel(op, self, *attrs)


@method("unsqueeze_")
def unsqueeze_(self, dim):
    """In-place version of ``unsqueeze``."""
    return relabel(unsqueeze_op, self, wrap_dim(dim, self._array.ndim + 1))


# -- expansion ---------------------------------------------------------------------------------------------------


def _expand(xp, self, *, size):
    shape = self.shape
    if shape == size:
        return self
    strides = [s if n == m or m == 1 else 0
               for n, m, s in zip(shape, size[len(size) - len(shape) :], self.strides)]  # fmt: skip
    return xp.as_strided(self, size, (0,) * (len(size) - len(shape)) + tuple(strides))


expand_op = declare(
    "expand", _expand, view=True, jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.sum_to_size(g, self_shape),
    samples=lambda t: [(t(3, 1), (2, 3, 4)), (t(), (2, 2)), (t(1), (0,)), (t(3), (3,))],
)  # fmt: skip


@function("expand", method=True)
def expand(input, *size, implicit=False, **kw):
    """A view with dimensions of length one repeated (without copy) up to `size`; -1 keeps a dimension."""
    size = size_of(size or (kw["size"],))
    shape = input._array.shape
    new = len(size) - len(shape)
    if new < 0:
        kind = ("torch.cuda." if input.is_cuda else "torch.") + input.dtype.tensor_type
        raise RuntimeError(
            f"expand({kind}{{{errors.size(shape)}}}, size={errors.size(size)}): the number of sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    full = list(size)
    for i, n in enumerate(size):
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
    """``expand`` to the shape of `other`."""
    return expand(self, *other._array.shape)


@function("broadcast_to", method=True)
def broadcast_to(input, size, *more):
    """``expand`` to `size`."""
    return expand(input, *((size, *more) if more else size_of((size,))))


@function("broadcast_shapes")
def broadcast_shapes(*shapes):
    """The shape that tensors of the given shapes broadcast to; RuntimeError if they do not."""
    plain = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    result: tuple = ()
    for shape in plain:
        if any(n < 0 for n in shape):
            raise RuntimeError(
                f"Trying to create tensor with negative dimension ({min(shape)}): ({min(shape)})"
            )
        try:
            result = np.broadcast_shapes(result, shape)
        except ValueError:
            raise RuntimeError(
                "Shape mismatch: objects cannot be broadcast to a single shape"
            ) from None
    return Size(result)


@function("broadcast_tensors")
def broadcast_tensors(*tensors):
    """All tensors expanded to their common shape."""
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
    """Summed over dimensions until the shape is `size`; itself if it is so already."""
    from .reduce import sum_all, sum_dim

    size = size_of(size)
    shape = self._array.shape
    if shape == size:
        return self
    if not size:
        return sum_all.call(self)
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
