"""A training step with each kind of loss gives the same bits captured, fused and plain, and the same random state."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.devices.numpy import chains
from tests.capture import longer_losses, losses
from tests.capture.as_steps import facts

STEPS = 7
MODES = [None, "max"] if chains.available() else [None]


def run(loss, wrap):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        found = loss(model, x, y)
        found.backward()
        optimizer.step()
        return found.detach()

    step, found = wrap(step), []
    for _ in range(STEPS):
        x, y = torch.randn(5, 6), torch.randn(5, 4)
        found.append(facts([step(x, y), x, y, *model.parameters(), torch.get_rng_state()]))
    return found, step


def kinds(name):
    found = vars(losses)[name] | vars(longer_losses)[name]
    return [pytest.param(f, id=name) for name, f in found.items()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", kinds("REPLAYED"))
def test_replayed(loss):
    expected, _ = run(loss, lambda f: f)
    for mode in MODES:
        found, step = run(loss, lambda f, mode=mode: torch.capture(f, mode=mode))
        assert found == expected
        assert step.replays == 1, torch.explain(step)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", kinds("AS_THEY_ARE"))
def test_run_as_it_is(loss):
    expected, _ = run(loss, lambda f: f)
    found, step = run(loss, torch.capture)
    assert found == expected
    assert not step.replays
    assert torch.explain(step)
