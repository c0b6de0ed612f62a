"""Complex numbers: real and imaginary parts (views), and building complex tensors."""

from __future__ import annotations

import numpy as np

from ...op.declare import declare
from ...op.expose import apart, function, need_tensor, write_out, write_same
from ...op.formulas import formula_function
from ...tape.tensor import Tensor
from ..kinds import same_dtype, widened
from ..shape.slicing import select_op
from .cast import contiguous as make_contiguous
from .conjugate import complex_sample, conj_view_op, is_conj, neg_view_op

REAL = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}
COMPLEX = {real: kind for kind, real in REAL.items()}

# -- views -------------------------------------------------------------------------------------------------------


def _between(array) -> bool:
    """Whether a step along some dimension leads into the middle of a complex number."""
    item = 2 * array.itemsize
    steps = zip(array.shape[:-1], array.strides[:-1], strict=True)
    return any([n > 1 and s % item for n, s in steps])


def _view_as_complex(xp, self):
    item = self.itemsize
    if self.strides[-1] != item or _between(self):
        self = xp.ascontiguousarray(self)
    return self.view(COMPLEX[self.dtype])[..., 0]


@formula_function()
def contiguous(F, x):
    """`x` in row-major order."""
    return make_contiguous(x) if hasattr(x, "_array") else F.backend.ascontiguousarray(x)


view_as_real_op = declare(
    "view_as_real", lambda xp, self: self[..., None].view(REAL[self.dtype]), view=True, carries="neg", jvp="linear",
    self=lambda F, g: F.view_as_complex(F.contiguous(g)),
    samples=lambda t: [(complex_sample(t, 3, 4),), (complex_sample(t),), (complex_sample(t, 0, 2),)],
    batch="elementwise",
)  # fmt: skip
view_as_complex_op = declare(
    "view_as_complex", _view_as_complex,
    autocast="cpu:float32", view=True, jvp=lambda F, self_t: F.view_as_complex(F.contiguous(self_t)),
    self=lambda F, g: F.view_as_real(g), samples=lambda t: [(t(3, 2),), (t(2),), (t(0, 2),)],
    batch="elementwise",
)  # fmt: skip


@function("view_as_real")
def view_as_real(input):
    """A complex tensor seen as real numbers: a last dimension holds the real and the imaginary part.

    Args:
        input: a complex tensor (...).

    Returns:
        A view (..., 2) of the same memory, of the real dtype of the parts.

    Raises:
        RuntimeError: the tensor is not complex, or a conjugated view.

    Example:
        >>> gradlib.view_as_real(gradlib.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    if input._array.dtype not in REAL:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if is_conj(input):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the "
            "original."
        )
    return view_as_real_op.call(input)


@function("view_as_complex")
def view_as_complex(input):
    """Pairs of real numbers seen as complex ones: the last dimension holds the real and the imaginary part.

    Args:
        input: a floating tensor (..., 2) whose last stride is 1 and whose other strides are even.

    Returns:
        A complex view (...) of the same memory.

    Raises:
        RuntimeError: another dtype, another last length, or strides that do not allow it.

    Example:
        >>> gradlib.view_as_complex(gradlib.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    (input,) = widened(input)
    array = input._array
    if array.dtype not in COMPLEX:
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            + input.dtype.scalar_type
        )
    if not array.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if array.strides[-1] != array.itemsize and array.size:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if _between(array):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if input.storage_offset() % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return view_as_complex_op.call(input)


@function("real")
def real(input):
    """The real parts.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        A view of a complex tensor, of the dtype of its parts; a real tensor itself.

    Example:
        >>> gradlib.real(gradlib.tensor([1 + 2j]))
        tensor([1.])
    """
    if input._array.dtype.kind != "c":
        return input
    plain = conj_view_op.call(input) if is_conj(input) else input
    return select_op.call(view_as_real_op.call(plain), input._array.ndim, 0)


@function("imag")
def imag(input):
    """The imaginary parts of a complex tensor.

    Args:
        input: a complex tensor of any shape.

    Returns:
        A view, of the dtype of the parts.

    Raises:
        RuntimeError: the tensor is real.

    Example:
        >>> gradlib.imag(gradlib.tensor([1 + 2j]))
        tensor([2.])
    """
    if input._array.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if is_conj(input):
        parts = neg_view_op.call(view_as_real_op.call(conj_view_op.call(input)))
    else:
        parts = view_as_real_op.call(input)
    return select_op.call(parts, input._array.ndim, 1)


def _set_part(part):
    def assign(self, value):
        part(self).copy_(value)

    return assign


Tensor.real = property(real, _set_part(real))  # type: ignore[attr-defined]
Tensor.imag = property(imag, _set_part(imag))  # type: ignore[attr-defined]


@formula_function("real")
def _f_real(F, x):
    return real(x) if hasattr(x, "_array") else x.real


@formula_function("imag")
def _f_imag(F, x):
    """The imaginary part; zeros for real values."""
    if not hasattr(x, "_array"):
        return x.imag
    return imag(x) if x._array.dtype.kind == "c" else F.zeros_like(x)


# -- from parts --------------------------------------------------------------------------------------------------


def _join(xp, real, imag):
    shape = real.shape
    if shape != imag.shape:
        shape = np.broadcast_shapes(shape, imag.shape)
    out = xp.empty(shape, COMPLEX[real.dtype])
    out.real = real
    out.imag = imag
    return out


complex_op = declare(
    "complex", _join, elementwise=True, promote="none", jvp="linear",
    real=lambda F, g: F.real(g), imag=lambda F, g: F.imag(g),
)  # fmt: skip
complex_op.inplace = False
polar_op = declare(
    "polar", lambda xp, abs, angle: _join(xp, abs * xp.cos(angle), abs * xp.sin(angle)),
    autocast="cpu:float32", promote="none",
    abs=lambda F, g, result, abs_shape: F.sum_to_size(F.real(g.conjugate() * F.sgn(result)), abs_shape),
    angle=lambda F, g, result, angle_shape: F.sum_to_size(F.real(g.conjugate() * (result * 1j)), angle_shape),
    samples=lambda t: [
        (t(3, 4, low=0.5, high=2.0), t(3, 4)), (t(4, low=0.5, high=2.0), t(3, 1)), (t(low=1, high=2), t(0)),
    ],
    batch="elementwise",
)  # fmt: skip


@formula_function()
def complex_from(F, re, im):
    """``re + 1j * im`` of gradients, either of which may be None."""
    some = im if re is None else re
    zero = F.zeros_like(some)
    return F.complex(zero if re is None else re, zero if im is None else im)


def _check_parts(name: str, **parts) -> None:
    """TypeError or RuntimeError unless there are two tensors of one real type that has a complex one."""
    for i, (part, value) in enumerate(parts.items()):
        if not isinstance(value, Tensor):
            raise need_tensor(name, value, part, i + 1)
    first, second = parts.values()
    names = [d.dtype.scalar_type for d in (first, second)]
    if first._array.dtype not in COMPLEX or second._array.dtype not in COMPLEX:
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {names[0]} and {names[1]}"
        )
    text = "Expected object of scalar type {} but got scalar type {} for second argument"
    same_dtype(first, second, text)


_OTHER_PARTS = "Expected object of scalar type {Want} but got scalar type {Got} for argument 'out'"


@function("complex")
def complex_(real, imag, *, out=None):
    """The complex numbers with the given real and imaginary parts.

    Args:
        real, imag: tensors of one dtype, float32 or float64, whose shapes broadcast.
        out: written to instead of a new tensor.

    Returns:
        A complex64 tensor of two float32 ones, a complex128 tensor of two float64 ones.

    Raises:
        RuntimeError: other dtypes, or shapes that do not broadcast.

    Example:
        >>> gradlib.complex(gradlib.tensor([1.0]), gradlib.tensor([2.0]))
        tensor([1.+2.j])
    """
    _check_parts("complex", real=real, imag=imag)
    return write_same(out, complex_op.call(real, imag), _OTHER_PARTS)


@function("polar")
def polar(abs, angle, *, out=None):
    """The complex numbers with the given absolute values and angles in radians.

    Args:
        abs, angle: tensors of one dtype, float32 or float64, whose shapes broadcast.
        out: written to instead of a new tensor.

    Returns:
        A complex tensor of that precision.

    Raises:
        RuntimeError: other dtypes, or shapes that do not broadcast.

    Example:
        >>> gradlib.polar(gradlib.tensor([2.0]), gradlib.tensor([0.0]))
        tensor([2.+0.j])
    """
    abs, angle = widened(abs, angle)
    _check_parts("polar", abs=abs, angle=angle)
    return write_same(out, polar_op.call(abs, angle), _OTHER_PARTS)


# -- angle -------------------------------------------------------------------------------------------------------


def _angle(xp, self):
    if self.dtype.kind == "c":
        return xp.angle(self)
    turned = xp.where(self < 0, xp.asarray(np.pi, self.dtype), xp.zeros_like(self))
    return xp.where(xp.isnan(self), self, turned)


def _angle_backward(F, g, self):
    if not F.is_complex(self):
        return F.zeros_like(g)
    re, im = F.real(self), F.imag(self)
    square = re * re + im * im
    square = square + (square == 0)  # the parts are zero there, and so is the gradient
    return F.complex(g * (-im / square), g * (re / square))


angle_op = declare(
    "angle", _angle, promote="float", self=_angle_backward, complex=True,
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
    batch="elementwise",
)  # fmt: skip


@function("angle", method=True)
def angle(input, *, out=None):
    """The angle of each complex number in radians, in [-pi, pi]; of real numbers 0, and pi where they are negative.

    Args:
        input: a tensor of any shape and dtype.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and of a real dtype, for integers and bool the default floating one; nan stays nan.

    Example:
        >>> gradlib.angle(gradlib.tensor([1j, -1.0]))
        tensor([1.5708, 3.1416])
    """
    return write_out(apart(out, input), angle_op.call(input))


# -- questions ---------------------------------------------------------------------------------------------------


@function("is_complex")
def is_complex(input) -> bool:
    """Whether the dtype of `input` is complex.

    Args:
        input: a tensor.

    Returns:
        A bool.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.is_complex(gradlib.tensor([1j]))
        True
    """
    return input.is_complex()


@function("is_floating_point")
def is_floating_point(input) -> bool:
    """Whether the dtype of `input` is a real floating one: float16, bfloat16, float32 or float64.

    Args:
        input: a tensor.

    Returns:
        A bool.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.is_floating_point(gradlib.tensor([1.0]))
        True
    """
    return input.is_floating_point()
