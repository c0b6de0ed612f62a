"""Gradients where a function has none: the six rules of the documentation, case by case."""

from __future__ import annotations

import math

import pytest

import gradlib as torch
from gradlib.nn import functional as F

inf, nan = math.inf, math.nan


def grads(f, *values):
    """Gradients of the sum of ``f(x)`` at x = values."""
    x = torch.tensor(list(values), dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(f(x).sum(), x)
    return [pytest.approx(v, rel=1e-12, nan_ok=True) for v in grad.tolist()]


def test_rule_1_the_gradient_where_there_is_one():
    # rows: NONDIFF-01
    assert grads(torch.relu, 2.0, -2.0) == [1.0, 0.0]
    assert grads(torch.abs, -1.0, 3.0) == [-1.0, 1.0]


def test_rule_2_subgradient_of_minimum_norm():
    # rows: NONDIFF-02 NONDIFF-03
    assert grads(torch.relu, 0.0, -0.0) == [0.0, 0.0]
    assert grads(torch.abs, 0.0, -0.0) == [0.0, 0.0]
    assert grads(lambda x: x.norm(), 0.0, 0.0) == [0.0, 0.0]
    assert grads(lambda x: x.norm(1), 0.0, 2.0, -2.0) == [0.0, 1.0, -1.0]
    assert grads(lambda x: torch.linalg.vector_norm(x), 0.0, 0.0) == [0.0, 0.0]
    assert grads(lambda x: torch.hypot(x[0], x[1]), 0.0, 0.0) == [0.0, 0.0]  # decision D-01


def test_ties_share():
    # rows: NONDIFF-04 NONDIFF-05 NONDIFF-06
    assert grads(lambda x: x.max(), 1.0, 1.0, 0.0) == [0.5, 0.5, 0.0]
    assert grads(lambda x: x.amax(0), 1.0, 1.0, 0.0) == [0.5, 0.5, 0.0]
    assert grads(lambda x: x.min(), 1.0, 1.0, 2.0) == [0.5, 0.5, 0.0]
    assert grads(lambda x: x.amin(0), 1.0, 1.0, 2.0) == [0.5, 0.5, 0.0]
    assert grads(lambda x: -torch.relu(x), 0.0) == [0.0]
    for f in (torch.maximum, torch.minimum):
        assert grads(lambda x, f=f: f(x[:1], x[1:]), 1.0, 1.0) == [0.5, 0.5]
        first, second = (1.0, 0.0) if f is torch.maximum else (0.0, 1.0)
        assert grads(lambda x, f=f: f(x[:1], x[1:]), 2.0, 1.0) == [first, second]


def test_selections_pick_one_index():
    # rows: NONDIFF-07
    one = [1.0, 0.0, 0.0]
    assert grads(lambda x: x.max(0)[0], 1.0, 1.0, 0.0) == one
    assert grads(lambda x: x.min(0)[0], 1.0, 1.0, 2.0) == one
    assert grads(lambda x: x.sort(descending=True, stable=True)[0][0], 1.0, 1.0, 0.0) == one
    assert sorted(float(v.expected) for v in grads(lambda x: x.topk(1)[0], 1.0, 1.0, 0.0)) == [
        0,
        0,
        1,
    ]
    assert grads(lambda x: x.cummax(0)[0], 1.0, 1.0, 0.0) == [1.0, 2.0, 0.0]
    # decision D-01: fmax and fmin share, by rule 2
    assert grads(lambda x: torch.fmax(x[:1], x[1:]), 1.0, 1.0) == [0.5, 0.5]
    assert grads(lambda x: torch.fmin(x[:1], x[1:]), 1.0, 1.0) == [0.5, 0.5]
    assert grads(lambda x: torch.fmax(x[:1], x[1:]), nan, 1.0) == [0.0, 1.0]


def test_clamp_at_its_bounds():
    # rows: NONDIFF-08
    assert grads(lambda x: x.clamp(0, 1), 0.0, 1.0) == [1.0, 1.0]
    assert grads(lambda x: x.clamp(0, 1), -0.1, 1.1, 0.5) == [0.0, 0.0, 1.0]


def test_corners_of_activations():
    # rows: NONDIFF-09
    assert grads(lambda x: F.leaky_relu(x, 0.1), 0.0, 1.0, -1.0) == [0.1, 1.0, 0.1]
    assert grads(F.relu6, 0.0, 6.0, 3.0) == [0.0, 0.0, 1.0]
    assert grads(F.hardtanh, -1.0, 1.0, 0.5) == [0.0, 0.0, 1.0]
    assert grads(F.hardsigmoid, -3.0, 3.0, 0.0) == [0.0, 0.0, 1 / 6]
    assert grads(lambda x: F.threshold(x, 1.0, 0.0), 1.0, 1.5) == [0.0, 1.0]


def test_rule_4_continuity_with_infinities():
    # rows: NONDIFF-10 NONDIFF-11
    assert grads(torch.sqrt, 0.0) == [inf]
    for f, at, expected in (
        (lambda x: x**0.5, 0.0, inf),
        (torch.log, 0.0, inf),
        (lambda x: 1 / x, 0.0, -inf),
        (torch.reciprocal, 0.0, -inf),
        (torch.rsqrt, 0.0, -inf),
        (torch.asin, 1.0, inf),
        (torch.acos, 1.0, -inf),
        (torch.acosh, 1.0, inf),
        (torch.atanh, 1.0, inf),
    ):
        assert grads(f, at) == [expected]


def test_integer_powers_at_zero():
    # rows: NONDIFF-12
    for exponent, expected in ((0, 0.0), (1, 1.0), (2, 0.0), (0.0, 0.0), (1.0, 1.0), (2.0, 0.0)):
        assert grads(lambda x, e=exponent: x**e, 0.0) == [expected]
        power = torch.tensor(float(exponent), dtype=torch.float64)
        assert grads(lambda x, p=power: x**p, 0.0) == [expected]


def test_steps():
    # rows: NONDIFF-13
    at = (-1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.75)
    for f in (torch.floor, torch.ceil, torch.round, torch.trunc, torch.sign):
        assert grads(f, *at) == [0.0] * len(at)
    assert grads(torch.frac, *at) == [1.0] * len(at)


def test_rule_5_outside_the_domain():
    # rows: NONDIFF-14
    assert grads(torch.sqrt, -1.0) == [nan]
    assert grads(torch.log, -1.0) == [-1.0]
    assert grads(torch.log, nan) == [nan]
    assert grads(torch.asin, 2.0) == [nan]


def test_prod_with_zeros_is_exact():
    # rows: NONDIFF-15
    for f in (lambda x: x.prod(), lambda x: x.prod(0), lambda x: x.prod(0, keepdim=True)):
        assert grads(f, 0.0, 2.0, 3.0) == [6.0, 0.0, 0.0]
        assert grads(f, 0.0, 0.0, 3.0) == [0.0, 0.0, 0.0]
        assert grads(f, 4.0, 2.0, 3.0) == [6.0, 12.0, 8.0]


def test_where_lets_nan_of_the_other_branch_through():
    # rows: NONDIFF-16
    assert grads(lambda x: torch.where(x > 0, torch.log(x), 0.0), 0.0, 2.0) == [nan, 0.5]


def test_losses_at_zero():
    # rows: NONDIFF-17
    for f in (F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.mse_loss):
        assert grads(lambda x, f=f: f(x, torch.zeros_like(x)), 0.0, 0.0) == [0.0, 0.0]
    for f in (F.smooth_l1_loss, F.huber_loss):  # both sides of the joint agree
        assert grads(lambda x, f=f: f(x, torch.zeros_like(x)), 1.0, -1.0) == [0.5, -0.5]


def test_equal_values():
    # rows: NONDIFF-18
    assert grads(lambda x: x.std(), 2.0, 2.0, 2.0) == [0.0, 0.0, 0.0]
    assert grads(lambda x: (x - 2).norm(), 2.0, 2.0, 2.0) == [0.0, 0.0, 0.0]
    assert grads(lambda x: x.median(), 2.0, 2.0, 2.0) == [1 / 3] * 3
    assert grads(lambda x: x.median(), 1.0, 2.0, 3.0) == [0.0, 1.0, 0.0]


def test_rule_6_random_results_have_no_gradient():
    # rows: NONDIFF-19 NONDIFF-21
    p = torch.tensor([0.2, 0.3, 0.5], requires_grad=True)
    message = "^element 0 of tensors does not require grad and does not have a grad_fn$"
    for f in (
        torch.bernoulli,
        torch.poisson,
        lambda x: torch.multinomial(x, 2),
        torch.rand_like,
        torch.randn_like,
        lambda x: torch.randint_like(x, 5),
        torch.zeros_like,
    ):
        out = f(p)
        assert out.requires_grad is False and out.grad_fn is None
        with pytest.raises(RuntimeError, match=message):
            out.double().sum().backward()
    assert torch.rand_like(p, requires_grad=True).is_leaf


def test_integer_and_bool_results_do_not_require_grad():
    # rows: NONDIFF-20
    x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
    for out in (
        x.argmax(),
        x.argmin(),
        x.argsort(),
        x.eq(1),
        x > 2,
        x == x,
        x.isnan(),
        torch.isfinite(x),
        x.bool(),
        x.long(),
        x.sort()[1],
        x.topk(2)[1],
        x.nonzero(),
        torch.count_nonzero(x),
        torch.searchsorted(x.detach(), x),
        x.any(),
        x.all(),
        torch.logical_not(x),
    ):
        assert out.requires_grad is False and out.grad_fn is None


@pytest.mark.parametrize("name", ["igamma", "igammac", "zeta"])
def test_a_missing_derivative_says_so(name):
    # rows: NONDIFF-22
    f = getattr(torch.special, {"igamma": "gammainc", "igammac": "gammaincc"}.get(name, name))
    x = torch.tensor([1.5, 2.5], dtype=torch.float64)
    out = f(x.clone().requires_grad_(), x)
    assert out.requires_grad
    with pytest.raises(
        RuntimeError, match=rf"^the derivative for '{name}(: input)?' is not implemented\."
    ):
        out.sum().backward()
    assert f(x, x).requires_grad is False
    assert f(x, x.clone().requires_grad_()).requires_grad  # in the other argument there is one
    fwAD = torch.autograd.forward_ad
    with fwAD.dual_level(), pytest.raises(RuntimeError, match="is not implemented"):
        f(fwAD.make_dual(x, torch.ones_like(x)), x)
