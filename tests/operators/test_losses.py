"""Losses: known values, reductions, ignored and smoothed classes, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as gl
import gradlib.nn.functional as F


def test_cross_entropy_known_value_and_gradient():
    x = gl.zeros(2, 4, requires_grad=True)
    loss = F.cross_entropy(x, gl.tensor([1, 3]))
    assert loss.item() == pytest.approx(math.log(4))
    assert loss.grad_fn.name() == "NllLossBackward0"
    loss.backward()
    np.testing.assert_allclose(
        x.grad.numpy(), [[0.125, -0.375, 0.125, 0.125], [0.125, 0.125, 0.125, -0.375]]
    )


def test_fused_cross_entropy_equals_log_softmax_and_nll():
    x = gl.randn(6, 5, 3, dtype=gl.float64, requires_grad=True)
    y, w = gl.randint(0, 5, (6, 3)), gl.rand(5, dtype=gl.float64)
    for reduction in ("none", "mean", "sum"):
        how = {"weight": w, "ignore_index": 2, "reduction": reduction}
        a, b = F.cross_entropy(x, y, **how), F.nll_loss(F.log_softmax(x, 1), y, **how)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
        da, db = (gl.autograd.grad(loss.sum(), x)[0] for loss in (a, b))
        np.testing.assert_allclose(da.numpy(), db.numpy(), atol=1e-14)


def test_ignored_classes():
    x = gl.randn(3, 4, requires_grad=True)
    y = gl.tensor([1, -100, 2])
    F.cross_entropy(x, y).backward()
    assert x.grad[1].tolist() == [0, 0, 0, 0]
    assert math.isnan(F.cross_entropy(x, gl.tensor([-100] * 3)).item())


def test_scores_of_minus_infinity():
    x = gl.tensor([[0.0, -math.inf, 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, gl.tensor([0]))
    assert loss.item() == pytest.approx(math.log(2))
    loss.backward()
    assert x.grad.tolist() == [[-0.5, 0, 0.5]]


def test_corners_of_pointwise_losses():
    x = gl.zeros(3, requires_grad=True)
    F.l1_loss(x, gl.zeros(3), reduction="sum").backward()
    assert x.grad.tolist() == [0, 0, 0]
    assert F.smooth_l1_loss(gl.tensor([2.0]), gl.tensor([0.0])).item() == 1.5
    assert F.huber_loss(gl.tensor([3.0]), gl.tensor([0.0]), delta=2.0).item() == 4
    assert F.binary_cross_entropy(gl.tensor([0.0]), gl.tensor([1.0])).item() == 100
    big = F.binary_cross_entropy_with_logits(gl.tensor([1000.0, -1000.0]), gl.tensor([1.0, 0.0]))
    assert big.item() == 0
    assert math.isnan(F.mse_loss(gl.zeros(0), gl.zeros(0)).item())


@pytest.mark.host  # to look at values on a device means to wait for it
def test_classes_and_probabilities_out_of_range():
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        F.cross_entropy(gl.randn(3, 4), gl.tensor([0, 4, 1]))
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(gl.tensor([2.0]), gl.tensor([1.0]))


def test_errors_and_warnings():
    x = gl.randn(3, 4)
    with pytest.raises(
        ValueError, match=r"Expected input batch_size \(3\) to match target batch_size \(2\)"
    ):
        F.cross_entropy(x, gl.tensor([0, 1]))
    with pytest.raises(ValueError, match="most is not a valid value for reduction"):
        F.mse_loss(x, x, reduction="most")
    with pytest.raises(
        RuntimeError, match="expected target dtype to be Long or Byte, but got Float"
    ):
        F.nll_loss(x, gl.ones(3))
    with pytest.warns(UserWarning, match="Using a target size"):
        F.mse_loss(gl.ones(2, 1), gl.ones(1, 3))
    with pytest.warns(UserWarning, match="reduction: 'mean' divides"):
        F.kl_div(x, x.exp())


def test_ctc_loss_of_a_certain_alignment():
    certain = gl.full((3, 1, 2), -1e4)
    for t, label in enumerate((1, 0, 1)):
        certain[t, 0, label] = 0.0
    loss = F.ctc_loss(certain, gl.tensor([[1, 1]]), gl.tensor([3]), gl.tensor([2]), reduction="sum")
    assert loss.item() == pytest.approx(0, abs=1e-6)
    impossible = F.ctc_loss(
        certain[:2], gl.tensor([[1, 1]]), gl.tensor([2]), gl.tensor([2]), zero_infinity=True
    )
    assert impossible.item() == 0
