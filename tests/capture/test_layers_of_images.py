"""Layers and functions whose positions, points and statistics are computed beside ops: they are in plans, too."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F

THETA = torch.tensor([[[1.0, 0.2, 0.1], [-0.1, 0.9, 0.0]], [[0.8, 0.0, 0.3], [0.1, 1.1, 0.0]]])
CASES = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest exact": lambda x: F.interpolate(x, size=(3, 7), mode="nearest-exact"),
    "upsample": nn.Upsample(scale_factor=2),
    "reflect": lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"),
    "circular": lambda x: F.pad(x, (1, 2, 1, 0), mode="circular"),
    "replicate": lambda x: F.pad(x, (1, 2, 1, 0), mode="replicate"),
    "long rows": lambda x: F.pad(x.repeat(1, 1, 8, 64)[0], (1, 2), mode="circular"),
    "affine": lambda x: F.grid_sample(
        x, F.affine_grid(THETA * x.mean(), [2, 2, 3, 3], align_corners=False), align_corners=False
    ),
    "instance norm": nn.InstanceNorm2d(2, affine=True, track_running_stats=True),
    "histc": lambda x: torch.histc(x.detach(), 4) * x.sum(),
    "histc within": lambda x: torch.histc(x.detach(), 4, -1, 1) * x.sum(),
    "pdist": lambda x: F.pdist(x.flatten(1)),
    "normal": lambda x: torch.normal(0.0, 1.0, (3,)) * x.sum(),
}  # fmt: skip


def trained(name, wrap):
    torch.manual_seed(0)
    layer = CASES[name]
    if isinstance(layer, nn.Module):
        layer.reset_parameters() if hasattr(layer, "reset_parameters") else None
    scale = nn.Parameter(torch.ones(2, 1, 1))
    params = [scale, *(layer.parameters() if isinstance(layer, nn.Module) else ())]
    optimizer = torch.optim.SGD(params, lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = (layer(x * scale) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step, found = wrap(step), []
    for k in range(7):
        x = torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(k))
        found += [step(x).item(), scale.tolist()]
    if isinstance(layer, nn.Module):
        found += [v.tolist() for v in layer.state_dict().values()]
    return found, step


@pytest.mark.parametrize("name", CASES)
def test_they_are_replayed_with_the_same_bits(name):
    eager, _ = trained(name, lambda f: f)
    captured, step = trained(name, torch.capture)
    assert repr(captured) == repr(eager)
    assert step.replays == 1, torch.explain(step)


@pytest.mark.parametrize("name", CASES)
def test_backward_may_be_called_on_what_they_return(name):
    """As with ``torch.compile(model)``, whose plan ends before backward."""
    layer, found = CASES[name], []
    if isinstance(layer, nn.Module):
        layer.reset_running_stats() if hasattr(layer, "reset_running_stats") else None
    start = layer.state_dict() if isinstance(layer, nn.Module) else {}
    start = {k: v.clone() for k, v in start.items()}
    for wrap in (lambda f: f, torch.capture):
        torch.manual_seed(0)
        if start:
            layer.load_state_dict(start)
        scale = nn.Parameter(torch.ones(2, 1, 1))
        run, rows = wrap(lambda x, scale=scale: layer(x * scale) * 1.0), []
        for k in range(7):
            x = torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(k))
            scale.grad = None
            out = run(x)
            (out**2).sum().backward()
            rows.append((out.tolist(), scale.grad.tolist()))
        found.append(rows)
    assert repr(found[0]) == repr(found[1])
    assert run.replays == 1, torch.explain(run)
