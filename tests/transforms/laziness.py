"""The check of calls on lazy tensors: conjugated and negated views give what tensors of the same values give."""

from __future__ import annotations

from collections.abc import Callable

import gradlib as gl
from gradlib.tape.lazy import is_lazy

from .cases import Case
from .compare import Function, Inapplicable, same, waves
from .running import REFUSED
from .writing import _written

# what refuses lazy tensors, as in PyTorch
REFUSED_LAZY = "unresolved conjugated", "is not supported for", "detach views in-place"


def _negated(t: gl.Tensor) -> gl.Tensor:
    """A negated view with the values of `t`."""
    if t.dtype is gl.bool or t.dtype is gl.uint8:
        return t
    return gl._neg_view(-t)


def _conjugated(t: gl.Tensor) -> gl.Tensor:
    """A conjugated view with the values of `t`, a negated one if `t` is real."""
    return t.conj_physical().conj() if t.is_complex() else _negated(t)


def _complex(t: gl.Tensor) -> gl.Tensor:
    return gl.complex(t.double(), 0.3 * waves(t.double())) if t.is_floating_point() else t


def _marked(tensors: list[gl.Tensor], change: Callable) -> list[gl.Tensor]:
    """`tensors` changed; a tensor that is no variable stays none."""
    made = [change(t) for t in tensors]
    for m, t in zip(made, tensors, strict=True):
        if "constant" in t.__dict__:
            m.constant = True
    return made


def lazy(case: Case) -> None:
    """Values and gradients, and what is written in place, for the arguments as drawn and for complex ones."""
    tensors = case.draw()
    if not any(t.is_floating_point() or t.is_complex() for t in tensors):
        raise Inapplicable("no floating argument")
    _compared(case, tensors, "lazy")
    if case.module is not None or not any(t.is_floating_point() for t in tensors):
        return
    wide = _marked(tensors, _complex)
    try:
        case(*[t.clone() for t in wide])
    except (*REFUSED, AssertionError, AttributeError):
        return
    _compared(case, wide, "conjugated")


def _compared(case: Case, tensors: list[gl.Tensor], what: str) -> None:
    try:
        _compare(case, tensors, _conjugated, what)
    except RuntimeError as exc:
        if not any(text in str(exc) for text in REFUSED_LAZY):
            raise


def _compare(case: Case, tensors: list[gl.Tensor], change: Callable, what: str) -> None:
    wanted = case(*[t.clone() for t in tensors])
    given = _marked(tensors, change)
    assert any(map(is_lazy, given)), "no argument is lazy"
    same(_plain(case(*given)), _plain(wanted), f"value of {what} arguments")
    if case.inplace:
        _compare_writing(case, tensors, change, what)
    try:
        f = Function(case, tensors)
        seeds = f.cotangents()
        plain = f.gradients(f.leaves(), seeds)
    except (AssertionError, Inapplicable, NotImplementedError, RuntimeError):
        return
    leaves = f.leaves()
    out = f(*map(change, leaves))
    found = gl.autograd.grad(out, leaves, _marked(seeds, change), allow_unused=True)
    same(_plain(found), _plain(plain), f"gradient of {what} arguments")


def _compare_writing(case: Case, tensors: list[gl.Tensor], change: Callable, what: str) -> None:
    """Written to a lazy tensor: it and its base hold what a plain one holds; other entries of the base stay."""
    plain = tensors[0].clone()
    count = plain._version
    _written(case, plain, tensors[1:])
    count = plain._version - count
    target = change(tensors[0])
    before = target._version
    got = _written(case, target, [change(t) for t in tensors[1:]])
    assert got is target, f"the result of writing to {what} is not the tensor"
    assert target._version == before + count, f"version {before} became {target._version}"
    assert is_lazy(target) is is_lazy(change(tensors[0])), "the tensor is not lazy any more"
    same(_plain([target]), [plain], f"value written to {what}")
    base = gl.stack([tensors[0]] * 2).to(tensors[0].dtype)
    whole = change(base)
    part = whole[1]
    if part.shape == plain.shape:
        _written(case, part, tensors[1:])
        same(
            _plain([whole[1], whole[0]]), [plain, tensors[0]], f"value written to a part of {what}"
        )


def _plain(tensors) -> list:
    return [t if t is None else t.resolve_conj().resolve_neg() for t in tensors]


CHECKS = {"lazy": lazy}
