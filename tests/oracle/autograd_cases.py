"""Programs about autograd that must do the same in both libraries: results, or types and first lines of errors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any


def function_cases(torch) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Custom functions: what backward may return, and what happens to outputs."""
    base = torch.autograd.Function

    def make(forward, backward=None, **more):
        body = {"forward": staticmethod(forward)} | {k: staticmethod(v) for k, v in more.items()}
        if backward:
            body["backward"] = staticmethod(backward)
        return type("G", (base,), body)

    def gradient(cls, *args):
        def run():
            x = torch.ones(3, requires_grad=True)
            out = cls.apply(x, *args)
            (out[0] if isinstance(out, tuple) else out).sum().backward()
            return x.grad

        return run

    def two(ctx, x):
        return x * 2

    for name, backward in {
        "too many": lambda ctx, g: (g, g),
        "trailing None": lambda ctx, g: (g, None, None),
        "None": lambda ctx, g: None,
        "wrong shape": lambda ctx, g: torch.ones(7),
        "expandable": lambda ctx, g: torch.ones(2, 3),
        "scalar": lambda ctx, g: torch.ones(()),
        "an int": lambda ctx, g: 5,
        "a list": lambda ctx, g: [g],
        "double": lambda ctx, g: g.double(),
        "integers": lambda ctx, g: torch.ones(3, dtype=torch.int64),
    }.items():
        yield f"backward returns {name}", gradient(make(two, backward))
    yield "no forward", lambda: type("G", (base,), {}).apply(torch.ones(3))
    yield "no backward", gradient(make(two))
    yield "vjp", gradient(make(two, vjp=lambda ctx, g: g * 7))
    yield "vjp and backward", gradient(make(two, lambda ctx, g: g, vjp=lambda ctx, g: g))
    yield "gradient for a number", gradient(make(lambda ctx, x, k: x, lambda ctx, g: (g, g)), 4)
    yield "saves an int", gradient(make(lambda ctx, x: ctx.save_for_backward(3) or x * 2))
    yield (
        "undefined gradient",
        gradient(make(lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a + b)),
    )

    def identity():
        x = torch.ones(3, requires_grad=True)
        y = make(lambda ctx, x: x, lambda ctx, g: g * 3).apply(x)
        facts = y is x, y._is_view(), y.requires_grad, y.grad_fn.name()
        y.sum().backward()
        return (*facts, x.grad)

    yield "identity", identity

    def writes(view, returns=True, leaf=False):
        def run():
            x = torch.ones(3, requires_grad=True)
            base = x if leaf else x * 2
            part = base[:2] if view else base

            def forward(ctx, a):
                a.mul_(3)
                ctx.mark_dirty(a)
                return a if returns else a * 2

            out = make(forward, lambda ctx, g: g * 3).apply(part)
            return out is part, part._version, torch.autograd.grad(base.sum(), x)[0]

        return run

    yield "mark_dirty", writes(False)
    yield "mark_dirty on a view", writes(True)
    yield "mark_dirty, not returned", writes(False, returns=False)
    yield "mark_dirty on a leaf", writes(False, leaf=True)

    def view_cases(change):
        def run():
            x = torch.ones(3, requires_grad=True) * 2
            change(x, make(lambda ctx, a: a.view(3, 1), lambda ctx, g: g.view(3)).apply(x))

        return run

    yield "write to a returned view", view_cases(lambda x, y: y.add_(1))
    yield "write to the base of one", view_cases(lambda x, y: (x.add_(1), y.grad_fn))


def functional_cases(torch) -> Iterator[tuple[str, Callable[[], Any]]]:
    """autograd.functional on small functions, its errors included."""
    F = importlib.import_module(torch.__name__ + ".autograd.functional")
    x = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    a, b, v = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.ones(2)

    def rows(t):
        return t.exp().sum(dim=1)

    def cube(t):
        return t.pow(3).sum()

    def both(s, t):
        return s * t, (s + t).sum(), s.exp()

    for batch in (False, True):
        yield f"jacobian {batch}", lambda batch=batch: F.jacobian(rows, x, vectorize=batch)
        yield f"jacobians {batch}", lambda batch=batch: F.jacobian(both, (a, b), vectorize=batch)
        yield f"hessian {batch}", lambda batch=batch: F.hessian(cube, x, vectorize=batch)
        yield (
            f"strict {batch}",
            lambda batch=batch: F.jacobian(rows, x, strict=True, vectorize=batch),
        )
    yield "unused", lambda: F.jacobian(lambda s, t: s * 2, (a, b))
    yield "unused strict", lambda: F.jacobian(lambda s, t: s * 2, (a, b), strict=True)
    yield "constant strict", lambda: F.jacobian(lambda s, t: torch.ones(2), (a, b), strict=True)
    yield "bad strategy", lambda: F.jacobian(rows, x, strategy="x")
    yield "bad input", lambda: F.jacobian(rows, 3)
    yield "hessian of rows", lambda: F.hessian(rows, x)
    yield "hessian strict", lambda: F.hessian(lambda t: (t * 2).sum(), x, strict=True)
    for name, f in (("vjp", F.vjp), ("jvp", F.jvp)):
        given = (v, torch.ones(()), v) if name == "vjp" else (v, v)
        yield name, lambda f=f, given=given: f(both, (a, b), given)
        yield f"{name} without v", lambda f=f: f(rows, x)
        yield f"{name} wrong size", lambda f=f: f(rows, x, torch.ones(5))
        yield f"{name} too short", lambda f=f: f(both, (a, b), (v,))
    for name, f in (("vhp", F.vhp), ("hvp", F.hvp)):
        yield name, lambda f=f: f(lambda s, t: (s.pow(2) * t).sum(), (a, b), (a, b))
        yield f"{name} of rows", lambda f=f: f(rows, x, torch.ones(2, 3))
        yield (
            f"{name} unused",
            lambda f=f: f(lambda s, t: s.pow(3).sum(), (a, b), (a, b), strict=True),
        )


def graph_cases(torch) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Forward mode and hooks on saved tensors."""
    fw = importlib.import_module(torch.__name__ + ".autograd.forward_ad")
    G = torch.autograd.graph
    one = torch.ones(3)

    def dual(action):
        def run():
            with fw.dual_level():
                return action(fw.make_dual(torch.ones(3), torch.tensor([1.0, 2.0, 3.0])))

        return run

    def tangent(t):
        return fw.unpack_dual(t).tangent

    yield "no level", lambda: fw.make_dual(one, one)
    yield "sizes", dual(lambda d: fw.make_dual(one, torch.ones(4)))
    yield "integers", dual(lambda d: fw.make_dual(one.long(), one))
    yield "twice", dual(lambda d: fw.make_dual(d, one))
    yield "nested", dual(lambda d: fw.enter_dual_level())
    yield "product", dual(lambda d: tangent((d * d).sin()))
    yield "detach", dual(lambda d: tangent(d.detach()))
    yield "copy_", dual(lambda d: tangent(torch.zeros(3).copy_(d)))

    def parts(d):
        base = d.clone()
        view = base[1:]
        base.mul_(3)
        view.mul_(10)
        return tangent(base), tangent(view)

    yield "views", dual(parts)

    def second(d):
        x = torch.ones(3, requires_grad=True)
        t = fw.make_dual(x, one)
        (g,) = torch.autograd.grad((t.exp() * t).sum(), t)
        return tangent(g)

    yield "forward over reverse", dual(second)

    def hooked(pack, unpack):
        def run():
            x = torch.ones(3, requires_grad=True)
            with G.saved_tensors_hooks(pack, unpack):
                y = x * 3
                z = y * y.exp()
            (g,) = torch.autograd.grad(z.sum(), x, create_graph=True)
            return g, torch.autograd.grad(g.sum(), x)[0]

        return run

    yield "hooks", hooked(lambda t: t, lambda t: t)
    yield "unpack gives an int", hooked(lambda t: t, lambda t: 5)
    yield "pack writes", hooked(lambda t: t.mul_(2), lambda t: t)

    def disabled():
        with G.disable_saved_tensors_hooks("no"), G.save_on_cpu():
            pass

    yield "disabled", disabled
