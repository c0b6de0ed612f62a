"""Learning rate schedules: known sequences, state dicts, error texts."""

from __future__ import annotations

import math

import pytest

import gradlib
from gradlib import optim
from gradlib.optim import lr_scheduler as schedules
from gradlib.optim import swa_utils


def optimizer(lr=1.0, **settings):
    return optim.SGD([gradlib.ones(1, requires_grad=True)], lr=lr, **settings)


def run(make, epochs, **settings):
    opt = optimizer(**settings)
    scheduler = make(opt)
    rates = []
    for _ in range(epochs):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: schedules.LambdaLR(o, lambda e: 0.5**e), [1, 0.5, 0.25, 0.125]),
        (lambda o: schedules.MultiplicativeLR(o, lambda e: 0.5), [1, 0.5, 0.25, 0.125]),
        (lambda o: schedules.StepLR(o, 2, 0.1), [1, 1, 0.1, 0.1, 0.01]),
        (lambda o: schedules.MultiStepLR(o, [1, 3], 0.1), [1, 0.1, 0.1, 0.01]),
        (lambda o: schedules.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1]),
        (lambda o: schedules.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1]),
        (lambda o: schedules.ExponentialLR(o, 0.5), [1, 0.5, 0.25]),
        (lambda o: schedules.PolynomialLR(o, 2), [1, 0.5, 0, 0]),
        (lambda o: schedules.CosineAnnealingLR(o, 2), [1, 0.5, 0, 0.5, 1]),
        (lambda o: schedules.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5]),
        (
            lambda o: schedules.SequentialLR(
                o, [schedules.ConstantLR(o, 0.1, 2), schedules.ExponentialLR(o, 0.5)], [2]
            ),
            [0.1, 0.1, 1, 0.5],
        ),
        (
            lambda o: schedules.ChainedScheduler(
                [schedules.ConstantLR(o, 0.1, 1), schedules.ExponentialLR(o, 0.5)]
            ),
            [0.1, 0.5, 0.25],
        ),
        (
            lambda o: schedules.CyclicLR(o, 0.0, 1.0, 2, cycle_momentum=False),
            [0, 0.5, 1, 0.5, 0],
        ),
        (
            lambda o: schedules.OneCycleLR(
                o, 1.0, 4, pct_start=0.5, anneal_strategy="linear", cycle_momentum=False
            ),
            [0.04, 1.0, 0.500002, 0.000004],
        ),
        (lambda o: swa_utils.SWALR(o, 0.0, 2, "linear"), [1, 0.5, 0, 0]),
    ],
)
def test_sequences(make, expected):
    assert run(make, len(expected)) == pytest.approx(expected, abs=1e-12)


def test_momentum_goes_the_other_way():
    opt = optimizer(momentum=0.9)
    scheduler = schedules.CyclicLR(opt, 0.0, 1.0, 2, base_momentum=0.8, max_momentum=0.9)
    momenta = []
    for _ in range(4):
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        scheduler.step()
    assert momenta == pytest.approx([0.9, 0.85, 0.8, 0.85])


def test_plateau_waits_and_reduces():
    opt = optimizer()
    scheduler = schedules.ReduceLROnPlateau(opt, patience=1, factor=0.5)
    rates = []
    for metric in [3.0, 3.0, 3.0, 3.0, 3.0, 1.0, 1.0]:
        scheduler.step(metric)
        rates.append(opt.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_state_dict_resumes():
    opt = optimizer()
    scheduler = schedules.StepLR(opt, 2, 0.1)
    for _ in range(3):
        opt.step()
        scheduler.step()
    other_opt = optimizer()
    other = schedules.StepLR(other_opt, 2, 0.1)
    other_opt.load_state_dict(opt.state_dict())
    other.load_state_dict(scheduler.state_dict())
    for o, s in ((opt, scheduler), (other_opt, other)):
        o.step()
        s.step()
    assert other.get_last_lr() == scheduler.get_last_lr() == pytest.approx([0.01])
    assert "optimizer" not in scheduler.state_dict()


def test_stepping_before_the_optimizer_warns():
    scheduler = schedules.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before"):
        scheduler.step()


def test_tensor_learning_rate_is_filled_in_place():
    lr = gradlib.tensor(1.0)
    opt = optimizer(lr)
    scheduler = schedules.ExponentialLR(opt, 0.5)
    opt.step()
    scheduler.step()
    assert opt.param_groups[0]["lr"] is lr
    assert lr.item() == 0.5


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: schedules.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (
            lambda: schedules.StepLR(optimizer(), 1, last_epoch=3),
            KeyError,
            "param 'initial_lr' is not specified in param_groups",
        ),
        (
            lambda: schedules.LambdaLR(optimizer(), [math.sin, math.cos]),
            ValueError,
            "Expected 1 lr_lambdas, but got 2",
        ),
        (
            lambda: schedules.CyclicLR(optim.Rprop([gradlib.ones(1)]), 0.1, 1.0),
            ValueError,
            "optimizer must support momentum or beta1",
        ),
        (
            lambda: schedules.OneCycleLR(optimizer(), 1.0),
            ValueError,
            "You must define either total_steps OR",
        ),
        (
            lambda: schedules.ReduceLROnPlateau(optimizer(), factor=1.0),
            ValueError,
            "Factor should be < 1.0.",
        ),
        (
            lambda: schedules.SequentialLR(optimizer(), [], []),
            ValueError,
            "expects at least one scheduler",
        ),
    ],
)
def test_wrong_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_averaged_model_is_the_mean_of_the_models():
    model = gradlib.nn.Linear(1, 1, bias=False)
    average = swa_utils.AveragedModel(model)
    moving = swa_utils.AveragedModel(model, avg_fn=swa_utils.get_ema_avg_fn(0.5))
    for value in (1.0, 2.0, 6.0):
        model.weight.data.fill_(value)
        average.update_parameters(model)
        moving.update_parameters(model)
    assert average.module.weight.item() == pytest.approx(3.0)
    assert moving.module.weight.item() == pytest.approx(3.75)
    assert int(average.n_averaged) == 3
