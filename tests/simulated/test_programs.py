"""Random programs on several streams, forward and backward, give the numbers of the CPU whatever the device does first.

A program waits, as CUDA programs must, before it uses a value of another stream, and keeps what it made to the end. The
rest is gradlib's: in backward the engine crosses the same streams and drops gradients as it goes.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gradlib as gl
from tests.simulated_cuda import machine

SEEDS = range(200)
STEPS, STREAMS = 14, 3

UNARY = [
    lambda a: a * 1.5,
    lambda a: a.tanh(),
    lambda a: (a * 0.3).exp(),
    lambda a: a.flip(0),
    lambda a: a[gl.tensor([1, 0, 2, 2], device=a.device)],
    lambda a: gl.nn.functional.softmax(a, 1),
    lambda a: a.cumsum(0) * 0.2,
    lambda a: a - a.mean(0, keepdim=True),
]
BINARY = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: (a @ b.t()) @ b * 0.1,
    lambda a, b: gl.where(a > b, a, b),
    lambda a, b: gl.cat([a[:2], b[2:]]),
    lambda a, b: a / (b * b + 1),
]


def plan(seed: int) -> list[tuple]:
    """Steps: (stream, function, indices of its arguments among the values made so far)."""
    dice, steps = random.Random(seed), []
    for made in range(2, 2 + STEPS):
        functions, arity = dice.choice([(UNARY, 1), (BINARY, 2)])
        chosen = tuple(dice.randrange(max(0, made - 5), made) for _ in range(arity))
        steps.append((dice.randrange(STREAMS), dice.randrange(len(functions)), chosen))
    return steps


def call(number: int, arguments: list) -> gl.Tensor:
    return (UNARY if len(arguments) == 1 else BINARY)[number](*arguments)


def leaves(device: str) -> list[Any]:
    rng = np.random.default_rng(5)
    made = [gl.from_numpy(rng.normal(size=(4, 4))) for _ in range(2)]
    return [t.to(device).requires_grad_() for t in made]


def on_cpu(steps) -> list:
    values = leaves("cpu")
    for _, number, chosen in steps:
        values.append(call(number, [values[i] for i in chosen]))
    loss: Any = sum(v.sum() for v in values[:2] + values[-4:])
    loss.backward()
    return [loss.item(), *(v.grad.tolist() for v in values[:2])]


def on_streams(cuda, steps, retain: bool) -> list:
    streams = [cuda.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
    values, home = leaves("cuda"), cuda.cuda.get_current_stream()
    for stream in streams:
        stream.wait_event(home.record())
    for stream, number, chosen in steps:
        here = streams[stream]
        for other in streams:
            here.wait_event(other.record())
        with here:
            values.append(call(number, [values[i] for i in chosen]))
    for stream in streams:
        home.wait_event(stream.record())
    loss: Any = sum(v.sum() for v in values[:2] + values[-4:])
    if retain:
        loss.backward(retain_graph=True)
        for leaf in values[:2]:
            leaf.grad = None
    loss.backward()
    return [loss.item(), *(v.grad.tolist() for v in values[:2])]


@pytest.mark.parametrize("group", range(0, len(SEEDS), 20))
def test_backward_over_streams(lazy_cuda, group):
    # rows: DEV-15 DEV-16 DEV-20
    for seed in SEEDS[group : group + 20]:
        steps = plan(seed)
        expected = on_cpu(steps)
        with lazy_cuda(seed) as cuda:
            got = on_streams(cuda, steps, retain=seed % 3 == 0)
            for a, b in zip(expected, got, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=f"seed {seed}")


@pytest.mark.parametrize("seed", range(30))
def test_copies_between_devices(lazy_cuda, seed):
    # rows: DEV-15
    with lazy_cuda(seed) as cuda:
        side = cuda.cuda.Stream(non_blocking=True)
        with side:
            x = gl.full((64,), 3.0, device="cuda:0", requires_grad=True)
            y = (x * 2).to("cuda:1")
            z = y * y
        assert z.device == gl.device("cuda:1") and z.tolist() == [36.0] * 64
        with side:
            z.sum().backward()
            assert (
                x.grad is not None
                and x.grad.device == gl.device("cuda:0")
                and x.grad.tolist() == [24.0] * 64
            )


def test_a_missing_wait_in_the_engine_would_be_found(lazy_cuda, monkeypatch):
    """Without the waits the same programs fail: the simulated device can tell."""
    from gradlib.devices.cuda import lanes

    monkeypatch.setattr(lanes.Lane, "wait", lambda self, event: None)
    wrong = 0
    for seed in SEEDS[:60]:
        steps = plan(seed)
        with lazy_cuda(seed) as cuda:
            got = on_streams(cuda, steps, retain=False)
        wrong += not all(
            np.allclose(a, b, equal_nan=False) for a, b in zip(on_cpu(steps), got, strict=True)
        )
    assert wrong > 10 and machine.seed is None
