"""Comparisons, logic, bit operations, tests of values, where."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.formulas import formula_function
from ..core.op import declare
from ..core.tensor import Tensor
from .expose import function, write_out
from .pointwise import pointwise, unary


def _integers(t):
    """Samples for ops on integers."""
    kind = {"dtype": dtypes.int64, "low": 1, "high": 6}
    return [(t(3, 4, **kind), t(4, **kind)), (t(**kind), t(2, 0, **kind))]


for _name, _ufunc, *_aliases in (
    ("eq", "equal"), ("ne", "not_equal", "not_equal"), ("lt", "less", "less"), ("le", "less_equal", "less_equal"),
    ("gt", "greater", "greater"), ("ge", "greater_equal", "greater_equal"),
    ("logical_and", "logical_and"), ("logical_or", "logical_or"), ("logical_xor", "logical_xor"),
):  # fmt: skip
    refuses_complex: dict[str, Any] = (
        {"complex": False} if _name in ("lt", "le", "gt", "ge") else {}
    )
    pointwise(
        _name, _ufunc, *_aliases, args="self other", nondifferentiable="bool", **refuses_complex
    )
for _name, _ufunc in (
    ("bitwise_and", "bitwise_and"),
    ("bitwise_or", "bitwise_or"),
    ("bitwise_xor", "bitwise_xor"),
    ("gcd", "gcd"),
    ("lcm", "lcm"),
    ("bitwise_left_shift", "left_shift"),
    ("bitwise_right_shift", "right_shift"),
):
    pointwise(_name, _ufunc, args="self other", nondifferentiable="integer", samples=_integers)
pointwise(
    "bitwise_not",
    "invert",
    nondifferentiable="integer",
    samples=lambda t: [a[:1] for a in _integers(t)],
)
pointwise("heaviside", "heaviside", args="self other", nondifferentiable="bool")
pointwise("logical_not", "logical_not", nondifferentiable="bool")


def _test(name: str, of_floats, of_integers: bool) -> None:
    """A test of each element; integers and bools all give `of_integers`."""

    def forward(xp, self):
        return (
            of_floats(xp, self)
            if self.dtype.kind in "fcV"
            else xp.full(self.shape, of_integers, bool)
        )

    unary(name, forward=forward, promote="same", inplace=False, nondifferentiable="bool")


_test("isnan", lambda xp, self: xp.isnan(self), False)
_test("isinf", lambda xp, self: xp.isinf(self), False)
_test("isfinite", lambda xp, self: xp.isfinite(self), True)
_test("isposinf", lambda xp, self: self == np.inf, False)
_test("isneginf", lambda xp, self: self == -np.inf, False)
_test("isreal", lambda xp, self: xp.imag(self) == 0, True)

select = declare(
    "select_where",
    lambda xp, self, other, *, condition: xp.where(condition, self, other),
    promote="same",
    self=lambda F, g, condition, self_shape: F.sum_to_size(F.where(condition, g, 0.0), self_shape),
    other=lambda F, g, condition, other_shape: F.sum_to_size(
        F.where(condition, 0.0, g), other_shape
    ),
    jvp="linear",
    node="WhereBackward0",
    complex=True,
    samples=lambda t: [
        (t(3, 4), t(3, 4), np.arange(12).reshape(3, 4) % 3 == 0),
        (t(4), t(3, 1), np.eye(3, 4) > 0),
        (t(), t(0), np.zeros(0, bool)),
    ],
)


@formula_function("where")
def _where(F, condition, self, other):
    """``where`` for formulas: condition is a raw bool array or a Tensor, the others may be numbers."""
    return F.select_where(self, other, getattr(condition, "_array", condition))


@formula_function()
def is_complex(F, x):
    return x.dtype.kind == "c" if not hasattr(x, "_array") else x.is_complex()


@function("where")
def where(condition, input=None, other=None, *, out=None):
    """Elements of `input` where `condition`, else of `other`; with `condition` alone, ``nonzero(as_tuple=True)``."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not isinstance(condition, Tensor):
        raise TypeError(
            f"where(): argument 'condition' must be Tensor, not {type(condition).__name__}"
        )
    if condition._array.dtype.kind not in "bu":
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
        )
    mask = condition._array if condition._array.dtype.kind == "b" else condition._array.astype(bool)
    return write_out(out, select.call(input, other, mask))


Tensor.where = lambda self, condition, other: where(condition, self, other)  # type: ignore[attr-defined]


@function("isclose", method=True)
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """``|input - other| <= atol + rtol * |other|``, elementwise."""
    from .create import wrap_like

    if input.dtype != other.dtype:
        raise RuntimeError(f"{input.dtype.name} did not match {other.dtype.name}")
    a, b = input._array, other._array
    from ..backends import backend_of

    xp = backend_of(a)
    if a.dtype.kind in "iub":
        a, b = a.astype("f8"), b.astype("f8")
    return wrap_like(xp.isclose(xp.wide(a), xp.wide(b), rtol=rtol, atol=atol, equal_nan=equal_nan))


@function("allclose", method=True)
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> bool:
    """Whether all elements are close (see ``isclose``)."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@function("equal", method=True)
def equal(input, other) -> bool:
    """Whether both tensors have the same size and elements."""
    a, b = input._array, other._array
    return a.shape == b.shape and bool((a == b).all())


for _dunder, _name in (
    ("__eq__", "eq"),
    ("__ne__", "ne"),
    ("__lt__", "lt"),
    ("__le__", "le"),
    ("__gt__", "gt"),
    ("__ge__", "ge"),
    ("__and__", "bitwise_and"),
    ("__or__", "bitwise_or"),
    ("__xor__", "bitwise_xor"),
    ("__rand__", "bitwise_and"),
    ("__ror__", "bitwise_or"),
    ("__rxor__", "bitwise_xor"),
    ("__invert__", "bitwise_not"),
    ("__lshift__", "bitwise_left_shift"),
    ("__rshift__", "bitwise_right_shift"),
    ("__iand__", "bitwise_and_"),
    ("__ior__", "bitwise_or_"),
    ("__ixor__", "bitwise_xor_"),
):
    setattr(Tensor, _dunder, getattr(Tensor, _name))
