"""Layers, losses and optimizers on a CUDA device train as they do on the CPU."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import gradlib as gl
from gradlib import nn, optim
from tests.simulated_cuda import machine

pytestmark = pytest.mark.usefixtures("cuda")

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"amsgrad": True}, "AdamW": {}, "Adadelta": {}, "Adagrad": {}, "Adamax": {}, "ASGD": {}, "NAdam": {},
    "RAdam": {}, "RMSprop": {"momentum": 0.5, "centered": True}, "Rprop": {}, "LBFGS": {"max_iter": 4},
}  # fmt: skip

MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)),
        (5, 6),
    ),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.ConvTranspose2d(4, 4, 2, stride=2), nn.GroupNorm(2, 4), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 3),
        ),
        (5, 2, 6, 6),
    ),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(32, 3)
        ),
        (5, 4, 8),
    ),
    "lstm": (lambda: Last(nn.LSTM(6, 5, 2, batch_first=True), nn.Linear(5, 3)), (5, 4, 6)),
    "gru": (lambda: Last(nn.GRU(6, 5, batch_first=True), nn.Linear(5, 3)), (5, 4, 6)),
}  # fmt: skip


class Last(nn.Module):
    """A classifier of the last state of a recurrent network."""

    def __init__(self, recurrent, head):
        super().__init__()
        self.recurrent, self.head = recurrent, head

    def forward(self, x):
        return self.head(self.recurrent(x)[0][:, -1])


def train(model, x, target, optimizer: str = "SGD", steps: int = 3, **options) -> list[float]:
    made = getattr(optim, optimizer)(model.parameters(), **options)
    schedule = optim.lr_scheduler.StepLR(made, 2)
    losses = []

    def closure():
        made.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    for _ in range(steps):
        loss = made.step(closure)
        assert loss is not None
        losses.append(loss)
        schedule.step()
    return [loss.item() for loss in losses]


def both(name: str):
    """The same model and data on the CPU and on the device."""
    gl.manual_seed(1)
    make, shape = MODELS[name]
    model, x = make().double(), gl.randn(*shape, dtype=gl.float64)
    target = gl.tensor([0, 1, 2, 1, 0])
    return (model, x, target), (copy.deepcopy(model).cuda(), x.cuda(), target.cuda())


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    # rows: DEV-12
    here, there = both(name)
    np.testing.assert_allclose(train(*here, lr=0.1), train(*there, lr=0.1), rtol=1e-7)
    for a, b in zip(here[0].parameters(), there[0].parameters(), strict=True):
        assert b.is_cuda and b.grad.is_cuda
        np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    # rows: DEV-12
    here, there = both("mlp")
    options = OPTIMIZERS[name]
    losses = train(*here, name, **options), train(*there, name, **options)
    np.testing.assert_allclose(*losses, rtol=1e-7)
    for a, b in zip(here[0].parameters(), there[0].parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_a_training_step_does_not_wait_for_the_device(name):
    """The second step: the first one copies constants over and looks at nothing either, but compiles."""
    model, x, target = both(name)[1]
    made = optim.AdamW(model.parameters())

    def step():
        made.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        made.step()

    step()
    machine.log, machine.waits = [], 0
    step()
    assert not machine.waits and not [label for label in machine.log if "host" in label]


def test_state_dicts_move_between_devices(tmp_path):
    here, there = both("mlp")
    train(*there)
    here[0].load_state_dict(there[0].state_dict())
    for a, b in zip(here[0].parameters(), there[0].parameters(), strict=True):
        assert not a.is_cuda and (a.numpy(force=True) == b.numpy(force=True)).all()
    gl.save(there[0].state_dict(), tmp_path / "model.pt")
    loaded = gl.load(tmp_path / "model.pt", map_location="cpu")
    assert not any(t.is_cuda for t in loaded.values())
    assert all(t.is_cuda for t in gl.load(tmp_path / "model.pt").values())


def losses_of(cuda, captured: bool) -> list[float]:
    """Six steps with dropout and AdamW; captured: the last four are replays of a graph."""
    gl.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 3)).cuda()
    made = optim.AdamW(model.parameters(), lr=0.05, capturable=True)
    x, target = gl.randn(5, 6, device="cuda"), gl.tensor([0, 1, 2, 1, 0]).cuda()

    def step():
        made.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        made.step()
        return loss

    stream, pool = cuda.cuda.Stream(non_blocking=True), cuda.cuda.MemoryPool()
    cuda.cuda.runtime.deviceSynchronize()
    with stream:
        losses = [step().item() for _ in range(2)]
        if not captured:
            return losses + [step().item() for _ in range(4)]
        with cuda.cuda.using_allocator(pool.malloc):
            stream.begin_capture()
            loss = step()
            graph = stream.end_capture()
        for _ in range(4):
            graph.launch()
            losses.append(loss.item())
        return losses


@pytest.mark.parametrize("seed", range(5))
def test_a_captured_training_step_trains(lazy_cuda, seed):
    """Forward, dropout, backward and optimizer recorded once: replays are the steps that would have been run."""
    with lazy_cuda(seed) as cuda:
        expected = losses_of(cuda, captured=False)
    with lazy_cuda(seed) as cuda:
        got = losses_of(cuda, captured=True)
    assert len(set(expected)) == 6
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode):
    # rows: DEV-12
    results = []
    for device in ("cpu", "cuda"):
        gl.manual_seed(2)
        bag = nn.EmbeddingBag(10, 3, mode=mode, padding_idx=4).to(device)
        index = gl.tensor([1, 2, 4, 5, 7], device=device)
        out = bag(index, gl.tensor([0, 3], device=device))
        out.pow(2).sum().backward()
        results.append([out.tolist(), bag.weight.grad.tolist()])
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-6)
