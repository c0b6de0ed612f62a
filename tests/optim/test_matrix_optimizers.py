"""Adafactor, Muon and SparseAdam: known steps, state, refusals."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import gradlib
from gradlib import nn, optim


def leaf(*shape):
    return gradlib.ones(*shape, dtype=gradlib.float64, requires_grad=True)


def test_adafactor_first_step():
    """At t = 1 the moments are those of the gradient, so that a constant gradient has u = 1."""
    w = leaf(2, 3)
    opt = optim.Adafactor([w], lr=0.5)
    w.grad = gradlib.full((2, 3), 4.0, dtype=gradlib.float64)
    opt.step()
    np.testing.assert_allclose(w.tolist(), np.full((2, 3), 0.5))  # rms(p) * min(lr, 1) = 0.5
    state = opt.state[w]
    assert state["row_var"].shape == (2, 1) and state["col_var"].shape == (1, 3)
    assert state["step"].dtype is gradlib.float32 and state["row_var"].tolist() == [[16], [16]]


def test_adafactor_keeps_all_moments_of_vectors_and_clips():
    w = leaf(4)
    opt = optim.Adafactor([w], lr=1.0, weight_decay=0.5)
    w.grad = gradlib.tensor([1.0, 0.0, 0.0, 0.0], dtype=gradlib.float64)
    opt.step()
    assert opt.state[w]["variance"].tolist() == [1, 0, 0, 0]
    np.testing.assert_allclose(w.tolist(), [-0.5, 0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"lr": -1.0}, "Learning rate should be >= 0"),
        ({"beta2_decay": 0.1}, "beta2_decay should be <= 0"),
        ({"eps": (-1.0, 1.0)}, "epsilon1 should be >= 0"),
        ({"eps": (None, -1.0)}, "epsilon2 should be >= 0"),
        ({"d": 0.5}, "Clipping threshold d should be >= 1"),
        ({"weight_decay": -1.0}, "weight_decay should be >= 0"),
    ],
)
def test_adafactor_refuses(setting, message):
    with pytest.raises(ValueError, match=message):
        optim.Adafactor([leaf(2)], **setting)


def test_muon_steps_along_an_orthogonal_matrix():
    gradlib.manual_seed(0)
    w = gradlib.zeros(6, 4, requires_grad=True)
    opt = optim.Muon([w], lr=1.0, weight_decay=0.0, momentum=0.0, nesterov=False, ns_steps=20)
    w.grad = gradlib.randn(6, 4)
    opt.step()
    sizes = np.linalg.svd(w.detach().numpy(), compute_uv=False) / np.sqrt(1.5)
    assert (sizes > 0.6).all() and (sizes < 1.3).all()
    assert (w.detach() * w.grad).sum() < 0


def test_muon_learning_rate_adjustments():
    steps = []
    for adjust in ("original", "match_rms_adamw"):
        w = gradlib.zeros(9, 4, requires_grad=True)
        opt = optim.Muon([w], lr=1.0, adjust_lr_fn=adjust)
        w.grad = gradlib.eye(9, 4)
        opt.step()
        steps.append(float(w.detach().norm()))
    assert steps[0] / steps[1] == pytest.approx(1.5 / 0.6, rel=1e-5)


def test_muon_refuses():
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        optim.Muon([leaf(3)])
    with pytest.raises(ValueError, match="Adjust learning rate function x is not supported"):
        optim.Muon([leaf(3, 3)], adjust_lr_fn="x")
    w = leaf(2, 2)
    w.grad = gradlib.ones(2, 2, dtype=gradlib.float64)
    with pytest.raises(ValueError, match="Number of steps must be less than 100"):
        optim.Muon([w], ns_steps=100).step()
    with pytest.raises(ValueError, match="exactly 3 values"):
        optim.Muon([w], ns_coefficients=(1.0, 2.0)).step()


def test_sparse_adam_leaves_rows_without_gradient_alone():
    table = gradlib.ones(4, 2, dtype=gradlib.float64, requires_grad=True)
    opt = optim.SparseAdam([table], lr=0.1)
    for rows in ([1, 3], [1]):
        opt.zero_grad()
        nn.functional.embedding(gradlib.tensor(rows), table, sparse=True).sum().backward()
        opt.step()
    values = table[:, 0].tolist()
    assert values[0] == values[2] == 1.0
    np.testing.assert_allclose(values, [1.0, 0.8, 1.0, 0.9], atol=1e-6)
    assert opt.state[table]["step"] == 2
    assert opt.state[table]["exp_avg"][3, 0].item() == pytest.approx(0.1)  # no decay


def test_sparse_adam_refuses():
    with pytest.raises(ValueError, match="Invalid learning rate"):
        optim.SparseAdam([leaf(2)], lr=0.0)
    with pytest.raises(ValueError, match="does not support complex parameters"):
        optim.SparseAdam([gradlib.ones(2, dtype=gradlib.complex64, requires_grad=True)])


@pytest.mark.parametrize("cls", [optim.Adafactor, optim.Muon, optim.SparseAdam])
def test_state_goes_through_a_state_dict(cls):
    w, other = leaf(3, 2), leaf(3, 2)
    opt = cls([w])

    def step(o, p):
        grad = gradlib.arange(6.0, dtype=gradlib.float64).view(3, 2) + 1
        p.grad = grad.to_sparse(1) if cls is optim.SparseAdam else grad
        o.step()

    step(opt, w)
    new = cls([other])
    other.data = w.data.clone()
    new.load_state_dict(copy.deepcopy(opt.state_dict()))
    step(opt, w)
    step(new, other)
    assert w.tolist() == other.tolist()
    assert opt.step(lambda: 3.0) == 3.0
