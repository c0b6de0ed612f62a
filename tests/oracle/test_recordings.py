"""Recordings of real GPUs, which lie beside the project: what load_nsys makes of them, against SQL on the files."""

from __future__ import annotations

import collections
import json
import sqlite3
from pathlib import Path

import pytest

from gradlib.autograd import profiler

FOLDERS = [folder / "shared" / "recordings" for folder in Path(__file__).resolve().parents[3:]]
FILES = sorted(file for folder in FOLDERS for file in folder.glob("*.sqlite"))
KINDS = ("KERNEL", "MEMCPY", "MEMSET")

pytestmark = pytest.mark.skipif(not FILES, reason="no shared/recordings beside the checkout")


@pytest.fixture(scope="module", params=FILES, ids=lambda file: file.stem)
def path(request):
    return request.param


@pytest.fixture(scope="module")
def trace(path):
    return profiler.load_nsys(path)


@pytest.fixture(scope="module")
def database(path):
    """The file in memory, with the indices that it lacks."""
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as file:
        memory = sqlite3.connect(":memory:")
        file.backup(memory)
    file.close()
    memory.execute("CREATE INDEX ranges ON NVTX_EVENTS (globalTid, start)")
    memory.execute("CREATE INDEX calls ON CUPTI_ACTIVITY_KIND_RUNTIME (correlationId)")
    yield memory
    memory.close()


def texts(database):
    return dict(database.execute("SELECT id, value FROM StringIds"))


def test_ranges_are_those_of_the_file(trace, database):
    strings = texts(database)
    (origin,) = database.execute("SELECT startTime FROM ANALYSIS_DETAILS").fetchone()
    rows = database.execute(
        "SELECT start, end, text, textId, globalTid & 0xFFFFFF FROM NVTX_EVENTS"
    )
    expected = collections.Counter(
        ((text or strings[known]).partition(", ")[0], (start - origin) / 1000, (end - origin) / 1000, thread)
        for start, end, text, known, thread in rows
    )  # fmt: skip
    ranges = [e for e in trace if e.device_type.name == "CPU"]
    found = collections.Counter(
        (e.name, e.time_range.start, e.time_range.end, e.thread) for e in ranges
    )
    assert found == expected
    assert len({e.name for e in ranges}) < 200  # and not a name for each call
    assert not any("op_id" in e.name or "seq" in e.name for e in ranges)


def test_each_piece_of_work_belongs_to_the_innermost_range_around_its_launch(trace, database):
    total = 0
    expected: dict = collections.defaultdict(float)
    for kind in KINDS:
        rows = database.execute(f"""
            SELECT work.end - work.start, (
                SELECT around.start FROM NVTX_EVENTS around
                WHERE around.globalTid = call.globalTid AND around.start <= call.start AND around.end > call.start
                ORDER BY around.start DESC, around.end LIMIT 1
            )
            FROM CUPTI_ACTIVITY_KIND_{kind} work LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME call
            ON call.correlationId = work.correlationId AND call.globalTid & ~0xFFFFFF = work.globalPid
        """)
        for duration, start in rows:
            total += duration
            expected[start] += duration
    (origin,) = database.execute("SELECT startTime FROM ANALYSIS_DETAILS").fetchone()
    found: dict = collections.defaultdict(float)
    for event in trace:
        for kernel in event.kernels:
            found[round(event.time_range.start * 1000) + origin] += kernel.duration * 1000
    outside = sum(kernel.duration for kernel in trace.outside) * 1000
    assert outside == pytest.approx(expected.pop(None, 0))
    assert found == pytest.approx(expected)
    averages = trace.key_averages()
    assert sum(a.self_device_time_total for a in averages) == pytest.approx(total / 1000)


def test_kernels_by_name_device_and_stream(trace, database):
    strings = texts(database)
    expected: dict = collections.Counter()
    rows = database.execute(
        "SELECT demangledName, deviceId, streamId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL"
    )
    for name, device, stream, start, end in rows:
        expected[strings[name], device, stream] += end - start
    for kind, name in (("MEMCPY", "copyKind"), ("MEMSET", "0")):
        rows = database.execute(
            f"SELECT {name}, deviceId, streamId, end - start FROM CUPTI_ACTIVITY_KIND_{kind}"
        )
        words = {
            0: "[CUDA memset]",
            1: "[CUDA memcpy HtoD]",
            2: "[CUDA memcpy DtoH]",
            8: "[CUDA memcpy DtoD]",
        }
        for copied, device, stream, duration in rows:
            expected[words[copied], device, stream] += duration
    found: dict = collections.Counter()
    for event in trace.kernels():
        found[event.name, event.device_index, event.thread] += event.time_range.elapsed_us() * 1000
    assert found == pytest.approx(expected)
    table = trace.kernels().key_averages().table(sort_by="cuda_time_total", row_limit=3)
    assert "Self CUDA time total" in table


def test_ranges_and_kernels_are_on_the_tracks_of_a_trace(trace, database, tmp_path):
    trace.export_chrome_trace(tmp_path / "trace.json")
    slices = [
        e
        for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        if e["ph"] == "X"
    ]
    count = "SELECT count(*) FROM "
    (ranges,) = database.execute(count + "NVTX_EVENTS").fetchone()
    work = [database.execute(f"{count}CUPTI_ACTIVITY_KIND_{k}").fetchone()[0] for k in KINDS]
    assert len(slices) == ranges + sum(work)
    assert len({e["tid"] for e in slices if e["cat"] == "kernel"}) == 1  # one stream on each device
    assert len({e["pid"] for e in slices if e["cat"] == "kernel"}) == 2


def test_forward_ranges_alone_make_no_pairs(trace):
    assert trace.pairs == [] and list(trace.forward_backward()) == []
    assert str(trace.forward_backward()).startswith("Op")


def test_a_recording_without_ranges_gives_a_table_of_its_kernels(database, tmp_path):
    copy = tmp_path / "run.sqlite"
    with sqlite3.connect(copy) as file:
        database.backup(file)
        file.execute("DROP TABLE NVTX_EVENTS")
    file.close()
    with pytest.warns(UserWarning, match="no table NVTX_EVENTS, so there is device work without"):
        trace = profiler.load_nsys(copy)
    (count,) = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    assert sum(not e.name.startswith("[CUDA mem") for e in trace) == count
    assert "Self CUDA time total" in trace.key_averages().table(sort_by="cuda_time_total")
