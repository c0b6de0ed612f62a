"""The parts and the special values of floating-point numbers: frexp, ldexp, nan_to_num; and the hash of a tensor."""

from __future__ import annotations

import math
from typing import Any

from ... import return_types
from ...op.declare import declare
from ...op.expose import function, method, write_same
from ...op.inplace import inplace
from ...op.plain_numbers import python_number
from ...op.pointwise import pointwise
from ...tape import dtypes
from ...tape.tensor import Tensor
from ..kinds import unsupported
from ..reduce.sums import count, dims_of

# -- mantissa and exponent ---------------------------------------------------------------------------------------


def _frexp(xp, self):
    if self.dtype.kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    wide = xp.wide(self)
    mantissa, exponent = xp.frexp(wide)
    exponent = xp.where(xp.isfinite(wide), exponent, 0).astype("i4")
    scale = xp.ldexp(xp.ones_like(wide), -exponent)
    return mantissa.astype(self.dtype), exponent, scale.astype(self.dtype)


frexp_op = declare(
    "frexp", _frexp, n_out=2, nondifferentiable=(1,), hidden={"scale": None}, numbers="none",
    self=lambda gs, scale: gs[0] * scale if gs[0] is not None else None,
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
)  # fmt: skip


@function("frexp", method=True)
def frexp(input, *, out: Any = None):
    """Fractions and exponents: ``input = mantissa * 2**exponent``.

    Args:
        input: a floating tensor of any shape.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (mantissa, exponent): of the dtype of `input`, in (-1, -0.5] or [0.5, 1) or 0; and int32.

    Raises:
        RuntimeError: integers or complex numbers.

    Example:
        >>> gradlib.frexp(gradlib.tensor([6.0])).mantissa
        tensor([0.7500])
    """
    if out is not None and not isinstance(out, (tuple, list)):
        raise TypeError(
            f"frexp(): argument 'out' must be tuple of Tensors, not {type(out).__name__}"
        )
    result: Any = return_types.frexp(*frexp_op.call(input))
    return write_same(
        out, result, "torch.frexp() expects mantissa to have dtype {Want} but got {Got}"
    )


def _refuse_bool(args):
    first, second = (a.dtype if isinstance(a, Tensor) else None for a in args)
    if second is dtypes.bool_ and (first is None or first.category == dtypes.FLOATING):
        return unsupported("ldexp_cpu_exp", dtypes.bool_)
    return None


def _ldexp(xp, self, other):
    wide = xp.wide(self)
    power = xp.power(wide.dtype.type(2), xp.wide(other))
    return (wide * power).astype(self.dtype, copy=False)


ldexp = pointwise(
    "ldexp", _ldexp, promote="float", numbers="none", complex=True,
    self=lambda F, g, other: g * F.exp2(other).conjugate(),
    other=lambda g, result: g * (result * math.log(2.0)).conjugate(),
    doc="``input * 2**other``: a number put together from a fraction and an exponent.",
    example=("gradlib.ldexp(gradlib.tensor([0.5, 1.5]), gradlib.tensor([1, 3]))", "tensor([ 1., 12.])"),
    check=_refuse_bool,
)  # fmt: skip

# -- nan and infinities ------------------------------------------------------------------------------------------


def _replaced(xp, x, nan, posinf, neginf):
    """A real floating array without nan and infinities."""
    d = x.dtype
    limits = dtypes.finfo(dtypes.from_np(d))
    out = xp.where(xp.isnan(x), d.type(nan), x)
    out = xp.where(x == math.inf, d.type(limits.max if posinf is None else posinf), out)
    return xp.where(x == -math.inf, d.type(limits.min if neginf is None else neginf), out)


def _nan_to_num(xp, self, *, nan, posinf, neginf):
    nan = 0.0 if nan is None else nan
    if self.dtype.kind in "iub":
        return self.copy()
    if self.dtype.kind != "c":
        return _replaced(xp, self, nan, posinf, neginf)
    out = xp.empty(self.shape, self.dtype)
    out.real = _replaced(xp, self.real, nan, posinf, neginf)
    out.imag = _replaced(xp, self.imag, nan, posinf, neginf)
    return out


nan_to_num_op = declare(
    "nan_to_num", _nan_to_num, elementwise=True, in_float32=False, promote="same", complex=True, numbers="none",
    self=lambda F, g, self: F.where(F.isfinite(self), g, 0.0),
    samples=lambda t: [(t(3, 4), None, None, None), (t(), 1.0, 2.0, 3.0), (t(0, 2), 0.0, None, None)],
)  # fmt: skip


_PLAIN = frozenset((float, int, type(None)))


def _numbers(*given: Any) -> tuple:
    """What takes the places of nan and the infinities, as numbers of Python."""
    if all([n.__class__ in _PLAIN for n in given]):
        return given
    where = "nan_to_num(): argument 'nan', 'posinf' or 'neginf'"
    return tuple([n if n is None else python_number(n, where) for n in given])


@function("nan_to_num", method=True)
def nan_to_num(input, nan=None, posinf=None, neginf=None, *, out=None):
    """`input` with nan replaced by `nan` (0) and infinities by `posinf`, `neginf` (the limits of the dtype).

    The dtype stays; integers are copied.

    Example:
        >>> gradlib.nan_to_num(gradlib.tensor([float("nan"), 1.0]))
        tensor([0., 1.])
    """
    return write_same(
        out,
        nan_to_num_op.call(input, *_numbers(nan, posinf, neginf)),
        "nan_to_num: dtype of out: {Got} should be same as input: {Want}",
    )


@method("nan_to_num_")
def nan_to_num_(self, nan=None, posinf=None, neginf=None):
    """In-place version of ``nan_to_num``."""
    return inplace(nan_to_num_op, self, (), _numbers(nan, posinf, neginf))


# -- hash --------------------------------------------------------------------------------------------------------


def _hash(xp, self, *, dim, keepdim):
    """The exclusive or of the elements' 64-bit patterns."""
    if self.dtype.kind == "c":
        raise unsupported("xor_sum_cpu", self)
    if not self.size and not count(self.shape, dim):
        if not dim:
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                "dim with the 'dim' argument."
            )
        empty = next(d for d in dim if not self.shape[d])
        raise IndexError(f"hash_tensor: Expected reduction dim {empty} to have non-zero size.")
    wide = self.astype("f8") if self.dtype.kind in "fV" else self.astype("i8")
    return xp.bitwise_xor.reduce(wide.view("u8"), dim or None, None, None, keepdim)


hash_op = declare(
    "hash_tensor", _hash, nondifferentiable="integer", samples=lambda t: [(t(3, 4), (1,), False), (t(), (), True)],
)  # fmt: skip


@function("hash_tensor", method=True)
def hash_tensor(input, dim=(), *, keepdim=False, mode=0, out=None):
    """A 64-bit number that depends on all elements: the exclusive or of their patterns as float64 or int64.

    Args:
        input: a tensor of any shape and of a real dtype.
        dim: a dimension or a tuple of them: one number for each place in the others; all together if empty.
        keepdim: whether the dimensions that are gone stay with length one.
        mode: 0, the only way to do it.
        out: written to instead of a new tensor.

    Returns:
        A uint64 tensor. Equal tensors give equal numbers, whatever the order of their elements.

    Example:
        >>> gradlib.hash_tensor(gradlib.tensor([1, 2, 4]))
        tensor(7, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    return write_same(
        out,
        hash_op.call(input, dims_of(dim, input.ndim), keepdim),
        "Expected result to be of dtype uint64, but got {Got}",
    )
