"""Costs by source line."""

from __future__ import annotations

import time

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.profiler import _by_line, profile
from gradlib.profiler._places import line_of, short_lines


class Slow(gradlib.autograd.Function):
    """Takes 2 ms in forward and 60 ms in backward."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.002)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.06)
        return g


def line_after(function, lines):
    """ "file:line" of a line of `function`, counted from its def."""
    return f"{__file__}:{function.__code__.co_firstlineno + lines}"


def model(x):
    y = Slow.apply(x)
    with profiler.record_function("label"):
        time.sleep(0.001)
        z = y.exp()
    return (z + y).sum()


def test_each_line_has_the_cost_of_its_operations_and_of_their_nodes():
    x = gradlib.ones(4, requires_grad=True)
    model(x).backward()  # what is made at the first call is not to be measured
    with profiler.profile(with_stack=True) as prof:
        for _ in range(2):
            loss = model(x)
            loss.backward()
    rows = {row.key: row for row in prof.by_line()}
    slow, exp, both = (rows[line_after(model, lines)] for lines in (1, 4, 5))
    assert slow.calls == 2
    assert slow.forward_cpu_us > 4000 and slow.backward_cpu_us > 120000
    assert (exp.calls, both.calls) == (2, 4)
    assert exp.forward_cpu_us > 0 and exp.backward_cpu_us > 0
    assert line_after(model, 2) not in rows  # the label's own time is that of no line
    totals = [row.forward_cpu_us + row.backward_cpu_us for row in prof.by_line()]
    assert totals == sorted(totals, reverse=True)
    assert {row.forward_device_us for row in rows.values()} == {0}
    every = sum(row.forward_cpu_us + row.backward_cpu_us for row in rows.values())
    events = prof.function_events
    assert every == pytest.approx(sum(e.self_cpu_time_total for e in events if e.scope != 7))


def test_a_line_shows_its_text():
    x = gradlib.ones(4, requires_grad=True)
    with profile(with_stack=True) as prof:
        model(x).backward()
    lines = str(prof.by_line().head(2)).splitlines()
    assert lines[0].split() == "Line Calls Forward CPU Backward CPU Source".split()
    assert len(lines) == 4 and set(lines[1]) <= set("- ")
    number = model.__code__.co_firstlineno + 1
    # the first, unless the machine let another line wait
    [line] = [
        line for line in str(prof.by_line()).splitlines() if f"test_by_line.py:{number} " in line
    ]
    assert line.startswith("test_by_line.py:") and line.endswith("y = Slow.apply(x)")


def test_operations_of_double_backward_belong_to_the_line_of_the_first_operation():
    x = gradlib.ones(4, requires_grad=True)
    with profiler.profile(with_stack=True) as prof:
        y = x.exp()
        (g,) = gradlib.autograd.grad(y.sum(), x, create_graph=True)
        g.sum().backward()
    first = __file__, test_operations_of_double_backward_belong_to_the_line_of_the_first_operation
    rows = {row.key: row for row in prof.by_line()}
    assert rows[line_after(first[1], 3)].calls == 1
    nodes = [e for e in prof.function_events if e.name == "MulBackward0"]
    assert nodes and all(line_of(e.stack) == line_after(first[1], 3) for e in nodes)


def test_device_times_by_line(cuda):
    x = gradlib.ones(1000, device="cuda", requires_grad=True)
    with profiler.profile(with_stack=True, use_device="cuda") as prof:
        (x * 2).sum().backward()
    report = prof.by_line()
    on_device = sum(row.forward_device_us + row.backward_device_us for row in report)
    assert on_device == pytest.approx(
        sum(k.duration for e in prof.function_events for k in e.kernels)
    )
    assert report[0].forward_device_us > 0 and report[0].backward_device_us > 0
    assert "Forward device" in str(report)


def test_lines_must_have_been_recorded():
    with profiler.profile() as prof:
        gradlib.ones(2) * 2
    with pytest.raises(RuntimeError, match=r"no source lines; record with profile\(with_stack"):
        prof.by_line()
    with profiler.profile(with_stack=True) as prof:
        gradlib.ones(2) * 2
    with pytest.raises(RuntimeError, match="averages"):
        prof.key_averages().by_line()


def test_an_empty_report():
    assert str(_by_line.Report("Line", [])).split()[0] == "Line"


def test_files_of_one_name_are_told_apart():
    lines = ["/a/x/model.py:3", "/a/y/model.py:3", "/a/y/model.py:4", "/b/train.py:5", "main:1"]
    assert list(short_lines(lines).values()) == [
        "x/model.py:3",
        "y/model.py:3",
        "y/model.py:4",
        "train.py:5",
        "main:1",
    ]
    assert short_lines(["model.py:1", "/model.py:2"]) == {
        "model.py:1": "model.py:1",
        "/model.py:2": "/model.py:2",
    }
    assert short_lines([]) == {}


def test_the_line_of_a_stack():
    assert line_of(["/a/model.py(41): forward", "/a/train.py(7): main"]) == "/a/model.py:41"
    assert line_of(["train.py:41"]) == "train.py:41"
    assert line_of([]) == line_of(None) == ""
