"""autograd.Function: its backward differentiated again."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.autograd.function import once_differentiable
from tests.autograd.functions import Exp, make


@pytest.fixture
def x():
    return gl.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_double_backward():  # rows: FN-36 GC-16
    x = gl.rand(3, dtype=gl.float64, requires_grad=True)
    assert gradcheck(Exp.apply, (x,))
    assert gradgradcheck(Exp.apply, (x,))


def test_once_differentiable(x):  # rows: FN-35
    G = make(
        lambda ctx, a: (ctx.save_for_backward(a), a * a)[1],
        once_differentiable(lambda ctx, g: 2 * g * ctx.saved_tensors[0]),
    )
    (g,) = gl.autograd.grad((G.apply(x) ** 2).sum(), x, create_graph=True)
    assert g.grad_fn.name() == "torch::autograd::Error"
    text = "trying to differentiate twice a function that was marked with @once_differentiable"
    with pytest.raises(RuntimeError, match=text):
        g.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        gl.autograd.grad(g.sum(), x)
    assert gl.autograd.grad(g.sum(), x, allow_unused=True) == (None,)
    G.apply(x).sum().backward()


def test_saved_intermediates_are_constants_to_double_backward(x):  # rows: FN-37
    def broken(ctx, a):
        e = a.exp()
        ctx.save_for_backward(e)
        return e + 1

    def repaired(ctx, a):
        e = a.exp()
        ctx.save_for_backward(e)
        return e + 1, e

    first = make(broken, lambda ctx, g: g * ctx.saved_tensors[0])
    second = make(repaired, lambda ctx, g, h: (g + h) * ctx.saved_tensors[0])
    (g,) = gl.autograd.grad(
        first.apply(x).sum(), x, gl.ones((), requires_grad=True), create_graph=True
    )
    assert gl.autograd.grad(g.sum(), x, allow_unused=True) == (None,)
    (g,) = gl.autograd.grad(second.apply(x)[0].sum(), x, create_graph=True)
    np.testing.assert_allclose(gl.autograd.grad(g.sum(), x)[0], np.exp([1, 2, 3]), rtol=1e-6)
