"""Absolute value and sign of each element."""

from __future__ import annotations

from ...op.expose import FOUND, method
from ...op.inplace import inplace
from ...op.pointwise import unary
from ...tape import dtypes
from ..kinds import unsupported


def _refuse_bool(args):
    if args[0].dtype is dtypes.bool_:
        return unsupported("abs_cpu", dtypes.bool_)
    return None


abs = unary(
    "abs",
    lambda F, g, self: g * F.sgn(self),
    "absolute",
    forward="absolute",
    promote="number",
    exact_out=FOUND,
    check=_refuse_bool,
    jvp=lambda F, self, self_t: (
        (self_t * F.sgn(self).conjugate()).real if self.is_complex() else self_t * F.sgn(self)
    ),
    domain=(0.1, 2.0),
    complex=True,
    refuses="bool",
    result="that of the argument; of a complex one that of its parts",
    doc=(
        "The absolute value of each element; of a complex number sqrt(re^2 + im^2), which is real."
    ),
    example=("gradlib.abs(gradlib.tensor([-1.5, 2.0]))", "tensor([1.5000, 2.0000])"),
)


@method("abs_", "absolute_")
def abs_(self):
    """In-place version of ``abs``; RuntimeError for complex tensors."""
    if self.is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return inplace(abs, self)


def sign_kernel(xp, self):
    """-1, 0 or 1; 0 for nan."""
    kind = self.dtype.kind
    if kind == "f" or kind == "V":
        out = xp.asarray(xp.sign(self))
        xp.copyto(out, 0, where=self != self)  # a mask as index would wait for the device
        return out
    return xp.sign(self) if self.dtype.kind != "b" else self.copy()


def _sgn(xp, self):
    if self.dtype.kind != "c":
        return sign_kernel(xp, self)
    size = xp.absolute(self)
    size = xp.where(size == 0, xp.ones_like(size), size)
    out = xp.empty(
        self.shape, self.dtype
    )  # each part by itself: a complex quotient is rounded more often
    out.real, out.imag = self.real / size, self.imag / size
    return out


def _sgn_grad(F, g, self, result):
    """Of z/|z|: the part of g that turns z, divided by |z|; 0 at 0 and for real arguments."""
    if not F.is_complex(self):
        return F.zeros_like(g)
    size = F.abs(self)
    safe = F.where(size == 0, 1.0 + 0.0 * size, size)
    return F.where(size == 0, 0.0, (g - F.real(g * result.conjugate()) * result) / safe)


sgn = unary(
    "sgn",
    _sgn_grad,
    forward=_sgn,
    promote="same",
    exact_out=FOUND,
    jvp=lambda F, self, self_t, result: _sgn_grad(F, self_t, self, result),
    domain=(0.2, 2.0),
    complex=True,
    doc="The direction of each element: x / abs(x), and 0 at 0; of real numbers their sign.",
    example=(
        "gradlib.sgn(gradlib.tensor([3 + 4j, 0j]))",
        "tensor([0.6000+0.8000j, 0.0000+0.0000j])",
    ),
)
