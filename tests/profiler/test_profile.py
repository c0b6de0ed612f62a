"""gradlib.profiler: schedules, cycles, handlers."""

from __future__ import annotations

import gzip
import json
import threading

import pytest

import gradlib
from gradlib.profiler import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig,
    _KinetoProfile,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from gradlib.tape import modes
from gradlib.utils import data

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


def test_what_must_come_first():
    uses = {
        "exporting chrome trace": lambda p: p.export_chrome_trace("trace.json"),
        "exporting stacks": lambda p: p.export_stacks("stacks"),
        "stopping trace": lambda p: p.stop(),
    }
    for words, use in uses.items():
        with pytest.raises(AssertionError, match=f"Profiler must be initialized before {words}"):
            use(profile(with_stack=True))
    with pytest.raises(AssertionError, match="before starting trace"):
        _KinetoProfile().start_trace()
    with pytest.raises(AssertionError, match="before stopping trace"):
        _KinetoProfile().stop_trace()


def test_a_step_before_the_start_records_nothing():
    prof = profile()
    prof.step()
    gradlib.ones(2) * 2
    assert prof.step_num == 1 and prof.profiler is None


def test_an_end_during_warm_up_is_no_wrong_schedule():
    with profile(schedule=schedule(wait=0, warmup=3, active=1)) as prof:
        train(prof, 1)
    assert prof.current_action is NONE and prof.profiler is None


def test_activities_are_checked():
    cpu = ProfilerActivity.CPU
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[])
    with pytest.raises(TypeError, match=r"Expected ProfilerActivity or dict, got <class 'str'>"):
        profile(activities=["cpu"])
    with pytest.raises(ValueError, match=r"ProfilerActivity\.CPU specified more than once"):
        profile(activities=[cpu, {cpu: []}])
    with pytest.raises(NotImplementedError, match="CPU_OP"):
        profile(activities=[{cpu: ["CPU_OP"]}])
    assert profile(activities=[{cpu: []}]).activities == {cpu}
    prof = profile(activities=[cpu, ProfilerActivity.XPU])
    with pytest.warns(UserWarning, match="XPU is not available, disabling XPU profiling"):
        run(prof, 1)
    assert prof.use_device == "xpu" and names(prof) == ["mul"]


def test_a_part_is_left_out():
    cpu, x = [ProfilerActivity.CPU], gradlib.ones(2)
    with profile() as prof:
        x * 2
        prof.toggle_collection_dynamic(False, cpu)
        prof.toggle_collection_dynamic(False, cpu)
        x.sin()
        prof.toggle_collection_dynamic(True, cpu)
        x.cos()
        prof.toggle_collection_dynamic(False, cpu)
    x.exp()
    prof.toggle_collection_dynamic(True, cpu)  # too late
    x.exp()
    assert names(prof) == ["mul", "cos"]
    profile().toggle_collection_dynamic(True, cpu)


def test_device_times_are_left_out(cuda):
    x = gradlib.ones(2, device="cuda")
    with profile() as prof:
        x * 2
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])
        x.sin()
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CUDA])
        x.cos()
    assert [(e.name, len(e.kernels)) for e in prof.events()] == [("mul", 1), ("sin", 0), ("cos", 1)]


def test_identity_and_metadata_of_a_trace(tmp_path):
    prof = profile(with_flops=True, profile_memory=True)
    assert prof.get_trace_id() is None
    prof.preset_metadata_json("rate", "[0.1]")
    with pytest.raises(ValueError, match="Expecting"):
        prof.add_metadata_json("rate", "[0.1")
    run(prof, 1)
    first = prof.get_trace_id()
    prof.export_chrome_trace(str(tmp_path / "trace.json"), use_python_export=True)
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["trace_id"] == first and len(first) == 32
    assert (trace["rate"], trace["with_flops"], trace["profile_memory"]) == ([0.1], 1, 1)
    assert "with_stack" not in trace
    prof.set_custom_trace_id_callback(lambda: "mine")
    with pytest.warns(UserWarning, match="acc_events=True"):
        run(prof, 1)
    assert prof.get_trace_id() == "mine"
    with profile(custom_trace_id_callback=lambda: "ours") as prof:
        pass
    assert prof.get_trace_id() == "ours"


def test_an_observer_sees_what_is_recorded():
    class Observer:
        def __init__(self):
            self.seen = []

        def start(self):
            self.seen.append(("start", prof.step_num))

        def stop(self):
            self.seen.append(("stop", prof.step_num))

    observer = Observer()
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    prof = profile(schedule=plan, execution_trace_observer=observer)
    run(prof, 6)
    assert observer.seen == [("start", 2), ("stop", 4)]


def test_the_profile_without_schedule():
    prof = _KinetoProfile(record_shapes=True)
    prof.prepare_trace()
    gradlib.ones(2).sin()
    prof.start_trace()
    gradlib.ones(2).cos()
    prof.stop_trace()
    assert [(e.name, e.input_shapes) for e in prof.events()] == [("cos", [[2]])]
    assert not kineto_available() and prof.events()[0].device_type is DeviceType.CPU


def test_threads_that_start_meanwhile_are_recorded_on_demand():
    def work():
        with record_function("work"):
            gradlib.ones(3).exp()

    start, config = (
        threading.Thread.start,
        _ExperimentalConfig(verbose=True, profile_all_threads=True),
    )
    with profile(experimental_config=config, record_shapes=True) as prof:
        threads = [threading.Thread(target=work, name=f"worker {k}") for k in range(3)]
        gradlib.ones(2) * 2
        for thread in threads:
            thread.start()
            thread.join()
    assert threading.Thread.start is start and "run" not in vars(threads[0])
    assert sorted(names(prof)) == ["exp"] * 3 + ["mul"] + ["work"] * 3
    children = [[c.name for c in e.cpu_children] for e in prof.events() if e.name == "work"]
    assert children == [["exp"]] * 3
    assert all(
        name.startswith(("worker", "MainThread")) for name in prof.events()._threads.values()
    )
    assert config.verbose
    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert names(prof) == []


def test_a_thread_that_outlives_the_profile():
    go, ready = threading.Event(), threading.Event()
    found = []

    def work():
        gradlib.ones(2).sin()
        ready.set()
        go.wait(300)
        found.append(gradlib.ones(2).cos().tolist())

    with profile(experimental_config=_ExperimentalConfig(profile_all_threads=True)) as prof:
        thread = threading.Thread(target=work)
        thread.start()
        assert ready.wait(300)
    assert names(prof) == ["sin"]
    go.set()
    thread.join()
    assert names(prof) == ["sin"] and found == [pytest.approx([0.5403023] * 2)]
    assert modes.shared.active == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_data_loader(workers):
    class Squares(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return gradlib.tensor(float(i)).square()

    loader = data.DataLoader(Squares(), batch_size=2, num_workers=workers, worker_type="thread")
    config = _ExperimentalConfig(profile_all_threads=True)
    with profile(experimental_config=config) as prof:
        batches = [batch.tolist() for batch in loader]
    assert batches == [[0, 1], [4, 9]]
    kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    counts = {e.key: e.count for e in prof.key_averages()}
    assert (
        counts[f"enumerate(DataLoader)#{kind}.__next__"] == 3
    )  # the last one says that it is over
    assert counts["square"] == 4
    labels = {e.thread for e in prof.events() if e.name.startswith("enumerate")}
    assert ({e.thread for e in prof.events() if e.name == "square"} <= labels) == (workers == 0)


def test_steps_of_an_optimizer():
    layer = gradlib.nn.Linear(2, 2)
    optimizer = gradlib.optim.SGD(layer.parameters(), lr=0.1)
    with profile() as prof:
        layer(gradlib.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    labels = [e.name for e in prof.events() if e.is_user_annotation]
    assert labels == ["Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"]
    assert layer.weight.grad is None
