"""Captured steps with custom Functions: their ops are recorded, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest

import gradlib as torch
from gradlib.autograd import Function
from gradlib.tape.pytree import flatten
from tests.capture.programs import bits
from tests.capture.running import x_of

CALLS = 10
SEEN: list = []
SCALE: list = [2.0]


def function(forward, backward, **more):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (Function,), body | more)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Dropped(Function):
    """Random numbers in forward, numbers and shapes in its ctx."""

    @staticmethod
    def forward(ctx, x, p):
        ctx.mask, ctx.scale, ctx.shape = torch.rand_like(x) > p, 1 / (1 - p), x.shape
        return x * ctx.mask * ctx.scale

    @staticmethod
    def backward(ctx, g):
        return (g * ctx.mask * ctx.scale).reshape(ctx.shape), None


class Rounded(Function):
    """Straight through."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Both(Function):
    """Several outputs, of which one is not used; the same gradient for two arguments."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x + y, x * 2

    @staticmethod
    def backward(ctx, g, h):
        return g + h, g


class Same(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return g, g


class Item(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 3


class item(Function):  # a class of that name
    forward, backward = Item.forward, Item.backward


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * 0.5


class Transposed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.t()

    @staticmethod
    def backward(ctx, g):
        return g.t()


class Nested(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Square.apply(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return Square.apply(g) + x


REPLAYED = {
    "square": lambda y: Square.apply(y), "dropped": lambda y: Dropped.apply(y, 0.5),
    "rounded": lambda y: Rounded.apply(y),
    "both": lambda y: sum(Both.apply(y, y * 2)), "same": lambda y: Same.apply(y, y.exp()) + y,
    "same twice": lambda y: Same.apply(y, y) * y + Same.apply(y * 2, y), "item": lambda y: item.apply(y),
    "nested": lambda y: Nested.apply(y), "transposed": lambda y: Transposed.apply(y) * 2,
    "chain": lambda y: Rounded.apply(Square.apply(y)) + Square.apply(y),
}  # fmt: skip


def in_place_on_g(ctx, g):
    return g.mul_(2)


def reads(ctx, g):
    return g * g.sum().item()


def branches(ctx, g):
    return g * 2 if g.sum() > 0 else g - 1


def remembers(ctx, g):
    SEEN.append(1)
    return g


def scaled(ctx, g):
    return g * SCALE[0]


def wide(ctx, g):
    return g.expand(3, *g.shape)


def half(ctx, g):
    return g.double()


def nothing(ctx, g):
    return None


def constant(ctx, g):
    return torch.ones(g.shape)


def differentiated(ctx, g):
    with torch.enable_grad():
        v = g.detach().requires_grad_()
        (out,) = torch.autograd.grad((v * v).sum(), v)
    return out


def by_numpy(ctx, g):
    return torch.from_numpy(g.numpy() * 2)


def failing(ctx, g):
    if g.sum() > 5:
        raise ValueError("too large")
    return g


def changes_saved(ctx, g):
    ctx.saved_tensors[0].add_(1)
    return g


def kept(ctx, g):
    ctx.g = g
    return g


def saves(ctx, x):
    ctx.save_for_backward(x)
    return x * 1


def itself(ctx, x):
    return x


def dirty(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(3)


def no_gradient(ctx, x):
    out = x > 0
    ctx.mark_non_differentiable(out)
    return out


def unmaterialized(ctx, x):
    ctx.set_materialize_grads(False)
    return x * 1, x * 2


def maybe(ctx, g, h):
    return g if h is None else g + h


def pass_on(ctx, g):
    return g


BACKWARDS = [
    in_place_on_g, reads, branches, remembers, scaled, wide, half, nothing, constant, differentiated, by_numpy, failing,
    changes_saved, kept,
]  # fmt: skip
MADE = {f.__name__: function(saves, f) for f in BACKWARDS}
MADE |= {f.__name__: function(f, pass_on) for f in (itself, dirty)}
OTHERS: dict[str, Any] = {n: (lambda y, m=m: m.apply(y * 1) * y) for n, m in MADE.items()}
OTHERS["one of both"] = lambda y: Both.apply(y, y * 2)[0]
NO_GRADIENT, MAYBE = function(no_gradient, pass_on), function(unmaterialized, maybe)
OTHERS |= {
    "no gradient": lambda y: NO_GRADIENT.apply(y) * y, "unmaterialized": lambda y: MAYBE.apply(y)[0],
    "once": lambda y: function(saves, torch.autograd.function.once_differentiable(pass_on)).apply(y) * y,
}  # fmt: skip


def run(f, wrap, change=lambda k: None):
    SEEN.clear()
    SCALE[0] = 2.0
    torch.manual_seed(0)
    w = torch.full((2, 3), 0.5, requires_grad=True)

    def step(x):
        w.grad = None
        out = f(w * x)
        out.sum().backward()
        return out.detach() + 0

    step, found = wrap(step), []
    for k in range(CALLS):
        change(k)
        try:
            found.append([bits(v) for v in flatten(step(x_of(k) * 3))[0]])
        except Exception as exc:
            found.append((type(exc).__name__, str(exc).split("\n")[0]))
        found += [w.grad is None or bits(w.grad), len(SEEN), bits(torch.get_rng_state())]
    return found, step


@pytest.mark.parametrize("name", REPLAYED)
def test_functions_are_replayed(name):
    expected, _ = run(REPLAYED[name], lambda f: f)
    found, step = run(REPLAYED[name], torch.capture)
    assert found == expected
    assert step.replays == 1, torch.explain(step)


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_a_function_does(name):
    expected, _ = run(OTHERS[name], lambda f: f)
    found, step = run(OTHERS[name], torch.capture)
    assert found == expected
    assert step.replays or torch.explain(step)


def test_what_a_function_reads_changes():
    def change(k):
        if k == 5:
            SCALE[0] = 5.0
        if k == 7:
            MADE["scaled"].backward = staticmethod(pass_on)

    found = []
    for wrap in (lambda f: f, torch.capture):
        try:
            found.append(run(OTHERS["scaled"], wrap, change)[0])
        finally:
            MADE["scaled"].backward = staticmethod(scaled)
    assert found[0] == found[1]


def test_gradients_of_gradients_of_a_function():
    for f in (Square.apply, Nested.apply):
        results = []
        for wrap in (lambda f: f, torch.capture):
            w = torch.full((2, 3), 0.5, requires_grad=True)

            def step(x, w=w, f=f):
                (g,) = torch.autograd.grad(f(w * x).sum(), w, create_graph=True)
                w.grad = None
                g.square().sum().backward()
                return w.grad

            step = wrap(step)
            results.append([bits(step(x_of(k))) for k in range(6)])
        assert results[0] == results[1]
