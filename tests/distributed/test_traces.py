"""Profiles of several processes: collectives as ranges, hidden and exposed, and one trace on one clock."""

from __future__ import annotations

import gzip
import json
import time

import pytest

import gradlib as torch
from gradlib import distributed as dist
from gradlib.distributed import profiling
from gradlib.profiler import _collectives, merge_traces, profile
from gradlib.profiler._collectives import Collective, computing, table, union, without
from gradlib.profiler._merge import merge
from tests.distributed.harness import run

MB = 1 << 20


def call(start, duration, name="all_reduce", nbytes=1000):
    return Collective(name, "0", 2, start, duration, nbytes, 1, False, "", "")


def test_spans():
    assert union([(3, 5), (0, 1), (1, 2), (4, 6), (7, 7)]) == [(0, 2), (3, 6)]
    others = [(0, 2), (3, 6), (8, 9)]
    assert without((1, 10), others) == [(2, 3), (6, 8), (9, 10)]
    assert without((3, 6), others) == []
    assert without((4, 7), others) == [(6, 7)]
    assert without((10, 11), others) == [(10, 11)]


def test_hidden_and_exposed_time():
    compute = [(0, 10), (20, 30)]
    rows = table([call(5, 10), call(25, 10), call(31, 2, "broadcast")], compute, 100)
    by_name = {row.name: row for row in rows}
    assert by_name["all_reduce"].calls == 2
    assert by_name["all_reduce"].hidden_us == 10
    assert by_name["all_reduce"].exposed_us == 10
    assert by_name["all_reduce"].gb_per_s == 2000 / 20 / 1e3
    assert by_name["broadcast"].exposed_us == 2
    assert rows.exposed_us == 10  # 10..15 and 30..35, of which the broadcast has a part
    assert rows.exposed_share == 0.1
    assert "all_reduce 2 2,000 20us 0.10 10us 10us 50%" in " ".join(str(rows).split())
    assert "no collectives" in str(table([], compute, 100))


def test_a_thread_that_waits_for_a_collective_computes_nothing():
    ranges = [
        (1, "MulBackward0", (0, 10)), (1, "c10d::allreduce_", (2, 8)), (1, "gloo:all_reduce", (3, 7)),
        (2, "gloo:broadcast", (0, 20)), (1, "mul", (12, 14)),
    ]  # fmt: skip
    assert computing(ranges, [(4, 5)]) == [(0, 2), (4, 5), (8, 10), (12, 14)]


def test_bus_rate_of_an_all_reduce():
    four = call(0, 1, nbytes=1000)._replace(ranks=4)
    assert four.bus_gb_per_s == 1.0 * 2 * 3 / 4
    assert call(0, 1, "broadcast").bus_gb_per_s is None


def trace_of(rank, base, offset=0, ts=10.0):
    args = {"Process Group Name": "0", "Seq": 3, "bytes": 8, "call": "", "line": ""}
    event = {"ph": "X", "cat": "collective", "name": "all_reduce", "pid": 77, "tid": 1}
    event |= {"ts": ts, "dur": 5.0, "args": args}
    name = {"ph": "M", "pid": 77, "name": "process_name", "args": {"name": "train.py (CPU)"}}
    return {
        "baseTimeNanoseconds": base, "clockOffsetNanoseconds": offset, "distributedInfo": {"rank": rank},
        "traceEvents": [name, event],
    }  # fmt: skip


def test_merged_traces_are_on_one_clock():
    # rank 1's clock is 2 ms before, and it began 1 ms after rank 0
    merged = merge([trace_of(1, 13_000_000, 2_000_000), trace_of(0, 10_000_000)])
    calls = [e for e in merged["traceEvents"] if e["ph"] == "X"]
    assert [(e["pid"], e["ts"]) for e in calls] == [(0, 10.0), (1000, 1010.0)]
    names = [e["args"]["name"] for e in merged["traceEvents"] if e["name"] == "process_name"]
    assert names == ["rank 0: train.py (CPU)", "rank 1: train.py (CPU)"]
    start, finish = (e for e in merged["traceEvents"] if e["name"] == "same collective")
    assert (start["ph"], start["pid"], finish["ph"], finish["pid"]) == ("s", 0, "f", 1000)
    assert start["id"] == finish["id"]


def test_what_cannot_be_merged_is_named(tmp_path):
    with pytest.raises(ValueError, match="no traces"):
        merge([])
    with pytest.raises(ValueError, match=r"two traces are of one rank: the ranks are \[0, 0\]"):
        merge([trace_of(0, 1), trace_of(0, 1)])
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x.json is no trace file"):
        merge_traces([tmp_path / "x.json"], tmp_path / "out.json")


def test_a_process_alone_has_no_collectives(monkeypatch):
    with profile() as prof:
        _ = torch.ones(2) * 2
    assert str(prof.communication()) == "no collectives in this profile"
    monkeypatch.delitem(_collectives.sys.modules, _collectives.RECORD, raising=False)
    assert _collectives.since(0) == []


def until_begun():
    """Wait until the last collective is under way."""
    while dist.flight_recorder.entries()[-1]["state"] != "started":
        time.sleep(0.001)


def profiled(path):
    dist.all_reduce(torch.ones(8))  # not of the profile
    w = torch.ones(400, 400)
    store = dist.distributed_c10d._get_default_store()
    with profile() as prof:
        for late in (0, 1):
            # the other one computes while it waits, on any machine: the late one comes after that
            if dist.get_rank() == late:
                store.wait([f"computed {late}"])
            work = dist.all_reduce(torch.ones(MB // 4), async_op=True)
            if dist.get_rank() != late:
                until_begun()
                w @ w
                store.set(f"computed {late}", "yes")
            work.wait()
        dist.barrier()
        if dist.get_rank() == 0:
            store.wait(["rank 1 waits"])
            time.sleep(0.02)
        work = dist.broadcast(torch.ones(100), 0, async_op=True)
        if dist.get_rank() == 1:
            until_begun()
            store.set("rank 1 waits", "yes")
        work.wait()
        other = 1 - dist.get_rank()
        for step in (dist.isend, dist.irecv):
            step(torch.ones(10), other).wait()
    table = prof.communication()
    began = time.time_ns()
    offsets = profiling.clock_offsets()
    # they are of one machine, which has one clock: no answer is further from it than the time it took
    assert all(abs(offset) <= time.time_ns() - began for offset in offsets)
    profiling.export_merged_trace(prof, f"{path}/all.json.gz", one_clock=False)
    tables = profiling.communication_of_ranks(prof)
    own = {row.name: tuple(row) for row in table}
    sizes = [{row.name: row.nbytes for row in t} for t in tables.values()] if tables else None
    return own, offsets, sizes


def test_profiles_of_two_processes(tmp_path):
    answers = run(profiled, 2, path=str(tmp_path))
    for own, offsets, _ in answers:
        assert own["all_reduce"][1:3] == (2, 2 * MB)
        total, hidden = own["all_reduce"][3:]
        assert 0 < hidden <= total
        assert own["broadcast"][1:3] == (1, 400)
        assert own["broadcast"][4] == pytest.approx(0, abs=1e-6)
        assert offsets[0] == 0
    assert answers[1][2] is None
    assert answers[0][2][0]["all_reduce"] == answers[0][2][1]["all_reduce"] == 2 * MB
    assert answers[1][0]["broadcast"][3] > 15_000  # waited for the first

    trace = json.loads(gzip.decompress((tmp_path / "all.json.gz").read_bytes()))
    calls = [e for e in trace["traceEvents"] if e.get("cat") == "collective" and e["ph"] == "X"]
    by_rank = {pid: {e["name"]: e for e in calls if e["pid"] == pid} for pid in (0, 1000)}
    assert set(by_rank[0]) == set(by_rank[1000]) >= {"all_reduce", "broadcast", "barrier"}
    for pid in by_rank:
        args = by_rank[pid]["all_reduce"]["args"]
        assert args["bytes"] == MB
        assert args["Group size"] == 2
        assert "in profiled" in args["line"]
        assert args["GB/s"] > 0
    # nobody is through a broadcast before its root has come to it
    root, other = by_rank[0]["broadcast"], by_rank[1000]["broadcast"]
    assert other["ts"] + other["dur"] > root["ts"]
    assert sum(e["name"] == "same collective" for e in trace["traceEvents"]) == len(calls)
    assert [e for e in trace["traceEvents"] if e["ph"] == "b" and e["cat"] == "collective"]
