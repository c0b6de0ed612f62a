"""The larger or smaller of two, and clamp."""

from __future__ import annotations

from operator import gt, lt

from ...op.declare import Op, declare
from ...op.expose import apart, function, method, write_out
from ...op.formulas import formula_function
from ...op.inplace import inplace
from ...op.interpret import common_dtype
from ...op.plain_numbers import is_number, plain_number, python_number
from ...op.pointwise import pointwise
from ...tape import dtypes
from ...tape.layout import in_order
from ...tape.tensor import Tensor
from ..kinds import unsupported


def _share_ties(F, g, mine, other, wins):
    """The gradient goes to the larger (smaller) argument, one half to each where they are equal, to both at nan."""
    return F.where(wins(other, mine), 0.0, F.where(mine == other, 0.5 * g, g))


def _share_numbers(F, g, mine, other, wins):
    """Like `_share_ties`, also of two nan; an argument gets the gradient where only the other one is nan."""
    none, both = F.isnan(other), (mine == other) | (F.isnan(mine) & F.isnan(other))
    return F.where(both, 0.5 * g, F.where(wins(mine, other) | none, g, 0.0))


def _extremum(name: str, wins, shown: str) -> Op:
    """Declare maximum, minimum, fmax or fmin; wins: whether an element is beyond another."""
    share, rest, second = _share_ties, "nan if one of them is", "2.0"
    if name[0] == "f":
        share, rest, second = _share_numbers, "of a nan and a number the number", "float('nan')"

    def check(args):
        if any(a.is_complex() for a in args if isinstance(a, Tensor)):
            return RuntimeError(f"{name} not implemented for complex tensors.")
        return None

    return pointwise(
        name,
        name,
        args="self other",
        inplace=False,
        self=lambda F, g, self, other: share(F, g, self, other, wins),
        other=lambda F, g, self, other: share(F, g, other, self, wins),
        complex=False,
        numbers="none",
        check=check,
        refuses="/complex",
        doc=(
            f"The {'larger' if wins is gt else 'smaller'} one of two elements; {rest}. At ties both have "
            "half of the gradient."
        ),
        example=(
            f"gradlib.{name}(gradlib.tensor([1.0, 3.0]), gradlib.tensor([2.0, {second}]))",
            f"tensor([{shown}])",
        ),
    )


maximum = _extremum("maximum", gt, "2., 3.")
minimum = _extremum("minimum", lt, "1., 2.")
_extremum("fmax", gt, "2., 3.")
_extremum("fmin", lt, "1., 3.")


def _clamp_number(xp, self, *, min, max):
    if self.dtype.kind in "iu":
        min, max = (b if b is None else xp.number(b, self.dtype) for b in (min, max))
    elif self.dtype.kind == "b":
        raise unsupported("clamp_scalar_cpu", dtypes.bool_)
    out = xp.clip(self, min, max)
    return out if out.dtype is self.dtype else out.astype(self.dtype, copy=False)


clamp_number = declare(
    "clamp_number",
    _clamp_number,
    public="clamp",
    node="ClampBackward0",
    self=lambda F, g, self, min, max: F.where(F.clamp_mask(self, min, max), g, 0.0),
    jvp="elementwise",
    inplace=True,
    pointwise=True,
    samples=lambda t: [
        (t(3, 4), -1.0, 1.0),
        (t(5), None, 0.5),
        (t(5), 0.5, None),
        (t(), 0, 1),
        (t(0), 0, 1),
    ],
    batch="elementwise",
)


def _clamp_tensors(xp, self, min=None, max=None):
    if self.dtype.kind == "b" and min is not None and max is not None:
        raise unsupported("clamp_cpu", dtypes.bool_)
    out = xp.clip(self, min, max).astype(self.dtype, copy=False)
    if self.ndim < 2 or self.flags.c_contiguous:
        return out
    return in_order(xp, out, [a for a in (self, min, max) if getattr(a, "ndim", 0)])


clamp_op = declare(
    "clamp",
    _clamp_tensors,
    node="ClampBackward1",
    complex=False,
    self=lambda F, g, self, min, max, self_shape: F.sum_to_size(
        F.where(F.clamp_mask(self, min, max), g, 0.0), self_shape
    ),
    min=lambda F, g, self, min, max: F.sum_to_size(
        F.where(_below(self, min, max), g, 0.0), F.shape_of(min)
    ),
    max=lambda F, g, self, min, max: F.sum_to_size(
        F.where(_above(self, min, max), g, 0.0), F.shape_of(max)
    ),
    inplace=True,
    pointwise=True,
    samples=lambda t: [
        (t(3, 4), t(4), t(3, 1, low=2)),
        (t(3, 4), None, t()),
        (t(3), t(3), None),
        (t(0), t(), t(low=3, high=4)),
    ],
    batch="elementwise",
)


def _below(self, min, max):
    return self < min if max is None else (self < min) & (min < max)


def _above(self, min, max):
    return self > max if min is None else (self > max) | (max < min)


@formula_function()
def clamp_mask(F, self, min, max):
    """Where clamp passes the gradient: inside its bounds, the bounds included."""
    if min is None:
        return self <= max
    return self >= min if max is None else (self >= min) & (self <= max)


@formula_function()
def shape_of(F, x):
    return getattr(x, "shape", ())


def _invalid(name: str, input, *bounds) -> TypeError:
    given = ", ".join(type(a).__name__ for a in (input, *bounds))
    rest = ", ".join(["min", "max"] if name == "clamp" else [name[-3:]])
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({given}), but expected one of:\n"
        f" * (Tensor input, Tensor {rest}, *, Tensor out = None)\n"
        f" * (Tensor input, Number {rest}, *, Tensor out = None)"
    )


@function("clamp", "clip", method=True)
def clamp(input, min=None, max=None, *, out=None):
    """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1.

    Raises RuntimeError: neither bound is given. Where min is above max the result is max.

    Example:
        >>> gradlib.clamp(gradlib.tensor([-1.0, 0.5, 2.0]), 0, 1)
        tensor([0.0000, 0.5000, 1.0000])
    """
    if not isinstance(input, Tensor):
        raise _invalid("clamp", input, min, max)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if min.__class__ not in _REAL or max.__class__ not in _REAL:
        min, max = _bounds(min, max)
    _check_bounds("clamp", input, min, max)
    return write_out(
        apart(out, input, min, max),
        (clamp_number if _plain(input, min, max) else clamp_op).call(input, min, max),
    )


def _bounds(min, max) -> tuple:
    """Bounds that are numbers as those of Python; a tensor of one element beside one is a number, too."""
    tensors = [isinstance(b, Tensor) for b in (min, max)]
    mixed = tensors in ([True, False], [False, True]) and min is not None and max is not None
    return tuple(
        [
            python_number(b) if not isinstance(b, Tensor) or (mixed and not b.ndim) else b
            for b in (min, max)
        ]
    )


def _check_bounds(name: str, input: Tensor, min, max) -> None:
    """TypeError for a number beside a tensor, RuntimeError for numbers that do not fit in the dtype of the result."""
    kind = input.dtype
    if kind.category == dtypes.FLOATING and min.__class__ in _REAL and max.__class__ in _REAL:
        if min is not None:
            plain_number(min, kind)
        if max is not None:
            plain_number(max, kind)
        return
    given = [b for b in (min, max) if b is not None]
    numbers = [b for b in given if not isinstance(b, Tensor)]
    if not numbers:
        return
    if len(numbers) < len(given) or not all([is_number(b) for b in numbers]):
        raise _invalid(name, input, min, max)
    if input._array.dtype.kind == "b" and all([b is True or b is False for b in numbers]):
        which = "" if len(given) == 2 else "_min" if max is None else "_max"
        raise unsupported(f"clamp{which}_scalar_cpu", dtypes.bool_)
    if kind.category < dtypes.FLOATING:
        kind = common_dtype((input, *numbers))
    if kind.category < dtypes.COMPLEX:
        for bound in numbers:
            if not isinstance(bound, complex):
                plain_number(bound, kind)


_REAL = frozenset((int, float, type(None)))


def _plain(input, min, max) -> bool:
    """Whether the bounds are numbers that do not change the dtype of `input`."""
    if input._array.dtype.kind in "fV" and min.__class__ in _REAL and max.__class__ in _REAL:
        return True
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return False
    if isinstance(min, complex) or isinstance(max, complex) or input.is_complex():
        raise NotImplementedError("clamp is not supported for complex types")
    whole = not isinstance(min, float) and not isinstance(max, float)
    return input._array.dtype.kind in ("iufV" if whole else "fV")


@function("clamp_min", method=True)
def clamp_min(input, min, *, out=None):
    """The larger one of each element of `input` and `min`: ``clamp`` with a lower bound alone.

    Args:
        input: a tensor of a real dtype.
        min: a number, or a tensor that broadcasts with `input`.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that both broadcast to and of their common dtype.

    Raises:
        RuntimeError: the shapes do not broadcast, or the dtype is complex.

    Example:
        >>> gradlib.clamp_min(gradlib.tensor([-1.0, 2.0]), 0.0)
        tensor([0., 2.])
    """
    if not isinstance(input, Tensor) or not (isinstance(min, Tensor) or is_number(min)):
        raise _invalid("clamp_min", input, min)
    return clamp(input, min=min, out=out)


@function("clamp_max", method=True)
def clamp_max(input, max, *, out=None):
    """The smaller one of each element of `input` and `max`: ``clamp`` with an upper bound alone.

    Args:
        input: a tensor of a real dtype.
        max: a number, or a tensor that broadcasts with `input`.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that both broadcast to and of their common dtype.

    Raises:
        RuntimeError: the shapes do not broadcast, or the dtype is complex.

    Example:
        >>> gradlib.clamp_max(gradlib.tensor([-1.0, 2.0]), 0.0)
        tensor([-1.,  0.])
    """
    if not isinstance(input, Tensor) or not (isinstance(max, Tensor) or is_number(max)):
        raise _invalid("clamp_max", input, max)
    return clamp(input, max=max, out=out)


@method("clamp_", "clip_")
def clamp_(self, min=None, max=None):
    """In-place version of ``clamp``."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if min.__class__ not in _REAL or max.__class__ not in _REAL:
        min, max = _bounds(min, max)
    _check_bounds("clamp_", self, min, max)
    return (
        inplace(clamp_number, self, (), (min, max))
        if _plain(self, min, max)
        else inplace(clamp_op, self, (min, max))
    )


@method("clamp_min_")
def clamp_min_(self, min):
    """In-place version of ``clamp_min``."""
    return clamp_(self, min)


@method("clamp_max_")
def clamp_max_(self, max):
    """In-place version of ``clamp_max``."""
    return clamp_(self, max=max)
