"""Rounding and sign of each element."""

from __future__ import annotations

import math
from typing import Any

from ...op.declare import Op, declare
from ...op.expose import FOUND, function, method, write_same
from ...op.inplace import inplace
from ...op.pointwise import pointwise, unary
from ..kinds import unsupported
from .absolute import sign_kernel

# -- rounding and sign -------------------------------------------------------------------------------------------


def _keeps_integers(name):
    def forward(xp, self):
        if self.dtype.kind == "b":
            raise unsupported(f"{name}_vml_cpu", self)
        return self.copy() if self.dtype.kind in "iub" else getattr(xp, name)(self)

    return forward


def step(
    name: str, *aliases: str, forward: Any = None, domain: tuple = (0.1, 0.9), **texts: Any
) -> Op:
    """A rounding function: its gradient is zero."""
    return unary(
        name,
        lambda F, g: F.zeros_like(g),
        *aliases,
        forward=forward or _keeps_integers(name),
        promote="same",
        domain=domain,
        exact_out=FOUND,
        **texts,
    )


for _name, _what, _at, _shown, *_alias in (
    ("floor", "The largest whole number that is not above each element", "0.2", "-2.,  0."),
    ("ceil", "The smallest whole number that is not below each element", "0.2", "-1.,  1."),
    ("trunc", "Each element without its fraction, rounded towards 0", "1.7", "-1.,  1.", "fix"),
):
    step(
        _name,
        *_alias,
        refuses="bool complex",
        doc=f"{_what}; integers as they are.",
        example=(f"gradlib.{_name}(gradlib.tensor([-1.5, {_at}]))", f"tensor([{_shown}])"),
    )


def _sign(xp, self):
    if self.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    return sign_kernel(xp, self)


def _frac(xp, self):
    if self.dtype.kind in "iub":
        raise unsupported("frac_cpu", self)
    return self - xp.trunc(self)


def _round(xp, self, *, decimals):
    if self.dtype.kind in "bc":
        raise unsupported("round_vml_cpu", self)
    if self.dtype.kind in "iu":
        if decimals:
            raise unsupported("round_cpu", self)
        return self.copy("K")
    return xp.round(self, decimals)


sign = step(
    "sign",
    forward=_sign,
    expression=lambda xp, self: xp.sign(self),
    domain=(0.1, 2.0),
    refuses="complex",
    doc="-1, 0 or 1: the sign of each element; its gradient is 0.",
    example=("gradlib.sign(gradlib.tensor([-2.5, 0.0, 3.0]))", "tensor([-1.,  0.,  1.])"),
)
frac = unary(
    "frac",
    lambda g: g,
    forward=_frac,
    exact_out=FOUND,
    promote="same",
    domain=(0.1, 0.9),
    refuses="bool integer complex",
    doc="The fraction of each element, with its sign: x - trunc(x).",
    example=("gradlib.frac(gradlib.tensor([-1.5, 1.25]))", "tensor([-0.5000,  0.2500])"),
)
round_op = declare(
    "round",
    _round,
    self=lambda F, g: F.zeros_like(g),
    samples=lambda t: [(t(3, 4), 0), (t(4), 2), (t(), 0), (t(0), 0)],
    inplace=True,
    pointwise=True,
    jvp="elementwise",
    batch="elementwise",
)


@function("round", method=True)
def round(input, *, decimals=0, out=None):
    """The nearest whole number, or number of `decimals` digits after the point; of two equally near ones the even one.

    Args:
        input: a tensor of any shape; integers stay as they are.
        decimals: a number of digits; negative ones are before the point.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype; its gradient is 0.

    Raises:
        NotImplementedError: bool or complex.

    Example:
        >>> gradlib.round(gradlib.tensor([0.5, 1.5, 2.7]))
        tensor([0., 2., 3.])
    """
    return write_same(out, round_op.call(input, decimals), FOUND)


@method("round_")
def round_(self, *, decimals=0):
    """In-place version of ``round``."""
    return inplace(round_op, self, (), (decimals,))


def _nextafter(xp, self, other):
    if self.dtype.kind not in "fV":
        raise unsupported("nextafter_cpu", self)
    return xp.nextafter(self, other)


def _signbit(xp, self):
    if self.dtype.kind == "c":
        raise NotImplementedError("signbit is not implemented for complex tensors.")
    return xp.signbit(self) if self.dtype.kind != "b" else xp.zeros_like(self)


signbit = unary(
    "signbit",
    nondifferentiable="bool",
    forward=_signbit,
    promote="same",
    inplace=False,
    bool_out="signbit",
    refuses="complex",
    doc="Whether each element has its sign bit set: negative numbers, and -0.0.",
    example=("gradlib.signbit(gradlib.tensor([-0.0, 1.0]))", "tensor([ True, False])"),
)
copysign = pointwise(
    "copysign",
    "copysign",
    args="self other",
    promote="float",
    self=lambda F, g, self, result: F.where(
        self == 0, 0.0, F.where(F.isnan(result), math.nan, g * F.sign(self) * F.sign(result))
    ),
    other=lambda F, g: F.zeros_like(g),
    domain=(0.1, 2.0),
    numbers="second",
    complex=False,
    doc=(
        "The magnitude of each element of `input` with the sign of that of `other`; "
        "-0.0 is negative."
    ),
    example=(
        "gradlib.copysign(gradlib.tensor([1.0, -2.0]), gradlib.tensor([-0.0, 3.0]))",
        "tensor([-1.,  2.])",
    ),
)
nextafter = pointwise(
    "nextafter",
    _nextafter,
    in_float32=False,
    self=lambda F, g, self, other: F.where(self == other, 0.0, g),
    other=lambda F, g: F.zeros_like(g),
    numbers="none",
    complex=False,
    refuses="bool integer complex",
    doc=(
        "The next number of the dtype after each element of `input` on the way to that of `other`."
    ),
    example=(
        "gradlib.nextafter(gradlib.tensor([0.0]), gradlib.tensor([1.0]))",
        "tensor([1.4013e-45])",
    ),
)
