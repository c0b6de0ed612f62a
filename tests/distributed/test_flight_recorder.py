"""What is known of the last collectives of a rank: entries, files, the profiler's ranges."""

from __future__ import annotations

import json
import os
import re

import gradlib as torch
from tests.distributed import harness

dist = torch.distributed


def recorded(path: str) -> tuple:
    dist.flight_recorder.clear()
    x = torch.ones(2, 3)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    dist.broadcast(torch.ones(4, dtype=torch.int64), 1, async_op=True).wait()
    if dist.get_rank():
        dist.send(x, 0, tag=5)
    else:
        dist.recv(x, 1, tag=5)
    try:
        dist.all_reduce(torch.ones(3 + dist.get_rank()))
        text = "no error"
    except dist.DistBackendError as error:
        text = str(error)
    entries = dist.flight_recorder.entries()
    file = dist.flight_recorder.dump(os.path.join(path, f"{dist.get_rank()}.json"))
    with open(file, encoding="utf-8") as f:
        whole = json.load(f)
    with open(re.search(r"are in (\S+)$", text)[1], encoding="utf-8") as f:  # type: ignore[index]
        of_failure = json.load(f)
    for _ in range(1200):
        dist.all_reduce(x)
    return entries, whole, of_failure, len(dist.flight_recorder.entries())


def test_entries_say_what_where_and_how_far(tmp_path):
    for rank, (entries, whole, of_failure, kept) in enumerate(
        harness.run(recorded, 2, path=str(tmp_path))
    ):
        ops = [e["profiling_name"] for e in entries]
        third = "gloo:send" if rank else "gloo:recv"
        assert ops == ["gloo:all_reduce", "gloo:broadcast", third, "gloo:all_reduce"]
        assert [e["state"] for e in entries] == ["completed"] * 3 + ["failed"]
        assert [e["collective_seq_id"] for e in entries] == [1, 2, 0, 3]
        assert [e["p2p_seq_id"] for e in entries] == [0, 0, 1, 0]
        assert [e["is_p2p"] for e in entries] == [False, False, True, False]
        assert entries[0]["input_sizes"] == [[2, 3]] and entries[0]["input_dtypes"] == ["Float"]
        assert entries[1]["input_sizes"] == [[4]] and entries[1]["input_dtypes"] == ["Long"]
        assert entries[0]["bytes"] == 24 and entries[0]["detail"] == "MAX"
        assert entries[1]["detail"] == "src=1" and entries[2]["detail"].endswith("tag=5")
        assert entries[3]["error"] == "ranks called different things"
        for e in entries:
            assert e["rank"] == rank and e["pg_id"] == "0"
            assert e["frames"][0]["filename"].endswith("test_flight_recorder.py")
            assert e["frames"][0]["name"] == "recorded"
            assert e["time_created_ns"] <= e["time_discovered_started_ns"]
            assert e["time_discovered_started_ns"] <= e["time_discovered_completed_ns"]
        assert entries[0]["GB_per_s"] > 0 and entries[0]["duration_ms"] > 0
        assert whole["entries"] == json.loads(json.dumps(entries)) and whole["rank"] is not None
        assert of_failure["rank"] == rank and of_failure["entries"][-1]["state"] == "failed"
        assert kept == 1000


def profiled() -> tuple:
    x, y = torch.ones(4), torch.ones(2)
    with torch.profiler.profile(record_shapes=True) as prof:
        dist.all_reduce(x)
        work = dist.broadcast(y, 0, async_op=True)
        work.wait()
        dist.all_gather_into_tensor(torch.empty(4), y)
    events = prof.events()
    found = {e.name: e for e in events}
    outer, inner = found["c10d::allreduce_"], found["gloo:all_reduce"]
    nested = outer.time_range.start <= inner.time_range.start <= outer.time_range.end
    return sorted(found), inner.input_shapes, nested


def test_collectives_are_ranges_of_the_profiler():
    names = ["c10d::_allgather_base_", "c10d::allreduce_", "c10d::broadcast_"]
    names += ["gloo:all_gather_into_tensor", "gloo:all_reduce", "gloo:broadcast"]
    for found, shapes, nested in harness.run(profiled, 2):
        assert [name for name in found if ":" in name] == names
        assert shapes == [[4]] and nested
