"""Writing values: fill_, zero_, copy_, and the masked forms masked_fill, masked_scatter, masked_select."""

from __future__ import annotations

import math

import numpy as np

from ...op import captures
from ...op.declare import declare
from ...op.expose import function, method, refuse_overlap, write_same
from ...op.inplace import check
from ...op.plain_numbers import check_fits, is_number, plain_number, single_number
from ...op.updates import in_the_way
from ...op.vmap import all_entries, is_logical
from ...op.writing import InPlace, quiet, wrote
from ...tape import dtypes, errors
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.dtypes import FLOAT8
from ...tape.float8 import narrowed
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor
from ..kinds import same_dtype, warn_of_lost_part
from ..shape.expand import broadcast_tensors

# -- fill and zero -----------------------------------------------------------------------------------------------


def _fill_into(xp, out, *, value):
    out[...] = value


def _fill_tensor_into(xp, out, value):
    out[...] = value


fill_op = declare(
    "fill", lambda xp, self, *, value: xp.full_like(self, value), jvp=lambda F, self_t: F.zeros_like(self_t),
        complex=True,
    self=lambda F, g: F.zeros_like(g), samples=lambda t: [(t(3, 4), 2.0), (t(), 1.0), (t(0, 2), 0.0)], inplace=True,
    overlapping="fill",
    batch="fill",
)  # fmt: skip
fill_tensor_op = declare(
    "fill_tensor", lambda xp, self, value: xp.full_like(self, value), public="fill",
    promote="free", jvp="linear", complex=True, sharing="number",
    self=lambda F, g: F.zeros_like(g), value=lambda F, g: F.sum_all(g), node="FillBackward1", inplace=True,
    samples=lambda t: [(t(3, 4), t()), (t(), t()), (t(0, 2), t())],
    batch="fill_tensor",
)  # fmt: skip
zero_op = declare(
    "zero", lambda xp, self: xp.zeros_like(self), jvp="linear", complex=True, self=lambda F, g: F.zeros_like(g),
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)], inplace=True, overlapping="fill",
    batch="fill",
)  # fmt: skip
fill_into = InPlace(fill_op, _fill_into)
fill_tensor_into = InPlace(fill_tensor_op, _fill_tensor_into)


def _zero(out):
    """Zero, or of a float8 type that has none the smallest number, both of which have the bits 0."""
    (out if out.dtype.names is None else out.view(np.uint8)).fill(0)


zero_into = InPlace(zero_op, lambda xp, out: _zero(out))


def _fill_value(x: Tensor, value):
    """(number, None) or (None, 0-dim tensor of the dtype of `x`)."""
    if not isinstance(value, Tensor):
        if not is_number(value):
            raise TypeError(
                "fill_() received an invalid combination of arguments - got "
                f"({errors.type_name(value)}), but expected one of:\n * (Tensor value)\n * (Number value)"
            )
        return (single_number if x._array.size == 1 else plain_number)(value, x.dtype), None
    if value._array.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions."
        )
    return None, value.to(x.dtype) if value._array.dtype != x._array.dtype else value


@function("fill")
def fill(input, value):
    """A tensor like `input` with every element `value`.

    Args:
        input: a tensor, of which shape, dtype and device count.
        value: a number, or a tensor without dimensions, to which the gradient flows.

    Returns:
        A new tensor.

    Raises:
        RuntimeError: `value` is a tensor with dimensions.

    Example:
        >>> gradlib.fill(gradlib.zeros(2), 7)
        tensor([7., 7.])
    """
    number, tensor = _fill_value(input, value)
    return fill_op.call(input, number) if tensor is None else fill_tensor_op.call(input, tensor)


@function("fill_")
@method("fill_")
def fill_(self, value):
    """Every element set to `value`.

    Args:
        value: a number, or a tensor without dimensions, to which the gradient flows.

    Returns:
        This tensor.

    Raises:
        RuntimeError: `value` is a tensor with dimensions, or complex for a real tensor; a leaf that requires grad.

    Example:
        >>> gradlib.zeros(2).fill_(7)
        tensor([7., 7.])
    """
    number, tensor = _fill_value(self, value)
    if quiet(self, tensor):
        self._array[...] = number if tensor is None else tensor.to(self.device)._array
        return wrote(self, "fill_")
    if tensor is None:
        return fill_into(self, (), (number,))
    return fill_tensor_into(self, (tensor,))


@function("zero_")
@method("zero_")
def zero_(self):
    """Every element set to zero.

    Returns:
        This tensor; what was computed before has no part in its gradient any more.

    Raises:
        RuntimeError: a leaf that requires grad, or a view of one, where operations are recorded.

    Example:
        >>> gradlib.ones(2).zero_()
        tensor([0., 0.])
    """
    if quiet(self):
        _zero(self._array)
        return wrote(self, "zero_")
    return zero_into(self)


# -- copy --------------------------------------------------------------------------------------------------------


def _copy_into(xp, out, src):
    if src.dtype is not out.dtype and out.dtype in FLOAT8:
        src = narrowed(src, out.dtype)
    out[...] = src.real if src.dtype.kind == "c" and out.dtype.kind != "c" else src


def _copy(xp, self, src):
    out = xp.empty_like(self)
    _copy_into(xp, out, src)
    return out


copy_op = declare(
    "copy", _copy, promote="free", node="CopyBackwards", inplace=True, jvp="linear", complex=True,
    self=lambda F, g: F.zeros_like(g), src=lambda F, g, src_shape: F.sum_to_size(g, src_shape),
    samples=lambda t: [(t(3, 4), t(3, 4)), (t(3, 4), t(4)), (t(), t()), (t(0, 2), t(0, 1))],
    batch="copy",
)  # fmt: skip
copy_into = InPlace(copy_op, _copy_into)


@method("copy_")
def copy_(self, src, non_blocking=False):
    """The elements of `src` written into this tensor, converted to its dtype and moved to its device.

    Args:
        src: a tensor that broadcasts to this shape; gradients flow to it.
        non_blocking: whether the host may go on before a copy from or to a device is done.

    Returns:
        This tensor.

    Raises:
        RuntimeError: the shape does not broadcast to this one; a leaf that requires grad.

    Example:
        >>> gradlib.zeros(2, 2).copy_(gradlib.tensor([1, 2]))
        tensor([[1., 2.],
                [1., 2.]])
    """
    if not isinstance(src, Tensor):
        if not is_number(src):
            raise TypeError(
                f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}"
            )
        return fill_(self, src)
    if src is self:
        check(self, copy_op, self._rg)
        return wrote(self, "copy_")
    array, other = self._array, src._array
    if array.shape != other.shape:
        _check_broadcast(array.shape, other.shape)
    if array.__class__ is not other.__class__ or self.device != src.device:
        src = src.to(self.device, non_blocking=non_blocking)
        other = src._array
    if quiet(self, src) and not in_the_way(copy_op, self, src):
        if other.dtype is not array.dtype and other.dtype.kind == "c":
            warn_of_lost_part(array.dtype)
        _copy_into(None, array, other)
        return wrote(self, "copy_")
    if other.dtype != array.dtype:
        src = src.to(self.dtype)
    return copy_into(self, (src,))


def _check_broadcast(shape: tuple, other: tuple) -> None:
    errors.check_broadcast(shape, other)
    wide = np.broadcast_shapes(shape, other)
    if wide != shape:
        raise RuntimeError(
            f"output with shape {errors.size(shape)} doesn't match the broadcast shape {errors.size(wide)}"
        )


# -- masks -------------------------------------------------------------------------------------------------------


def _mask(mask):
    if not isinstance(mask, Tensor):
        raise TypeError(
            f"masked_fill_(): argument 'mask' (position 1) must be Tensor, not {type(mask).__name__}"
        )
    if mask._array.dtype.kind != "b":
        name = errors.C_TYPES.get(mask.dtype.name, mask.dtype.name)
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {name}"
        )
    return mask


def _masked_fill(xp, self, mask, *, value):
    out = xp.where(mask, xp.asarray(value, self.dtype), self)
    return out if out.flags.c_contiguous else xp.ascontiguousarray(out)


def _masked_fill_into(xp, out, mask, *, value):
    if mask.shape == out.shape:
        out[mask] = value
    else:
        xp.copyto(out, value, where=mask, casting="unsafe")


def _masked_fill_tensor_into(xp, out, mask, value):
    _masked_fill_into(xp, out, mask, value=value)


masked_fill_op = declare(
    "masked_fill", _masked_fill, promote="free", complex=True, overlapping="warn",
    self=lambda F, g, mask, self_shape: F.sum_to_size(F.masked_fill(g, mask, 0), self_shape),
    jvp=lambda F, self_t, mask: F.masked_fill(self_t, mask, 0),
    samples=lambda t: [(t(3, 4), _bools(t, 3, 4), 2.0), (t(3, 1), _bools(t, 4), 2.0), (t(), _bools(t), 1.0),
        (t(0, 2), _bools(t, 2), 1.0)],
    batch="elementwise",
)  # fmt: skip
masked_fill_tensor_op = declare(
    "masked_fill_tensor", lambda xp, self, mask, value: xp.where(mask, value.astype(self.dtype), self), promote="free",
    node="MaskedFillBackward1", complex=True, jvp="linear", overlapping="warn", sharing="number",
    public="masked_fill",
    self=lambda F, g, mask, self_shape: F.sum_to_size(F.masked_fill(g, mask, 0), self_shape),
    value=lambda F, g, mask, value_shape: F.sum_to_size(F.where(mask, g, 0.0), value_shape),
    samples=lambda t: [(t(3, 4), _bools(t, 3, 4), t()), (t(3, 1), _bools(t, 4), t()), (t(0, 2), _bools(t, 2), t())],
    batch="elementwise",
)  # fmt: skip
masked_fill_into = InPlace(masked_fill_op, _masked_fill_into)
masked_fill_tensor_into = InPlace(masked_fill_tensor_op, _masked_fill_tensor_into)


def _bools(t, *shape):
    """A sample mask."""
    n = int(np.prod(shape))
    return Tensor._make((np.arange(n) % 3 == 0).reshape(shape))


def _fill_argument(x: Tensor, value):
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value._array.ndim} "
                "dimension(s)."
            )
        check_fits(value, x.dtype)
        return value.to(x.device) if value.device != x.device else value
    return plain_number(value, x.dtype)


@function("masked_fill", method=True)
def masked_fill(input, mask, value):
    """A copy of `input` with `value`, a number or 0-dim tensor, where the bool tensor `mask` is true.

    Raises RuntimeError: `mask` is not bool or does not broadcast to `input`.

    Example:
        >>> gradlib.masked_fill(gradlib.ones(2), gradlib.tensor([True, False]), 0)
        tensor([0., 1.])
    """
    mask = _mask(mask)
    value = _fill_argument(input, value)
    if isinstance(value, Tensor):
        if value._rg and input.dtype.category < dtypes.FLOATING:
            raise RuntimeError(f"Autograd not support dtype: {input.dtype.scalar_type}")
        return masked_fill_tensor_op.call(input, mask, value)
    return masked_fill_op.call(input, mask, value)


@method("masked_fill_")
def masked_fill_(self, mask, value):
    """`value` written where `mask` is true.

    Args:
        mask: a bool tensor that broadcasts to this shape.
        value: a number, or a tensor without dimensions, to which the gradient flows.

    Returns:
        This tensor.

    Raises:
        RuntimeError: `mask` is not bool or does not broadcast to this shape; a leaf that requires grad.

    Example:
        >>> gradlib.zeros(3).masked_fill_(gradlib.tensor([True, False, True]), 7)
        tensor([7., 0., 7.])
    """
    mask = _mask(mask)
    if mask._array.shape != self._array.shape:
        _check_broadcast(self._array.shape, mask._array.shape)
    value = _fill_argument(self, value)
    if quiet(self, value):
        array = self._array
        _masked_fill_into(
            backend_of(array), array, mask._array, value=getattr(value, "_array", value)
        )
        return wrote(self, "masked_fill_")
    if isinstance(value, Tensor):
        return masked_fill_tensor_into(self, (mask, value))
    return masked_fill_into(self, (mask,), (value,))


def _masked_select_backward(xp, grad, mask, *, shape):
    wide = xp.zeros(mask.shape, grad.dtype)
    wide[mask] = grad
    return wide


masked_select_op = declare(
    "masked_select", lambda xp, self, mask: self[mask], dynamic="mask", promote="free", jvp="linear", complex=True,
    self=lambda F, g, mask, self_shape: F.masked_select_backward(g, mask, self_shape),
    samples=lambda t: [(t(3, 4), _bools(t, 3, 4)), (t(), _bools(t)), (t(0, 2), _bools(t, 0, 2))],
    batch="masked_select",
)  # fmt: skip
declare(
    "masked_select_backward", _masked_select_backward,
    captures=captures.COUNT, promote="free", jvp="linear", complex=True,
    grad=lambda F, g, mask: F.masked_select(g, mask), each_entry=True,
    samples=lambda t: [(t(4), _bools(t, 3, 4), (3, 4))],
)  # fmt: skip


@function("masked_select", method=True)
def masked_select(input, mask, *, out=None):
    """The elements where the bool tensor `mask` is true, in one dimension; both are broadcast together.

    Raises RuntimeError: `mask` is not bool, or the shapes do not broadcast.

    Example:
        >>> gradlib.masked_select(gradlib.tensor([1, 2]), gradlib.tensor([False, True]))
        tensor([2])
    """
    if mask._array.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if input._array.shape != mask._array.shape:
        mask, input = broadcast_tensors(mask, input)
    refuse_overlap(out, input, mask)
    result = masked_select_op.call(input, mask)
    return write_same(
        out, result, "masked_select(): self and result must have the same scalar type"
    )


def _masked_scatter_into(xp, out, mask, source):
    if not source.size:
        return
    used = xp.broadcast_to(mask, out.shape).reshape(-1)
    taken = source.reshape(-1)[xp.clip(xp.cumsum(used) - 1, 0, source.size - 1)]
    out[...] = xp.where(used, taken, out.reshape(-1)).reshape(out.shape)


def _masked_scatter(xp, self, mask, source):
    out = xp.array(xp.broadcast_to(self, np.broadcast_shapes(self.shape, mask.shape)), order="C")
    _masked_scatter_into(xp, out, mask, source)
    return out


def _masked_scatter_backward(xp, grad, mask, *, shape):
    # where each element comes from in the source; those that the mask leaves out go behind its end
    size, used = math.prod(shape), xp.broadcast_to(mask, grad.shape).reshape(-1)
    place = xp.where(used, xp.cumsum(used) - 1, size)
    out = xp.zeros(size + 1, grad.dtype)
    out[place] = grad.reshape(-1)
    return out[:size].reshape(shape)


declare(
    "masked_scatter_backward", _masked_scatter_backward,
    promote="free", jvp="linear", complex=True,
    grad=lambda F, g, mask, grad_shape: F.masked_scatter(F.new_zeros(g, grad_shape), mask, g),
    samples=lambda t: [(t(3, 4), _bools(t, 3, 4), (13,)), (t(3, 4), _bools(t, 4), (3, 4))],
)  # fmt: skip
masked_scatter_op = declare(
    "masked_scatter", _masked_scatter, promote="free", jvp="linear", complex=True,
    self=lambda F, g, mask, self_shape: F.sum_to_size(F.masked_fill(g, mask, 0), self_shape),
    source=lambda F, g, mask, source_shape: F.masked_scatter_backward(g, mask, source_shape),
    samples=lambda t: [(t(3, 4), _bools(t, 3, 4), t(6)), (t(3, 4), _bools(t, 4), t(2, 3)),
        (t(0, 2), _bools(t, 2), t(1))],
)  # fmt: skip
masked_scatter_into = InPlace(masked_scatter_op, _masked_scatter_into)


def _check_scatter(x: Tensor, mask: Tensor, source: Tensor) -> None:
    text = "masked_scatter: expected self and source to have same dtypes but got{} and {}"
    same_dtype(x, source, text)
    if mask._array.dtype.kind != "b":
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            + mask.dtype.scalar_type
        )
    wide = np.broadcast_shapes(x._array.shape, mask._array.shape)
    repeats, have = math.prod(wide) // (mask._array.size or 1), source._array.size
    if is_logical(mask):
        _refuse_few(int(all_entries(mask.sum()).max()), repeats, have)
    else:
        with beside(mask._array):
            unrecorded(_refuse_few, mask._array, repeats, have)


def _refuse_few(mask, repeats: int, have: int) -> None:
    """RuntimeError if a raw mask, or a number of ones, takes more elements than there are."""
    ones = mask if mask.__class__ is int else int(mask.sum())
    if ones * repeats > have:
        raise RuntimeError("Number of elements of source < number of ones in mask")


@function("masked_scatter", method=True)
def masked_scatter(input, mask, source):
    """A copy of `input` with the elements of `source`, in their order, where `mask` is true.

    Args:
        mask: a bool tensor that broadcasts with `input`.
        source: a tensor of the same dtype with at least as many elements as are true.

    Returns:
        A tensor of the shape that `input` and `mask` broadcast to; gradients flow to `input` and `source`.

    Raises:
        RuntimeError: `mask` is not bool, the dtypes differ, or `source` has too few elements.

    Example:
        >>> gradlib.masked_scatter(gradlib.zeros(3), gradlib.tensor([True, False, True]), gradlib.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    _check_scatter(input, mask, source)
    return masked_scatter_op.call(input, mask, source)


@method("masked_scatter_")
def masked_scatter_(self, mask, source):
    """The elements of `source`, in their order, written where `mask` is true.

    Args:
        mask: a bool tensor that broadcasts to this shape.
        source: a tensor of the same dtype with at least as many elements as are true.

    Returns:
        This tensor.

    Raises:
        RuntimeError: `mask` is not bool, the dtypes differ, or `source` has too few elements; a leaf that requires
            grad.

    Example:
        >>> gradlib.zeros(3).masked_scatter_(gradlib.tensor([True, False, True]), gradlib.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    _check_scatter(self, mask, source)
    if np.broadcast_shapes(self._array.shape, mask._array.shape) != self._array.shape:
        raise RuntimeError(
            f"masked_scatter_: a mask of size {errors.size(mask.shape)} does not broadcast to {errors.size(self.shape)}"
        )
    return masked_scatter_into(self, (mask, source))
