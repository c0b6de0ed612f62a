"""``grad_dtype``: what its gradient keeps, and who runs as before."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gradlib as torch


def leaf(*shape, kind=torch.bfloat16):
    x = torch.ones(*shape, requires_grad=True)
    x.grad_dtype = kind
    return x


def test_gradients_are_rounded_once_and_added_in_their_dtype():
    x = leaf(3)
    (x * 1.001).sum().backward()
    assert x.grad.dtype is torch.bfloat16 and x.grad.tolist() == [1.0] * 3
    grad = x.grad
    (x * 2).sum().backward()
    assert x.grad is grad and grad.tolist() == [3.0] * 3
    other = torch.ones(3, requires_grad=True)  # one of which nobody said anything
    (x.detach() * other).sum().backward()
    assert other.grad.dtype is torch.float32


@pytest.mark.parametrize("kind", [torch.float64, torch.float16])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4, 5)])
def test_the_layout_is_that_of_the_leaf(kind, shape):
    x = torch.randn(*shape).transpose(0, 1).requires_grad_()
    x.grad_dtype = kind
    g = torch.randn(x.shape)
    (x * g).sum().backward()
    assert x.grad.stride() == x.stride() and x.grad.dtype is kind
    np.testing.assert_array_equal(x.grad.numpy(), g.to(kind).numpy())


def test_steps_and_transforms():
    x = leaf(4, kind=torch.float64)
    optimizer = torch.optim.Adam([x], lr=0.1)
    step = torch.capture(lambda: (optimizer.zero_grad(), (x * x).sum().backward()))
    for _ in range(4):
        step()
        optimizer.step()
        assert x.grad.dtype is torch.float64
    assert torch.func.grad(lambda v: (v * v).sum())(x).dtype is torch.float32
    with torch.autograd.profiler.profile():
        (x * x).sum().backward()
    with pytest.warns(UserWarning, match="reference cycle"):
        (x * x).sum().backward(create_graph=True)
    assert x.grad.dtype is torch.float64


def test_copies_have_their_own_dtype():
    p = torch.nn.Parameter(torch.ones(2))
    p.grad_dtype = torch.float16
    for made in (copy.deepcopy(p), pickle.loads(pickle.dumps(p)), p.detach(), p.clone().detach()):
        assert made.grad_dtype is torch.float32
    assert vars(p) == {} and "grad_dtype" in dir(p)
