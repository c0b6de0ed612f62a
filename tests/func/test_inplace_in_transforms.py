"""Functions that write in place have the derivatives of those that do not, in every order of transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gradlib as torch
from gradlib import func
from gradlib.nn import functional as F

X = torch.tensor([[0.3, 0.4], [0.6, 0.45]], dtype=torch.float64)
UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 frac i0 lgamma
    log log10 log1p log2 logit neg nan_to_num rad2deg reciprocal relu round rsqrt sgn sigmoid sign sin sinc sinh sqrt
    square tan tanh trunc
""".split()
BINARY = "add sub mul div pow atan2 hypot fmod remainder copysign xlogy".split()
ACTIVATIONS = "celu elu selu hardsigmoid silu relu6 hardtanh leaky_relu".split()


def method(name: str, *args: Any) -> tuple[Callable, Callable]:
    """(in place, out of place), each a function of a tensor and of another one that it depends on."""

    def given(w, v):
        return [a(w, v) if callable(a) else a for a in args]

    return (
        lambda w, v: getattr(w, name + "_")(*given(w, v)),
        lambda w, v: getattr(w, name)(*given(w, v)),
    )


def set_rows(w, v):
    w[0] = v[1] * v[0]
    w[1:] *= v[:1]
    return w * v


def cases() -> Iterator[tuple[str, tuple[Callable, Callable]]]:
    for name in UNARY:
        yield name, method(name)
    for name in BINARY:
        yield f"{name} other", method(name, lambda w, v: v)
        yield f"{name} itself", method(name, lambda w, v: (w + v).exp())
        yield f"{name} number", method(name, torch.tensor(2.0, dtype=torch.float64))
    for name in ACTIVATIONS:
        f = getattr(F, name)
        yield name, (lambda w, v, f=f: f(w, inplace=True), lambda w, v, f=f: f(w))
    yield "cumsum", method("cumsum", 0)
    yield "cumprod", method("cumprod", 0)
    yield "addcmul", method("addcmul", lambda w, v: v, lambda w, v: v.exp())
    yield "addcdiv", method("addcdiv", lambda w, v: v, lambda w, v: v.exp())
    yield "lerp number", method("lerp", lambda w, v: v * v, 0.3)
    yield "lerp", method("lerp", lambda w, v: v * v, lambda w, v: v)
    yield "clamp", method("clamp", 0.36, 0.5)
    yield "power", method("pow", 3)
    yield "masked_fill", method("masked_fill", lambda w, v: v > 0.42, lambda w, v: v[0])
    index = torch.tensor([1, 0])
    yield "index_add", method("index_add", 0, index, lambda w, v: v * v)
    yield "index_copy", method("index_copy", 0, index, lambda w, v: v * v)
    yield "scatter", method("scatter", 0, index, lambda w, v: v * v)
    yield "scatter_add", method("scatter_add", 0, index, lambda w, v: v * v)
    yield "scatter_reduce", method("scatter_reduce", 0, index, lambda w, v: v * v, "prod")
    yield "index_put", method("index_put", (index,), lambda w, v: v * v)
    yield "threshold", (
        lambda w, v: F.threshold(w * v, 0.1, 0.3, True), lambda w, v: F.threshold(w * v, 0.1, 0.3),
    )  # fmt: skip
    yield "several", (lambda w, v: w.mul_(2.0).mul_(v).tanh_(), lambda w, v: (w * 2 * v).tanh())
    yield "items", (set_rows, lambda w, v: torch.stack([v[1] * v[0], w[1] * v[0]]) * v)
    yield "row times", (
        lambda w, v: (w[:1].mul_(v[1:]), w)[1] * 1, lambda w, v: torch.cat([w[:1] * v[1:], w[1:]]),
    )  # fmt: skip
    yield "row exp", (
        lambda w, v: (w[:1].exp_(), w)[1] * v, lambda w, v: torch.cat([w[:1].exp(), w[1:]]) * v,
    )  # fmt: skip
    yield (
        "element",
        (lambda w, v: (w[0].exp_(), w)[1] * v, lambda w, v: torch.stack([w[0].exp(), w[1]]) * v),
    )
    yield "new dimension", (lambda w, v: (w[None].mul_(v), w)[1] * 1, lambda w, v: w * v)
    yield "turned", (lambda w, v: (w.view(2, 1).t().mul_(v), w)[1] * 1, lambda w, v: w * v)
    yield "part of a part", (
        lambda w, v: (w[:][1:].tanh_(), w)[1] * v, lambda w, v: torch.cat([w[:1], w[1:].tanh()]) * v,
    )  # fmt: skip


CASES = dict(cases())
ONE = torch.ones(2, dtype=torch.float64)
TRANSFORMS: dict[str, Callable] = {
    "vmap(grad)": lambda u: func.vmap(func.grad(u))(X),
    "hessian(vmap)": lambda u: func.hessian(lambda z: func.vmap(u)(z).sum())(X),
    "vmap(hessian)": lambda u: func.vmap(func.hessian(u))(X),
    "jacfwd(jacrev(vmap))": lambda u: func.jacfwd(func.jacrev(func.vmap(u)))(X),
    "jacrev(jacfwd(vmap))": lambda u: func.jacrev(func.jacfwd(func.vmap(u)))(X),
    "jacrev(jacrev(vmap))": lambda u: func.jacrev(func.jacrev(func.vmap(u)))(X),
    "jacfwd(jacfwd(vmap))": lambda u: func.jacfwd(func.jacfwd(func.vmap(u)))(X),
    "jvp(vmap(grad))": lambda u: func.jvp(func.vmap(func.grad(u)), (X,), (X.cos(),))[1],
    "vmap(jvp(grad))": lambda u: func.vmap(lambda a, b: func.jvp(func.grad(u), (a,), (b,))[1])(X, X.cos()),
    "jvp(grad(vmap))": lambda u: func.jvp(func.grad(lambda z: func.vmap(u)(z).sum()), (X,), (X.cos(),))[1],
    "jvp(grad)": lambda u: func.jvp(func.grad(lambda z: u(z[0]) + u(z[1])), (X,), (X.cos(),))[1],
    "grad(jvp(vmap))": lambda u: func.grad(lambda z: func.jvp(func.vmap(u), (z,), (X.cos(),))[1].sum())(X),
    "jvp(grad(vmap(vmap)))": lambda u: func.jvp(
        func.grad(lambda z: func.vmap(func.vmap(lambda s: u(s * ONE)))(z).sum()), (X,), (X.cos(),)
    )[1],
    "jvp(jvp)": lambda u: func.jvp(
        lambda x: func.jvp(lambda z: u(z[0]) + u(z[1]), (x,), (X.cos(),))[1], (X,), (X.sin(),)
    )[1],
    "jvp(hessian(vmap))": lambda u: func.jvp(
        func.hessian(lambda z: func.vmap(u)(z).sum()), (X,), (X.cos(),)
    )[1],
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_writes_have_the_derivatives_of_what_they_compute(transform):
    """Also with respect to a parameter that the transform does not know of."""
    wrong = []
    for name, bodies in CASES.items():
        found: list[Any] = []
        for body in bodies:
            p = torch.ones_like(X[0]).requires_grad_()

            def u(v, body=body, name=name, p=p):
                v = v * p
                w = 1.1 * v.sin() + (1.5 if name == "acosh" else 0.05)
                return body(w, v).sum()

            out = TRANSFORMS[transform](u)
            seed = torch.ones_like(out).reshape(-1).cumsum(0).cos().reshape(out.shape)
            by_p = None
            if out.requires_grad:
                (by_p,) = torch.autograd.grad(out, p, seed, allow_unused=True)
            found.append((out.detach(), torch.zeros_like(p) if by_p is None else by_p))
        for got, expected in zip(*found, strict=True):
            if not torch.allclose(got, expected, rtol=1e-9, atol=1e-9):
                wrong.append(name)
    assert not wrong


def test_writes_under_no_grad_inside_vmap_of_forward_mode_keep_the_history_of_the_tangent():
    p = torch.ones_like(X[0, 0]).requires_grad_()

    def f(v):
        w = (v * p).clone()
        with torch.no_grad():
            w.mul_(2.0)
        return w.log().sum()

    def pushed(v):
        return func.jvp(f, (v,), (X[0].cos(),))[1]

    both = [func.vmap(pushed)(X), torch.stack([pushed(v) for v in X])]
    torch.testing.assert_close(*both)
    torch.testing.assert_close(*[torch.autograd.grad(r.sum(), p)[0] for r in both])
