"""Gradients of piecewise linear and fused ops count as functions of their arguments, and differentiate to zero."""

from __future__ import annotations

import pytest

import gradlib as gl
import gradlib.nn.functional as F

CASES = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 2),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 2),
    "reflect": lambda x: F.pad(x, (1, 1), "reflect"),
    "replicate": lambda x: F.pad(x, (1, 1), "replicate"),
}


@pytest.mark.parametrize("name", CASES)
def test_second_derivative_of_a_piecewise_linear_op_is_zero(name):
    x = gl.randn(2, 3, 4, dtype=gl.float64, requires_grad=True)
    (first,) = gl.autograd.grad(CASES[name](x).sum(), x, create_graph=True)
    assert first.requires_grad
    (second,) = gl.autograd.grad(first.sum(), x)
    assert second.shape == x.shape and not second.abs().sum()


def test_nodes_of_such_gradients_are_named_after_the_op():
    x = gl.ones(3, requires_grad=True)
    (first,) = gl.autograd.grad(F.leaky_relu(x).sum(), x, create_graph=True)
    assert first.grad_fn.name() == "LeakyReluBackwardBackward0"


def test_gradient_of_a_bias_can_be_differentiated_with_the_others():
    x = gl.randn(2, 3, 5, dtype=gl.float64, requires_grad=True)
    w = gl.randn(4, 3, 2, dtype=gl.float64, requires_grad=True)
    b = gl.randn(4, dtype=gl.float64, requires_grad=True)
    grads = gl.autograd.grad(F.conv1d(x, w, b).sum(), (x, w, b), create_graph=True)
    assert all(g.requires_grad for g in grads)
    second = gl.autograd.grad([g.sum() for g in grads], (x, w))
    assert [tuple(s.shape) for s in second] == [(2, 3, 5), (4, 3, 2)]


def test_nothing_is_linked_where_nothing_requires_grad():
    x = gl.randn(1, 3, 5)
    b = gl.zeros(4, requires_grad=True)
    (grad,) = gl.autograd.grad(F.conv1d(x, gl.randn(4, 3, 2), b).sum(), b, create_graph=True)
    assert not grad.requires_grad


def test_without_create_graph_gradients_are_plain():
    x = gl.ones(3, requires_grad=True)
    (first,) = gl.autograd.grad(F.relu(x).sum(), x)
    assert not first.requires_grad and first.grad_fn is None
