"""Of a step that no plan can hold the plain functions that it calls with tensors are captured, each by itself."""

from __future__ import annotations

import sys
import threading

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.devices.numpy import chains
from gradlib.nn import functional as F
from tests.capture.as_steps import facts

MODES = [None, "max"] if chains.available() else [None]
STEPS = 20
SEEN: list = []
W = [torch.linspace(-1, 1, 16).reshape(4, 4).clone().requires_grad_() for _ in range(2)]
SCALE = 1.5
LAYER = nn.Linear(4, 4)
pytestmark = pytest.mark.filterwarnings("ignore")


def hidden(x, w):
    return F.gelu(x @ w) * SCALE


def loss_of(x, y):
    return F.mse_loss(x, y) + LAYER(x).square().mean()


def rate(k):
    return 0.1 / (k + 1)


def logged(x):
    SEEN.append(float(x))
    return x * 2


def of_frames(x):
    return x * len(sys._getframe(0).f_code.co_name)


def rows(x):
    yield from x


def view_of(x):
    return x.view(-1)


def recursive(x, n):
    return recursive(x * 1.5, n - 1) if n else x


def fails(x, i):
    return x[i] * 2


def many(xs, *, scale):
    return sum([x * scale for x in xs])


def training(x, y):
    for w in W:
        w.grad = None
    h = hidden(x, W[0])
    SEEN.append(h.sum().item())
    loss = loss_of(hidden(h, W[1]), y) * rate(len(SEEN) % 2)
    loss.backward()
    return loss.detach(), *[w.grad for w in W]


def writes_to_views(x, y):
    h = x * 2
    view_of(h).add_(1)
    SEEN.append(h.sum().item())
    return h


def effects_inside(x, y):
    h = hidden(x, W[0])
    return logged(h.sum()) + h


def recursion(x, y):
    SEEN.append(1)
    return recursive(x, 3)


def lists_and_names(x, y):
    SEEN.append(1)
    return many([x, y], scale=2.0) + many([y], scale=3)


def values(x, y):
    SEEN.append(hidden)
    return hidden(x, W[0]) if SEEN[-1] is hidden else x


def frames(x, y):
    SEEN.append(1)
    return of_frames(x) + hidden(x, W[0])


def generators(x, y):
    SEEN.append(1)
    return sum(rows(x))


def errors(x, y):
    SEEN.append(1)
    return fails(x, torch.tensor([len(SEEN) % 4 * 2]))


def in_transforms(x, y):
    SEEN.append(1)
    return torch.vmap(lambda v: hidden(v, W[1]))(x) + torch.func.grad(
        lambda v: hidden(v, W[0]).sum()
    )(x)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.inner = nn.Linear(4, 4), nn.ModuleDict({"decode": nn.Linear(4, 4)})

    def forward(self, x):
        return self.inner.decode(self.encode(x).relu())


TWO = Two()


def modules_in_a_module(x, y):
    h = TWO.encode(x)
    SEEN.append(h.sum().item())
    return TWO.inner.decode(h) + h


def a_module_and_those_in_it(x, y):
    SEEN.append(1)
    return TWO(x) + TWO.encode(y)


PROGRAMS = {
    modules_in_a_module: 2,
    a_module_and_those_in_it: 2,
    training: 3,
    writes_to_views: 0,
    effects_inside: 1,
    recursion: 1,
    lists_and_names: 2,
    values: 0,
    frames: 0,
    generators: 0,
    errors: 1,
    in_transforms: 0,
}


def run(step, wrap, change=lambda k: None):
    SEEN.clear()
    for w in W:
        w.grad = None
    torch.manual_seed(0)
    step, found = wrap(step), []
    for k in range(STEPS):
        change(k)
        g = torch.Generator().manual_seed(k)
        x, y = torch.randn(4, 4, generator=g), torch.randn(4, 4, generator=g)
        try:
            result = step(x, y)
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.sum().backward()
        except Exception as exc:
            result = type(exc).__name__, str(exc).split("\n")[0]
        with torch.no_grad():
            found.append(facts([result, x, [w.grad for w in W], SEEN[-1]], False))
    return found, step


@pytest.mark.parametrize("step", PROGRAMS, ids=lambda f: f.__name__)
def test_it_is_the_same(step):
    before = dict(globals())
    expected, _ = run(step, lambda f: f)
    for mode in MODES:
        found, captured = run(step, lambda f, mode=mode: torch.capture(f, mode=mode))
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a == b, k
        assert captured.replays == 0
        assert captured.parts.replays >= PROGRAMS[step], torch.explain(captured)
    assert all([globals()[k] is v for k, v in before.items()])


def test_globals_that_change(monkeypatch):
    def change(k):
        if k in (6, 14):
            monkeypatch.setitem(globals(), "SCALE", k / 4)
        if k == 10:
            monkeypatch.setitem(globals(), "hidden", lambda x, w: torch.tanh(x @ w) * SCALE)

    def changing(wrap):
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "SCALE", 1.5)
            patch.setitem(globals(), "hidden", hidden_before)
            return run(training, wrap, change)[0]

    hidden_before = hidden
    assert changing(torch.capture) == changing(lambda f: f)


def test_threads():
    step = torch.capture(training)
    run(training, lambda f: step)
    plain = hidden
    expected = [bytes(hidden(torch.ones(4, 4) * k, W[0]).detach().numpy()) for k in range(30)]
    found: list = []

    def other():
        for k in range(30):
            found.append(bytes(hidden(torch.ones(4, 4) * k, W[0]).detach().numpy()))

    thread = threading.Thread(target=other)
    thread.start()
    for k in range(30):
        step(torch.ones(4, 4), torch.ones(4, 4) * k)
    thread.join()
    assert found == expected
    assert hidden is plain
