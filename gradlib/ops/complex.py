"""Complex numbers: parts, conjugates, views as pairs of reals, polar form.

Gradients follow PyTorch's convention: for a real loss L, the gradient of z = x + jy is dL/dx + j dL/dy.
"""

from __future__ import annotations

import numpy as np

from ..core.formulas import formula_function
from ..core.op import declare
from ..core.tensor import Tensor
from .elementwise import pointwise
from .expose import function, method, prop, write_out


def _complex_samples(t):
    """A complex and an empty complex tensor, whatever dtype the test asks for."""
    from ..core import dtypes

    return [
        (t(3, 4, dtype=dtypes.complex128),),
        (t(dtype=dtypes.complex128),),
        (t(0, 2, dtype=dtypes.complex128),),
    ]


real_op = declare(
    "real_part", lambda xp, self: self.real, view=True, jvp=lambda F, self_t: F.real(self_t), node="RealBackward0",
    self=lambda F, g: F.complex_from(g, None), samples=_complex_samples,
)  # fmt: skip
imag_op = declare(
    "imag_part", lambda xp, self: self.imag, view=True, jvp=lambda F, self_t: F.imag(self_t), node="ImagBackward0",
    self=lambda F, g: F.complex_from(None, g), samples=_complex_samples,
)  # fmt: skip
conj_op = declare(
    "conj_physical", lambda xp, self: xp.conjugate(self), elementwise=True, complex=True, node="ConjBackward0",
    self=lambda F, g: F.conj(g), jvp=lambda F, self_t: F.conj(self_t),
)  # fmt: skip


@formula_function()
def real(F, x):
    """The real part of x, or x itself if it is real."""
    if hasattr(x, "_array"):
        return real_op.call(x) if x._array.dtype.kind == "c" else x
    return x.real


@formula_function()
def imag(F, x):
    """The imaginary part of a complex x."""
    return imag_op.call(x) if hasattr(x, "_array") else x.imag


@formula_function()
def conj(F, x):
    """The complex conjugate; x itself if it is real."""
    return x.conjugate()


@formula_function()
def complex_from(F, re, im):
    """re + j im from gradients of the parts, either of which may be None."""
    some = re if re is not None else im
    if hasattr(some, "_array"):
        zero = F.zeros_like(some)
        return complex_op.call(re if re is not None else zero, im if im is not None else zero)
    out = F.backend.zeros(some.shape, np.complex64 if some.dtype.itemsize <= 4 else np.complex128)
    if re is not None:
        out.real = re
    if im is not None:
        out.imag = im
    return out


def _complex(xp, real, imag):
    out = xp.empty(
        np.broadcast_shapes(real.shape, imag.shape),
        np.complex64 if real.dtype.itemsize <= 4 else np.complex128,
    )
    out.real, out.imag = real, imag
    return out


complex_op = declare(
    "complex", _complex, elementwise=True, promote="none",
    real=lambda F, g: F.real(g), imag=lambda F, g: F.imag(g),
    jvp=lambda F, real_t, imag_t: F.complex_from(real_t, imag_t),
)  # fmt: skip
complex_op.inplace = False


@function("complex")
def complex_(real, imag, *, out=None):
    """``real + 1j * imag`` from two real tensors of one floating dtype."""
    for t in (real, imag):
        if t._array.dtype.kind != "f":
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{real.dtype.tensor_type.removesuffix('Tensor')} and {imag.dtype.tensor_type.removesuffix('Tensor')}"
            )
    if real._array.dtype != imag._array.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {real.dtype.tensor_type.removesuffix('Tensor')} but got scalar type "
            f"{imag.dtype.tensor_type.removesuffix('Tensor')} for second argument"
        )
    return write_out(out, complex_op.call(real, imag))


@function("polar")
def polar(abs, angle, *, out=None):
    """``abs * (cos(angle) + 1j * sin(angle))`` from two real tensors."""
    return write_out(out, complex_(abs * angle.cos(), abs * angle.sin()))


def _angle(xp, self):
    if self.dtype.kind == "c":
        return xp.angle(self)
    kind = self.dtype if self.dtype.kind in "fV" else np.float32
    return xp.where(xp.isnan(self), self, xp.where(self < 0, np.pi, 0.0)).astype(kind)


@formula_function()
def turn(F, g, z):
    """The gradient of the angle of z: g * 1j * z / |z|^2, 0 at 0 and for real z."""
    if not F.is_complex(z):
        return F.zeros_like(g)
    square = F.real(z * z.conjugate())
    safe = F.where(square == 0, 1.0, square)
    return F.where(square == 0, 0.0, g * (z * 1j) / safe)


angle_op = pointwise(
    "angle", _angle, inplace=False, promote="same", complex=True, domain=(0.2, 2.0),
    self=lambda F, g, self: F.turn(g, self),
    jvp=lambda F, self, self_t: F.real(self_t * F.turn(1.0, self).conjugate()) if F.is_complex(self) else self_t * 0,
    doc="The angle of each complex number, in radians; pi for negative real numbers.",
)  # fmt: skip

view_as_real_op = declare(
    "view_as_real", lambda xp, self: self[..., None].view(self.real.dtype), view=True, jvp="linear",
    self=lambda F, g: F.view_as_complex(g) if _viewable(g) else F.view_as_complex(F.contiguous(g)),
    samples=_complex_samples,
)  # fmt: skip
view_as_complex_op = declare(
    "view_as_complex",
    lambda xp, self: self.view(np.complex64 if self.dtype.itemsize == 4 else np.complex128)[..., 0],
    view=True, jvp="linear", self=lambda F, g: F.view_as_real(g),
    samples=lambda t: [(t(3, 4, 2),), (t(2),), (t(0, 2),)] if not t.dtype.is_complex and not t.strided else [],
)  # fmt: skip


def _viewable(x) -> bool:
    array = getattr(x, "_array", x)
    return bool(array.ndim) and array.strides[-1] == array.itemsize and array.size > 0


@formula_function()
def contiguous(F, x):
    """x in row-major order."""
    return x.contiguous() if hasattr(x, "_array") else F.backend.ascontiguousarray(x)


@function("view_as_real", method=False)
def view_as_real(input):
    """A complex tensor [...] as a real tensor [..., 2] of its parts; shares memory."""
    if input._array.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return view_as_real_op.call(input)


@function("view_as_complex")
def view_as_complex(input):
    """A real tensor [..., 2] as a complex tensor [...]; shares memory."""
    array = input._array
    if array.dtype.kind != "f" or array.itemsize == 2:
        raise RuntimeError("view_as_complex is only supported for half, float and double tensors, but got a tensor of "
                           f"scalar type: {input.dtype.tensor_type.removesuffix('Tensor')}")  # fmt: skip
    if not array.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if array.strides[-1] != array.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    return view_as_complex_op.call(input)


@function("conj", method=True)
def conj_(input):
    """The complex conjugate (a copy); a real tensor is returned as it is."""
    return conj_op.call(input) if input._array.dtype.kind == "c" else input


@function("conj_physical", method=True)
def conj_physical(input, *, out=None):
    """The complex conjugate, in memory of its own for complex input."""
    return write_out(out, conj_(input))


@method("conj_physical_")
def conj_physical_(self):
    """In-place version of ``conj_physical``."""
    from ..core.inplace import inplace

    return inplace(conj_op, self) if self._array.dtype.kind == "c" else self


@function("resolve_conj", "resolve_neg", method=True)
def resolve_conj(input):
    """Itself: conjugation and negation are never delayed here."""
    return input


@function("real")
def real_part(input):
    """The real part as a view; a real tensor is returned as it is."""
    return real_op.call(input) if input._array.dtype.kind == "c" else input


@function("imag")
def imag_part(input):
    """The imaginary part as a view; RuntimeError for real tensors."""
    if input._array.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return imag_op.call(input)


prop("real")(real_part)
prop("imag")(imag_part)


def _set_part(name: str):
    def setter(self: Tensor, value) -> None:
        part = getattr(self, name)
        part.copy_(value) if isinstance(value, Tensor) else part.fill_(value)

    return setter


for _name in ("real", "imag"):
    setattr(Tensor, _name, getattr(Tensor, _name).setter(_set_part(_name)))


@function("is_complex", method=False)
def is_complex_(input) -> bool:
    """Whether the dtype is complex."""
    return input.is_complex()


@function("is_floating_point", method=False)
def is_floating_point(input) -> bool:
    """Whether the dtype is floating."""
    return input.is_floating_point()
