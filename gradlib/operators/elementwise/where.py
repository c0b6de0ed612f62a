"""where: elements of one tensor or of another."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...op.declare import declare
from ...op.expose import apart, function, method, write_same
from ...op.formulas import formula_function
from ...op.interpret import common_dtype
from ...op.plain_numbers import is_number, single_number
from ...tape import dtypes
from ...tape.layout import in_order
from ...tape.modes import made_of_numbers
from ...tape.tensor import Tensor


def _select(xp, self, other, condition):
    out = xp.where(condition, self, other)
    if out.ndim < 2:
        return out
    arrays = [a for a in (condition, self, other) if getattr(a, "ndim", 0)]
    return out if arrays[0].flags.c_contiguous else in_order(xp, out, arrays)


select = declare(
    "select_where",
    _select,
    public="where",
    promote="same",
    fixed=("condition",),
    self=lambda F, g, condition, self_shape: F.sum_to_size(F.where(condition, g, 0.0), self_shape),
    other=lambda F, g, condition, other_shape: F.sum_to_size(
        F.where(condition, 0.0, g), other_shape
    ),
    jvp="linear",
    node="WhereBackward0",
    complex=True,
    samples=lambda t: [
        (t(3, 4), t(3, 4), Tensor._make(np.arange(12).reshape(3, 4) % 3 == 0)),
        (t(4), t(3, 1), Tensor._make(np.eye(3, 4) > 0)),
        (t(), t(0), Tensor._make(np.zeros(0, bool))),
    ],
    batch="elementwise",
    aten="(condition, self, other)",
)


@formula_function("where")
def _where(F, condition, self, other):
    """``where`` for formulas: condition is a raw bool array or a Tensor, the others may be numbers."""
    if F.backend is None and not isinstance(condition, Tensor):
        condition = Tensor._make(condition)
    return F.select_where(self, other, condition)


def _beside(value, other):
    """A number as what it is beside a tensor of floats: a 0-dim tensor of its dtype."""
    if value.__class__ is Tensor:
        return value
    array: Any = getattr(other, "_array", None)
    plain = value.__class__ is float or value.__class__ is int
    if plain and array.__class__ is np.ndarray and array.dtype in dtypes.NP_FLOATING:
        kind = dtypes.BY_NP[array.dtype]
        return made_of_numbers(Tensor._make(np.asarray(single_number(value, kind), array.dtype)))
    if array is None or not is_number(value):
        return value
    return single_number(value, common_dtype((value, other)))


@function("where")
def where(condition, input=None, other=None, *, out=None):
    """Elements of `input` where `condition` is true, else elements of `other`.

    Args:
        condition: a bool tensor.
        input, other: tensors or numbers; all three broadcast. Without both: the indices where `condition` is not 0.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that all broadcast to and of the common dtype of `input` and `other`; with `condition`
            alone ``nonzero(condition, as_tuple=True)``. Each gradient is 0 where the other one was taken.

    Raises:
        RuntimeError: the shapes do not broadcast, or `condition` is not bool.

    Example:
        >>> x = gradlib.tensor([-1.0, 2.0])
        >>> gradlib.where(x > 0, x, 0.0)
        tensor([0., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not isinstance(condition, Tensor):
        raise TypeError(
            f"where(): argument 'condition' must be Tensor, not {type(condition).__name__}"
        )
    if condition._array.dtype.kind not in "bu":
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.scalar_type}"
        )
    if condition._array.dtype.kind != "b":
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead.",
            stacklevel=2,
        )
        condition = condition.bool()
    input, other = _beside(input, other), _beside(other, input)
    return write_same(
        apart(out, condition, input, other),
        select.call(input, other, condition),
        "Expected out type to be {Want} but got {Got}",
    )


@method("where")
def _where_method(self, condition, other):
    """The elements of this tensor where `condition` is true, those of `other` elsewhere, with broadcasting.

    Raises RuntimeError for shapes that do not broadcast.

    Example:
        >>> gradlib.tensor([1, 2]).where(gradlib.tensor([True, False]), gradlib.tensor([3, 4]))
        tensor([1, 4])
    """
    return where(condition, self, other)
