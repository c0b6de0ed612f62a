"""Whole slices of one dimension by a vector of indices: index_select, index_add and its relatives."""

from __future__ import annotations

import numpy as np

from ...op.declare import declare
from ...op.expose import function, method, refuse_overlap, write_same
from ...op.plain_numbers import check_fits, plain_number, python_number
from ...op.writing import InPlace, on_copy
from ...tape import dtypes, errors
from ...tape.lazy import raw_values
from ...tape.modes import AUTOCAST, state
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import same_dtype, unsupported
from ..shape.expand import expand_to
from ..shape.slicing import ALL
from .scatter import OUTSIDE, outside, outside_either_way, refuse_outside, scatter_reduce

ndarray = np.ndarray


def _vector(index):
    return index if index.ndim else index.reshape(1)


def _at(dim: int, index) -> tuple:
    return (*(ALL,) * dim, _vector(index))


def ints(*values):
    """A tensor of int64: indices of samples."""
    return Tensor._make(np.array(values, np.int64))


# -- index_select ------------------------------------------------------------------------------------------------


def _index_select(xp, self, index, *, dim):
    return self.take(_vector(index), dim) if self.ndim else self.reshape(1).take(index).reshape(())


def _index_select_backward(xp, grad, index, *, shape, dim):
    out = xp.zeros(shape, grad.dtype)
    if not shape:
        return out + grad.sum()
    xp.add_at(out, _at(dim, index), grad)
    return out


index_select_op = declare(
    "index_select", _index_select, promote="free", jvp="linear", complex=True,
    self=lambda F, g, index, self_shape, dim: F.index_select_backward(g, index, self_shape, dim),
    samples=lambda t: [
        (t(3, 4), ints(2, 0, 2), 0), (t(3, 4), ints(1), 1), (t(), ints(0), 0), (t(2, 3), ints(), 0),
    ],
    batch="index_select",
    aten="(self, dim, index)",
)  # fmt: skip
declare(
    "index_select_backward", _index_select_backward, promote="free", jvp="linear", complex=True,
        node="IndexAddBackward0",
    grad=lambda F, g, index, dim: F.index_select(g, index, dim),
    samples=lambda t: [(t(3, 4), ints(2, 0, 2), (3, 4), 0), (t(3, 1), ints(1), (3, 4), 1)],
    batch="index_select_backward",
)  # fmt: skip


def _check(name: str, x: Tensor, dim: int, index: Tensor, wrong: str) -> int:
    array = raw_values(index)
    if array.dtype.kind != "i" or array.dtype.itemsize < 4:
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index")
    if array.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    shape = x._array.shape
    dim = wrap_dim(dim, len(shape))
    n = shape[dim] if shape else 1
    kind = RuntimeError if name == "index_add" else IndexError
    refuse_outside(outside, array, n, dim, kind, wrong)
    return dim


@function("index_select", method=True)
def index_select(input, dim, index, *, out=None):
    """The slices of `dim` that `index` names, in its order: a copy.

    Args:
        input: a tensor of any dtype.
        dim: the dimension.
        index: a vector of int32 or int64, each in [0, length of `dim`); negative ones are not allowed.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the dtype of `input`, as long as `index` along `dim`; the gradient of a slice named twice is a
            sum.

    Raises:
        IndexError: an index is out of range, `index` is no vector, or there is no such dimension.
        RuntimeError: `index` is of another dtype.

    Example:
        >>> gradlib.index_select(gradlib.tensor([[1, 2], [3, 4]]), 1, gradlib.tensor([1, 1]))
        tensor([[2, 2],
                [4, 4]])
    """
    shape = input._array.shape
    if shape and index._array.size and not shape[wrap_dim(dim, len(shape))]:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    dim = _check("index_select", input, dim, index, "index out of range in self")
    if not input._array.ndim and index._array.size != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {index._array.size} value(s)"
        )
    result = index_select_op.call(input, index, dim)
    if out is None:
        return result
    refuse_overlap(out, input, index)
    return write_same(out, result, "index_select(): self and result must have the same scalar type")


# -- index_add, index_copy, index_fill ----------------------------------------------------------------------------


def _whole(out):
    """At least one dimension, over the same memory."""
    return out if out.ndim else out.reshape(1)


def _index_add_into(xp, self, index, source, *, dim, alpha):
    source = _whole(source)
    xp.add_at(
        _whole(self),
        _at(dim, index),
        source if alpha == 1 else source * xp.number(alpha, source.dtype),
    )


def _index_copy_into(xp, self, index, source, *, dim):
    _whole(self)[_at(dim, index)] = _whole(source)


def _index_fill_into(xp, self, index, *, dim, value):
    _whole(self)[_at(dim, index)] = value


def _index_fill_tensor_into(xp, self, index, value, *, dim):
    _whole(self)[_at(dim, index)] = value


index_add_op = declare(
    "index_add", on_copy(_index_add_into),
    promote="free", jvp="linear", complex=True, sharing="apart", self=lambda g: g,
    source=lambda F, g, index, source_shape, dim, alpha: F.expand(F.index_select(g, index, dim), source_shape) * alpha
    if alpha != 1 else F.reshape(F.index_select(g, index, dim), source_shape),
    samples=lambda t: [
        (t(3, 4), ints(2, 0, 2), t(3, 4), 0, 1), (t(3, 4), ints(1), t(3, 1), 1, 2.5),
        (t(), ints(0), t(), 0, 1),
        (t(2, 3), ints(), t(0, 3), 0, 1),
    ],
    aten="(self, dim, index, source, *alpha)",
)  # fmt: skip
index_copy_op = declare(
    "index_copy", on_copy(_index_copy_into),
    autocast="cpu:promote", promote="free", jvp="linear", complex=True,
    self=lambda F, g, index, dim: F.index_fill(g, index, dim, 0),
    sharing="apart",
    source=lambda F, g, index, source_shape, dim: F.reshape(F.index_select(g, index, dim), source_shape),
    samples=lambda t: [
        (t(3, 4), ints(2, 0), t(2, 4), 0), (t(3, 4), ints(1), t(3, 1), 1), (t(), ints(0), t(), 0),
        (t(2, 3), ints(), t(0, 3), 0),
    ],
    aten="(self, dim, index, source)",
)  # fmt: skip
index_fill_op = declare(
    "index_fill", on_copy(_index_fill_into),
    promote="free", complex=True, self=lambda F, g, index, dim: F.index_fill(g, index, dim, 0), overlapping="warn",
    jvp=lambda F, self_t, index, dim: F.index_fill(self_t, index, dim, 0),
    samples=lambda t: [(t(3, 4), ints(2, 0), 0, 1.5), (t(), ints(0), 0, 2.0), (t(2, 3), ints(), 0, 1.0)],
    aten="(self, dim, index, value)",
)  # fmt: skip
index_fill_tensor_op = declare(
    "index_fill_tensor", on_copy(_index_fill_tensor_into),
    promote="free", complex=True, jvp="linear", node="IndexFillBackward1", overlapping="warn",
    public="index_fill", sharing="number",
    self=lambda F, g, index, dim: F.index_fill(g, index, dim, 0),
    value=lambda F, g, index, dim: F.sum_all(g - F.index_fill(g, index, dim, 0)),
    samples=lambda t: [(t(3, 4), ints(2, 0), t(), 0), (t(), ints(0), t(), 0), (t(2, 3), ints(), t(), 0)],
    aten="(self, dim, index, value)",
)  # fmt: skip
_add_into = InPlace(index_add_op, _index_add_into)
_copy_into = InPlace(index_copy_op, _index_copy_into)
_fill_into = InPlace(index_fill_op, _index_fill_into)
_fill_tensor_into = InPlace(index_fill_tensor_op, _index_fill_tensor_into)


def _check_source(name: str, x: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """RuntimeError for a source of another dtype, or without a slice for each index."""
    same_dtype(x, source, f"{name}(): self ({{}}) and source ({{}}) must have the same scalar type")
    count, have = index._array.size, source._array.shape[dim] if source._array.ndim else 1
    if count != have:
        raise RuntimeError(
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim): ({have}), for dim: {dim}"
        )


def _add_plan(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha) -> tuple:
    dim = _check(
        "index_add",
        x,
        dim,
        index,
        "index {index} is out of bounds for dimension {dim} with size {n}",
    )
    _check_source("index_add_", x, dim, index, source)
    a, b = list(x._array.shape), list(source._array.shape)
    if a and b:
        a[dim] = b[dim]
        if a != b:
            raise RuntimeError(
                "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                f"{errors.size(x.shape)} source.shape = {errors.size(source.shape)}"
            )
    alpha = python_number(alpha, "index_add(): argument 'alpha'")
    return (index, source), (dim, alpha if alpha == 1 else plain_number(alpha, x.dtype))


@function("index_add", method=True)
def index_add(input, dim, index, source, *, alpha=1, out=None):
    """A copy of `input` with ``alpha * source`` added to the slices of `dim` that `index` names.

    Raises IndexError, RuntimeError: an index is out of range, shapes or dtypes do not fit.

    Example:
        >>> gradlib.index_add(gradlib.zeros(3), 0, gradlib.tensor([0, 2]), gradlib.ones(2))
        tensor([1., 0., 1.])
    """
    others, attrs = _add_plan(input, dim, index, source, alpha)
    return write_same(out, index_add_op.call(input, *others, *attrs))


@method("index_add_")
def index_add_(self, dim, index, source, *, alpha=1):
    """In-place version of ``index_add``."""
    return _add_into(self, *_add_plan(self, dim, index, source, alpha))


def _copy_plan(x: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple:
    dim = _check(
        "index_copy",
        x,
        dim,
        index,
        "index_copy_(): index {index} is out of bounds for dimension {dim} with size {n}",
    )
    a, b = list(x._array.shape), list(source._array.shape)
    if not state.bits & AUTOCAST:
        text = "self and source expected to have the same dtype, but got (self) {} and (source) {}"
        same_dtype(x, source, "index_copy_(): " + text)
    own, given = a[:dim] + a[dim + 1 :], b[:dim] + b[dim + 1 :]
    if a and b and own != given:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, own))} at dimension {dim} and source slice shape: {' '.join(map(str, given))} at "
            "dimension 0."
        )
    if b and index._array.size != b[dim]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index._array.size}) should be equal to source.size(dim) ({b[dim]})"
        )
    return (index, source), (dim,)


@function("index_copy", method=True)
def index_copy(input, dim, index, source, *, out=None):
    """A copy of `input` with the slices of `source` in place of those of `dim` that `index` names.

    Args:
        dim: the dimension.
        index: a vector of int64, each in [0, length of `dim`). Of repeated ones it is open which slice stays.
        source: a tensor of the dtype of `input`, as long as `index` along `dim`, else of its shape.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`; gradients flow to `input` and `source`.

    Raises:
        IndexError: an index is out of range; as many indices as there are no slices.
        RuntimeError: the dtypes or shapes do not fit.

    Example:
        >>> gradlib.index_copy(gradlib.zeros(3), 0, gradlib.tensor([2, 0]), gradlib.tensor([1.0, 2.0]))
        tensor([2., 0., 1.])
    """
    others, attrs = _copy_plan(input, dim, index, source)
    return write_same(out, index_copy_op.call(input, *others, *attrs))


@method("index_copy_")
def index_copy_(self, dim, index, source):
    """In-place version of ``index_copy``."""
    return _copy_into(self, *_copy_plan(self, dim, index, source))


_COMPLEX_FILL = "index_fill_(): Converting complex Scalar to non-complex type is not supported"


def _fill_plan(x: Tensor, dim: int, index: Tensor, value) -> tuple:
    """(op, in-place op, tensors, attributes)."""
    if index._array.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index._array.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    shape = x._array.shape
    dim = wrap_dim(dim, len(shape))
    n = shape[dim] if shape else 1
    refuse_outside(outside_either_way, raw_values(index), n, dim, IndexError, OUTSIDE)
    if not isinstance(value, Tensor):
        if isinstance(value, complex) and x.dtype.category < dtypes.COMPLEX:
            raise RuntimeError(_COMPLEX_FILL)
        return index_fill_op, _fill_into, (index,), (dim, plain_number(value, x.dtype))
    if value._array.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value._array.ndim} "
            "dimension(s)."
        )
    if x.dtype.category < dtypes.COMPLEX == value.dtype.category:
        raise RuntimeError(_COMPLEX_FILL)
    check_fits(value, x.dtype)
    value = value.to(x.dtype) if value._array.dtype != x._array.dtype else value
    return index_fill_tensor_op, _fill_tensor_into, (index, value), (dim,)


@function("index_fill", method=True)
def index_fill(input, dim, index, value):
    """A copy of `input` with `value` in the slices of `dim` that `index` names.

    Args:
        dim: the dimension.
        index: a vector of int64; negative ones count from the end.
        value: a number, or a tensor without dimensions, to which the gradient flows.

    Returns:
        A tensor like `input`.

    Raises:
        IndexError: an index is out of range or of another dtype.
        RuntimeError: `value` has dimensions, or is complex for a real tensor.

    Example:
        >>> gradlib.index_fill(gradlib.zeros(3), 0, gradlib.tensor([0, -1]), 7)
        tensor([7., 0., 7.])
    """
    op, _, others, attrs = _fill_plan(input, dim, index, value)
    return op.call(input, *others, *attrs)


@method("index_fill_")
def index_fill_(self, dim, index, value):
    """In-place version of ``index_fill``."""
    _, into, others, attrs = _fill_plan(self, dim, index, value)
    return into(self, others, attrs)


def _wide_index(index: Tensor, source: Tensor, dim: int) -> Tensor:
    shape = [1] * source._array.ndim
    if shape:
        shape[dim] = index._array.size
    return expand_to(index.reshape(shape), source._array.shape)


def _reduce_name(reduce: str) -> str:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    return reduce


def _reduce_plan(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str) -> tuple:
    """(dim, index, reduce) of a call of index_reduce as those of scatter_reduce."""
    if x._array.dtype.kind == "c" or (x.dtype.name == "bool" and reduce in ("prod", "mean")):
        raise unsupported("index_func_", x)
    dim = _check("index_reduce", x, dim, index, "index out of range in self")
    _check_source("index_reduce_", x, dim, index, source)
    return dim, _wide_index(index, source, dim), _reduce_name(reduce)


@function("index_reduce", method=True)
def index_reduce(input, dim, index, source, reduce, *, include_self=True, out=None):
    """A copy of `input` with the slices of `source` reduced into those of `dim` that `index` names.

    Args:
        dim: the dimension.
        index: a vector of int32 or int64, each in [0, length of `dim`).
        source: a tensor of the dtype of `input`, as long as `index` along `dim`, else of its shape.
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether what stands in `input` takes part.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`; gradients flow to `input` and `source`.

    Raises:
        IndexError: an index is out of range.
        RuntimeError: another `reduce`, dtypes that differ, or another number of slices.

    Example:
        >>> gradlib.index_reduce(gradlib.ones(2), 0, gradlib.tensor([0, 0]), gradlib.tensor([3.0, 5.0]), "prod")
        tensor([15.,  1.])
    """
    dim, where, reduce = _reduce_plan(input, dim, index, source, reduce)
    return scatter_reduce(input, dim, where, source, reduce, include_self=include_self, out=out)


@method("index_reduce_")
def index_reduce_(self, dim, index, source, reduce, *, include_self=True):
    """In-place version of ``index_reduce``."""
    dim, where, reduce = _reduce_plan(self, dim, index, source, reduce)
    return self.scatter_reduce_(dim, where, source, reduce, include_self=include_self)
