"""Backward inside vmap computes elementwise gradients for all entries at once: as each entry would, or not at all."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib.func import grad, vmap

FUNCTIONS = {
    "of results": lambda x, w: (x.tanh() * x.exp()).sum(),
    "shared factor": lambda x, w: (x.sin() * w.tanh()).sum(),
    "broadcast": lambda x, w: (x * w[0] + w).pow(2).sum(),
    "numbers": lambda x, w: (2.5 / x.square().add(1) + x.pow(3) * 4 - x).sum(),
    "kernels": lambda x, w: gl.nn.functional.gelu(x * w).sum(),
    "handed on": lambda x, w: ((x + w) + (x + x)).sum(),
    "selected": lambda x, w: gl.where(x > 0, x * x, w).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [gl.float32, gl.float64, gl.bfloat16], ids=str)
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)], ids=str)
def test_gradients_are_those_of_the_entries(name, dtype, in_dims):
    fn = grad(FUNCTIONS[name], argnums=(0, 1))
    gl.manual_seed(0)
    x, w = [gl.randn(5, 3, 4).to(dtype) if d == 0 else gl.randn(3, 4).to(dtype) for d in in_dims]
    found = vmap(fn, in_dims)(x, w)
    rows = [fn(x[k] if in_dims[0] == 0 else x, w[k] if in_dims[1] == 0 else w) for k in range(5)]
    tolerance = 0.1 if dtype is gl.bfloat16 else 1e-5
    for have, column in zip(found, zip(*rows, strict=True), strict=True):
        want = gl.stack(column)
        assert have.shape == want.shape and have.dtype is want.dtype
        assert gl.allclose(have, want, tolerance, tolerance)


def test_gradients_of_gradients():
    second = vmap(grad(lambda x: grad(lambda y: (y.tanh() * y).sum())(x).sum()))
    x = gl.linspace(-1, 1, 6, dtype=gl.float64).reshape(2, 3)
    t = x.tanh()
    assert gl.allclose(second(x), (1 - t * t) * (2 - 2 * x * t))


def test_gradients_reach_what_is_outside():
    w = gl.linspace(0.1, 0.6, 6, dtype=gl.float64).reshape(2, 3).requires_grad_()
    x = gl.ones(2, 3, dtype=gl.float64)
    found = vmap(grad(lambda a, b: (a * b).tanh().sum()))(x, w)
    (outer,) = gl.autograd.grad(found.sum(), w)
    t = w.tanh()
    assert gl.allclose(outer, (1 - t * t) * (1 - 2 * w * t))


def test_what_was_saved_and_changed_is_refused():
    def changed(x):
        y = x * 2
        z = (y * y).sum()
        y.mul_(3)
        return z

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        vmap(grad(changed))(gl.ones(2, 3))


def test_hooks_of_saved_tensors_are_called():
    seen = []

    def fn(x):
        with gl.autograd.graph.saved_tensors_hooks(
            lambda t: t * 2, lambda t: seen.append(t) or t / 2
        ):
            return x.sin().sum()

    x = gl.linspace(0, 1, 6).reshape(2, 3)
    assert gl.allclose(vmap(grad(fn))(x), x.cos())
    assert len(seen) == 1


def test_batched_gradients_of_a_graph_outside():
    x = gl.linspace(-1, 1, 4, dtype=gl.float64).requires_grad_()
    y = (x.tanh() * x).exp()
    rows = gl.eye(4, dtype=gl.float64)
    (found,) = gl.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True)
    want = gl.stack([gl.autograd.grad(y, x, row, retain_graph=True)[0] for row in rows])
    assert gl.allclose(found, want)
    assert not found.requires_grad
    (again,) = gl.autograd.grad(y, x, rows, is_grads_batched=True, create_graph=True)
    assert again.requires_grad and gl.allclose(again, want)
