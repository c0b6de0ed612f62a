"""Conjugation, and the views that are conjugated or negated only where values are needed.

``conj`` is a lazy view, see tape/lazy.py, as is the imaginary part of a conjugated tensor; in gradients conjugation
is computed at once.
"""

from __future__ import annotations

from ...op.declare import declare
from ...op.expose import FOUND, function, method, write_same
from ...op.formulas import formula_function
from ...op.inplace import inplace
from ...tape import dtypes, lazy
from ..kinds import unsupported


def complex_sample(t, *shape):
    return t(*shape, dtype=dtypes.complex128)


# computed at once: what `conjugate` is on Tensors
conj_op = declare("conj", "conjugate", elementwise=True, self=lambda g: g.conjugate(), complex=True)
conj_view_op = declare(
    "conj_view", lambda xp, self: lazy.flipped(self, lazy.CONJ), public="_conj", node="ConjBackward0", view=True,
    flips="conj", self=lambda g: g.conjugate(), jvp=lambda self_t: self_t.conjugate(), complex=True,
    batch="elementwise",
    samples=lambda t: [(complex_sample(t, 3, 4),), (complex_sample(t),), (complex_sample(t, 0, 2),)],
)  # fmt: skip
neg_view_op = declare(
    "neg_view", lambda xp, self: lazy.flipped(self, lazy.NEG), public="_neg_view", view=True, flips="neg",
    self=lambda g: -g, jvp="linear", complex=True, batch="elementwise",
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
)  # fmt: skip
conj_physical_op = declare(
    "conj_physical", "conjugate", elementwise=True, self=lambda g: g.conjugate(), complex=True
)


@method("conjugate")
def conjugate(self):
    """The complex conjugate; NumPy's spelling, shared by arrays, numbers and tensors, for gradient formulas.

    Returns:
        A copy, which may be written to, unlike the view that ``conj()`` gives; a real tensor itself.

    Example:
        >>> gradlib.tensor([1 + 2j]).conjugate()
        tensor([1.-2.j])
    """
    return conj_op.call(self) if self._array.dtype.kind == "c" else self


@method("conj_physical_")
def conj_physical_(self):
    """In-place version of ``conj_physical``."""
    return self if self._array.dtype.kind == "b" else inplace(conj_physical_op, self)


@function("conj", method=True)
def conj(input):
    """The complex conjugates, as a view: they are computed where they are needed.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        A view of a complex tensor, whose ``is_conj`` is turned round: what is written to it is written to `input`,
            conjugated. A real tensor itself.

    Example:
        >>> gradlib.conj(gradlib.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    return conj_view_op.call(input) if input._array.dtype.kind == "c" else input


@function("_neg_view", method=True)
def neg_view(input):
    """The negative, a view with the negative bit set."""
    if input._array.dtype.kind == "b":
        raise unsupported("neg_cpu", dtypes.bool_)
    return neg_view_op.call(input)


@formula_function("conj")
def _f_conj(F, x):
    return x.conjugate()


@function("conj_physical", method=True)
def conj_physical(input, *, out=None):
    """The complex conjugates, with memory of their own: ``conj`` that does not wait until values are needed.

    Args:
        input: a tensor of any shape and dtype.
        out: written to instead of a new tensor.

    Returns:
        A new complex tensor; a real tensor itself.

    Example:
        >>> gradlib.conj_physical(gradlib.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    result = conj_physical_op.call(input) if input._array.dtype.kind == "c" else input
    return write_same(out, result, FOUND)


@function("resolve_conj", method=True)
def resolve_conj(input):
    """The tensor itself, or, of a conjugated view (``is_conj``), a copy that holds the conjugates in memory.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        A tensor with the same values, whose ``is_conj`` is False.

    Example:
        >>> gradlib.resolve_conj(gradlib.tensor([1 + 2j]).conj()).is_conj()
        False
    """
    return input.clone() if is_conj(input) else input


@function("resolve_neg", method=True)
def resolve_neg(input):
    """The tensor itself, or, of a negated view (``is_neg``), a copy that holds the negatives in memory.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        A tensor with the same values, whose ``is_neg`` is False.

    Example:
        >>> gradlib.resolve_neg(gradlib.tensor([1 + 2j]).conj().imag).is_neg()
        False
    """
    return input.clone() if is_neg(input) else input


@function("is_conj", method=True)
def is_conj(input) -> bool:
    """Whether the values are the conjugates of those in memory: of a tensor made by ``conj``, and of views of it.

    Args:
        input: a tensor.

    Returns:
        A bool.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.is_conj(gradlib.tensor([1j]).conj())
        True
    """
    return bool(lazy.bits_of(input) & lazy.CONJ)


@function("is_neg", method=True)
def is_neg(input) -> bool:
    """Whether the values are the negatives of those in memory: of the imaginary part of a conjugated tensor.

    Args:
        input: a tensor.

    Returns:
        A bool.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.is_neg(gradlib.tensor([1j]).conj().imag)
        True
    """
    return bool(lazy.bits_of(input) & lazy.NEG)
