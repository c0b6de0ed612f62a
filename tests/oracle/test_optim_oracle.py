"""Optimizers and schedules take the same steps as PyTorch's."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib

SHAPES = [(3, 4), (5,), (2, 3, 2), (), (40000,), (7, 7)]
SETTINGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"amsgrad": True, "maximize": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.01}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True}),
    ("Rprop", {}),
    ("Rprop", {"maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"weight_decay": 0.1, "t0": 3, "lambd": 0.1}),
]
IDS = [f"{name}-{'-'.join(settings)}" for name, settings in SETTINGS]


def pair(name, settings):
    """The same parameters under both libraries' optimizers."""
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(s) for s in SHAPES]
    out = []
    for lib in (torch, gradlib):
        params = [lib.tensor(x, requires_grad=True) for x in start]
        out.append((params, getattr(lib.optim, name)(params, **settings)))
    return out


def step(lib, params, optimizer, number, skip=()):
    rng = np.random.default_rng(number)
    for i, p in enumerate(params):
        g = rng.standard_normal(SHAPES[i])
        p.grad = None if i in skip else lib.tensor(g)
    optimizer.step()


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_ten_steps(name, settings):
    (theirs, their_opt), (ours, our_opt) = pair(name, settings)
    for number in range(10):
        skip = (1,) if number in (2, 5) else ()
        step(torch, theirs, their_opt, number, skip)
        step(gradlib, ours, our_opt, number, skip)
    for a, b in zip(theirs, ours):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_state_dicts_have_the_same_layout_and_values(name, settings):
    (theirs, their_opt), (ours, our_opt) = pair(name, settings)
    for number in range(3):
        step(torch, theirs, their_opt, number)
        step(gradlib, ours, our_opt, number)
    a, b = their_opt.state_dict(), our_opt.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert list(a["param_groups"][0]) == list(b["param_groups"][0])
    assert list(a["state"]) == list(b["state"])
    for key, values in a["state"].items():
        assert list(values) == list(b["state"][key])
        for state_name, value in values.items():
            mine = b["state"][key][state_name]
            assert str(mine.dtype) == str(value.dtype)
            np.testing.assert_allclose(mine.numpy(), value.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_a_checkpoint_of_pytorch_is_continued(name, settings):
    (theirs, their_opt), (ours, our_opt) = pair(name, settings)
    for number in range(3):
        step(torch, theirs, their_opt, number)
    saved = copy.deepcopy(their_opt.state_dict())
    for values in saved["state"].values():
        for key, value in values.items():
            values[key] = gradlib.tensor(value.numpy())
    our_opt.load_state_dict(saved)
    their_opt.load_state_dict(copy.deepcopy(their_opt.state_dict()))  # casts counters the same way
    for a, b in zip(theirs, ours):
        b.data = gradlib.tensor(a.detach().numpy())
    for number in range(3, 6):
        step(torch, theirs, their_opt, number)
        step(gradlib, ours, our_opt, number)
    for a, b in zip(theirs, ours):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.01},
        {"line_search_fn": "strong_wolfe"},
        {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 3},
        {"lr": 0.5, "line_search_fn": "strong_wolfe", "max_iter": 50},
        {"lr": 0.2, "line_search_fn": "strong_wolfe", "max_iter": 2},
        {"lr": 0.5, "line_search_fn": "strong_wolfe", "max_iter": 3, "max_eval": 5},
        {"line_search_fn": "strong_wolfe", "max_eval": 1},
    ],
    ids=lambda s: "-".join(s),
)
def test_lbfgs(settings):
    def minimise(lib):
        x = lib.tensor([-1.2, 1.0, 0.5, 2.0], dtype=lib.float64, requires_grad=True)
        y = lib.tensor([[0.3]], dtype=lib.float64, requires_grad=True)
        opt = lib.optim.LBFGS([x, y], **settings)
        calls = []

        def closure():
            calls.append(1)
            opt.zero_grad()
            valley = 100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2
            loss = valley.sum() + (y**4).sum()
            loss.backward()
            return loss

        losses = [opt.step(closure).item() for _ in range(5)]
        return [*losses, *x.tolist(), len(calls)], opt

    (expected, theirs), (got, ours) = minimise(torch), minimise(gradlib)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)
    assert set(ours.state_dict()["state"][0]) == set(theirs.state_dict()["state"][0])


SCHEDULES = {
    "LambdaLR": lambda m, o: m.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda m, o: m.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [2, 5, 5, 9], 0.5),
    "ConstantLR": lambda m, o: m.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda m, o: m.LinearLR(o, 0.3, 0.9, 7),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o, 9, 2.0),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, 7, 0.01),
    "WarmRestarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "SequentialLR": lambda m, o: m.SequentialLR(
        o,
        [m.LinearLR(o, 0.1, 1.0, 4), m.CosineAnnealingLR(o, 8), m.ExponentialLR(o, 0.9)],
        [4, 12],
    ),
    "nested SequentialLR": lambda m, o: m.SequentialLR(
        o,
        [
            m.SequentialLR(o, [m.ConstantLR(o, 0.1, 2), m.StepLR(o, 2, 0.5)], [3]),
            m.ExponentialLR(o, 0.9),
        ],
        [8],
    ),
    "ChainedScheduler": lambda m, o: m.ChainedScheduler(
        [m.ConstantLR(o, 0.1, 3), m.ExponentialLR(o, 0.9)]
    ),
    "CyclicLR": lambda m, o: m.CyclicLR(o, 0.01, [0.1, 0.2], 4, 6),
    "CyclicLR triangular2": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4, mode="triangular2"),
    "CyclicLR exp_range": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.9),
    "OneCycleLR": lambda m, o: m.OneCycleLR(o, [0.1, 0.2], total_steps=30),
    "OneCycleLR three_phase": lambda m, o: m.OneCycleLR(
        o, 0.1, epochs=5, steps_per_epoch=6, three_phase=True
    ),
    "OneCycleLR linear": lambda m, o: m.OneCycleLR(
        o, 0.1, total_steps=26, anneal_strategy="linear", cycle_momentum=False
    ),
}


def follow(lib, make, kind, metrics=None):
    """Learning rates and momenta over 25 epochs, and the scheduler."""
    groups = [
        {"params": [lib.ones(1, requires_grad=True)]},
        {"params": [lib.ones(1, requires_grad=True)], "lr": 0.05},
    ]
    settings = {"momentum": 0.9} if kind == "SGD" else {}
    opt = getattr(lib.optim, kind)(groups, lr=0.1, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler = make(lib.optim.lr_scheduler, opt)
        rows = []
        for i in range(25):
            rows.append([g["lr"] for g in opt.param_groups])
            rows.append([g.get("momentum", g.get("betas")) for g in opt.param_groups])
            opt.step()
            scheduler.step() if metrics is None else scheduler.step(metrics[i])
    return rows, scheduler


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name, kind):
    expected, theirs = follow(torch, SCHEDULES[name], kind)
    got, ours = follow(gradlib, SCHEDULES[name], kind)
    assert got == expected
    assert ours.get_last_lr() == theirs.get_last_lr()
    assert set(ours.state_dict()) == set(theirs.state_dict())


@pytest.mark.parametrize(
    "settings",
    [
        {"patience": 1},
        {"patience": 2, "cooldown": 2, "factor": 0.5, "threshold_mode": "abs"},
        {"mode": "max", "patience": 1, "min_lr": [0.01, 0.02]},
    ],
)
def test_plateau(settings):
    metrics = [5, 4, 3, 3, 3, 3.0001, *[2] * 15, 1, 1, 1, 1]

    def make(module, optimizer):
        return module.ReduceLROnPlateau(optimizer, **settings)

    expected, _ = follow(torch, make, "SGD", metrics)
    got, _ = follow(gradlib, make, "SGD", metrics)
    assert got == expected


@pytest.mark.parametrize("settings", [{}, {"anneal_strategy": "linear"}, {"anneal_epochs": 0}])
def test_swalr(settings):
    def of(lib):
        return lambda module, opt: lib.optim.swa_utils.SWALR(opt, 0.02, **settings)

    assert follow(gradlib, of(gradlib), "SGD")[0] == follow(torch, of(torch), "SGD")[0]
