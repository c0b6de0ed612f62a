"""A step that is quicker than its replay runs as it is, as soon as that is known."""

from __future__ import annotations

import sys
import threading
from itertools import accumulate, chain, cycle

import pytest

import gradlib as torch
from gradlib._capture import steps

X = torch.ones(3)


@pytest.fixture
def clock(monkeypatch):
    """``clock(own, replay)``: how long the step itself takes, and its replay, in turns."""

    def set_to(own, replay):
        times = accumulate(chain.from_iterable(zip(cycle((1, 1)), cycle((own, replay)))))
        monkeypatch.setattr(steps, "perf_counter_ns", lambda: next(times))

    return set_to


def called(f, times):
    step = torch.capture(f)
    for k in range(times):
        assert step(X * k).tolist() == f(X * k).tolist()
    return step


TRIED = 3 + steps.TRIED_AT + steps.TRIES  # calls until it is known


def test_a_quick_step_runs_as_it_is(clock):
    clock(4_000, 9_000)
    factor = [2]
    step = called(lambda x: x * factor[0], TRIED - 1)
    assert not torch.explain(step)
    step(X)
    assert [f.why for f in torch.explain(step)] == [
        "it is quicker than its replay: 4.0 us, not 9.0"
    ]
    step(X)
    assert step._skips == steps.SKIPS
    for k in range(5):
        factor[0] = k
        assert step(X).tolist() == [k] * 3
    assert step._skips == steps.SKIPS - 5
    step._skips = 0
    step(X)
    assert step._skips == steps.SKIPS  # looked at again
    step.reset()
    assert not step._skips
    assert not torch.explain(step)


def test_a_slow_one_is_replayed(clock):
    for own, replay in ((9_000, 4_000), (steps.SHORT + 1, 10 * steps.SHORT)):
        clock(own, replay)
        step = called(lambda x: x * 2, TRIED + 3)
        assert not torch.explain(step)
        assert step.replays == 1
        assert not step._skips


def test_another_shape_may_still_be_worth_it(clock):
    step = called(lambda x: x * 2, 3)
    big = torch.ones(5)
    for _ in range(3):
        step(big)
    clock(4_000, 9_000)
    for _ in range(steps.TRIED_AT + steps.TRIES):
        step(X)
    assert torch.explain(step)
    step(X)
    assert not step._skips
    assert step(big).tolist() == [2] * 5


def test_an_error_of_the_step_is_handed_on(clock):
    clock(4_000, 9_000)
    step = called(lambda i: torch.zeros(3)[i], 0)
    good, bad = torch.tensor([1]), torch.tensor([7])
    for _ in range(3 + steps.TRIED_AT):
        step(good)
    for _ in range(steps.TRIES):
        with pytest.raises(
            IndexError, match="index 7 is out of bounds for dimension 0 with size 3"
        ):
            step(bad)
    assert step(good).tolist() == [0.0]


def test_many_threads_try_a_step_out(clock):
    clock(4_000, 9_000)
    step, wrong = torch.capture(lambda x: x * 2), []

    def work():
        for k in range(400):
            if step(X * k).tolist() != [2.0 * k] * 3:
                wrong.append(k)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong
    (plan,) = [p for e in step._entries.values() for p in e.plans]
    assert plan.tries >= 0
    step._skips = -1  # as two threads could leave it
    assert step(X).tolist() == [2.0] * 3
    assert step._skips in (-1, steps.SKIPS)
