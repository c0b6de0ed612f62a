"""The profiler beside PyTorch's: counts, shapes, FLOPs, trees, averages, tables, schedules."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch
from torch.autograd import profiler_util as theirs

import gradlib
from gradlib.autograd import profiler_util as ours
from gradlib.profiler import _table as _profiler_table

LIBRARIES = (gradlib, torch)


def short(name: str) -> str:
    return name.removeprefix("aten::")


def events_of(lib, run, **options):
    """(name, event) of everything in a profile of ``run(lib)``."""
    with lib.autograd.profiler.profile(**options) as prof:
        run(lib)
    return [(short(e.name), e) for e in prof.function_events]


# rows: PROF-03
@pytest.mark.parametrize(
    ("run", "names"),
    [
        (
            lambda x: (x**2).sum().backward(),
            "pow mul PowBackward0 SumBackward0 torch::autograd::AccumulateGrad",
        ),
        (
            lambda x: ((x * 2).exp() + x).sum().backward(),
            "exp add MulBackward0 ExpBackward0 AddBackward0 torch::autograd::AccumulateGrad",
        ),
        (
            lambda x: (x.sin() @ x.cos()).tanh().sum().backward(),
            "sin cos mm tanh SinBackward0 CosBackward0 MmBackward0 TanhBackward0",
        ),
    ],
)
def test_counts(run, names):
    found = []
    for lib in LIBRARIES:
        x = lib.ones(3, 3, requires_grad=True)
        events = [name for name, _ in events_of(lib, lambda _, x=x: run(x))]
        found.append({name: events.count(name) for name in names.split()})
    if "mm" in names:  # PyTorch multiplies in the formulas of sin, cos and tanh by other kernels
        assert found[0].pop("mm") == found[1].pop("mm") == 3
        found = [{k: v for k, v in f.items() if "Backward" in k or k == "tanh"} for f in found]
    assert found[0] == found[1]


# rows: PROF-08
def test_shapes():
    def run(lib):
        x = lib.ones(2, 3)
        x * 2
        x @ lib.ones(3, 4)
        lib.cat([x, x])
        x.sin()

    shapes = [
        {
            name: e.input_shapes
            for name, e in events_of(lib, run, record_shapes=True)
            if name in ("mul", "mm", "sin")
        }
        for lib in LIBRARIES
    ]
    assert shapes[0] == shapes[1] and len(shapes[0]) == 3


# rows: PROF-09
@pytest.mark.parametrize(
    "run",
    [
        lambda lib: lib.ones(2, 3) @ lib.ones(3, 4),
        lambda lib: lib.bmm(lib.ones(5, 2, 3), lib.ones(5, 3, 4)),
        lambda lib: lib.addmm(lib.ones(4), lib.ones(2, 3), lib.ones(3, 4)),
        lambda lib: lib.baddbmm(lib.ones(5, 2, 4), lib.ones(5, 2, 3), lib.ones(5, 3, 4)),
        lambda lib: lib.nn.functional.linear(lib.ones(6, 3), lib.ones(4, 3), lib.ones(4)),
        lambda lib: lib.nn.functional.conv2d(
            lib.ones(2, 3, 9, 8), lib.ones(4, 3, 3, 2), stride=2, padding=1
        ),
        lambda lib: lib.nn.functional.conv2d(
            lib.ones(2, 4, 9, 9), lib.ones(6, 2, 3, 3), groups=2, dilation=2
        ),
    ],
)
def test_flops(run):
    totals = [sum(e.flops for _, e in events_of(lib, run, with_flops=True)) for lib in LIBRARIES]
    assert totals[0] == totals[1] > 0


# rows: PROF-10
def test_memory():
    usages = [
        {
            name: e.cpu_memory_usage
            for name, e in events_of(
                lib, lambda lib: (lib.ones(4, 4) * 2).view(16).exp(), profile_memory=True
            )
            if name in ("mul", "view", "exp")
        }
        for lib in LIBRARIES
    ]
    assert usages[0] == usages[1] == {"mul": 64, "view": 0, "exp": 64}


# rows: SEQ-07
def test_differences_of_sequence_numbers():
    def numbers(lib):
        x = lib.ones(3, requires_grad=True)
        found = events_of(lib, lambda _: (x * 2).exp().sum().backward())
        wanted = "mul exp sum MulBackward0 ExpBackward0 SumBackward0".split()
        by_name: dict = {}
        for name, e in found:
            if name in wanted and e.sequence_nr >= 0:
                by_name.setdefault(name, (e.sequence_nr, e.scope))
        first = by_name["mul"][0]
        return {name: (number - first, scope) for name, (number, scope) in by_name.items()}

    assert numbers(gradlib) == numbers(torch)


SPANS = [
    ("outer", 1, 0, 100),
    ("mul", 1, 5, 20),
    ("mul", 1, 30, 60),
    ("inner", 1, 35, 50),
    ("mul", 2, 10, 90),
    ("last", 1, 100, 130),
]


def built(module):
    events = [
        module.FunctionEvent(
            id=i,
            name=name,
            thread=thread,
            start_us=start,
            end_us=end,
            input_shapes=[[i, 2], []],
            stack=[f"file.py({i}): f", "main.py(1): main"],
            cpu_memory_usage=64 * i,
        )
        for i, (name, thread, start, end) in enumerate(SPANS)
    ]
    for e in events:
        e.flops = 0
    events = module.EventList(events, use_device=None, profile_memory=True, with_flops=False)
    events._build_tree()
    return events


# rows: PROF-17 PROF-18 PROF-21 PROF-22
def test_trees_and_averages():
    def facts(module):
        events = built(module)
        return (
            [(e.name, e.cpu_parent and e.cpu_parent.id, e.self_cpu_time_total) for e in events],
            [
                (a.key, a.count, a.cpu_time_total, a.self_cpu_time_total, a.cpu_time_str)
                for a in events.key_averages()
            ],
            len(events.key_averages(True)),
            len(events.key_averages(False, 1)),
            len(events.key_averages(False, 2)),
            events.self_cpu_time_total,
            (events.total_average().key, events.total_average().count),
            events.total_average().self_cpu_time_total,
        )

    assert facts(ours) == facts(theirs)
    averages = [[repr(a) for a in built(module).key_averages()] for module in (ours, theirs)]
    assert averages[0] == averages[1]


# rows: PROF-23 PROF-24 PROF-25
@pytest.mark.parametrize(
    "sort_by", [None, *"cpu_time cpu_time_total self_cpu_time_total cpu_memory_usage count".split()]
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_limit": 2},
        {"row_limit": 0},
        {"header": "Title", "top_level_events_only": True},
        {"max_name_column_width": 6, "max_shapes_column_width": 12, "max_src_column_width": 15},
        {"max_name_column_width": None},
        {"time_unit": "ms"},
        {"time_unit": "h"},
    ],
    ids=str,
)
def test_tables(sort_by, options):
    def texts(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            events = built(module)
            groups = [(), (True,), (False, 1), (True, 9)]
            lists = [events, *(events.key_averages(*group) for group in groups)]
            return [of.table(sort_by=sort_by, **options) for of in lists]

    assert texts(ours) == texts(theirs)


# rows: PROF-27
def test_stacks(tmp_path):
    texts = []
    for module in (ours, theirs):
        path = str(tmp_path / module.__name__)
        built(module).export_stacks(path, "self_cpu_time_total")
        with open(path) as file:
            texts.append(file.read())
    assert texts[0] == texts[1]


# rows: PROF-42
@pytest.mark.parametrize("value", [0, 0.5, 3, 999.9, 1000, 1500, 999_999, 1e6, 2.5e7])
def test_times_and_memory_as_text(value):
    assert _profiler_table.format_time(value) == theirs._format_time(value)
    nbytes = int(value) * 1024
    assert _profiler_table.format_memory(nbytes).lower() == theirs._format_memory(nbytes).lower()


# rows: PROF-41
@pytest.mark.parametrize(
    "name", ["_ZN2at4mul_E", "a", "mul", "_Z3addif", "_ZN2at6native3fooIfEEvT_", "_Znonsense"]
)
def test_demangling(name):
    assert ours.StringTable()[name] == theirs.StringTable()[name]


# rows: PROF-40
def test_memory_records():
    class Record:
        def __init__(self, start):
            self.start = start

        def start_ns(self):
            return self.start

    records = [(Record(n), n) for n in (5, 1, 9, 5, 7)]
    for first, last in itertools.product(range(11), repeat=2):
        got, want = [
            [n for _, n in module.MemRecordsAcc(records).in_interval(first, last)]
            for module in (ours, theirs)
        ]
        assert got == want


@pytest.mark.parametrize("repeat", [0, 1, 2])
def test_schedules(repeat):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wait, warmup, active, first in itertools.product((0, 2), (0, 1), (1, 2), (0, 3)):
            how = {
                "wait": wait, "warmup": warmup, "active": active, "skip_first": first, "repeat": repeat,
            }  # fmt: skip
            plans = [lib.profiler.schedule(**how) for lib in LIBRARIES]
            names = [[plan(step).name for step in range(14)] for plan in plans]
            assert names[0] == names[1], how


# rows: PROF-37
def test_step_trackers(monkeypatch):
    results = []
    for lib in LIBRARIES:
        tracker = lib.autograd.profiler.KinetoStepTracker
        monkeypatch.setattr(tracker, "_step_dict", {})
        monkeypatch.setattr(tracker, "_current_step", 0)
        tracker.init_step_count("a")
        tracker.init_step_count("b")
        counted = [tracker.increment_step(who) for who in "abbaab"]
        results.append((counted, tracker.erase_step_count("a"), tracker.erase_step_count("a")))
    assert results[0] == results[1]


# rows: PROF-04 PROF-14 PROF-27
def test_errors():
    def error(action):
        with pytest.raises((RuntimeError, AssertionError, ValueError)) as caught:
            action()
        return type(caught.value), str(caught.value)

    def twice(lib):
        prof = lib.autograd.profiler.profile()
        with prof:
            prof.__enter__()

    def stacks(lib):
        with lib.autograd.profiler.profile() as prof:
            lib.ones(1)
        prof.export_stacks("nowhere")

    for act in (
        twice,
        stacks,
        lambda lib: lib.autograd.profiler.profile(use_cpu=False),
        lambda lib: lib.profiler.schedule(wait=-1, warmup=0, active=1),
        lambda lib: lib.profiler.profile().events(),
        lambda lib: lib.profiler.profile().key_averages(),
    ):
        got, want = [error(lambda lib=lib, act=act: act(lib)) for lib in LIBRARIES]
        assert got == want
