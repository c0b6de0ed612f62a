"""Folding batch normalisation into the layer before it, gradients of convolutions as functions, memory formats."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib import nn


def trained(norm: nn.Module) -> nn.Module:
    """A normalisation with statistics and parameters that are not the initial ones."""
    for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
        t.data.copy_(gl.rand(t.shape) + 0.5)
    return norm.eval()


def test_fused_layers_equal_the_two():
    x = gl.randn(2, 3, 5, 5)
    conv, norm = nn.Conv2d(3, 4, 3).eval(), trained(nn.BatchNorm2d(4))
    fused = nn.utils.fuse_conv_bn_eval(conv, norm)
    np.testing.assert_allclose(fused(x).detach().numpy(), norm(conv(x)).detach().numpy(), atol=1e-5)
    up = nn.ConvTranspose2d(3, 4, 3, bias=False).eval()
    fused = nn.utils.fuse_conv_bn_eval(up, norm, transpose=True)
    np.testing.assert_allclose(fused(x).detach().numpy(), norm(up(x)).detach().numpy(), atol=1e-5)
    linear, norm1 = nn.Linear(5, 4).eval(), trained(nn.BatchNorm1d(4))
    fused = nn.utils.fuse_linear_bn_eval(linear, norm1)
    y = gl.randn(3, 5)
    np.testing.assert_allclose(
        fused(y).detach().numpy(), norm1(linear(y)).detach().numpy(), atol=1e-5
    )
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        nn.utils.fuse_conv_bn_eval(conv.train(), norm)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions_as_functions(n):
    x = gl.randn(2, 4, *(5,) * n, dtype=gl.float64, requires_grad=True)
    w = gl.randn(6, 2, *(3,) * n, dtype=gl.float64, requires_grad=True)
    how = {"stride": 2, "padding": 1, "groups": 2}
    y = getattr(nn.functional, f"conv{n}d")(x, w, **how)
    g = gl.randn(y.shape, dtype=gl.float64)
    dx, dw = gl.autograd.grad(y, (x, w), g)
    ours = (
        getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, **how),
        getattr(nn.grad, f"conv{n}d_weight")(x, w.shape, g, **how),
    )
    np.testing.assert_allclose(ours[0].detach().numpy(), dx.numpy(), atol=1e-12)
    np.testing.assert_allclose(ours[1].detach().numpy(), dw.numpy(), atol=1e-12)


def test_linear_cross_entropy_module():
    loss = nn.LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True, weight=gl.ones(4))
    assert list(loss.state_dict()) == ["weight", "linear.weight", "linear.bias"]
    value = loss(gl.randn(5, 3), gl.zeros(5, 2, dtype=gl.int64))
    value.backward()
    assert value.shape == () and loss.linear.weight.grad.shape == (8, 3)
    with pytest.raises(RuntimeError, match="expected label_smoothing to be in range"):
        nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2.0)
