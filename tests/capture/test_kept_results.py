"""Memory of plans: results, gradients and arguments that live on, are written to or come back are nobody else's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from tests.capture.programs import bits
from tests.capture.running import CALLS, assert_same, outcome, x_of

PROGRAMS: dict[str, Callable[[Callable], list]] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


def large(k: int, *shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(k))


def linear(*shape: int) -> Any:
    layer = nn.Linear(*shape)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.fill_(0.25)
    return layer


@program
def results_that_are_kept_and_written_to(wrap):
    w = torch.ones(80, 80)

    def step(x):
        a = x @ w
        b = a * 2
        c = b + a
        d = c.relu() - b
        return d.sum(0), (d * 3).t().contiguous(), c

    step, found, kept = wrap(step), [], []
    for k in range(8):
        kept.append(step(large(k, 80, 80)))
        found += [[bits(t) for t in results] for results in kept]
        kept[-1][0].zero_()
        kept[0][2].add_(1)
    return found


@program
def gradients_and_losses_that_are_kept_and_written_to(wrap):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(40, 60), nn.GELU(), nn.LayerNorm(60), nn.Dropout(0.1), nn.Linear(60, 20)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        y = model(x)
        loss = y.pow(2).mean() + y.abs().mean()
        loss.backward()
        optimizer.step()
        return loss, y.detach() * 1, model[0].weight.grad

    step, found, kept = wrap(step), [], []
    for k in range(8):
        kept.append(step(large(k, 30, 40)))
        found += [[bits(t) for t in results] for results in kept]
        found += [bits(p.grad) for p in model.parameters()]
        kept[-1][2].add_(1)
        if k == 5:
            model[4].weight.grad.mul_(2)
    return found


@program
def results_that_come_back_as_arguments(wrap):
    found: list = []
    step, x = wrap(lambda x: (x * 2 - 1).tanh()), x_of(0)
    for _ in range(CALLS):
        x = step(x)
        found.append(bits(x))
    step, h = wrap(lambda x, h: (x + h, x * h)), x_of(3)
    for _ in range(CALLS):
        x, h = step(x, h)
        found += [bits(x), bits(h)]
    step = wrap(lambda x: x.mul_(1.1))
    for _ in range(CALLS):
        y = step(x)
        found += [bits(y), y is x, x._version]
    return found


@program
def views_of_arguments_that_are_written_to(wrap):
    def step(x):
        x[0].mul_(2)
        x.t()[1].add_(1)
        return x * 1

    step, found = wrap(step), []
    for k in range(CALLS):
        base = torch.cat([x_of(k), x_of(k + 1)])
        x = base[:2] if k % 3 else base[1:3]
        found += [outcome(step, x), bits(base), base._version, x._version]
    return found


@program
def views_of_captured_tensors_that_are_kept(wrap):
    w = torch.ones(2, 3)
    kept = w[0]

    def step(x):
        w.mul_(2)
        w[1] = x[0]
        return w.sum(0) + kept

    step, found = wrap(step), []
    for k in range(CALLS):
        if k == 6:
            kept.add_(1)
        found += [outcome(step, x_of(k)), bits(w), bits(kept), w._version, kept._version]
    return found


@program
def an_exception_between_writes(wrap):
    w, count = torch.ones(2, 3, requires_grad=True), torch.zeros(3)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def step(x, i):
        count.add_(1)
        optimizer.zero_grad()
        y = (w * x)[:, i]
        count.mul_(2)
        y.sum().backward()
        optimizer.step()
        return y.detach() * 1

    step, found = wrap(step), []
    for k in range(16):
        found.append(outcome(step, x_of(k), torch.tensor([7 if k in (6, 7, 10) else k % 3])))
        found += [bits(count), bits(w), bits(w.grad), count._version, w._version]
    return found


@program
def states_that_go_from_call_to_call(wrap):
    cell = nn.GRUCell(3, 4)
    with torch.no_grad():
        for k, p in enumerate(cell.parameters()):
            p.copy_(large(k, *p.shape))
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)

    def step(xs, h):
        optimizer.zero_grad()
        total = 0
        for i in range(xs.shape[0]):
            h = cell(xs[i], h)
            total = total + h.pow(2).mean()
        total.backward()
        optimizer.step()
        return h.detach() * 1

    step, found, h = wrap(step), [], torch.zeros(2, 4)
    for k in range(10):
        h = step(large(k, 3, 2, 3), h)
        found += [bits(h), bits(cell.weight_hh.grad)]
    return found


@program
def two_models_and_two_optimizers(wrap):
    maker, judge = linear(3, 2), linear(2, 1)
    first = torch.optim.Adam(maker.parameters(), 0.01)
    second = torch.optim.Adam(judge.parameters(), 0.01)

    def step(x, y):
        first.zero_grad()
        loss = F.softplus(-judge(maker(x))).mean()
        loss.backward()
        first.step()
        second.zero_grad()
        other = F.softplus(-judge(y)).mean() + F.softplus(judge(maker(x).detach())).mean()
        other.backward()
        second.step()
        return loss, other

    step, found = wrap(step), []
    for k in range(CALLS):
        found.append(outcome(step, x_of(k), x_of(k)[:, :2].contiguous()))
        found += [bits(p) for p in (*maker.parameters(), *judge.parameters())]
    return found


@program
def one_step_in_several_threads(wrap):
    w, found = large(0, 60, 60), {}

    def step(x):
        a = x @ w
        b = a * 2
        return ((b + a).relu() - b).softmax(1)

    step = wrap(step)
    for k in range(4):
        step(large(k, 40, 60))

    def work(j):
        found[j] = [bits(step(large(100 * j + k, 40, 60))) for k in range(15)]

    threads = [threading.Thread(target=work, args=(j,)) for j in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return [found[j] for j in range(4)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_or_not_is_the_same(name):
    assert_same(PROGRAMS[name])
