"""Models as people write them, trained for 20 steps: the same bits captured, fused and plain."""

from __future__ import annotations

import os
import random

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.devices.numpy import chains
from tests.capture.as_steps import facts
from tests.capture.models import MODELS

STEPS = 20
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
    "amsgrad": lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True),
    "nadam": lambda p: torch.optim.NAdam(p, 1e-2),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "adadelta": torch.optim.Adadelta,
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2, momentum=0.5, centered=True),
}
# gradients are clipped; the optimizer steps outside of what is captured, after two batches
HOW = {"step": (False, False), "clipped": (True, False), "accumulated": (False, True)}


def run(make, optimizer, how, wrap):
    torch.manual_seed(0)
    model, batch, loss = make()
    clips, outside = HOW[how]
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.5)

    def step(x, y):
        if not outside:
            optimizer.zero_grad()
        value, norm = loss(model, x, y), torch.zeros(())
        value.backward()
        if clips:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not outside:
            optimizer.step()
        return value.detach(), norm.detach()

    step, found = wrap(step), []
    for k in range(STEPS):
        x, y = batch()
        found.append(facts([*step(x, y), x, y]))
        if outside and k % 2:
            optimizer.step()
            optimizer.zero_grad()
        if k % 3 == 0:
            schedule.step()
    left = [*model.state_dict().values(), *[p.grad for p in model.parameters()]]
    return found, facts([*left, torch.get_rng_state()]), step


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    draw = random.Random(f"{os.environ['FUZZ_SEED']} {name}")
    optimizer, how = draw.choice([*OPTIMIZERS]), draw.choice([*HOW])
    *expected, _ = run(MODELS[name], optimizer, how, lambda f: f)
    for mode in [None, "max"] if chains.available() else [None]:
        *found, step = run(MODELS[name], optimizer, how, lambda f, m=mode: torch.capture(f, mode=m))
        assert found == expected, (optimizer, how, mode)
        assert step.replays, torch.explain(step)
