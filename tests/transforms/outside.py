"""Checks of the gradients of parameters that no transform knows of: what transforms give depends on them, too.

A case becomes a function of its tensors, each times a parameter that requires grad; what a transform gives is compared
with its gradient by the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradlib as gl
from gradlib import func

from .batching import SHARED_WRITE, SIZE, _same_places, stacked
from .cases import Case
from .compare import Function, Inapplicable, same, waves


class Scaled:
    """A case as a function of floating tensors, which are multiplied by parameters of 1."""

    def __init__(self, f: Function):
        self.f, self.inputs, self.example = f, f.inputs, f.example
        self.parameters = [gl.ones((), dtype=t.dtype, requires_grad=True) for t in f.inputs]
        self.seeds = tuple(waves(o, 11) for o in f.example)
        self.directions = tuple(waves(t, 71) for t in f.inputs)

    def __call__(self, *new: gl.Tensor) -> tuple[gl.Tensor, ...]:
        return self.f(*[t * p for t, p in zip(new, self.parameters, strict=True)])

    def outcome(self, outs: Any) -> tuple[gl.Tensor, ...]:
        """Tensors that came out, and the gradients of the parameters."""
        outs = tuple(outs)
        seeds = {k: waves(o, 91) for k, o in enumerate(outs) if o.requires_grad}
        found: Any = [None] * len(self.parameters)
        if seeds:
            asked = [outs[k] for k in seeds]
            found = gl.autograd.grad(asked, self.parameters, [*seeds.values()], allow_unused=True)
        gradients = [
            gl.zeros_like(p) if g is None else g
            for g, p in zip(found, self.parameters, strict=True)
        ]
        return (*[o.detach() for o in outs], *gradients)


def vjp(f: Callable, seeds: tuple) -> Callable:
    return lambda *new: func.vjp(f, *new)[1](seeds)


def jvp(f: Callable, directions: tuple) -> Callable:
    return lambda *new: tuple(func.jvp(f, new, directions)[1])


def of_gradients(case: Case) -> None:
    """Tangents and gradients, and those of them, by transforms and by backward passes."""
    f = Scaled(Function(case, case.draw()))
    if any(t.is_complex() for t in (*f.inputs, *f.example)):
        raise Inapplicable("complex")
    x, seeds, directions = f.inputs, f.seeds, f.directions

    def pulled(outs: Any, to: Any, seeds: Any) -> tuple[gl.Tensor, ...]:
        pairs = [(o, s) for o, s in zip(outs, seeds, strict=True) if o.requires_grad]
        found: Any = [None] * len(to)
        if pairs:
            asked, given = zip(*pairs, strict=True)
            found = gl.autograd.grad(asked, to, given, create_graph=True, allow_unused=True)
        return tuple(gl.zeros_like(t) if g is None else g for g, t in zip(found, to, strict=True))

    def leaves() -> list[gl.Tensor]:
        return [t.clone().requires_grad_() for t in x]

    def second() -> tuple[gl.Tensor, ...]:
        at = leaves()
        return pulled(pulled(f(*at), at, seeds), at, directions)

    def pushed() -> tuple[gl.Tensor, ...]:
        at, given = leaves(), [gl.zeros_like(o).requires_grad_() for o in f.example]
        return pulled(pulled(f(*at), at, given), given, directions)

    first = leaves()
    for what, got, wanted in (
        ("vjp", vjp(f, seeds), lambda: pulled(f(*first), first, seeds)),
        ("jvp", jvp(f, directions), pushed),
        ("jvp of vjp", jvp(vjp(f, seeds), directions), second),
        ("vjp of jvp", vjp(jvp(f, directions), seeds), second),
        ("vjp of vjp", vjp(vjp(f, seeds), directions), second),
    ):
        same(f.outcome(got(*x)), f.outcome(wanted()), f"{what}, and by a parameter outside")


def of_batches(case: Case) -> None:
    """vmap among gradients and tangents in all orders, against a loop in its place."""
    function, each = _same_places(case)
    f = Scaled(function)
    args = tuple(gl.stack([e[k] for e in each]) for k in range(len(f.inputs)))
    e_s, e_u = f.seeds, f.directions

    def mapped(h: Callable) -> Callable:
        return func.vmap(h, randomness="same")

    def looped(h: Callable) -> Callable:
        def run(*new: gl.Tensor) -> tuple[gl.Tensor, ...]:
            rows = [h(*(t[k].clone() for t in new)) for k in range(SIZE)]
            return tuple(stacked(list(zip(*rows, strict=True))))

        return run

    try:
        mapped(f)(*args)
    except RuntimeError as exc:
        if SHARED_WRITE in str(exc):
            raise Inapplicable("it writes to what entries share") from None
        raise
    s, u = tuple(waves(o, 51) for o in looped(f)(*args)), tuple(waves(t, 61) for t in args)
    orders: dict[str, Callable] = {
        "V": lambda v: v(f),
        "V of vjp": lambda v: v(vjp(f, e_s)),
        "V of jvp": lambda v: v(jvp(f, e_u)),
        "vjp of V": lambda v: vjp(v(f), s),
        "jvp of V": lambda v: jvp(v(f), u),
        "V of vjp of vjp": lambda v: v(vjp(vjp(f, e_s), e_u)),
        "V of vjp of jvp": lambda v: v(vjp(jvp(f, e_u), e_s)),
        "V of jvp of vjp": lambda v: v(jvp(vjp(f, e_s), e_u)),
        "V of jvp of jvp": lambda v: v(jvp(jvp(f, e_u), e_u)),
        "vjp of V of vjp": lambda v: vjp(v(vjp(f, e_s)), u),
        "vjp of V of jvp": lambda v: vjp(v(jvp(f, e_u)), s),
        "jvp of V of vjp": lambda v: jvp(v(vjp(f, e_s)), u),
        "jvp of V of jvp": lambda v: jvp(v(jvp(f, e_u)), u),
        "vjp of vjp of V": lambda v: vjp(vjp(v(f), s), u),
        "vjp of jvp of V": lambda v: vjp(jvp(v(f), u), s),
        "jvp of jvp of V": lambda v: jvp(jvp(v(f), u), u),
    }
    for name, order in orders.items():
        found = [f.outcome(order(v)(*args)) for v in (mapped, looped)]
        same(found[0], found[1], f"{name}, and by a parameter outside")


CHECKS = {"outside": of_gradients, "outside_vmap": of_batches}
