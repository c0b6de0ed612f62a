"""Comparisons, logic, bit operations, tests of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op.declare import REGISTRY
from ...op.expose import FOUND, PUBLIC, function, in_place_operator, need_tensor
from ...op.formulas import formula_function
from ...op.pointwise import pointwise, unary
from ...op.vmap import each_entry
from ...op.write import operator
from ...tape import dtypes, errors
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.lazy import raw_values
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor
from ..create.base import wrap_like
from ..kinds import missing, unsupported


def _integers(t):
    """Samples for ops on integers."""
    kind = {"dtype": dtypes.int64, "low": 1, "high": 6}
    return [(t(3, 4, **kind), t(4, **kind)), (t(**kind), t(2, 0, **kind))]


for _name, _ufunc, _complex, _what, _shown, *_aliases in (
    ("eq", "equal", None, "are equal to those of `other`; nan equals nothing", "False,  True, False"),
    ("ne", "not_equal", None, "differ from those of `other`; nan differs from all", " True, False,  True", "not_equal"),
    ("lt", "less", False, "are below those of `other`", " True, False, False", "less"),
    ("le", "less_equal", False, "are not above those of `other`", " True,  True, False", "less_equal"),
    ("gt", "greater", False, "are above those of `other`", "False, False,  True", "greater"),
    ("ge", "greater_equal", False, "are not below those of `other`", "False,  True,  True", "greater_equal"),
):  # fmt: skip
    pointwise(
        _name,
        _ufunc,
        *_aliases,
        args="self other",
        complex=_complex,
        nondifferentiable="bool",
        numbers="second",
        float8=_name in ("eq", "ne"),
        doc=f"Whether elements of `input` {_what}.",
        example=(
            f"gradlib.{_name}(gradlib.tensor([1, 2, 3]), gradlib.tensor([2, 2, 2]))",
            f"tensor([{_shown}])",
        ),
    )
for _name, _what, _shown in (
    ("logical_and", "both elements are", "False, False,  True"),
    ("logical_or", "one of the elements is, or both are,", "False,  True,  True"),
    ("logical_xor", "exactly one of the elements is", "False,  True, False"),
):
    pointwise(
        _name,
        _name,
        args="self other",
        nondifferentiable="bool",
        numbers="none",
        doc=f"Whether {_what} other than 0.",
        example=(
            f"gradlib.{_name}(gradlib.tensor([0, 2, 2]), gradlib.tensor([0, 0, 3]))",
            f"tensor([{_shown}])",
        ),
    )
for _name, _numbers, _what, _shown in (
    ("bitwise_and", "one", "The bits that both integers have; of bool the logical and.", "2, 4"),
    (
        "bitwise_or",
        "one",
        "The bits that one of the integers has, or both; of bool the logical or.",
        "7, 5",
    ),
    (
        "bitwise_xor",
        "one",
        "The bits that exactly one of the integers has; of bool whether they differ.",
        "5, 1",
    ),
    (
        "gcd",
        "none",
        "The greatest common divisor of two integers, not negative; gcd(0, 0) is 0.",
        "3, 1",
    ),
    (
        "lcm",
        "none",
        "The least common multiple of two integers, not negative; 0 if one of them is.",
        " 6, 20",
    ),
):
    pointwise(
        _name,
        _name,
        args="self other",
        doc=_what,
        example=(
            f"gradlib.{_name}(gradlib.tensor([6, 5]), gradlib.tensor([3, 4]))",
            f"tensor([{_shown}])",
        ),
        nondifferentiable="integer",
        samples=_integers,
        numbers=_numbers,
        refuses="floating complex" if _name.startswith("bitwise") else "bool floating complex",
    )


def _shift(ufunc: str, label: str):
    """A shift of integers; by a negative number or all bits and more it gives what PyTorch's kernels give."""

    def forward(xp, self, other):
        d = self.dtype
        if d.kind not in "iu":
            raise unsupported(f"{label}_cpu", self)
        bits = 8 * d.itemsize
        outside = (other < 0) | (other >= bits)
        if not xp.may(outside):
            return getattr(xp, ufunc)(self, other)
        shifted = getattr(xp, ufunc)(self, xp.where(outside, d.type(0), other))
        beyond = xp.right_shift(self, d.type(bits - 1)) if ufunc == "right_shift" else d.type(0)
        if d.kind == "u":
            beyond = d.type(0)
        return xp.where(outside, beyond, shifted)

    return forward


for _name, _ufunc, _label, _what, _shown in (
    (
        "bitwise_left_shift",
        "left_shift",
        "lshift",
        "left: input * 2^other, without what does not fit",
        "16, 10",
    ),
    ("bitwise_right_shift", "right_shift", "rshift", "right: floor(input / 2^other)", "1, 2"),
):
    pointwise(
        _name,
        _shift(_ufunc, _label),
        doc=f"Integers shifted to the {_what}; `other` is a number of bits.",
        example=(
            f"gradlib.{_name}(gradlib.tensor([4, 5]), gradlib.tensor([2, 1]))",
            f"tensor([{_shown}])",
        ),
        nondifferentiable="integer",
        samples=_integers,
        numbers="one",
        refuses="bool floating complex",
    )
pointwise(
    "bitwise_not",
    "invert",
    nondifferentiable="integer",
    exact_out=FOUND,
    samples=lambda t: [a[:1] for a in _integers(t)],
    doc=(
        "Each element with all bits inverted: -x - 1 of signed integers; of bool "
        "tensors the logical not."
    ),
    example=("gradlib.bitwise_not(gradlib.tensor([0, 5]))", "tensor([-1, -6])"),
)


def _heaviside(xp, self, values):
    return xp.where(self == 0, values, (self > 0).astype(self.dtype))


def _refuse_mixed(args):
    if args[0].is_complex() or args[1].is_complex():
        return RuntimeError("heaviside is not yet implemented for complex tensors.")
    if args[0].dtype is not args[1].dtype:
        return RuntimeError(_MIXED)
    return None


_MIXED = "heaviside is not yet implemented for tensors with different dtypes."


pointwise(
    "heaviside",
    _heaviside,
    self=missing("heaviside"),
    values=missing("heaviside"),
    numbers="none",
    samples=lambda t: [(t(3, 4, requires_grad=False), t(4, requires_grad=False))],
    check=_refuse_mixed,
    complex=False,
    exact_out=_MIXED,
    refuses="/complex",
    doc="The step function: 0 below 0, 1 above it, and at 0 the element of `values`.",
    example=(
        ("gradlib.heaviside(gradlib.tensor([-1.5, 0.0, 2.0]), gradlib.tensor([0.5, 0.5, 0.5]))"),
        "tensor([0.0000, 0.5000, 1.0000])",
    ),
)
pointwise(
    "logical_not",
    "logical_not",
    nondifferentiable="bool",
    doc="Whether each element is 0.",
    example=("gradlib.logical_not(gradlib.tensor([0, 2]))", "tensor([ True, False])"),
)


def _test(name: str, of_floats, of_integers: bool, plain: bool = True, **texts: Any) -> None:
    """A test of each element; integers and bools all give `of_integers`. `plain`: without ``out=``, complex too."""

    def forward(xp, self):
        if not plain and self.dtype.kind == "c":
            raise RuntimeError(f"{name} does not support complex inputs.")
        return (
            of_floats(xp, self)
            if self.dtype.kind in "fcV"
            else xp.full(self.shape, of_integers, bool)
        )

    op = unary(
        name, forward=forward, promote="same", inplace=False, float8=True, nondifferentiable="bool",
        bool_out="" if plain else name, refuses=None if plain else "/complex", with_out=not plain, **texts,
    )  # fmt: skip
    if plain:
        PUBLIC[name] = _without_out(op)


def _without_out(op):
    def test(input):
        return op.call(input)

    test.__name__ = test.__qualname__ = op.name
    test.__doc__ = op.call.__doc__
    return test


_test(
    "isnan",
    lambda xp, self: xp.isnan(self),
    False,
    doc="Whether each element is nan, in the real or the imaginary part.",
    example=("gradlib.isnan(gradlib.tensor([1.0, float('nan')]))", "tensor([False,  True])"),
)
_test(
    "isinf",
    lambda xp, self: xp.isinf(self),
    False,
    doc="Whether each element is infinite, in the real or the imaginary part.",
    example=("gradlib.isinf(gradlib.tensor([1.0, float('-inf')]))", "tensor([False,  True])"),
)
_test(
    "isfinite",
    lambda xp, self: xp.isfinite(self),
    True,
    doc="Whether each element is neither infinite nor nan.",
    example=("gradlib.isfinite(gradlib.tensor([1.0, float('inf')]))", "tensor([ True, False])"),
)
_test(
    "isposinf",
    lambda xp, self: self == np.inf,
    False,
    plain=False,
    doc="Whether each element is +inf.",
    example=(
        "gradlib.isposinf(gradlib.tensor([float('-inf'), float('inf')]))",
        "tensor([False,  True])",
    ),
)
_test(
    "isneginf",
    lambda xp, self: self == -np.inf,
    False,
    plain=False,
    doc="Whether each element is -inf.",
    example=(
        "gradlib.isneginf(gradlib.tensor([float('-inf'), float('inf')]))",
        "tensor([ True, False])",
    ),
)
_test(
    "isreal",
    lambda xp, self: xp.imag(self) == 0,
    True,
    doc="Whether each element has the imaginary part 0.",
    example=("gradlib.isreal(gradlib.tensor([1 + 1j, 2 + 0j]))", "tensor([False,  True])"),
)


@formula_function()
def is_complex(F, x):
    return x.dtype.kind == "c" if not hasattr(x, "_array") else x.is_complex()


@function("is_nonzero", method=True)
def is_nonzero(input) -> bool:
    """Whether the one element of a tensor is not zero.

    Args:
        input: a tensor of one element, of any shape and dtype.

    Returns:
        A bool; on a device this waits for the value.

    Raises:
        RuntimeError: more elements than one, or none.

    Example:
        >>> gradlib.is_nonzero(gradlib.tensor([0.5]))
        True
    """
    if not isinstance(input, Tensor):
        raise need_tensor("is_nonzero", input)
    return bool(input)


@function("isclose", method=True)
@each_entry
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """``|input - other| <= atol + rtol * |other|``, elementwise.

    Raises RuntimeError: the dtypes differ, or a tolerance is negative. equal_nan: nan is close to nan.

    Example:
        >>> gradlib.isclose(gradlib.tensor([1.0, 2.0]), gradlib.tensor([1.0, 2.1]))
        tensor([ True, False])
    """

    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        if not isinstance(input, Tensor):
            raise need_tensor("isclose", input)
        raise need_tensor("isclose", other, "other", 2)
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"{input.dtype.tensor_type[:-6]} did not match {other.dtype.tensor_type[:-6]}"
        )
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    a, b = input._array, other._array
    errors.check_broadcast(a.shape, b.shape)
    a, b = raw_values(input), raw_values(other)
    with beside(a):
        return wrap_like(unrecorded(_isclose, a, b, rtol, atol, equal_nan))


def _isclose(a, b, rtol: float, atol: float, equal_nan: bool):
    xp = backend_of(a)
    if a.dtype.kind in "iub":
        wide = dtypes.get_default_dtype().np
        a, b = a.astype(wide), b.astype(wide)
    return xp.isclose(xp.wide(a), xp.wide(b), rtol=rtol, atol=atol, equal_nan=equal_nan)


@function("allclose", method=True)
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> bool:
    """Whether all elements are close (see ``isclose``).

    Raises RuntimeError: the dtypes differ, or a tolerance is negative.

    Example:
        >>> gradlib.allclose(gradlib.ones(2), gradlib.ones(2) + 1e-9)
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@function("equal", method=True)
def equal(input, other) -> bool:
    """Whether both tensors have the same size and elements.

    Raises RuntimeError: the tensors are on different devices.

    Example:
        >>> gradlib.equal(gradlib.ones(2), gradlib.ones(3))
        False
    """
    try:
        a, b = raw_values(input), raw_values(other)
    except AttributeError:
        if not isinstance(input, Tensor):
            raise need_tensor("equal", input) from None
        raise need_tensor("equal", other, "other", 2) from None
    if a.__class__ is not b.__class__ or (input.is_cuda and input.device != other.device):
        raise RuntimeError(
            f"Cannot compare two tensors on different devices. Got: {input.device} and {other.device}"
        )
    if a.shape != b.shape:
        return False
    with beside(a):
        return bool((a == b).all())


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
    ("__lshift__", "bitwise_left_shift"),
    ("__rshift__", "bitwise_right_shift"),
):
    setattr(Tensor, _dunder, operator(REGISTRY[_name], _dunder))
for _dunder, _name in (
    ("__iand__", "bitwise_and_"),
    ("__ior__", "bitwise_or_"),
    ("__ixor__", "bitwise_xor_"),
    ("__ilshift__", "bitwise_left_shift_"),
    ("__irshift__", "bitwise_right_shift_"),
):
    in_place_operator(_dunder, getattr(Tensor, _name))
Tensor.__rlshift__ = lambda self, other: _reflected_shift("bitwise_left_shift", other, self)  # type: ignore[attr-defined]
Tensor.__rrshift__ = lambda self, other: _reflected_shift("bitwise_right_shift", other, self)  # type: ignore[attr-defined]


def _reflected_shift(name: str, number, tensor):
    try:
        return REGISTRY[name].call(number, tensor)
    except TypeError:
        return NotImplemented


def _invert(self):
    """``~self`` of a bool or integer tensor."""
    if self._array.dtype.kind not in "iub":
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return REGISTRY["bitwise_not"].call(self)


Tensor.__invert__ = _invert  # type: ignore[attr-defined]
