"""gradlib.profiler: schedules, cycles, handlers."""

from __future__ import annotations

import gzip
import json

import pytest

import gradlib
from gradlib.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

NONE, WARMUP, RECORD, SAVE = ProfilerAction


def train(prof, steps):
    x = gradlib.ones(2)
    for _ in range(steps):
        x * 2
        prof.step()


def run(prof, steps):
    with prof:
        train(prof, steps)


def names(prof):
    return [e.name for e in prof.events()]


def test_schedule():
    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [plan(i) for i in range(7)] == [NONE, NONE, WARMUP, RECORD, SAVE, NONE, NONE]
    endless = schedule(wait=1, warmup=1, active=1)
    assert [endless(i) for i in range(6)] == [NONE, WARMUP, SAVE] * 2
    eager = schedule(wait=2, warmup=1, active=1, skip_first_wait=1)
    assert [eager(i) for i in range(6)] == [WARMUP, SAVE, NONE, NONE, WARMUP, SAVE]


def test_schedule_refuses_what_makes_no_sense():
    with pytest.raises(AssertionError, match=r"Invalid profiler schedule arguments\. Got wait=-1"):
        schedule(wait=-1, warmup=0, active=1)
    with pytest.raises(AssertionError, match="active=0"):
        schedule(wait=1, warmup=1, active=0)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError, match="non-negative"):
        schedule(wait=0, warmup=1, active=1)(-1)


def test_without_schedule_everything_is_recorded():
    ready = []
    with profile(on_trace_ready=ready.append, record_shapes=True) as prof:
        train(prof, 3)
        with record_function("label"):
            gradlib.ones(3) + 1
    assert ready == [prof]
    assert names(prof) == ["mul", "mul", "mul", "label", "add"]
    assert {e.key: e.count for e in prof.key_averages(group_by_input_shape=True)}["mul"] == 3
    assert prof.events()[0].input_shapes == [[2], []]


def test_cycles():
    seen = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    prof = profile(schedule=plan, on_trace_ready=lambda p: seen.append((p.step_num, names(p))))
    with pytest.warns(UserWarning, match="acc_events=True"):
        run(prof, 10)
    steps = ["ProfilerStep*", "mul"] * 2
    assert seen == [(4, steps), (8, steps)]
    assert [e.trace_name for e in prof.events()] == [
        "ProfilerStep#6",
        "mul",
        "ProfilerStep#7",
        "mul",
    ]
    averages = {e.key: e.count for e in prof.key_averages()}
    assert averages == {"ProfilerStep*": 2, "mul": 2}
    assert prof.current_action is NONE and prof.step_num == 10


def test_cycles_one_after_the_other():
    seen = []
    with pytest.warns(UserWarning, match="won't be using warmup"):
        plan = schedule(wait=0, warmup=0, active=1)
    with profile(schedule=plan, on_trace_ready=lambda p: seen.append(1), acc_events=True) as prof:
        train(prof, 3)
    assert len(seen) == 4  # the last one was cut short
    assert names(prof) == ["ProfilerStep*", "mul"] * 3 + ["ProfilerStep*"]


def test_a_cycle_that_is_cut_short_is_ready_at_the_end():
    seen = []
    plan = schedule(wait=0, warmup=1, active=5)
    with profile(schedule=plan, on_trace_ready=lambda p: seen.append(names(p))) as prof:
        train(prof, 2)
    assert seen == [["ProfilerStep*", "mul", "ProfilerStep*"]]


def test_a_schedule_with_gaps_warns():
    actions = [RECORD, NONE, WARMUP, NONE]
    prof = profile(schedule=lambda step: actions[step])
    with pytest.warns(UserWarning, match="followed by NONE") as caught:
        run(prof, 3)
    assert [str(w.message).split()[2] for w in caught] == ["RECORD", "WARMUP"]


def test_start_and_stop():
    prof = profile()
    with pytest.raises(AssertionError, match="must be initialized before accessing events"):
        prof.events()
    with pytest.raises(AssertionError, match="must be initialized before getting key averages"):
        prof.key_averages()
    prof.start()
    gradlib.ones(2) * 2
    prof.stop()
    assert names(prof) == ["mul"]


def test_activities():
    assert ProfilerActivity.CPU in supported_activities()
    if not gradlib.cuda.is_available():
        assert supported_activities() == {ProfilerActivity.CPU}
        prof = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
        with pytest.warns(UserWarning, match="CUDA is not available"):
            run(prof, 1)
        assert names(prof) == ["mul"]
    with pytest.warns(FutureWarning, match="`use_cuda` is deprecated"):
        prof = profile(use_cuda=False)
    assert prof.activities == {ProfilerActivity.CPU}


@pytest.mark.parametrize("use_gzip", [False, True])
def test_trace_handler(tmp_path, use_gzip):
    folder = tmp_path / "traces"
    handler = tensorboard_trace_handler(str(folder), "worker", use_gzip)
    with profile(on_trace_ready=handler) as prof:
        prof.add_metadata("run", "7")
        prof.add_metadata_json("rate", "[0.1]")
        gradlib.ones(2) * 2
    (path,) = folder.iterdir()
    assert path.name.startswith("worker.")
    assert path.name.endswith(".pt.trace.json" + ".gz" * use_gzip)
    content = path.read_bytes()
    trace = json.loads(gzip.decompress(content) if use_gzip else content)
    assert (trace["run"], trace["rate"]) == ("7", [0.1])
    assert "mul" in [e["name"] for e in trace["traceEvents"]]


def test_trace_handler_without_a_directory(tmp_path):
    file = tmp_path / "file"
    file.touch()
    prof = profile(on_trace_ready=tensorboard_trace_handler(str(file)))
    with pytest.raises(RuntimeError, match="Can't create directory"):
        run(prof, 0)


def test_stacks(tmp_path):
    path = str(tmp_path / "stacks")
    with profile(with_stack=True) as prof:
        gradlib.ones(20000).exp()
    prof.export_stacks(path, "self_cpu_time_total")
    with open(path) as file:
        assert "test_stacks" in file.read()
    with profile() as prof:
        pass
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        prof.export_stacks(path)
