"""CUDA graphs on a device."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.cuda._graph import capture_stream
from gradlib.nn import functional as F
from gradlib.tape.source import GENERATED


def test_capture_and_replay():
    w, x = torch.full((8, 8), 0.5, device="cuda"), torch.ones(4, 8, device="cuda")
    side = capture_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        (x @ w).relu() + 1
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        assert torch.cuda.is_current_stream_capturing()
        y = (x @ w).relu() + 1
    for value in (1.0, -2.0, 3.0):
        x.fill_(value)
        g.replay()
        trash = [torch.full((4, 8), 9.0, device="cuda") for _ in range(8)]
        assert y.sum().item() == 32 * (max(4 * value, 0.0) + 1)
        del trash


def training(wrap, dropout=0.0):
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 3)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, capturable=True)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for k in range(8):
        x = torch.sin(torch.arange(24.0).reshape(4, 6) * (k + 1)).cuda()
        losses.append(step(x, torch.tensor([0, 1, 2, k % 3]).cuda()))
    return [loss.item() for loss in losses]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_captured_step_trains_as_a_plain_one(dropout):
    want = training(lambda f: f, dropout)
    got = training(torch.cuda.capture, dropout)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_a_captured_step_is_one_launch_and_runs_no_op(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, capturable=True)
    x, y = torch.ones(4, 6, device="cuda"), torch.tensor([0, 1, 2, 0], device="cuda")

    @torch.cuda.capture
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def ran(action):
        """The files of the code that runs in Python."""
        files = []
        sys.setprofile(lambda frame, event, _: files.append(frame.f_code.co_filename))
        try:
            result = action()
        finally:
            sys.setprofile(None)
        return result, files

    assert any(f.startswith(GENERATED) for f in ran(lambda: model(x))[1])  # as ops are seen
    losses = [step().item() for _ in range(4)]
    replays, replay = [], torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(
        torch.cuda.CUDAGraph, "replay", lambda self: replays.append(self) or replay(self)
    )
    loss, files = ran(step)
    assert len(replays) == 1
    # but for the copy of the loss, which the next replay writes to
    assert {f.split()[1] for f in files if f.startswith(GENERATED)} == {"clone"}
    assert not [f for f in files if "/optim/" in f]
    assert len({*losses, loss.item()}) == 5  # each step saw what the one before made


def test_a_convolutional_step_is_captured():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    ).cuda()  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    @torch.cuda.capture
    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = torch.randn(8, 1, 8, 8).cuda(), (torch.arange(8) % 3).cuda()
    losses = [step(x, y).item() for _ in range(20)]
    assert losses[-1] < losses[0]
    (entry,) = step.entries.values()
    assert entry.graph is not None


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=torch.tensor(0.5, device="cuda"), capturable=True)


@pytest.mark.parametrize("make", [sgd, adam])
def test_what_a_step_touches_lives_as_long_as_its_graph(make):
    """The optimizer, its state, gradients and learning rate are gone; the graph goes on with them."""
    values = []
    for captured in (False, True):
        p = nn.Parameter(torch.ones(64, device="cuda"))
        p.grad = torch.full((64,), 2.0, device="cuda")
        optimizer = make([p])
        side = capture_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            optimizer.step()
        torch.cuda.current_stream().wait_stream(side)
        if not captured:
            optimizer.step()
            optimizer.step()
            values.append(p.tolist())
            continue
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            optimizer.step()
        p.grad = None
        del optimizer
        gc.collect()
        trash = [torch.full((64,), 9.0, device="cuda") for _ in range(16)]
        trash += [torch.full((), 9.0, device="cuda") for _ in range(16)]
        g.replay()
        g.replay()
        values.append(p.tolist())
        assert {x for t in trash for x in t.reshape(-1).tolist()} == {9.0}
    assert values[0] == values[1]


def test_what_clipping_touches_lives_as_long_as_its_graph():
    p = nn.Parameter(torch.ones(64, device="cuda"))
    p.grad = torch.full((64,), 2.0, device="cuda")
    kept = p.grad
    side = capture_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        nn.utils.clip_grad_norm_([p], 1e6)
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        norm = nn.utils.clip_grad_norm_([p], 8.0)
    address = kept.data_ptr()
    p.grad = None
    del kept
    gc.collect()
    trash = [torch.full((64,), 9.0, device="cuda") for _ in range(16)]
    assert address not in [t.data_ptr() for t in trash]
    g.replay()
    assert norm.item() == pytest.approx(16.0)


def test_graphed_callables():
    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()

    plain, graphed = model(), model()
    graphed = torch.cuda.make_graphed_callables(graphed, (torch.zeros(3, 4, device="cuda"),))
    for k in range(3):
        x = torch.full((3, 4), k + 1.0, device="cuda")
        for m in (plain, graphed):
            m.zero_grad()
            (m(x) ** 2).mean().backward()
        for a, b in zip(plain.parameters(), graphed.parameters(), strict=True):
            np.testing.assert_allclose(
                a.grad.cpu().numpy(), b.grad.cpu().numpy(), rtol=1e-4, atol=1e-6
            )


def test_what_cannot_be_captured_is_named():
    @torch.cuda.capture
    def step(x):
        return torch.linalg.inv(x).sum().item()

    with pytest.raises(torch.cuda.CaptureError, match=r"torch\.linalg\.inv\(x\)"):
        step(torch.eye(2, device="cuda"))
