"""Checks of what is written: in-place forms, and results given as out=."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import gradlib as gl

from .cases import Case
from .compare import Function, Inapplicable, is_float, same, waves
from .space import groups, namespace


@cache
def _public() -> dict[str, Callable]:
    return namespace()


@cache
def _names() -> dict[str, list[str]]:
    return groups(_public())


def _out_of_place(case: Case) -> Callable:
    """The function whose result an in-place one writes."""
    for key in _names().get(case.key, []):
        prefix, _, name = key.rpartition(".")
        plain = f"__{name[3:]}" if name.startswith("__i") else name[:-1]
        found = _public().get(f"{prefix}.{plain}")
        if found is not None and plain != "__setitem_":
            return found
    raise Inapplicable("it has no form out of place")


def inplace(case: Case) -> None:
    """Value, identity, version and gradient, for a tensor of its own and for parts of a larger one."""
    if not case.inplace:
        raise Inapplicable("not in place")
    plain = _out_of_place(case)
    tensors = case.draw()
    other = Case(case.key, case.number, plain, case.text)
    wanted = other.run(*tensors)
    first = tensors[0]
    target = first.clone()
    before = target._version
    got = _written(case, target, tensors[1:])
    assert got is target, "the result is not the tensor"
    assert target._version == before + 1, f"version {before} became {target._version}"
    same([target], [wanted.to(first.dtype)], "value")
    for name, view in VIEWS.items():
        base, part = view(first)
        before = base._version
        _written(case, part, tensors[1:])
        same([part], [wanted.to(first.dtype)], f"value in {name}")
        assert base._version == part._version == before + 1, f"version of the base of {name}"
    if (not wanted.requires_grad and not is_float(wanted)) or not is_float(first):
        return
    _gradients(case, other, tensors)


def _written(case: Case, target: gl.Tensor, rest: list[gl.Tensor]) -> gl.Tensor:
    """The in-place call on `target` itself."""
    case.template  # noqa: B018  # drawn before `inplace` is put off
    bare = Case(case.key, case.number, case.fn, case.text)
    return bare.run(target, *rest)


def _in_columns(first: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
    base = gl.zeros(*first.shape, 2, dtype=first.dtype)
    part = base[..., 1]
    part.copy_(first)
    return base, part


def _in_rows(first: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
    base = gl.zeros(3, *first.shape, dtype=first.dtype)
    part = base[1]
    part.copy_(first)
    return base, part


def _turned(first: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
    order = tuple(reversed(range(first.dim())))
    base = first.permute(order).clone(memory_format=gl.contiguous_format)
    return base, base.permute(order)


VIEWS: dict[str, Callable] = {
    "columns": _in_columns,
    "a row": _in_rows,
    "a transposed tensor": _turned,
}


def _gradients(case: Case, other: Case, tensors: list[gl.Tensor]) -> None:
    """The gradients of all arguments, written to a tensor of its own, to a row and to a column of another."""
    try:
        f = Function(other, tensors)
        seeds = [s.to(tensors[0].dtype) for s in f.cotangents()]
        leaves = f.leaves()
        out = f(*leaves)[0].to(tensors[0].dtype)
        wanted = gl.autograd.grad(out, leaves, seeds, allow_unused=True)
    except (AssertionError, Inapplicable, NotImplementedError):
        return  # no derivative
    except RuntimeError as exc:
        if "derivative for" not in str(exc):
            raise
        return

    def own(x: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
        c = x * 1
        return c, c

    def row(x: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
        base = gl.stack([x, x, x]) * 1
        return base, base[1]

    def column(x: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
        base = gl.stack([x, x], -1) * 1
        return base, base[..., 1]

    def flat(x: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
        base = (x * 1).reshape(-1)
        return base, base.view(x.shape)

    read_by = {
        own: lambda base: base,
        row: lambda base: base[1],
        column: lambda base: base[..., 1],
        flat: lambda base: base.reshape(tensors[0].shape),
    }
    for make, reading in read_by.items():
        leaves = f.leaves()
        full = f.put(leaves)
        if not full[0].requires_grad:
            return
        base, part = make(full[0])
        _written(case, part, full[1:])
        read = reading(base)
        same([read], [out], f"value in {make.__name__}")
        found = gl.autograd.grad(read, leaves, seeds, allow_unused=True)
        same(found, wanted, f"gradient after a write to {make.__name__}")
        if make is row:  # what the write did not touch
            x = f.leaves()
            base, part = make(x[0])
            _written(case, part, f.put(x)[1:])
            w = waves(x[0], 9)
            (g,) = gl.autograd.grad(base[0], x[0], w)
            same([g], [w], "gradient of the row beside")


def given(case: Case) -> None:
    """``out=`` a part of a larger tensor: filled, returned, and refused with gradients."""
    if case.inplace or case.module is not None or case.key.startswith(("Tensor.", "composite.")):
        raise Inapplicable("no out=")
    tensors = case.draw()
    wanted = case.run(*tensors)
    several = isinstance(wanted, (tuple, list))
    parts = list(wanted) if several else [wanted]
    if not all(isinstance(p, gl.Tensor) for p in parts):
        raise Inapplicable("no tensor comes out")
    outs = [gl.zeros(*p.shape, 2, dtype=p.dtype)[..., 1] for p in parts]
    try:
        got = case.run(*tensors, out=tuple(outs) if several else outs[0])
    except TypeError as exc:
        raise Inapplicable(f"no out= ({exc})") from None
    found = list(got) if several else [got]
    assert all(g is o for g, o in zip(found, outs, strict=True)), "the result is not out"
    same(outs, parts, "out")
    assert all(o.stride()[-1:] == s.stride()[-1:] for o, s in zip(outs, found, strict=True))
    floats = [k for k, t in enumerate(tensors) if is_float(t)]
    if floats and any(
        p.requires_grad
        for p in case(*(t.clone().requires_grad_() if is_float(t) else t for t in tensors))
    ):
        leaves = [t.clone().requires_grad_() if is_float(t) else t for t in tensors]
        outs = [gl.zeros(p.shape, dtype=p.dtype) for p in parts]
        try:
            case.run(*leaves, out=tuple(outs) if several else outs[0])
        except RuntimeError as exc:
            if "automatic differentiation" not in str(exc):
                raise
        else:
            raise AssertionError("out= is accepted with arguments that require grad")
        with gl.no_grad():
            case.run(*leaves, out=tuple(outs) if several else outs[0])
        same(outs, parts, "out under no_grad")


CHECKS = {"inplace": inplace, "out": given}
