"""Each optimizer: known values, and that all ways of computing its step agree."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import gradlib
from gradlib import optim
from gradlib.optim import _batches

SETTINGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.01}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Rprop", {}),
    ("ASGD", {"weight_decay": 0.1, "t0": 3, "lambd": 0.1}),
]
IDS = [f"{name}-{'-'.join(settings)}" for name, settings in SETTINGS]
SHAPES = [(3, 4), (5,), (), (2, 3, 2)]


def make(name, settings, shapes=SHAPES, dtype=gradlib.float64, seed=0):
    rng = np.random.default_rng(seed)
    params = [
        gradlib.tensor(rng.standard_normal(s), dtype=dtype, requires_grad=True) for s in shapes
    ]
    return params, getattr(optim, name)(params, **settings)


def give_gradients(params, step, skip=()):
    rng = np.random.default_rng(100 + step)
    for i, p in enumerate(params):
        values = rng.standard_normal(tuple(p.shape))
        p.grad = None if i in skip else gradlib.tensor(values, dtype=p.dtype)


def values(params):
    return [p.detach().numpy().copy() for p in params]


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("SGD", {"lr": 0.1}, 0.8),
        ("SGD", {"lr": 0.1, "weight_decay": 0.5}, 0.75),
        ("SGD", {"lr": 0.1, "maximize": True}, 1.2),
        ("Adam", {"lr": 0.1}, 0.9),
        ("AdamW", {"lr": 0.1, "weight_decay": 0.5}, 0.85),
        ("Adamax", {"lr": 0.1}, 0.9),
        ("Adagrad", {"lr": 0.1}, 0.9),
        ("Rprop", {"lr": 0.1}, 0.9),
        ("RMSprop", {"lr": 0.1, "alpha": 0.75}, 0.8),
        ("ASGD", {"lr": 0.1, "lambd": 0.0}, 0.8),
    ],
)
def test_first_step_has_the_value_of_the_formula(name, settings, expected):
    w = gradlib.ones(1, dtype=gradlib.float64, requires_grad=True)
    opt = getattr(optim, name)([w], **settings)
    (w * 2).sum().backward()
    opt.step()
    assert w.item() == pytest.approx(expected, abs=1e-6)


def test_momentum_over_two_steps():
    w = gradlib.zeros(1, dtype=gradlib.float64, requires_grad=True)
    opt = optim.SGD([w], lr=1.0, momentum=0.5)
    for expected in (-1.0, -2.5):
        w.grad = gradlib.ones(1, dtype=gradlib.float64)
        opt.step()
        assert w.item() == expected


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_packed_and_separate_updates_agree(name, settings, monkeypatch):
    together, opt = make(name, settings)
    monkeypatch.setattr(_batches, "PACK_LIMIT", -1)
    alone, other = make(name, settings)
    for step in range(6):
        skip = (1,) if step == 2 else ()  # a parameter without a gradient is left alone
        for params, o, limit in ((together, opt, 1 << 15), (alone, other, -1)):
            monkeypatch.setattr(_batches, "PACK_LIMIT", limit)
            give_gradients(params, step, skip)
            o.step()
    for a, b in zip(values(together), values(alone)):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_pieces_of_a_large_tensor_are_all_updated(name, settings, monkeypatch):
    monkeypatch.setattr(_batches, "CHUNK", 64)
    monkeypatch.setattr(_batches, "PACK_LIMIT", -1)
    pieces, opt = make(name, settings, [(7, 9)])
    monkeypatch.setattr(_batches, "CHUNK", 1 << 20)
    whole, other = make(name, settings, [(7, 9)])
    for step in range(3):
        for params, o, chunk in ((pieces, opt, 64), (whole, other, 1 << 20)):
            monkeypatch.setattr(_batches, "CHUNK", chunk)
            give_gradients(params, step)
            o.step()
    np.testing.assert_array_equal(values(pieces)[0], values(whole)[0])


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_recorded_step_has_the_same_values(name, settings):
    gradlib.set_default_dtype(gradlib.float64)  # counters in full precision
    plain, opt = make(name, settings)
    leaves, _ = make(name, settings)
    recorded = [p.clone() for p in leaves]
    other = getattr(optim, name)(recorded, differentiable=True, **settings)
    for step in range(6):
        give_gradients(plain, step)
        give_gradients(recorded, step)
        opt.step()
        other.step()
    for a, b in zip(values(plain), values(recorded)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_gradient_flows_through_a_recorded_step():
    lr = gradlib.tensor(0.1, dtype=gradlib.float64, requires_grad=True)
    leaf = gradlib.ones(1, dtype=gradlib.float64, requires_grad=True)
    w = leaf.clone()
    opt = optim.SGD([w], lr=lr, differentiable=True)
    w.grad = gradlib.full((1,), 3.0, dtype=gradlib.float64)
    opt.step()
    w.sum().backward()
    assert leaf.grad.item() == 1.0
    assert lr.grad.item() == -3.0


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_recorded_steps_have_the_right_derivatives(name, settings):
    """By parameter and gradient; by the learning rate, where it is no part of the state."""

    def steps(start, factor, lr):
        p = start.clone()
        opt = getattr(optim, name)([p], **{**settings, "lr": lr, "differentiable": True})
        for step in range(4):
            give_gradients([p], step)
            p.grad = p.grad * factor + 0.1
            opt.step()
        return p

    rng = np.random.default_rng(0)
    start, factor = (gradlib.tensor(rng.standard_normal(4), requires_grad=True) for _ in range(2))
    lr = gradlib.tensor(0.1, dtype=gradlib.float64, requires_grad=name not in ("Rprop", "ASGD"))
    assert gradlib.autograd.gradcheck(steps, (start, factor, lr))


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_state_dict_round_trip_continues_the_same_way(name, settings):
    params, opt = make(name, settings)
    for step in range(3):
        give_gradients(params, step)
        opt.step()
    saved = copy.deepcopy(opt.state_dict())
    others = [p.detach().clone().requires_grad_() for p in params]
    resumed = getattr(optim, name)(others, **settings)
    resumed.load_state_dict(saved)
    for step in range(3, 6):
        for ps, o in ((params, opt), (others, resumed)):
            give_gradients(ps, step)
            o.step()
    for a, b in zip(values(params), values(others)):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)  # mu_product is cast, as in PyTorch


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_complex_parameters_are_pairs_of_real_ones(name, settings):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3, 2))
    real = gradlib.tensor(start, requires_grad=True)
    both = gradlib.tensor(start.view(complex)[:, 0], requires_grad=True)
    o_real = getattr(optim, name)([real], **settings)
    o_both = getattr(optim, name)([both], **settings)
    for _ in range(4):
        g = rng.standard_normal((3, 2))
        real.grad = gradlib.tensor(g)
        both.grad = gradlib.tensor(g.view(complex)[:, 0])
        o_real.step()
        o_both.step()
    got = both.detach().numpy()
    np.testing.assert_allclose(np.stack([got.real, got.imag], -1), real.detach().numpy())


@pytest.mark.parametrize("dtype", [gradlib.float16, gradlib.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    params, opt = make("Adam", {"lr": 0.1}, dtype=dtype)
    exact, other = make("Adam", {"lr": 0.1}, dtype=gradlib.float32)
    for p, q in zip(params, exact):
        q.data = p.detach().float()
    for step in range(3):
        give_gradients(params, step)
        for p, q in zip(params, exact):
            q.grad = p.grad.float()
        opt.step()
        other.step()
    for p, q in zip(params, exact):
        assert p.dtype == dtype
        np.testing.assert_allclose(p.float().tolist(), q.tolist(), atol=0.05)


def test_unusual_strides_are_updated_in_place():
    base = gradlib.arange(12.0).reshape(3, 4)
    w = base.t().detach().requires_grad_()
    opt = optim.Adam([w], lr=0.5)
    w.grad = gradlib.ones(4, 3)
    before = w.data_ptr()
    opt.step()
    assert w.data_ptr() == before
    assert base[0, 0].item() == pytest.approx(-0.5)


def test_step_raises_the_version_and_keeps_identity():
    w = gradlib.ones(2, requires_grad=True)
    array, version = w._array, w._version
    opt = optim.Adam([w, gradlib.ones(3, requires_grad=True)])
    w.grad = gradlib.ones(2)
    opt.step()
    assert w._array is array
    assert w._version > version
    assert w.is_leaf


def test_state_tensors_keep_their_identity_when_parameters_are_packed():
    a, b = (gradlib.ones(2, requires_grad=True) for _ in range(2))
    opt = optim.Adam([a, b])
    a.grad = gradlib.ones(2)
    opt.step()
    held = opt.state[a]["exp_avg"]
    b.grad = gradlib.ones(2)
    opt.step()
    assert opt.state[a]["exp_avg"] is held
    before = held.tolist()
    a.grad = gradlib.ones(2)
    opt.step()
    assert held.tolist() != before


def test_replaced_state_and_replaced_data_are_noticed():
    a, b = (gradlib.zeros(1, requires_grad=True) for _ in range(2))
    opt = optim.SGD([a, b], lr=1.0, momentum=1.0)

    def step():
        a.grad, b.grad = gradlib.ones(1), gradlib.ones(1)
        opt.step()

    step()
    opt.state[a]["momentum_buffer"] = gradlib.full((1,), 10.0)
    step()
    assert a.item() == -12.0
    assert b.item() == -3.0
    a.data = gradlib.zeros(1)
    step()
    assert a.item() == -12.0
    opt.state.clear()
    step()
    assert a.item() == -13.0


def test_parameters_cast_after_construction():
    a, b = (gradlib.zeros(2, requires_grad=True) for _ in range(2))
    opt = optim.SGD([a, b], lr=1.0)
    a.grad, b.grad = gradlib.ones(2), gradlib.ones(2)
    opt.step()
    for p in (a, b):
        p.data = p.data.double()
        p.grad = gradlib.ones(2, dtype=gradlib.float64)
    opt.step()
    assert a.tolist() == [-2.0, -2.0]
    assert a.dtype == gradlib.float64


def test_zero_size_parameters():
    a, b = gradlib.zeros(0, requires_grad=True), gradlib.zeros(2, 0, requires_grad=True)
    opt = optim.Adam([a, b])
    a.grad, b.grad = gradlib.zeros(0), gradlib.zeros(2, 0)
    opt.step()
    assert tuple(b.shape) == (2, 0)


def test_tensor_learning_rate():
    w = gradlib.ones(1, requires_grad=True)
    lr = gradlib.tensor(0.5)
    opt = optim.SGD([w], lr=lr)
    w.grad = gradlib.ones(1)
    opt.step()
    assert w.item() == 0.5
    assert opt.param_groups[0]["lr"] is lr


def test_sgd_without_momentum_has_no_state():
    w = gradlib.ones(1, requires_grad=True)
    opt = optim.SGD([w], lr=0.5)
    w.grad = gradlib.ones(1)
    opt.step()
    assert opt.state_dict()["state"] == {}


@pytest.mark.parametrize("most", [1, 2, 4, 7])
def test_line_search_of_lbfgs_evaluates_no_more_often_than_asked_for(most):
    """The search gets what is left of max_eval; the point that it begins with is one more."""
    x = gradlib.tensor([-1.2, 1.0], dtype=gradlib.float64, requires_grad=True)
    opt = optim.LBFGS([x], lr=3.0, line_search_fn="strong_wolfe", max_eval=most)
    calls = []

    def closure():
        calls.append(1)
        opt.zero_grad()
        loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    opt.step(closure)
    assert len(calls) <= most + 1


def test_line_search_of_lbfgs_on_a_plane_takes_the_longest_step():
    """A cubic that is a line has no minimum: what is asked of it is where it is lowest within the bounds."""
    x = gradlib.zeros(2, dtype=gradlib.float64, requires_grad=True)
    opt = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=1, max_eval=4)
    slope = gradlib.tensor([0.5, -0.5], dtype=gradlib.float64)

    def closure():
        opt.zero_grad()
        loss = (x * slope).sum()
        loss.backward()
        return loss

    opt.step(closure)
    assert x.tolist() == [-500.0, 500.0]  # 1, then three times as far as is allowed, ten times each


def test_lbfgs_with_line_search_finds_the_minimum():
    x = gradlib.tensor([-1.2, 1.0], dtype=gradlib.float64, requires_grad=True)
    opt = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=100)

    def closure():
        opt.zero_grad()
        loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    opt.step(closure)
    np.testing.assert_allclose(x.tolist(), [1.0, 1.0], atol=1e-3)
