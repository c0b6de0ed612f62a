"""gradlib.autograd.profiler_util: events made by hand, their averages, tables and exports."""

from __future__ import annotations

import json

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.autograd.profiler_util import (
    DeviceType,
    EventList,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)
from gradlib.profiler import _demangle


def event(number, name, start, end, thread=1, **more):
    return FunctionEvent(number, name, thread, start, end, **more)


def tree(*events, **options):
    events = EventList(events, **options)
    events._build_tree()
    return events


@pytest.fixture
def sample():
    """Two calls of `a`, the first with `b` and `c` inside, and one of `d`."""
    return tree(
        event(0, "a", 0, 10, cpu_memory_usage=10, input_shapes=[[3, 4], []], stack=["f.py(3): f", "m.py(9): g"]),
        event(1, "b", 1, 4, cpu_memory_usage=4, input_shapes=[[3]], flops=1_234_567),
        event(2, "c", 5, 9),
        event(3, "a", 20, 2020, input_shapes=[[5], []], stack=["f.py(5): f", "m.py(9): g"]),
        event(4, "d", 3000, 3100, cpu_memory_usage=2048),
        profile_memory=True,
        with_flops=True,
    )  # fmt: skip


def rows(table: str) -> list[list[str]]:
    """The cells of a table between its second and third rule, without the further lines of a row."""
    lines = table.splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("---")]
    name = len(lines[rules[0]].split()[0])  # the width of the first column
    body = [line for line in lines[rules[1] + 1 : rules[2]] if line[:name].strip()]
    return [line.split() for line in body]


def order(table: str) -> list[str]:
    return [cells[0] for cells in rows(table)]


# rows: PROF-38
def test_interval():
    assert Interval(1, 3).elapsed_us() == 2
    assert (Interval(1, 3).start, Interval(1, 3).end) == (1, 3)


# rows: PROF-39
def test_kernel():
    kernel = Kernel("gemm", 1, 7.5)
    assert (kernel.name, kernel.device, kernel.duration) == ("gemm", 1, 7.5)


# rows: PROF-40
def test_memory_records_in_an_interval():
    class Record:
        def __init__(self, start):
            self.start = start

        def start_ns(self):
            return self.start

    records = MemRecordsAcc([(Record(n), n) for n in (5, 1, 9)])
    assert [n for _, n in records.in_interval(1, 5)] == [1, 5]
    assert list(records.in_interval(6, 8)) == []
    assert list(MemRecordsAcc([]).in_interval(0, 9)) == []


# rows: PROF-41
def test_string_table(monkeypatch):
    table = StringTable()
    assert table["_ZN2at4mul_E"] == "at::mul_"
    assert table["a"] == "a" and table["Pi"] == "Pi" and table["mul"] == "mul"
    assert dict(table)["_ZN2at4mul_E"] == "at::mul_"
    assert StringTable()["_Z nonsense"] == "_Z nonsense"
    monkeypatch.setattr(_demangle, "_runtime", lambda: None)  # no C++ library
    assert _demangle.demangle("_ZN2at4mul_E") == "at::mul_"
    assert _demangle.demangle("_Z3addif") == "_Z3addif"


# rows: PROF-42
def test_formatted_times():
    e = event(0, "a", 0, 1500)
    assert e.cpu_time_total_str == e.cpu_time_str == e.self_cpu_time_total_str == "1.500ms"
    assert event(0, "a", 0, 3).cpu_time_total_str == "3.000us"
    assert event(0, "a", 0, 2e6).cpu_time_total_str == "2.000s"
    assert e.cuda_time == e.device_time == 0 and e.cuda_time_total_str == "0.000us"
    assert isinstance(e, FormattedTimesMixin) and issubclass(FunctionEventAvg, FormattedTimesMixin)


# rows: PROF-17
def test_tree(sample):
    a, b, c, second, d = sample
    assert a.cpu_children == [b, c] and b.cpu_parent is a and c.cpu_parent is a
    assert a.cpu_parent is second.cpu_parent is d.cpu_parent is None
    assert a.self_cpu_time_total == 10 - 3 - 4
    assert a.self_cpu_memory_usage == 6


# rows: PROF-17
def test_tree_of_threads_equal_times_and_overlaps():
    outer, inner = event(0, "outer", 0, 10), event(1, "inner", 0, 10)
    other, asynchronous = event(2, "other", 2, 3, thread=2), event(3, "async", 4, 5, is_async=True)
    overlapping, after = event(4, "over", 8, 12), event(5, "after", 12, 13)
    tree(after, overlapping, asynchronous, other, inner, outer)
    assert outer.cpu_children == [inner] and inner.cpu_parent is outer
    assert [e.cpu_parent for e in (other, asynchronous, overlapping, after)] == [None] * 4
    assert asynchronous.self_cpu_time_total == 0


# rows: PROF-17
def test_a_deep_tree_is_built():
    n = 20_000
    events = tree(*[event(i, "label", i, 10 * n - i) for i in range(n)])
    assert events[0].self_cpu_time_total == 2 and events[-1].cpu_children == []


# rows: PROF-16
def test_device_times():
    events = tree(
        event(0, "outer", 0, 10, use_device="cuda", device_memory_usage=2 << 20),
        event(1, "mul", 1, 4, use_device="cuda"),
        event(2, "gemm", 3, 8, device_type=DeviceType.CUDA),
        use_device="cuda",
        profile_memory=True,
    )
    outer, mul, gemm = events
    mul.append_kernel("mul", 0, 7)
    assert outer.device_time_total == outer.cuda_time_total == mul.self_device_time_total == 7
    assert outer.self_device_time_total == 0
    assert gemm.device_time_total == 5 and gemm.cpu_time_total == 0 and gemm.cpu_parent is None
    average = next(e for e in events.key_averages() if e.key == "mul")
    assert average.self_cuda_time_total == 7 and average.cuda_time == 7
    table = events.table(sort_by="cuda_time_total")
    for heading in ("Self CUDA", "CUDA total", "CUDA time avg", "CUDA Mem", "Self CUDA Mem"):
        assert heading in table
    assert "2.00 MB" in table and table.splitlines()[-1].startswith("Self CUDA time total")


# rows: PROF-18
def test_key_averages(sample):
    averages = sample.key_averages()
    assert isinstance(averages, EventList)
    assert [(e.key, e.count) for e in averages] == [("a", 2), ("b", 1), ("c", 1), ("d", 1)]
    a = averages[0]
    assert isinstance(a, FunctionEventAvg) and a.name == "a"
    assert a.cpu_time_total == 2010 and a.cpu_time == 1005 and a.self_cpu_time_total == 2003
    assert a.cpu_memory_usage == 10 and a.self_cpu_memory_usage == 6


# rows: PROF-19
def test_averages_by_shape(sample):
    averages = sample.key_averages(group_by_input_shapes=True)
    assert [(e.key, e.input_shapes) for e in averages][:2] == [
        ("a", [[3, 4], []]),
        ("b", [[3]]),
    ]
    assert [e.key for e in averages].count("a") == 2


# rows: PROF-19
def test_two_sizes_give_two_rows():
    with profiler.profile(record_shapes=True) as prof:
        for n in (2, 3, 2):
            gradlib.ones(n) * 2
    found = {str(e.input_shapes): e.count for e in prof.key_averages(group_by_input_shape=True)}
    assert found == {"[[2], []]": 2, "[[3], []]": 1}
    assert len(prof.key_averages()) == 1


# rows: PROF-20
def test_averages_by_stack(sample):
    assert len([e for e in sample.key_averages(group_by_stack_n=1) if e.key == "a"]) == 2
    averages = sample.key_averages(group_by_stack_n=1)
    assert averages[0].stack == ["f.py(3): f"]
    assert sample.key_averages()[0].stack == []


# rows: PROF-20
def test_two_call_sites_give_two_rows():
    x = gradlib.ones(2)
    with profiler.profile(with_stack=True) as prof:
        x * 2
        for _ in range(2):
            x * 2
    assert sorted(e.count for e in prof.key_averages(group_by_stack_n=1)) == [1, 2]
    assert [e.count for e in prof.key_averages()] == [3]


# rows: PROF-21
def test_total_average(sample):
    total = sample.total_average()
    assert total.key == "Total" and total.count == 5
    assert total.self_cpu_time_total == sample.self_cpu_time_total == 2110
    assert sample.key_averages().total_average().count == 5
    assert EventList().total_average().count == 0


# rows: PROF-18
def test_averages_add_up(sample):
    one, *rest = [FunctionEventAvg().add(e) for e in sample if e.key == "a"]
    for other in rest:
        one += other
    assert (one.key, one.count, one.cpu_time_total) == ("a", 2, 2010)


# rows: PROF-22
def test_self_cpu_time_total(sample):
    assert sample.self_cpu_time_total == sum(e.self_cpu_time_total for e in sample)


# rows: PROF-23
def test_table(sample):
    table = sample.key_averages().table()
    lines = table.splitlines()
    headings = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    places = [lines[1].index(h) for h in headings] + [lines[1].index("# of Calls")]
    assert places == sorted(places)
    assert lines[0] == lines[2] and set(lines[0]) == {"-", " "}
    assert lines[-1] == "Self CPU time total: 2.110ms"
    a = rows(table)[0]
    assert a[:6] == ["a", "94.93%", "2.003ms", "95.26%", "2.010ms", "1.005ms"]
    assert len({len(line) for line in lines[:-1]}) == 1
    assert str(sample) == sample.table()
    assert EventList().table() == "" and repr(EventList()) == "[]"


# rows: PROF-23
def test_columns_of_a_table(sample):
    table = sample.table()
    for heading in ("CPU Mem", "Self CPU Mem", "Input Shapes", "Source Location", "Total MFLOPs"):
        assert heading in table
    assert "1.235" in table and "2.00 KB" in table and "[[3, 4], []]" in table
    assert "m.py(9): g" in table
    plain = tree(event(0, "a", 0, 1)).table()
    for heading in ("Mem", "Shapes", "Source", "FLOPs", "CUDA"):
        assert heading not in plain


# rows: PROF-23
def test_long_texts_are_cut():
    long = tree(event(0, "n" * 80, 0, 1, stack=["s" * 90 + ".py(1): f"], input_shapes=[[1] * 50]))
    line = rows(long.table())[0]
    assert line[0] == "n" * 52 + "..."
    table = long.table(
        max_name_column_width=20, max_src_column_width=20, max_shapes_column_width=15
    )
    assert "n" * 17 + "..." in table and "n" * 18 not in table
    assert "..." + "ssssssss.py(1): f" in table


# rows: PROF-24
@pytest.mark.parametrize(
    "key",
    """cpu_time cuda_time cpu_time_total cuda_time_total cpu_memory_usage cuda_memory_usage self_cpu_memory_usage
    self_cuda_memory_usage count self_cpu_time_total self_cuda_time_total device_time_total""".split(),
)
def test_rows_fall_by_the_key(sample, key):
    sample[2].append_kernel("k", 0, 5)
    sample[4].append_kernel("k", 0, 50)
    sample[3].device_memory_usage = 7
    averages = sample.key_averages()
    values = {e.key: getattr(e, key) for e in averages}
    found = order(averages.table(sort_by=key))
    assert sorted(found) == ["a", "b", "c", "d"]
    assert [values[name] for name in found] == sorted(values.values(), reverse=True)
    assert order(averages.table(sort_by=None)) == order(averages.table()) == ["a", "b", "c", "d"]


# rows: PROF-24
def test_unknown_sort_key(sample):
    with pytest.raises(AttributeError, match=r"has no attribute 'bogus'.*sort_by is one of"):
        sample.table(sort_by="bogus")


def test_one_unit_for_all_times(sample):
    averages = sample.key_averages()
    times = {
        unit: [row[2] for row in rows(averages.table(time_unit=unit))] for unit in ("us", "ms", "s")
    }
    assert times["us"] == ["2003.000us", "3.000us", "4.000us", "100.000us"]
    assert times["ms"] == ["2.003ms", "0.003ms", "0.004ms", "0.100ms"]
    assert times["s"][0] == "0.002s"
    assert averages.table(time_unit="h") == averages.table()
    assert averages.table(time_unit="s").splitlines()[-1] == "Self CPU time total: 0.002s"


def test_names_are_where_pytorch_has_them():
    from gradlib.autograd import profiler_util

    for name in profiler_util.__all__:
        assert hasattr(profiler_util, name)
    assert profiler.FunctionEvent is profiler_util.FunctionEvent
    event = FunctionEventAvg()
    assert event.overload_name == ""
    assert len(EventList([event]).key_averages(group_by_overload_name=True)) == 1


# rows: PROF-25
def test_limit_header_and_top_level(sample):
    assert order(sample.table(row_limit=2)) == ["a", "b"]
    assert len(order(sample.table(row_limit=-1))) == 5
    assert len(order(tree(*[event(i, "x", i, i + 1) for i in range(150)]).table())) == 100
    lines = sample.table(header="My header").splitlines()
    assert lines[1] == "My header" and set(lines[0]) == {"="}
    table = sample.table(top_level_events_only=True)
    assert order(table) == ["a", "a", "d"]
    assert "This report only display top-level ops statistics" in table
    assert order(sample.key_averages().table(None, 1, top_level_events_only=True)) == ["a"]


# rows: PROF-26
def test_chrome_trace(tmp_path):
    x = gradlib.ones(3, 4, requires_grad=True)
    with profiler.profile(record_shapes=True) as prof, profiler.record_function("my label"):
        (x * 2).exp().sum().backward()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    complete = {e["name"]: e for e in trace["traceEvents"] if e["ph"] == "X"}
    assert set(complete) >= {"my label", "mul", "exp", "MulBackward0"}
    for e in complete.values():
        assert e["ts"] >= 0 and e["dur"] >= 0
        assert isinstance(e["pid"], int) and e["tid"] == 1
    assert complete["mul"]["args"]["Input Dims"] == [[3, 4], []]
    label, mul = complete["my label"], complete["mul"]
    assert label["ts"] <= mul["ts"] and mul["ts"] + mul["dur"] <= label["ts"] + label["dur"]


# rows: PROF-27
def test_stacks(tmp_path, sample):
    path = tmp_path / "stacks.txt"
    sample.export_stacks(str(path), "self_cpu_time_total")
    assert path.read_text().splitlines() == [
        "m.py(9):_g;f.py(3):_f 3",
        "m.py(9):_g;f.py(5):_f 2000",
    ]
    with pytest.raises(ValueError, match="metric should be one of"):
        sample.export_stacks(str(path), "cpu")


# rows: PROF-27
def test_stacks_need_with_stack(tmp_path):
    path = str(tmp_path / "stacks.txt")
    with profiler.profile() as prof:
        gradlib.ones(2) * 2
    with pytest.raises(AssertionError, match=r"export_stacks\(\) requires with_stack=True"):
        prof.export_stacks(path)
    with profiler.profile(with_stack=True) as prof:
        for _ in range(20):
            gradlib.ones(1000) * 2
    prof.export_stacks(path, "self_cpu_time_total")
    with open(path) as file:
        lines = file.read().splitlines()
    assert lines and all("test_stacks_need_with_stack" in line for line in lines)


# rows: PROF-37
def test_step_tracker(monkeypatch):
    tracker = profiler.KinetoStepTracker
    monkeypatch.setattr(tracker, "_step_dict", {})
    monkeypatch.setattr(tracker, "_current_step", 0)
    tracker.init_step_count("a")
    tracker.init_step_count("b")
    assert tracker.increment_step("a") == 1
    assert tracker.increment_step("b") == 1
    assert tracker.increment_step("b") == 2 == tracker.current_step()
    assert tracker.increment_step("new") == 3  # starts at the current step
    assert tracker.erase_step_count("a") is True
    assert tracker.erase_step_count("a") is False
    tracker._step_dict["b"] += 5
    with pytest.warns(UserWarning, match="Profiler step count has increased more than 1"):
        assert tracker.increment_step("b") == 8
