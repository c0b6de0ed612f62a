"""Saved-tensor hooks around transforms: what a hook copies keeps its history, also outside of vmap."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib.autograd.graph import saved_tensors_hooks
from gradlib.func import grad, hessian, jacfwd, jacrev, vmap

PACKS = {
    "itself": lambda t: t,
    "clone": lambda t: t.clone(),
    "cut": lambda t: t.detach().clone(),
}
FUNCTIONS = {
    "input": lambda y, w: y**2 * w,
    "result": lambda y, w: (y.exp() * y).cumprod(0),
    "hidden": lambda y, w: torch.nn.functional.layer_norm(y, (2,), w),
    "index": lambda y, w: y[torch.tensor([0, 1, 1])] * y.sin()[0],
    "vmap": lambda y, w: vmap(grad(lambda a: a.sin() * a * w[0]))(y),
    "view": lambda y, w: y.view(-1)[:1].exp() * y,
}
TRANSFORMS = {
    "vmap grad": lambda f: vmap(grad(lambda y: f(y).sum())),
    "vmap jacrev": lambda f: vmap(jacrev(f)),
    "vmap hessian": lambda f: vmap(hessian(f)),
    "jacrev vmap jacrev": lambda f: jacrev(vmap(jacrev(f))),
    "jacfwd vmap jacrev": lambda f: jacfwd(vmap(jacrev(f))),
}


def derivatives(transform, function):
    x = torch.linspace(0.2, 1, 6, dtype=torch.float64).reshape(3, 2).requires_grad_()
    w = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    out = transform(lambda y: function(y, w))(x)
    first = torch.autograd.grad((out**2).sum(), [x, w], create_graph=True, materialize_grads=True)
    loss = sum((g**2).sum() for g in first)
    return [out, *first, *torch.autograd.grad(loss, [x, w], materialize_grads=True)]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_hooks_change_no_derivative(transform, function, pack):
    expected = derivatives(TRANSFORMS[transform], FUNCTIONS[function])
    with saved_tensors_hooks(PACKS[pack], lambda t: t):
        found = derivatives(TRANSFORMS[transform], FUNCTIONS[function])
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b)


def test_a_hook_that_returns_something_else_is_refused():
    x = torch.ones(3, requires_grad=True)
    hooks = saved_tensors_hooks(lambda t: t, lambda t: torch.ones(()))
    with hooks, pytest.raises(RuntimeError, match="inside vmap, an unpack hook"):
        vmap(grad(lambda y: y * y))(x)
