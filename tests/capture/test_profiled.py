"""Captured steps under the profiler and in anomaly mode: what ran, and the lines that it came from."""

from __future__ import annotations

import inspect

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from tests.capture.programs import bits, left

X = torch.arange(6.0).reshape(2, 3)


def made(wrap):
    """A step of a small model, and all that it leaves."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        y = model(x).sin()
        loss = (y * y).sum()
        loss.backward()
        optimizer.step()
        return loss

    return wrap(step), lambda: left(model, optimizer)


def line_of(text):
    """ "file:line" of the only line of this file with a text."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    [number] = [n for n, line in enumerate(lines, 1) if line.strip() == text]
    return f"{__file__}:{number}"


def counts(prof):
    return {e.key: e.count for e in prof.key_averages()}


def test_a_profile_shows_the_ops_nodes_and_lines_of_a_replay():
    (step, state), (plain, plain_state) = made(torch.capture), made(lambda f: f)
    for _ in range(4):
        assert bits(step(X)) == bits(plain(X))
    assert step.replays == 1
    with torch.profiler.profile() as prof:
        for _ in range(2):
            found = step(X)
    with torch.profiler.profile() as usual:
        for _ in range(2):
            expected = plain(X)
    assert bits(found) == bits(expected)
    assert state() == plain_state()
    assert step.replays == 1
    mine, theirs = counts(prof), counts(usual)
    assert mine["replay of step"] == 2
    for key in (
        "sin", "linear", "gelu", "SinBackward0", "MulBackward0", "GeluBackward0",
        "torch::autograd::AccumulateGrad",
    ):  # fmt: skip
        assert mine[key] == theirs[key], key
    costs = {cost.key: cost for cost in prof.by_line()}
    for text in ("y = model(x).sin()", "loss = (y * y).sum()"):
        cost = costs[line_of(text)]
        assert cost.forward_cpu_us > 0 and cost.backward_cpu_us > 0, text
    assert line_of("optimizer.step()") in costs
    assert prof.key_averages().table()


def test_a_profile_that_asks_for_more_runs_the_step_as_it_is():
    (step, state), (plain, plain_state) = made(torch.capture), made(lambda f: f)
    for _ in range(4):
        step(X)
        plain(X)
    for options in (
        {"with_stack": True}, {"record_shapes": True}, {"profile_memory": True}, {"with_modules": True},
    ):  # fmt: skip
        with torch.profiler.profile(**options) as prof:
            step(X)
        with torch.profiler.profile(**options) as usual:
            plain(X)
        assert counts(prof) == counts(usual), options
        assert state() == plain_state()
    assert step.replays == 1


def test_a_step_without_a_plan_is_not_written_down_while_it_is_profiled():
    step, _ = made(torch.capture)
    with torch.profiler.profile() as prof:
        for _ in range(5):
            step(X)
    assert step.replays == 0 and torch.explain(step) == []
    assert counts(prof)["sin"] == 5
    for _ in range(4):
        step(X)
    assert step.replays == 1


def test_an_error_of_a_kernel_under_the_profiler():
    table = torch.arange(6.0).reshape(3, 2)
    step = torch.capture(lambda i: F.embedding(i, table).sum())
    for _ in range(4):
        step(torch.tensor([1]))
    assert step.replays == 1
    with (
        torch.profiler.profile() as prof,
        pytest.raises(IndexError, match="out of range") as caught,
    ):
        step(torch.tensor([3]))
    assert "test_profiled.py" in caught.value.__notes__[0]
    assert "replay of <lambda>" in counts(prof)


def test_anomaly_mode_names_the_line_of_forward():
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        y = (w * x).sqrt()
        y.sum().backward()

    step = torch.capture(step)
    for _ in range(4):
        step(X + 1)
    assert step.replays == 1
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.warns(UserWarning, match="y = "),
        pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan"),
    ):
        step(-(X + 1))


def test_a_label_of_the_program_is_kept_around_a_replay():
    step, _ = made(torch.capture)
    for _ in range(4):
        step(X)
    with torch.profiler.profile() as prof, torch.profiler.record_function("mine"):
        step(X)
    [label] = [e for e in prof.events() if e.name == "mine"]
    assert [child.name for child in label.cpu_children] == ["replay of step"]
