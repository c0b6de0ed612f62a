"""Mixed precision on a device."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_trains(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype is torch.float16)
    x, y = torch.randn(16, 8).cuda(), (torch.arange(16) % 4).cuda()
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            out = model(x)
            loss = F.cross_entropy(out, y)
        assert out.dtype is dtype and loss.dtype is torch.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.grad.dtype is torch.float32 for p in model.parameters())


def test_a_step_with_infinite_gradients_is_skipped():
    w = torch.ones(4, device="cuda", requires_grad=True)
    for capturable in (False, True):
        optimizer = torch.optim.Adam([w], lr=0.1, capturable=capturable)
        scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
        before = w.detach().clone()
        w.grad = None
        scaler.scale((w * float("inf")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(w, before) and scaler.get_scale() == 4.0
