"""Captured training steps give the bits of plain ones, and leave behind what those leave."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from tests.capture.programs import MODELS, OPTIMIZERS, bits, train


def plain(step):
    return step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_the_bits_of_eager(name, optimizer):
    expected, _ = train(plain, name, optimizer)
    found, step = train(torch.capture, name, optimizer)
    assert found == expected
    assert step.replays == 1, torch.explain(step)
    assert torch.explain(step) == []


def both(program):
    """What a program logs with and without capture, and the captured step."""
    logs, steps = [], []
    for wrap in (plain, torch.capture):
        torch.manual_seed(0)
        log: list = []
        steps.append(program(wrap, log))
        logs.append([bits(v) for v in log])
    assert logs[1] == logs[0]
    return steps[1]


def batches(n, *shape):
    return [torch.randn(*shape, generator=torch.Generator().manual_seed(i)) for i in range(n)]


def test_gradients_accumulate_where_they_are_not_reset():
    def program(wrap, log):
        model = nn.Linear(3, 2)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def micro(x):
            loss = model(x).square().mean()
            loss.backward()
            return loss.detach()

        step = wrap(micro)
        for i, x in enumerate(batches(12, 4, 3)):
            log.append(step(x))
            log.append(model.weight.grad)
            if i % 3 == 2:
                opt.step()
                opt.zero_grad(set_to_none=i % 2 == 0)
        return step

    assert both(program).replays == 1


def test_clipping_and_a_schedule_of_the_learning_rate():
    def program(wrap, log):
        model = nn.Linear(3, 2)
        opt = torch.optim.Adam(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)

        def train_step(x):
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            for p in (model.weight, model.bias):
                p.grad.clamp_(-0.1, 0.1)
            opt.step()
            return loss

        step = wrap(train_step)
        for x in batches(8, 4, 3):
            log.append(step(x))
            schedule.step()
            log += [model.weight.detach(), model.weight.grad, model.weight.grad._version]
        return step

    assert both(program).replays == 1


def test_forward_alone_under_no_grad_and_with_kept_results():
    def program(wrap, log):
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4))

        def forward(x, scale):
            return {"out": model(x) * scale, "mean": x.mean()}

        step, kept = wrap(forward), []
        with torch.no_grad():
            for x in batches(7, 5, 3):
                for scale in (2, 0.5):
                    kept.append(step(x, scale))
        log += [k[name] for k in kept for name in k]  # none was overwritten by a later call
        log += list(model.buffers())
        return step

    assert both(program).replays == 2


def test_writes_into_arguments():
    def program(wrap, log):
        step = wrap(lambda x, total: (total.add_(x), total * 2)[1])
        total = torch.zeros(3)
        for x in batches(6, 3):
            log += [step(x, total), total.clone(), total._version]
        return step

    assert both(program).replays == 1


def test_versions_of_what_is_returned():
    def program(wrap, log):
        step = wrap(lambda x: [(x + 1).mul_(2), (x * 2).add_(1).sub_(3), x + 1])
        for x in batches(6, 3):
            found = step(x)
            log += [*found, [t._version for t in found]]
        return step

    assert both(program).replays == 1


def test_gradients_are_returned():
    def program(wrap, log):
        w, v = (torch.ones(3, requires_grad=True) for _ in range(2))
        ones = torch.ones(3)

        def gradients(x):
            w.grad = v.grad = None
            (x * w * v + v * w).tanh().backward(ones)
            return [w.grad, v.grad]

        step = wrap(gradients)
        for x in batches(6, 3):
            log += step(x)
        return step

    assert both(program).replays == 1


def test_shapes_and_dtypes_each_have_a_plan():
    def program(wrap, log):
        def f(x, y=None):
            return x.sum(0) if y is None else (x * y).cumsum(-1)

        step = wrap(f)
        for _ in range(5):
            for x in (
                torch.ones(2, 3),
                torch.ones(4, 3),
                torch.ones(2, 3).double(),
                torch.ones(3, 2).T,
            ):
                log += [step(x), step(x, y=x + 1)]
        return step

    assert both(program).replays == 8


def test_the_released_graph_of_a_loss_raises_as_ever():
    w = torch.ones(2, requires_grad=True)

    @torch.capture
    def step(x):
        loss = (w * x).square().sum()
        loss.backward()
        return loss

    for _ in range(5):
        loss = step(torch.ones(2))
    assert step.replays == 1
    assert loss.requires_grad and loss.grad_fn.name() == "SumBackward0"
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_errors_are_those_of_the_ops():
    table = nn.Embedding(4, 2)
    step = torch.capture(lambda i: table(i).detach() * 2)
    for _ in range(5):
        step(torch.tensor([1, 3]))
    assert step.replays == 1
    with pytest.raises(IndexError, match="index out of range in self"):
        table(torch.tensor([1, 4]))
    with pytest.raises(IndexError, match="index out of range in self"):
        step(torch.tensor([1, 4]))
    assert step(torch.tensor([1, 3])).shape == (2, 2)


def test_a_step_may_be_a_method_or_a_module_in_its_arguments():
    class Trainer:
        def __init__(self):
            self.model = nn.Linear(2, 1)
            self.opt = torch.optim.SGD(self.model.parameters(), lr=0.5)

        def step(self, model, x):
            self.opt.zero_grad()
            loss = F.l1_loss(model(x), torch.zeros(x.shape[0], 1))
            loss.backward()
            self.opt.step()
            return loss

    def program(wrap, log):
        trainer = Trainer()
        step = wrap(trainer.step)
        for x in batches(6, 4, 2):
            log += [step(trainer.model, x), trainer.model.weight.detach().clone()]
        return step

    assert both(program).replays == 1


def test_large_sums_of_gradients():
    def program(wrap, log):
        w = torch.randn(80, 80).requires_grad_()

        def f(x):
            w.grad = None
            y = x
            for _ in range(4):
                y = (y @ w).tanh()
            (y * y).mean().backward()
            return w.grad

        step = wrap(f)
        for x in batches(6, 70, 80):
            log.append(step(x))
        return step

    assert both(program).replays == 1


def test_nothing_is_left_over():
    """A replay keeps no array alive that the step's results do not."""
    import gc
    import weakref

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    @torch.capture
    def step(x):
        model.zero_grad()
        loss = model(x).mean()
        loss.backward()
        return loss.detach()

    for _ in range(5):
        step(torch.ones(8, 64))
    assert step.replays == 1
    x = torch.ones(8, 64)
    ref = weakref.ref(x)
    result = step(x)
    arrays = sum(type(o) is np.ndarray for o in gc.get_objects())
    del x
    gc.disable()
    try:
        assert ref() is None
    finally:
        gc.enable()
    del result
    step(torch.ones(8, 64))
    assert sum(type(o) is np.ndarray for o in gc.get_objects()) <= arrays


def test_autocast_inside_the_step():
    def program(wrap, log):
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def train_step(x):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(x).float().square().mean()
            loss.backward()
            opt.step()
            return loss

        step = wrap(train_step)
        for x in batches(6, 4, 4):
            log += [step(x), model[0].weight.grad]
        return step

    both(program)
