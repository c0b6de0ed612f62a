"""gradlib.autograd.profiler.record_function: labels around blocks, functions, generators and coroutines."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

import gradlib
from gradlib.autograd import profiler
from tests.autograd.profiles import counts, named


# rows: PROF-28
def test_record_function_as_context_manager_and_decorator():
    x = gradlib.ones(2)

    @profiler.record_function("power")
    def power(n):
        """x to the n."""
        return x * power(n - 1) if n else x

    assert power.__name__ == "power" and power.__doc__ == "x to the n."
    with profiler.profile() as prof:
        with profiler.record_function("label", "arguments"):
            x + 1
        assert power(2).tolist() == [1, 1]
    label = named(prof, "label")
    assert [e.name for e in label.cpu_children] == ["add"]
    assert label.scope == 7 and label.is_user_annotation
    assert counts(prof) == {"label": 1, "add": 1, "power": 3, "mul": 2}
    first = next(e for e in prof.function_events if e.name == "power")
    assert [e.name for e in first.cpu_children] == ["power", "mul"]


# rows: PROF-28
def test_record_function_on_generators_and_coroutines():
    """Each stretch that runs is an event, with its operations inside; what others do in between is not."""
    seen = []

    @profiler.record_function("numbers")
    def numbers(n):
        for k in range(n):
            gradlib.ones(2).sin()
            try:
                seen.append((yield k))
            except ValueError as error:
                seen.append(str(error))
        return "end"

    @profiler.record_function("wait")
    async def wait(k):
        gradlib.ones(2).cos()
        await asyncio.sleep(0)
        gradlib.ones(2).cos()
        return k

    async def both():
        return await asyncio.gather(wait(1), wait(2))

    def outer():
        return (yield from numbers(1))

    assert inspect.isgeneratorfunction(numbers) and inspect.iscoroutinefunction(wait)
    with profiler.profile() as prof:
        running = numbers(3)
        assert next(running) == 0
        gradlib.ones(2).exp()
        assert running.send("sent") == 1
        assert running.throw(ValueError("thrown")) == 2
        running.close()
        assert list(outer()) == [0]
        results = asyncio.run(both())
    assert seen == ["sent", "thrown", None] and results == [1, 2]
    events = prof.function_events
    inside = {"sin": "numbers", "cos": "wait"}
    for event in events:
        if event.name in inside:
            assert event.cpu_parent.name == inside[event.name]
    assert [e.cpu_parent for e in events if e.name == "exp"] == [None]
    counts = {e.key: e.count for e in prof.key_averages()}
    assert counts == {"numbers": 6, "sin": 4, "exp": 1, "wait": 4, "cos": 4}


def test_an_exception_ends_all_labels():
    def fail():
        with profiler.record_function("outer"), profiler.record_function("inner"):
            gradlib.ones(2).sin()
            raise KeyError

    with profiler.profile() as prof:
        with pytest.raises(KeyError):
            fail()
        gradlib.ones(2).cos()
    tree = [(e.name, e.cpu_parent and e.cpu_parent.name) for e in prof.function_events]
    assert tree == [("outer", None), ("inner", "outer"), ("sin", "inner"), ("cos", None)]


def test_labels_in_threads_are_those_of_the_thread():
    def work(results):
        with profiler.profile() as mine, profiler.record_function("thread"):
            gradlib.ones(2).sin()
        results.append([e.name for e in mine.function_events])

    found = []
    with profiler.profile() as prof, profiler.record_function("main"):
        threads = [threading.Thread(target=work, args=(found,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [["thread", "sin"]] * 4
    assert [e.name for e in prof.function_events] == ["main"]


# rows: PROF-28
def test_a_label_may_outlive_the_profile():
    label = profiler.record_function("long")
    with profiler.profile() as prof:
        label.__enter__()
        gradlib.ones(2) * 2
    label.__exit__(None, None, None)
    assert counts(prof) == {"mul": 1}
