"""utils.benchmark: timers, what their times say, tables, and random arguments."""

from __future__ import annotations

import pickle

import pytest

import gradlib as torch
from gradlib.utils import benchmark
from gradlib.utils.benchmark import (
    Compare,
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    Measurement,
    Timer,
)


class Clock:
    """Each run of the statement takes as long as it says."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def run(self, seconds):
        self.now += seconds


def timed(seconds=1e-3, **names):
    clock = Clock()
    return Timer("run(t)", timer=clock, globals={"run": clock.run, "t": seconds}, **names)


def test_times_of_a_known_clock():
    one = timed().timeit(50)
    assert one.number_per_run == 50 and one.median == pytest.approx(1e-3)
    seen = []
    blocks = timed().blocked_autorange(lambda n, t: seen.append((n, t)), min_run_time=0.1)
    assert sum(blocks.raw_times) >= 0.1 and len(seen) == len(blocks.times) > 5
    assert blocks.median == blocks.mean == pytest.approx(1e-3) and not blocks.has_warnings
    adaptive = timed().adaptive_autorange()
    assert adaptive.iqr <= 0.1 * adaptive.median and adaptive.significant_figures == 5
    assert "1.00 ms" in repr(one) and "measurements" in repr(blocks) and "IQR" in repr(blocks)


def test_real_code_is_timed_with_torch_known():
    measured = Timer("torch.ones(n)", setup="n = 4").blocked_autorange(min_run_time=0.01)
    assert 0 < measured.median < 1
    with pytest.raises(NameError):
        Timer("unknown").timeit(1)
    for refused in ({"language": "c++"}, {"language": benchmark.Language.CPP}):
        with pytest.raises(NotImplementedError, match="C"):
            Timer("x", **refused)
    for name in ("repeat", "autorange", "collect_callgrind"):
        with pytest.raises(NotImplementedError):
            getattr(Timer(), name)()
    with pytest.raises(NotImplementedError, match="CallgrindStats"):
        benchmark.CallgrindStats()


def test_threads_are_set_for_the_time_alone():
    before = torch.get_num_threads()
    seen = []
    Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=1).timeit(1)
    assert set(seen) == {1} and torch.get_num_threads() == before


def test_what_times_say_together():
    task = benchmark.TaskSpec("f(x)", "pass", label="calls", sub_label="f", description="old")
    measured = Measurement(2, [2.0, 4.0, 6.0, 8.0], task)
    assert measured.times == [1, 2, 3, 4] and measured.mean == measured.median == 2.5
    assert measured.iqr == 1.5 and measured.has_warnings and not measured.meets_confidence()
    assert (measured.title, measured.as_row_name, measured.description) == ("calls: f", "f", "old")
    assert "WARNING" in repr(measured)
    [both] = Measurement.merge([measured, Measurement(1, [5.0], task)])
    assert both.times == [1, 2, 3, 4, 5]
    assert pickle.loads(pickle.dumps(measured)).times == measured.times
    with pytest.raises(AttributeError):
        measured.nothing  # noqa: B018


def test_tables():
    times = [
        timed(seconds, label="add", sub_label=row, description=column).timeit(10)
        for row, column, seconds in (("a", "x", 1e-3), ("a", "y", 2e-3), ("b", "x", 4e-3))
    ]
    table = Compare(times)
    lines = str(table).splitlines()
    assert "add" in lines[0] and lines[1].split() == ["|", "x", "|", "y"]
    assert lines[2].startswith("1 threads: ---")
    assert lines[3].split() == ["a", "|", "1.0", "|", "2.0"] and lines[4].split() == [
        "b",
        "|",
        "4.0",
        "|",
    ]
    assert "Times are in milliseconds (ms)." in lines
    assert len({len(line) for line in lines[:5]} - {len(lines[1])}) <= 2
    table.colorize(rowwise=True)
    table.trim_significant_figures()
    table.highlight_warnings()
    assert "\033[92m" in str(table)
    with pytest.raises(ValueError, match="Measurement"):
        table.extend_results([3])


def test_units():
    assert benchmark.select_unit(3e-9) == ("ns", 1e-9) and benchmark.select_unit(5.0) == ("s", 1.0)
    assert benchmark.unit_to_english("ms") == "millisecond"
    assert benchmark.trim_sigfig(0.012345, 3) == 0.0123 and benchmark.trim_sigfig(0, 3) == 0
    assert benchmark.ordered_unique([2, 1, 2]) == [2, 1]


def test_random_arguments():
    fuzzer = Fuzzer(
        [
            FuzzedParameter("dim", distribution={1: 0.5, 2: 0.5}),
            [FuzzedParameter(f"k{i}", 4, 64, "loguniform") for i in range(2)],
            FuzzedParameter("s", distribution={1: 0.5, 2: 0.5}),
            FuzzedParameter("same", distribution={benchmark.ParameterAlias("k0"): 1}),
        ],
        [
            FuzzedTensor(
                "x", ("k0", "k1"), ("s", 1), min_elements=8, max_elements=1000, dim_parameter="dim"
            ),
            FuzzedTensor("i", ("same", 1), dtype=torch.int32),
        ],
        constraints=[lambda k0, **others: k0 % 2 == 0],
        seed=3,
    )
    drawn = list(fuzzer.take(20))
    for tensors, facts, params in drawn:
        x = tensors["x"]
        assert tuple(x.shape) == (params["k0"], params["k1"])[: params["dim"]]
        assert 8 <= x.numel() <= 1000 and params["k0"] % 2 == 0 and params["same"] == params["k0"]
        assert (
            facts["x"]["is_contiguous"] == x.is_contiguous() and tensors["i"].dtype == torch.int32
        )
    assert len({facts["x"]["is_contiguous"] for _, facts, _ in drawn}) == 2
    assert 0 < fuzzer.rejection_rate < 1
    assert [p for _, _, p in fuzzer.take(3)] == [p for _, _, p in drawn[:3]]  # by its seed
    with pytest.raises(ValueError, match="Duplicate"):
        Fuzzer([FuzzedParameter("x", 1, 2, "uniform")] * 2, [])
