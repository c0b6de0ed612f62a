"""Joining tensors: cat, stack and their relatives, grids and products of vectors."""

from __future__ import annotations

import itertools
import math
import warnings

from ...op.declare import declare
from ...op.expose import function, refuse_overlap, write_out
from ...tape import errors, override
from ...tape.layout import suggested
from ...tape.tensor import Tensor, wrap_dim
from ..create.filled import empty
from .atleast import atleast_1d, atleast_2d, atleast_3d
from .expand import expand_op
from .reshape import reshape_to, view_op

# -- cat and stack -----------------------------------------------------------------------------------------------


def _common_layout(arrays):
    """channels_last or channels_last_3d where all arrays lie so, else None."""
    wanted = suggested(arrays[0]) if arrays[0].ndim > 3 else None
    return wanted if wanted and all([suggested(a) is wanted for a in arrays[1:]]) else None


def _cat(xp, tensors, *, dim):
    wanted = _common_layout(tensors)
    if wanted is not None:
        first = (0, *range(2, tensors[0].ndim), 1)  # channels as the last dimension
        joined = xp.concatenate([a.transpose(first) for a in tensors], first.index(dim))
        return xp.ascontiguousarray(joined).transpose(0, -1, *range(1, joined.ndim - 1))
    try:
        joined = xp.concatenate(tensors, dim)
        return joined if joined.flags.c_contiguous else xp.ascontiguousarray(joined)
    except ValueError:
        kept = [a for a in tensors if a.shape != (0,)]  # an empty vector goes with everything
        if len(kept) == len(tensors) or not kept:
            raise
        return xp.ascontiguousarray(xp.concatenate(kept, dim))


def _cat_parts(F, g, tensors_shape, dim, needs):
    parts, start = [], 0
    for shape, need in zip(tensors_shape, needs):
        if len(shape) != g.ndim:
            parts.append(F.new_zeros(g, shape))
            continue
        end = start + shape[dim]
        parts.append(F.slice(g, dim, start, end, 1) if need else None)
        start = end
    return parts


cat_op = declare(
    "cat", _cat, autocast="promote", vjp=_cat_parts, jvp="linear", complex=True,
    samples=lambda t: [([t(2, 3), t(4, 3)], 0), ([t(2), t(1), t(0)], 0), ([t(0, 2), t(0, 3)], 1)],
    batch="cat",
    aten="(tensors, dim=0)",
)  # fmt: skip


def _stack(xp, tensors, *, dim):
    shape = tensors[0].shape
    if dim < len(shape) and _common_layout(tensors) is not None:
        joined = _cat(xp, tensors, dim=dim)
        return joined.reshape(*shape[:dim], len(tensors), *shape[dim:])
    n = len(tensors)
    out = xp.empty((*shape[:dim], n, *shape[dim:]), tensors[0].dtype)
    if not dim and shape:  # what follows each other anyhow
        xp.concatenate(tensors, 0, out.reshape((n * shape[0], *shape[1:])))
        return out
    one = (*shape[:dim], 1, *shape[dim:])
    return xp.concatenate([a.reshape(one) for a in tensors], dim, out)


stack_op = declare(
    "stack", _stack, autocast="promote", jvp="linear", complex=True,
    vjp=lambda F, g, dim, needs: [F.select(g, dim, i) if need else None for i, need in enumerate(needs)],
    samples=lambda t: [([t(2, 3), t(2, 3)], 1), ([t(), t(), t()], 0), ([t(0), t(0)], 1)],
    batch="stack",
    aten="(tensors, dim=0)",
)  # fmt: skip


def _listed(tensors, name: str) -> list:
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    tensors = list(tensors)
    for x in tensors:
        if x.__class__ is not Tensor and not isinstance(x, Tensor):
            i = next(i for i, other in enumerate(tensors) if other is x)
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}"
            )
    return tensors


def _some(tensors, name: str) -> list:
    """The list of tensors; RuntimeError if there is none in it."""
    tensors = _listed(tensors, name)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


def _cat_error(tensors: list, dim: int) -> RuntimeError | None:
    """What is wrong with the shapes, as PyTorch says it."""
    shapes = [(i, x._array.shape) for i, x in enumerate(tensors) if x._array.shape != (0,)]
    first = shapes[0][1]
    for i, shape in shapes:
        if not shape:
            return RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        if len(shape) != len(first):
            return RuntimeError(
                f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
            )
        for d, (n, m) in enumerate(zip(first, shape)):
            if n != m and d != dim:
                return RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but got size {m} for "
                    f"tensor number {i} in the list."
                )
    return None


@function("cat", "concat", "concatenate")
def cat(tensors, dim=0, *, axis=None, out=None):
    """The tensors one after the other along `dim`.

    Args:
        tensors: a sequence of tensors that agree in all sizes but that of `dim`; empty vectors go with everything.
        dim: the dimension, also under the name `axis`.
        out: written to instead of a new tensor; its dtype can hold that of the result.

    Returns:
        A tensor of the common dtype of all; channels last if all are.

    Raises:
        ValueError: there is no tensor.
        RuntimeError: the sizes do not fit, or a tensor has no dimension.
        IndexError: no such dimension.
        TypeError: something else than a tensor.

    Example:
        >>> gradlib.cat([gradlib.tensor([[1, 2]]), gradlib.tensor([[3, 4], [5, 6]])])
        tensor([[1, 2],
                [3, 4],
                [5, 6]])
    """
    try:
        tensors = _listed(tensors, "cat")
    except TypeError:
        return override.again(cat, tensors, dim)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    ndim = tensors[0]._array.ndim
    if tensors[0]._array.shape == (0,):
        ndim = max([x._array.ndim for x in tensors])
    if not ndim:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    dim = wrap_dim(dim if axis is None else axis, ndim)
    refuse_overlap(out, *tensors)
    try:
        result = cat_op.call(tensors, dim)
    except ValueError as exc:
        raise _cat_error(tensors, dim) or exc from None
    return result if out is None else _joined(out, result)


def _joined(out: Tensor, result: Tensor, row_major: bool = False) -> Tensor:
    """`result` written to the tensor of ``out=``."""
    if result.dtype.category > out.dtype.category:
        kind = out.dtype.scalar_type
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {kind}")
    return write_out(out, result, row_major)


@function("stack")
def stack(tensors, dim=0, *, axis=None, out=None):
    """Tensors of one shape, one after the other along a new dimension.

    Args:
        tensors: a sequence of tensors of the same shape.
        dim: the place of the new dimension in the result, which has the length of the sequence; also under the
            name `axis`.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the common dtype with one dimension more.

    Raises:
        RuntimeError: there is no tensor, or the shapes differ.
        IndexError: no such dimension.

    Example:
        >>> gradlib.stack([gradlib.tensor([1, 2]), gradlib.tensor([3, 4])], 1)
        tensor([[1, 3],
                [2, 4]])
    """
    try:
        tensors = _some(tensors, "stack")
    except TypeError:
        return override.again(stack, tensors, dim if axis is None else axis)
    shapes = [x._array.shape for x in tensors]
    shape = shapes[0]
    if shapes.count(shape) != len(shapes):
        i, other = next((i, s) for i, s in enumerate(shapes) if s != shape)
        raise RuntimeError(
            f"stack expects each tensor to be equal size, but got {errors.size(shape)} at entry 0 and "
            f"{errors.size(other)} at entry {i}"
        )
    result = stack_op.call(tensors, wrap_dim(dim if axis is None else axis, len(shape) + 1))
    return result if out is None else _joined(out, result, row_major=True)


@function("hstack")
def hstack(tensors, *, out=None):
    """Joined horizontally: vectors along dimension 0, others along dimension 1.

    Raises RuntimeError: other dimensions differ, or an empty list.

    Example:
        >>> gradlib.hstack([gradlib.zeros(2), gradlib.ones(1)])
        tensor([0., 0., 1.])
    """
    tensors = [atleast_1d(x) for x in _some(tensors, "hstack")]
    return cat(tensors, 0 if tensors[0]._array.ndim == 1 else 1, out=out)


@function("vstack", "row_stack")
def vstack(tensors, *, out=None):
    """Joined vertically: along dimension 0, vectors as rows.

    Raises RuntimeError: other dimensions differ, or an empty list.

    Example:
        >>> gradlib.vstack([gradlib.zeros(2), gradlib.ones(2)])
        tensor([[0., 0.],
                [1., 1.]])
    """
    return cat([atleast_2d(x) for x in _some(tensors, "vstack")], 0, out=out)


@function("dstack")
def dstack(tensors, *, out=None):
    """Tensors joined along dimension 2, after ``atleast_3d``: vectors and matrices become pages of depth one.

    Args:
        tensors: a sequence of tensors that agree in the other dimensions.
        out: written to instead of a new tensor.

    Returns:
        A tensor of at least three dimensions and of the common dtype.

    Raises:
        RuntimeError: the sizes do not fit, or there is no tensor.

    Example:
        >>> gradlib.dstack([gradlib.tensor([1, 2]), gradlib.tensor([3, 4])])
        tensor([[[1, 3],
                 [2, 4]]])
    """
    return cat([atleast_3d(x) for x in _some(tensors, "dstack")], 2, out=out)


@function("column_stack")
def column_stack(tensors, *, out=None):
    """Tensors joined along dimension 1, vectors and scalars as columns.

    Args:
        tensors: a sequence of tensors with the same number of rows.
        out: written to instead of a new tensor.

    Returns:
        A tensor of at least two dimensions and of the common dtype.

    Raises:
        RuntimeError: the sizes do not fit, or there is no tensor.

    Example:
        >>> gradlib.column_stack([gradlib.tensor([1, 2]), gradlib.tensor([3, 4])])
        tensor([[1, 3],
                [2, 4]])
    """
    columns = [
        reshape_to(x, (x._array.size, 1)) if x._array.ndim < 2 else x
        for x in _some(tensors, "column_stack")
    ]
    return cat(columns, 1, out=out)


# -- matrices on a diagonal --------------------------------------------------------------------------------------


def _corners(shapes):
    """For each matrix shape its rows and columns in the block-diagonal matrix."""
    row = column = 0
    for shape in shapes:
        n, m = (1,) * (2 - len(shape)) + tuple(shape)
        yield row, row + n, column, column + m
        row, column = row + n, column + m


def _block_diag(xp, tensors):
    spots = list(_corners([a.shape for a in tensors]))
    rows, columns = (spots[-1][1], spots[-1][3]) if spots else (0, 0)
    out = xp.zeros((rows, columns), tensors[0].dtype)
    for a, (r0, r1, c0, c1) in zip(tensors, spots):
        out[r0:r1, c0:c1] = a
    return out


def _block_diag_parts(F, g, tensors_shape, needs):
    return [
        F.reshape(F.slice(F.slice(g, 0, r0, r1, 1), 1, c0, c1, 1), shape) if need else None
        for shape, need, (r0, r1, c0, c1) in zip(tensors_shape, needs, _corners(tensors_shape))
    ]


block_diag_op = declare(
    "block_diag", _block_diag, vjp=_block_diag_parts, jvp="linear", complex=True,
    samples=lambda t: [([t(2, 3), t(1, 2)],), ([t(), t(2)],), ([t(0, 2), t(2, 1)],)],
)  # fmt: skip


@function("block_diag")
def block_diag(*tensors):
    """A matrix with the given matrices along its diagonal and zeros elsewhere.

    Args:
        tensors: matrices; vectors count as one row, numbers of dimension 0 as one element.

    Returns:
        A matrix of the common dtype whose sizes are the sums of theirs.

    Raises:
        RuntimeError: a tensor has more than two dimensions.

    Example:
        >>> gradlib.block_diag(gradlib.tensor([[1, 2]]), gradlib.tensor([[3], [4]]))
        tensor([[1, 2, 0],
                [0, 0, 3],
                [0, 0, 4]])
    """
    if not tensors:
        return empty(1, 0)
    for i, x in enumerate(tensors):
        if x._array.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    return block_diag_op.call(list(tensors))


# -- grids and products ------------------------------------------------------------------------------------------


@function("meshgrid")
def meshgrid(*tensors, indexing=None):
    """Coordinate grids of vectors: one tensor for each, all of one shape.

    Args:
        tensors: vectors, or one sequence of them, of one dtype.
        indexing: "ij" (the shape is the vectors' lengths, the default with a warning) or "xy" (the first two
            exchanged).

    Returns:
        A tuple of views.

    Raises:
        RuntimeError: another `indexing`, or different dtypes.

    Example:
        >>> gradlib.meshgrid(gradlib.tensor([1, 2]), gradlib.tensor([3, 4]), indexing="ij")
        (tensor([[1, 1],
                [2, 2]]), tensor([[3, 4],
                [3, 4]]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in tensors:
        if x._array.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}"
            )
        if x._array.dtype != tensors[0]._array.dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            UserWarning,
            stacklevel=2,
        )
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    places = list(range(len(tensors)))  # which dimension each vector runs along
    if indexing == "xy" and len(tensors) > 1:
        places[:2] = [1, 0]
    sizes = [x._array.size for x in tensors]
    shape = tuple([sizes[places[i]] for i in range(len(sizes))])
    grids = []
    for x, place in zip(tensors, places):
        line = (1,) * place + (x._array.size,) + (1,) * (len(shape) - place - 1)
        grids.append(expand_op.call(view_op.call(x, line), shape))
    return tuple(grids)


@function("cartesian_prod")
def cartesian_prod(*tensors):
    """All combinations of one element of each vector, as rows, the last one changing fastest.

    Args:
        tensors: vectors of one dtype; of a single one it is returned as it is.

    Returns:
        A matrix with a column for each vector.

    Raises:
        RuntimeError: a tensor is no vector.

    Example:
        >>> gradlib.cartesian_prod(gradlib.tensor([1, 2]), gradlib.tensor([3, 4]))
        tensor([[1, 3],
                [1, 4],
                [2, 3],
                [2, 4]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    for x in tensors:
        if x._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {errors.size(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    total = math.prod([x._array.size for x in tensors])
    return stack([reshape_to(x, (total,)) for x in meshgrid(*tensors, indexing="ij")], 1)


@function("combinations")
def combinations(input, r=2, with_replacement=False):
    """All ways to choose `r` elements of a vector, as rows, in the order of ``itertools.combinations``.

    Args:
        input: a vector of n elements.
        r: how many are chosen, 0 or more.
        with_replacement: whether an element may be chosen again.

    Returns:
        A matrix of `r` columns.

    Raises:
        RuntimeError: `input` is no vector, or `r` is negative.

    Example:
        >>> gradlib.combinations(gradlib.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {errors.size(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input._array.size), r))
    return stack([input[[row[k] for row in rows]] for k in range(r)], 1)
