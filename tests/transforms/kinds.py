"""Checks of what arguments are: no entries at all, complex numbers, dtypes of gradients and tangents."""

from __future__ import annotations

import numpy as np

import gradlib as gl
from gradlib import func

from .batching import SHARED_WRITE, entries, stacked
from .cases import Case
from .compare import Function, Inapplicable, array, inner, is_float, same, waves
from .gradients import agree, alone, difference
from .running import REFUSED


def no_entries(case: Case) -> None:
    """vmap of an empty batch: shapes and dtypes of an entry, and empty gradients."""
    each = entries(case)
    if not each[0] or not case(*each[0]):
        raise Inapplicable("no tensor")
    batched = [t[:0] for t in stacked(list(zip(*each, strict=True)))]
    wanted = case(*each[0])
    leaves = [t.clone().requires_grad_() if is_float(t) else t for t in batched]
    try:
        found = func.vmap(case, randomness="same")(*leaves)
    except RuntimeError as exc:
        if SHARED_WRITE in str(exc):
            raise Inapplicable("it writes entries into what they share") from None
        raise
    assert len(found) == len(wanted)
    for o, w in zip(found, wanted, strict=True):
        assert o.shape == (0, *w.shape), f"shape {tuple(o.shape)} instead of {(0, *w.shape)}"
        assert o.dtype is w.dtype, f"{o.dtype} instead of {w.dtype}"
    graded = [o for o in found if o.requires_grad]
    inputs = [t for t in leaves if t.requires_grad]
    if graded:
        grads = gl.autograd.grad(
            graded, inputs, [gl.ones_like(o) for o in graded], allow_unused=True
        )
        for t, g in zip(inputs, grads, strict=True):
            assert g is None or (g.shape == t.shape and g.dtype is t.dtype), f"gradient like {g!r}"


def complex_numbers(case: Case) -> None:
    """Gradients and tangents of complex arguments, where they are accepted."""
    drawn = case.draw()
    real = [k for k, t in enumerate(drawn) if t.is_floating_point() and is_float(t)]
    if not real or case.module is not None:
        raise Inapplicable("no real argument")
    tensors = list(drawn)
    for k in real:
        tensors[k] = gl.complex(drawn[k], waves(drawn[k], 81 + k) * 0.3)
    try:
        f = Function(case, tensors)
    except (*REFUSED, AssertionError) as exc:
        raise Inapplicable(f"complex numbers are refused: {exc}") from None
    seeds = f.cotangents()
    try:
        found = f.gradients(f.leaves(), seeds)
    except (RuntimeError, NotImplementedError) as exc:
        raise Inapplicable(f"no derivative: {exc}") from None
    for k, (x, g) in enumerate(zip(f.inputs, found, strict=True)):
        assert g is None or (g.shape == x.shape and g.dtype is x.dtype), f"gradient {k} like {g!r}"
        u = alone(k, f.inputs, 3)
        got = 0.0 if g is None else inner(g, u[k])  # type: ignore[arg-type]
        wanted = difference(f, f.inputs, u, seeds)
        agree(got, wanted, f"gradient of complex argument {k}")
        us = [gl.zeros_like(t) if v is None else v for t, v in zip(f.inputs, u, strict=True)]
        _, ts = func.jvp(f, tuple(f.inputs), tuple(us))
        agree(
            sum(inner(s, t) for s, t in zip(seeds, ts, strict=True)),
            wanted,
            f"tangent of complex argument {k}",
        )


CLOSE = {gl.float32: 1e-3, gl.bfloat16: 0.15, gl.float16: 0.03}


def precisions(case: Case) -> None:
    """Gradients and tangents in other dtypes: of the dtype of the arguments, and close to those in float64."""
    drawn = case.draw()
    if case.module is not None or not all(
        t.dtype is gl.float64 for t in drawn if t.is_floating_point() or t.is_complex()
    ):
        raise Inapplicable("a module, or no float64")
    for dtype, close in CLOSE.items():
        tensors = [t.to(dtype) if t.is_floating_point() else t for t in drawn]
        for t, d in zip(tensors, drawn, strict=True):
            t.__dict__ |= {n: v for n, v in d.__dict__.items() if n == "constant"}
        wide = [t.double() if t.is_floating_point() else t for t in tensors]
        for t, d in zip(wide, drawn, strict=True):
            t.__dict__ |= {n: v for n, v in d.__dict__.items() if n == "constant"}
        try:
            f, g = Function(case, tensors), Function(case, wide)
        except (*REFUSED, AssertionError):
            continue
        seeds = [s.to(o.dtype) for s, o in zip(g.cotangents(), f.example, strict=True)]
        us = [waves(t, 91).to(t.dtype) for t in f.inputs]
        try:
            wanted = g.gradients(
                g.leaves(), [s.to(o.dtype) for s, o in zip(seeds, g.example, strict=True)]
            )
        except (NotImplementedError, RuntimeError):
            return
        found = f.gradients(f.leaves(), seeds)
        pushed = func.jvp(f, tuple(f.inputs), tuple(us))[1]
        wide_pushed = func.jvp(g, tuple(g.inputs), tuple(u.double() for u in us))[1]
        for x, a, b in zip(f.inputs, found, wanted, strict=True):
            assert (a is None) == (b is None), f"{dtype}: a gradient is missing"
            assert a is None or a.dtype is x.dtype, f"{dtype}: gradient of {a.dtype}"
            _near(a, b, close, f"{dtype}: gradient")
        for o, a, b in zip(f.example, pushed, wide_pushed, strict=True):
            assert a.dtype is o.dtype, f"{dtype}: tangent of {a.dtype}"
            _near(a, b, close, f"{dtype}: tangent")


def _near(got: gl.Tensor | None, wanted: gl.Tensor | None, close: float, what: str) -> None:
    if got is None or wanted is None:
        return
    a, b = array(got).astype(complex), array(wanted).astype(complex)
    size = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
    if size > 1e3:
        return
    bad = np.isfinite(b) & ~(abs(a - b) <= close * size)
    assert not bad.any(), f"{what} {a[bad][0]} instead of {b[bad][0]}"


def _elementwise(case: Case) -> list[gl.Tensor]:
    """The arguments as vectors, if the first elements of the results are those of the first elements."""
    tensors = case.draw()
    shapes = {t.shape for t in tensors}
    if len(shapes) != 1 or case.key.startswith(("nn.", "composite.")) or not tensors[0].numel():
        raise Inapplicable("shapes differ")
    flat = [t.reshape(-1) for t in tensors]
    try:
        wanted, whole, first = case(*tensors), case(*flat), case(*[t[:1] for t in flat])
        if not wanted or any(w.shape != tensors[0].shape for w in wanted):
            raise Inapplicable("the result has another shape")
        same(whole, [w.reshape(-1) for w in wanted], "as a vector")
        same(first, [w.reshape(-1)[:1] for w in wanted], "first element")
    except (*REFUSED, AssertionError) as exc:
        raise Inapplicable(f"not element by element: {exc}") from None
    return flat


def small(case: Case) -> None:
    """One element without dimensions, and none at all: values, gradients and tangents."""
    flat = _elementwise(case)
    for what, part in (("0-dim", lambda t: t[0]), ("empty", lambda t: t[:0])):
        same(case(*map(part, flat)), list(map(part, case(*flat))), what)
        try:
            f = Function(case, flat)
            seeds = f.cotangents()
            wanted = f.gradients(f.leaves(), seeds)
            us = [waves(t, 95) for t in f.inputs]
            pushed = func.jvp(f, tuple(f.inputs), tuple(us))[1]
        except (*REFUSED, AssertionError, Inapplicable):
            continue
        g = Function(case, [part(t).clone() if is_float(t) else part(t) for t in flat])
        ends = [part(s) for s in seeds]
        found = g.gradients(g.leaves(), ends)
        same(found, [w if w is None else part(w) for w in wanted], f"gradient, {what}")
        got = func.jvp(g, tuple(g.inputs), tuple(map(part, us)))[1]
        same(got, list(map(part, pushed)), f"tangent, {what}")


CHECKS = {
    "small": small,
    "no_entries": no_entries,
    "complex": complex_numbers,
    "precision": precisions,
}
