"""Hooks that a function registers are called in the pass of the transform that differentiates it, and in no other.

So a transform of ``grad(f)`` is that of the gradient which the hooks leave, written out by hand.
"""

from __future__ import annotations

import copy

import pytest

import gradlib as torch
from gradlib.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3) / 5


def by_hook(y):
    y.register_hook(lambda g: g * 3)


def by_node(y):
    y.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g * 3 for g in gi))


def by_prehook(y):
    y.grad_fn.register_prehook(lambda go: (go[0] * 3,))


def by_multi_hook(y):
    torch.autograd.graph.register_multi_grad_hook((y,), lambda gs: None)
    y.register_hook(lambda g: g * 3)


def function(register, w):
    def f(a):
        y = (a * w).sin()
        register(y)
        return (y * y * a).sum()

    return f


def left_by_hooks(w, factor=3):
    """The gradient of `function`, with the one of y times `factor`."""
    return lambda a: factor * 2 * (a * w).sin() * a * (a * w).cos() * w + (a * w).sin() ** 2


TRANSFORMS = {
    "itself": lambda g: g(X[0]),
    "vmap": lambda g: vmap(g)(X),
    "jvp": lambda g: jvp(g, (X[0],), (X[1],))[1],
    "vjp": lambda g: vjp(g, X[0])[1](X[1])[0],
    "jacfwd": lambda g: jacfwd(g)(X[0]),
    "jacrev": lambda g: jacrev(g)(X[0]),
    "vmap(jvp)": lambda g: vmap(lambda a, b: jvp(g, (a,), (b,))[1])(X, X.cos()),
    "vmap(jacrev)": lambda g: vmap(jacrev(g))(X),
    "hessian": lambda g: hessian(lambda a: g(a).sum())(X[0]),
    "jvp(jvp)": lambda g: jvp(lambda a: jvp(g, (a,), (X[1],))[1], (X[0],), (X[1],))[1],
    "grad(vmap)": lambda g: grad(lambda x: vmap(g)(x).square().sum())(X),
}


@pytest.mark.parametrize("register", [by_hook, by_node, by_prehook, by_multi_hook])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_hooks_change_the_gradient_of_their_transform_alone(transform, register):
    found = []
    for make in (lambda w: grad(function(register, w)), left_by_hooks):
        w = X.new_tensor([0.5, -1.0, 2.0]).requires_grad_()
        out = TRANSFORMS[transform](make(w))
        found.append((out.detach(), torch.autograd.grad(out.sum(), w)[0]))
    torch.testing.assert_close(*found)


def test_hooks_of_the_argument():
    def f(a):
        a.register_hook(lambda g: g * 3)
        return (a**3).sum()

    assert torch.allclose(grad(f)(X[0]), 9 * X[0] ** 2)
    assert torch.allclose(grad(lambda a: grad(f)(a).sum())(X[0]), 18 * X[0])
    assert torch.allclose(jacrev(grad(f))(X[0]), torch.diag(18 * X[0]))


def test_hooks_are_called_in_passes_of_the_function_itself():
    def f(a):
        y = a * 2
        y.register_hook(lambda g: g * 3)
        (inner,) = torch.autograd.grad((y**2).sum(), a, create_graph=True)  # 12 y
        return (inner * a).sum()

    assert torch.allclose(grad(f)(X[0]), (24 + 12 * 2 * 3) * X[0])


def test_hooks_of_what_is_outside_stay_hooks():
    calls = []
    w = X.new_tensor([1.0, 2.0, 3.0]).requires_grad_()
    v = w * 2
    v.register_hook(lambda g: calls.append("v"))

    def f(a):
        v.register_hook(lambda g: calls.append("v inside"))
        return (a**2 * v).sum()

    out = grad(f)(X[0])
    assert calls == []
    out.sum().backward()
    assert calls == ["v", "v inside"]


def test_hooks_do_not_change_tangents_of_tangents():
    def f(a):
        y = a * 1.0
        if y.requires_grad:
            y.register_hook(lambda g: g * 3)
        return (y**3).sum()

    x, u = X[0], X[1]
    second = jvp(lambda a: jvp(f, (a,), (u,))[1], (x,), (u,))[1]
    torch.testing.assert_close(second, (6 * x * u * u).sum())


def test_a_hook_that_is_removed_is_not_called():
    def f(a):
        y = a * 2
        y.register_hook(lambda g: g * 3).remove()
        return y.sum()

    assert torch.equal(grad(f)(X[0]), torch.full_like(X[0], 2.0))


def test_the_handle_of_a_hook_in_a_transform_can_be_copied():
    """A handle is copied with the hooks it is one of; the copy removes none of the first."""

    def f(a):
        y = a * 2
        copy.deepcopy(y.register_hook(lambda g: g * 3)).remove()
        return y.sum()

    assert grad(f)(X).tolist() == (torch.ones_like(X) * 6).tolist()
