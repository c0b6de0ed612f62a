"""Trace files for Perfetto and chrome://tracing, read as those read them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

import gradlib
from gradlib import nn
from gradlib.autograd import profiler
from gradlib.nn import functional as F
from gradlib.profiler import profile, schedule
from tests.autograd.profiles import backward_in_another_thread
from tests.profiler.viewer import Viewer, assert_backward_is_linked, is_node, nanoseconds


class Net(nn.Module):
    """A small network of convolutions, as one reads digits with."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.dropout, self.classify = nn.Dropout(0.1), nn.Linear(64, 10)

    def forward(self, x):
        return self.classify(self.dropout(self.features(x).flatten(1)))


def trained(steps=3, **options):
    """The profile of some training steps."""
    model = Net()
    optimizer = gradlib.optim.SGD(model.parameters(), lr=0.1)
    images, labels = gradlib.randn(8, 1, 8, 8), gradlib.randint(0, 10, (8,))
    with profiler.profile(**options) as prof:
        for _ in range(steps):
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return prof


def view(prof, tmp_path, name="trace.json"):
    path = tmp_path / name
    prof.export_chrome_trace(path)
    return Viewer(path)


# rows: PROF-26
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_every_backward_slice_of_a_training_is_linked_with_its_forward_slice(tmp_path, name):
    viewer = view(trained(), tmp_path, name)
    assert Counter(assert_backward_is_linked(viewer)) == {
        ("convolution", "ConvolutionBackward0"): 6,
        ("native_batch_norm", "NativeBatchNormBackward0"): 3,
        ("relu", "ReluBackward0"): 6,
        ("max_pool2d", "MaxPool2DWithIndicesBackward0"): 3,
        ("view", "ViewBackward0"): 3,
        ("native_dropout", "MulBackward0"): 3,
        ("linear", "AddmmBackward0"): 3,
        ("cross_entropy_loss", "NllLossBackward0"): 3,
    }
    assert viewer.trace["displayTimeUnit"] == "ms"


# rows: PROF-26
def test_nodes_that_backward_makes_are_linked_with_the_operation_in_backward(tmp_path):
    x = gradlib.rand(3, requires_grad=True)
    with profiler.profile() as prof:
        (g,) = gradlib.autograd.grad((x.exp() * x.sin()).sum(), x, create_graph=True)
        (h,) = gradlib.autograd.grad(g.sum(), x, create_graph=True)
        h.sum().backward()
    viewer = view(prof, tmp_path)
    assert_backward_is_linked(viewer)
    in_backward = [a for a, b, _ in viewer.arrows if is_node(a.get("parent", {"name": ""}))]
    assert len(in_backward) > 10
    # so an arrow leads on from what an arrow has led to
    depth = {id(s): 0 for s in viewer.slices}
    for maker, node, _ in sorted(viewer.arrows, key=lambda a: a[1]["ts"]):
        depth[id(node)] = depth[id(maker.get("parent", maker))] + 1
    assert max(depth.values()) == 3


# rows: PROF-26
def test_each_backward_pass_has_arrows_of_its_own(tmp_path):
    x = gradlib.ones(3, requires_grad=True)
    with profiler.profile() as prof:
        y = (x * 2).exp().sum()
        y.backward(retain_graph=True)
        y.backward()
    viewer = view(prof, tmp_path)
    pairs = [("mul", "MulBackward0"), ("exp", "ExpBackward0"), ("sum", "SumBackward0")]
    assert Counter(assert_backward_is_linked(viewer)) == dict.fromkeys(pairs, 2)


# rows: PROF-26
def test_operations_in_place_on_views_are_linked_with_all_their_nodes(tmp_path):
    x = gradlib.ones(3, 3, requires_grad=True)
    with profiler.profile() as prof:
        y = x.clone()
        row = y[0]
        row.mul_(2)
        (y.sum() + row.sum()).backward()
    viewer = view(prof, tmp_path)
    names = {end["name"]: start["name"] for start, end, _ in viewer.arrows}
    assert names["torch::autograd::CopySlices"] == names["SelectBackward0"] == "mul_"
    assert all(viewer.into(s) for s in viewer.slices if is_node(s))


def test_what_was_recorded_outside_has_no_arrow(tmp_path):
    y = gradlib.ones(3, requires_grad=True).exp()
    with profiler.profile() as prof:
        y.sum().backward()
    viewer = view(prof, tmp_path)
    assert [(a["name"], b["name"]) for a, b, _ in viewer.arrows] == [("sum", "SumBackward0")]


# rows: PROF-26
def test_threads_have_tracks_of_their_own(tmp_path):
    viewer = view(backward_in_another_thread(), tmp_path)
    assert_backward_is_linked(viewer)
    (start, end) = next((a, b) for a, b, _ in viewer.arrows if b["name"] == "ExpBackward0")
    assert start["tid"] != end["tid"]
    main = viewer.names[start["pid"], start["tid"]]
    assert main == f"thread 1 ({threading.current_thread().name})"


# rows: PROF-26 DEV-22
def test_streams_have_tracks_of_their_own(tmp_path, cuda):
    x = gradlib.ones(1000, device="cuda", requires_grad=True)
    y = gradlib.ones(10, device="cuda:1")
    stream = gradlib.cuda.Stream()
    with profiler.profile(use_device="cuda", profile_memory=True) as prof:
        z = (x * 2).sum()
        with gradlib.cuda.stream(stream):
            x.detach() + 1
        z.backward()
        gradlib.cat([y, y])
    viewer = view(prof, tmp_path)
    tracks = {name for key, name in viewer.names.items() if isinstance(key, tuple)}
    assert "default stream" in tracks and len([t for t in tracks if t.startswith("stream 0x")]) == 1
    assert {"cuda:0", "cuda:1"} <= set(viewer.names.values())
    kernels = [s for s in viewer.slices if s["cat"] == "kernel"]
    assert Counter(k["name"] for k in kernels)["mul"] == 2  # forward and backward
    for kernel in kernels:
        (launcher,) = viewer.into(kernel, "ac2g")
        assert launcher["name"] == kernel["name"]
        assert nanoseconds(launcher["ts"]) <= nanoseconds(kernel["ts"])
    (process,) = {k["pid"] for k in kernels if k["name"] == "cat"}
    assert viewer.names[process] == "cuda:1"
    points = viewer.counters[process, "allocated bytes (cuda:1)"]
    assert max(sum(values.values()) for _, values in points) == 80


# rows: PROF-26
def test_device_times_are_on_the_clock_of_the_host(cuda):
    x = gradlib.ones(1000, device="cuda")
    with profiler.profile(use_device="cuda") as prof:
        for _ in range(5):
            x * 2
    events = prof.function_events
    starts = [s.start_us for s in events._device_slices]
    assert starts == sorted(starts)
    for slice in events._device_slices:
        around = slice.event.time_range
        assert around.start - 500 <= slice.start_us <= around.end + 500


# rows: PROF-26
def test_memory_counter(tmp_path):
    prof = trained(steps=1, profile_memory=True)
    viewer = view(prof, tmp_path)
    (points,) = viewer.counters.values()
    found = prof.memory_timeline()
    assert [time for time, _ in points] == found.times
    assert max(sum(values.values()) for _, values in points) == found.peak_bytes
    assert "[memory]" in {e["name"] for e in viewer.instants}


# rows: PROF-26
def test_cycles_that_are_kept_follow_each_other(tmp_path):
    x = gradlib.ones(3, requires_grad=True)
    plan = schedule(wait=1, warmup=1, active=1)
    with profile(schedule=plan, acc_events=True, profile_memory=True) as prof:
        for _ in range(6):
            (x * 2).sum().backward()
            prof.step()
    viewer = view(prof, tmp_path)
    assert Counter(assert_backward_is_linked(viewer))["mul", "MulBackward0"] == 2
    _, second = sorted(s["ts"] for s in viewer.slices if s["name"].startswith("ProfilerStep#"))
    ends = [s["end"] for s in viewer.slices if s["ts"] < second]
    assert max(ends) <= nanoseconds(second)
    assert len({e.id for e in prof.events()}) == len(prof.events())
    assert max(prof.memory_timeline().times) > second


def test_averages_have_no_times_to_export(tmp_path):
    with profiler.profile() as prof:
        gradlib.ones(3) * 2
    with pytest.raises(RuntimeError, match=r"prof\.function_events"):
        prof.key_averages().export_chrome_trace(tmp_path / "trace.json")


# rows: PROF-26 PROF-28
def test_labels_that_overlap_are_asynchronous(tmp_path):
    async def work(name, *waits):
        with profiler.record_function(name):
            gradlib.ones(2).sin()
            for turn in waits:
                await turn.wait()
                gradlib.ones(2).cos()

    async def main():
        turns = [asyncio.Event() for _ in range(2)]
        tasks = [asyncio.create_task(work(f"task {k}", *turns)) for k in range(2)]
        for turn in turns:
            await asyncio.sleep(0)
            turn.set()
        await asyncio.gather(*tasks)

    with profiler.profile() as prof:
        with profiler.record_function("outer"):
            asyncio.run(main())
        with profiler.record_function("later"):
            gradlib.ones(2).exp()
    events = prof.function_events
    assert {e.name for e in events if e.is_async} == {"task 0", "task 1"}
    assert {e.cpu_parent.name for e in events if e.name in ("sin", "cos")} == {"outer"}
    assert {e.self_cpu_time_total for e in events if e.is_async} == {0}
    viewer = view(prof, tmp_path)
    assert [name for name, _, _ in viewer.asynchronous] == ["task 0", "task 1"]
    assert {s["name"] for s in viewer.slices} == {"outer", "sin", "cos", "later", "exp"}
    assert {s["parent"]["name"] for s in viewer.slices if s["name"] == "cos"} == {"outer"}
