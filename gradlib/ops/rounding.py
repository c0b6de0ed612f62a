"""Rounding and sign of each element."""

from __future__ import annotations

from typing import Any

from ..core.inplace import inplace
from ..core.op import Op, declare
from .expose import function, method, write_out
from .pointwise import pointwise, unary

# -- rounding and sign -------------------------------------------------------------------------------------------


def _keeps_integers(name):
    def forward(xp, self):
        return self.copy() if self.dtype.kind in "iub" else getattr(xp, name)(self)

    return forward


def step(name: str, *aliases: str, forward: Any = None, domain: tuple = (0.1, 0.9)) -> Op:
    """A rounding function: its gradient is zero."""
    return unary(
        name,
        lambda F, g: F.zeros_like(g),
        *aliases,
        forward=forward or _keeps_integers(name),
        promote="same",
        domain=domain,
    )


floor = step("floor")
ceil = step("ceil")
trunc = step("trunc", "fix")


def _sign(xp, self):
    if self.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    return xp.sign(self) if self.dtype.kind != "b" else self.copy()


sign = step("sign", forward=_sign, domain=(0.1, 2.0))
frac = unary(
    "frac",
    lambda g: g,
    forward=lambda xp, self: self - xp.trunc(self),
    promote="same",
    domain=(0.1, 0.9),
)
round_op = declare(
    "round",
    lambda xp, self, *, decimals: (
        self.copy() if self.dtype.kind in "iub" else xp.round(self, decimals)
    ),
    self=lambda F, g: F.zeros_like(g),
    samples=lambda t: [(t(3, 4), 0), (t(4), 2), (t(), 0), (t(0), 0)],
    inplace=True,
    batch="elementwise",
    jvp="elementwise",
)


@function("round", method=True)
def round(input, *, decimals=0, out=None):
    """Round to the nearest number with `decimals` digits after the point; halves go to the even neighbour."""
    return write_out(out, round_op.call(input, decimals))


@method("round_")
def round_(self, *, decimals=0):
    """In-place version of ``round``."""
    return inplace(round_op, self, (), (decimals,))


signbit = unary(
    "signbit",
    nondifferentiable="bool",
    forward=lambda xp, self: xp.signbit(self) if self.dtype.kind != "b" else xp.zeros_like(self),
    promote="same",
    inplace=False,
)
copysign = pointwise(
    "copysign", "copysign", args="self other", promote="float",
    self=lambda F, g, self, result: F.where(self == 0, 0.0, g * F.sign(self) * F.sign(result)),
    other=lambda F, g: F.zeros_like(g), domain=(0.1, 2.0))  # fmt: skip
nextafter = pointwise(
    "nextafter", "nextafter", args="self other", nondifferentiable="its derivative is not defined"
)
