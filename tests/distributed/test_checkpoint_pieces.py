"""Checkpoints of pieces: any sharding into any other, every copy once; and a kill at any moment leaves a good one."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

import gradlib as torch
from gradlib.distributed import checkpoint
from gradlib.distributed.checkpoint import (
    DefaultSavePlanner,
    FileSystemWriter,
)
from gradlib.distributed.checkpoint._ranks import Ranks
from gradlib.distributed.checkpoint.default_planner import check_whole
from gradlib.distributed.checkpoint.filesystem import FileSystem
from gradlib.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from tests.distributed.pieces import Mesh, Partial, Pieces, Replicate, Shard, failure, meshes


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- pieces ----------------------------------------------------------------------------------------------------------


def save_as(states, path, **settings):
    """Save what processes would, one after the other in this one."""
    planners = [DefaultSavePlanner(**settings) for _ in states]
    plans = []
    for planner, state in zip(planners, states):
        planner.set_up_planner(state)
        plans.append(planner.create_local_plan())
    plans, metadata = planners[0].create_global_plan(plans)
    check_whole(metadata)
    writer = FileSystemWriter(path)
    os.makedirs(path, exist_ok=True)
    plans = writer.prepare_global_plan(plans)
    results = [writer.write_data(p.finish_plan(plan), p).wait() for p, plan in zip(planners, plans)]
    writer.finish(metadata, results)
    return plans


PLACEMENTS = [
    ((1,), (Shard(0),)),
    ((2,), (Shard(0),)),
    ((3,), (Shard(1),)),
    ((4,), (Shard(-1),)),
    ((7,), (Shard(0),)),
    ((2, 2), (Shard(0), Shard(1))),
    ((2, 3), (Replicate(), Shard(0))),
    ((3, 2), (Shard(0), Shard(0))),
    ((2, 2), (Shard(1), Replicate())),
]


@pytest.mark.parametrize(("shape", "placements"), PLACEMENTS)
def test_any_sharding_loads_into_any_other(shape, placements):
    whole = {"w": torch.arange(35.0).reshape(5, 7), "h": torch.arange(35).reshape(5, 7).bfloat16()}
    states = [{n: Pieces(w, mesh, placements) for n, w in whole.items()} for mesh in meshes(shape)]
    save_as(states, "c")
    index = json.loads(Path("c/index.json").read_text())
    written = sum(c["bytes"] for t in index["values"].values() for c in t["chunks"])
    assert written == 35 * (4 + 2)  # copies are written once
    plain = {n: torch.zeros_like(w) for n, w in whole.items()}
    checkpoint.load(plain, checkpoint_id="c")
    for name, w in whole.items():
        assert torch.equal(plain[name], w)
    for other, how in PLACEMENTS:
        for mesh in meshes(other):
            target = {n: Pieces(w, mesh, how, fill=-1) for n, w in whole.items()}
            checkpoint.load(target, checkpoint_id="c")
            for name, w in whole.items():
                assert torch.equal(target[name].to_local(), Pieces(w, mesh, how).to_local())


def test_copies_are_shared_out_by_bytes():
    state = {f"w{i}": torch.zeros(n) for i, n in enumerate((100, 90, 60, 50, 40, 40, 20))}
    plans = save_as([{**state, "n": rank} for rank in range(3)], "c")
    sizes = [sum(item.tensor_storage_size() or 0 for item in plan.items) for plan in plans]
    assert sum(sizes) == 4 * 400
    assert max(sizes) <= 4 * 140
    names = [item.index.fqn for plan in plans for item in plan.items]
    assert sorted(names) == sorted([*state, "n"])
    got = {"n": None}
    checkpoint.load(got, checkpoint_id="c")
    assert got["n"] == 0  # that of the first process
    lowest = save_as([state, state], "d", dedup_save_to_lowest_rank=True)
    assert [len(plan.items) for plan in lowest] == [7, 0]


def test_pieces_that_do_not_make_a_tensor_are_refused():
    whole = torch.ones(4, 2)
    half = Pieces(whole, Mesh((2,), (0,)), [Shard(0)])
    with pytest.raises(
        ValueError, match="'w' has 8 elements, but the pieces of all processes have 4"
    ):
        save_as([{"w": half}], "c")
    quarter = Pieces(whole, Mesh((4,), (1,)), [Shard(0)])
    with pytest.raises(
        ValueError, match=r"the pieces \(2, 2\) at \(0, 0\) and \(1, 2\) at \(1, 0\) overlap"
    ):
        save_as([{"w": half}, {"w": quarter}], "c")
    with pytest.raises(
        ValueError,
        match=r"float32 of shape \(4, 2\) in process 0 and .*int64 of shape \(4, 2\) in process 1",
    ):
        save_as([{"w": half}, {"w": Pieces(whole.long(), Mesh((2,), (1,)), [Shard(0)])}], "c")
    with pytest.raises(NotImplementedError, match=r"'w' .* holds a summand, not a piece"):
        save_as([{"w": Pieces(whole, Mesh((2,), (0,)), [Partial()])}], "c")
    outside = Pieces(whole, Mesh((2,), None), [Shard(0)])
    rest = Pieces(whole, Mesh((2,), (1,)), [Shard(0)])
    save_as([{"w": half}, {"w": outside}, {"w": rest}], "c")
    checkpoint.load({"w": outside}, checkpoint_id="c")


def test_names_of_pieces_do_not_collide_with_names_of_tensors():
    pieces = [
        {"w": Pieces(torch.ones(4), m, [Shard(0)]), "w[0:2]": torch.zeros(2)} for m in meshes((2,))
    ]
    save_as(pieces, "c")
    state = {"w": torch.zeros(4), "w[0:2]": torch.ones(2)}
    checkpoint.load(state, checkpoint_id="c")
    assert state["w"].tolist() == [1] * 4
    assert state["w[0:2]"].tolist() == [0, 0]


def test_processes_that_save_for_themselves():
    whole = torch.arange(6.0)
    for rank, mesh in enumerate(meshes((2,))):
        alone = Ranks(alone=True)
        alone.rank, alone.size = rank, 2
        state = {"w": Pieces(whole, mesh, [Shard(0)]), "same": torch.ones(1), "n": rank}
        checkpoint.state_dict_saver._save(
            state, FileSystemWriter("c"), alone, None, use_collectives=False
        )
        if rank == 0:
            assert "ranks [1] are missing" in failure(checkpoint.load, {"n": 0}, checkpoint_id="c")
    state = {"w": torch.zeros(6), "same": torch.zeros(1), "n": None}
    checkpoint.load(state, checkpoint_id="c")
    assert (state["w"].tolist(), state["same"].tolist(), state["n"]) == (whole.tolist(), [1], 0)


def test_files_by_thread_and_by_tensor():
    state = {f"w{i}": torch.full((i + 1,), float(i)) for i in range(6)}
    for settings, files in (({"thread_count": 3}, 3), ({"single_file_per_rank": False}, 6)):
        checkpoint.save(state, storage_writer=FileSystemWriter("c", **settings))
        assert len(os.listdir("c")) == files + 1
        assert repr(_load_state_dict_from_keys(checkpoint_id="c")) == repr(state)


# -- a kill at any moment --------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Nothing that a program catches."""


class Mortal(FileSystem):
    """A file system whose process dies after a number of steps: half of what it writes then is in the file."""

    def __init__(self, steps):
        self.left = steps

    def step(self):
        self.left -= 1
        if self.left < 0:
            raise Killed

    @contextlib.contextmanager
    def create_stream(self, path, mode):
        self.step()
        with super().create_stream(path, mode) as file:
            write, here = file.write, self

            class File:
                def write(self, data):
                    try:
                        here.step()
                    except Killed:
                        write(bytes(data)[: len(bytes(data)) // 2])
                        file.flush()
                        raise
                    return write(data)

                def __getattr__(self, name):
                    return getattr(file, name)

            yield File()

    def rename(self, path, new_path):
        self.step()
        super().rename(path, new_path)

    def rm_file(self, path):
        self.step()
        super().rm_file(path)


def test_a_kill_at_any_moment_leaves_the_old_or_the_new():
    old, new = ({"w": torch.full((5,), float(v)), "n": v} for v in (1, 2))
    checkpoint.save(old, checkpoint_id="c")
    seen = []
    for steps in range(100):
        writer = FileSystemWriter("c")
        writer.fs = Mortal(steps)
        try:
            checkpoint.save(new, storage_writer=writer)
        except Killed:
            pass
        else:
            break
        state = {"w": torch.zeros(5), "n": None}
        checkpoint.load(state, checkpoint_id="c")
        assert state["w"].tolist() == [state["n"]] * 5
        seen.append(state["n"])
        if state["n"] == 2:
            checkpoint.save(old, checkpoint_id="c")
    assert steps > 8
    assert set(seen) == {1, 2}
    assert seen == sorted(seen)
    assert len(os.listdir("c")) == 2  # what the killed ones have left is swept away


class Unsynced(FileSystem):
    """A disk that reports an error after the index is in its place."""

    def sync_folder(self, path):
        if "index.json" in os.listdir(path):
            raise OSError(5, "Input/output error")


def test_an_error_after_the_index_is_in_place_removes_no_file():
    writer = FileSystemWriter("c")
    writer.fs = Unsynced()
    says = failure(checkpoint.save, {"w": torch.ones(2)}, storage_writer=writer)
    assert "Input/output error" in says
    assert _load_state_dict_from_keys(checkpoint_id="c")["w"].tolist() == [1, 1]


def test_other_files_of_the_folder_stay():
    os.makedirs("c")
    for name in ("notes.txt", "rank-0.safetensors", "model.safetensors"):
        Path(f"c/{name}").touch()
    checkpoint.save({"w": torch.ones(1)}, checkpoint_id="c")
    checkpoint.save({"w": torch.ones(1)}, checkpoint_id="c")
    assert len(os.listdir("c")) == 5
