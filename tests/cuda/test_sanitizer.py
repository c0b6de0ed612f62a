"""The stream sanitizer: every missing wait is found, and nothing else is reported."""

from __future__ import annotations

import inspect
import re
import textwrap
import threading
import warnings

import pytest

import gradlib as torch
from gradlib.cuda import sanitizer
from gradlib.cuda.sanitizer import sanitize
from gradlib.tape import engine, streams
from gradlib.tape.modes import PROFILE, state
from tests.tape import test_streams as scenarios

LINE = "z = y + 1"


def race(wait: bool):
    side = torch.cuda.Stream()
    x = torch.ones(8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    if wait:
        torch.cuda.current_stream().wait_stream(side)
    z = y + 1
    return side, x, y, z


def test_a_missing_wait_is_reported_with_both_lines(cuda):
    with pytest.raises(sanitizer.UnsynchronizedAccessError) as caught, sanitize():
        race(False)
    text = str(caught.value)
    assert "y = x * 2" in text and LINE in text and "test_sanitizer.py" in text
    report = caught.value.report
    assert (report.first.kind, report.first.name) == ("write", "mul")
    assert (report.second.kind, report.second.name) == ("read", "add")
    assert report.first.lane is not report.second.lane
    assert not state.bits & PROFILE  # gone


@pytest.mark.parametrize(
    "order", ["wait_stream", "wait_event", "synchronize", "event", "device", "query", "item"]
)
def test_what_orders_streams(order, cuda):
    with sanitize():
        side = torch.cuda.Stream()
        x = torch.ones(8, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
            done = side.record_event()
            if order == "item":
                y.sum().item()
        if order == "wait_stream":
            torch.cuda.current_stream().wait_stream(side)
        elif order == "wait_event":
            torch.cuda.current_stream().wait_event(done)
        elif order == "synchronize":
            side.synchronize()
        elif order == "event":
            done.synchronize()
        elif order == "device":
            torch.cuda.synchronize()
        elif order == "query":
            assert side.query() and done.query()
        assert (y + 1).sum().item() == 24.0


@pytest.mark.parametrize(
    ("first", "second"),
    [("read", "write"), ("write", "read"), ("write", "write"), ("read", "read")],
)
def test_reads_and_writes(first, second, cuda):
    def touch(kind, x):
        return x * 2 if kind == "read" else x.add_(1)

    with sanitize("warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        a, b = torch.cuda.Stream(), torch.cuda.Stream()
        x = torch.ones(8, device="cuda")
        for s in (a, b):
            s.wait_stream(torch.cuda.current_stream())
        kept = []
        for s, kind in ((a, first), (b, second)):
            with torch.cuda.stream(s):
                kept.append(touch(kind, x))
    found = [str(w.message) for w in caught if "sanitizer" in str(w.message)]
    assert bool(found) == (first != "read" or second != "read")


def add_on(streams, parts):
    for s, part in zip(streams, parts, strict=True):
        with torch.cuda.stream(s):
            part.add_(1)


def test_parts_of_memory_that_do_not_overlap(cuda):
    sides = torch.cuda.Stream(), torch.cuda.Stream()
    with sanitize():
        x = torch.zeros(8, device="cuda")
        for s in sides:
            s.wait_stream(torch.cuda.current_stream())
        add_on(sides, (x[:4], x[4:]))
    with pytest.raises(sanitizer.UnsynchronizedAccessError), sanitize():
        add_on(sides, (x[:5], x[4:]))


def freed_too_early(record: bool):
    side = torch.cuda.Stream()
    x = torch.ones(256, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    if record:
        x.record_stream(side)
    del x
    return y, [torch.full((256,), 9.0, device="cuda") for _ in range(4)]


def test_memory_that_is_freed_while_another_stream_reads_it(lazy_cuda):
    with (
        lazy_cuda(3),
        pytest.raises(sanitizer.UnsynchronizedAccessError, match="record_stream keeps it"),
        sanitize(),
    ):
        freed_too_early(False)
    with lazy_cuda(3), sanitize():
        freed_too_early(True)


def collect(times: int) -> None:
    with sanitize("collect") as reports:
        kept = [race(False) for _ in range(times)]
        assert len(reports) == 1  # the same lines are told once
        del kept


def test_collected_reports(cuda):
    with pytest.raises(sanitizer.CUDASanitizerErrors) as caught:
        collect(2)
    assert len(caught.value.errors) == 1
    sanitizer.enable_cuda_sanitizer("collect")
    race(False)
    assert [r.second.name for r in sanitizer.disable_cuda_sanitizer()] == ["add"]
    assert sanitizer.disable_cuda_sanitizer() == []


def step_on_the_side(wait: bool) -> None:
    w = torch.ones(8, device="cuda", requires_grad=True)
    optimizer, side = torch.optim.SGD([w], lr=0.1), torch.cuda.Stream()
    (w * w).sum().backward()
    if wait:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        optimizer.step()


def test_optimizers_and_leaves(cuda):
    with pytest.raises(sanitizer.UnsynchronizedAccessError, match=r"SGD\.step"), sanitize():
        step_on_the_side(False)
    with sanitize():
        step_on_the_side(True)


def test_errors_and_clean_removal(cuda):
    with pytest.raises(ValueError, match="on_error must be"):
        sanitizer.enable_cuda_sanitizer("panic")
    before = {(o, n): vars(o).get(n) for o, n, _ in sanitizer._hooks(sanitizer.Sanitizer("raise"))}
    with sanitize(), pytest.raises(RuntimeError, match="does not nest"):
        sanitizer.enable_cuda_sanitizer()
    assert all(vars(o).get(n) is v for (o, n), v in before.items())
    thread = threading.Thread(target=race, args=(False,))
    with sanitize():
        thread.start()
        thread.join()  # another thread is not watched


# -- the scenarios of tests/tape/test_streams.py -----------------------------------------------------------------------


def in_user_terms(scenario, cp) -> None:
    """A scenario whose own waits are those of gradlib.cuda, which the sanitizer sees."""
    saved = scenarios.joined, scenarios.forked
    of = torch.cuda.streams.Stream._of

    def joined(cp, *others):
        for other in others:
            torch.cuda.current_stream().wait_stream(of(0, other))

    def forked(cp, *others):
        for other in others:
            of(0, other).wait_stream(torch.cuda.current_stream())

    scenarios.joined, scenarios.forked = joined, forked
    try:
        scenario(cp)
    finally:
        scenarios.joined, scenarios.forked = saved


PLAIN = [
    s
    for s in scenarios.SCENARIOS
    if s not in (scenarios.another_stream_than_forward, scenarios.memory_passed_on)
]


# rows: DEV-15 DEV-16
@pytest.mark.parametrize("scenario", PLAIN, ids=lambda s: s.__name__)
def test_backward_is_clean(scenario, cuda):
    torch.ones(1, device="cuda")
    with sanitize():
        in_user_terms(scenario, cuda)


WAITS = re.compile(r"\.wait\(")


def mutants():
    lines = inspect.getsource(streams.StreamInbox).splitlines()
    for i, line in enumerate(lines):
        if WAITS.search(line):
            indent = line[: len(line) - len(line.lstrip())]
            names = dict(vars(streams))
            exec(textwrap.dedent("\n".join([*lines[:i], indent + "pass", *lines[i + 1 :]])), names)
            yield line.strip(), names["StreamInbox"]


@pytest.mark.parametrize(("line", "mutant"), [*mutants()], ids=[line for line, _ in mutants()])
def test_a_wait_that_the_engine_leaves_out_is_found(line, mutant, cuda, monkeypatch):
    monkeypatch.setattr(engine.streams, "StreamInbox", mutant)
    torch.ones(1, device="cuda")
    found = 0
    for scenario in PLAIN:
        try:
            with sanitize():
                in_user_terms(scenario, cuda)
        except sanitizer.UnsynchronizedAccessError:
            found += 1
    assert found, f"nothing is reported without {line!r}"
