"""Checkpoints in one process: what comes back, what is said of bad ones, and that a kill leaves a good one."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
from collections import OrderedDict
from pathlib import Path

import pytest

import gradlib as torch
from gradlib.distributed import checkpoint
from gradlib.distributed.checkpoint import (
    CheckpointException,
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
)
from gradlib.distributed.checkpoint.filesystem import SerializationFormat
from gradlib.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from gradlib.distributed.checkpoint.staging import DefaultStager
from gradlib.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from gradlib.distributed.checkpoint.state_dict_saver import AsyncSaveResponse, save_state_dict
from tests.distributed.pieces import Mesh, Pieces, Shard, failure, meshes


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- what comes back ------------------------------------------------------------------------------------------------


def nested(scale):
    return {
        "w": torch.arange(6.0).reshape(2, 3) * scale,
        "step": 7 * scale,
        "rates": [0.1 * scale, 0.2],
        "none": None,
        "text": "a.b" * scale,
        "inner": {"list": [1 * scale, {"deep": torch.ones(2) * scale}], "pair": (1, 2 * scale)},
        "numbers": {0: torch.zeros(1) + scale, 1: {"n": scale}},
        "empty": {},
    }


def test_nested_values_come_back():
    checkpoint.save(nested(3), checkpoint_id="c")
    state = nested(1)
    checkpoint.load(state, checkpoint_id="c")
    assert repr(state) == repr(nested(3))
    assert repr(_load_state_dict_from_keys(checkpoint_id="c")) == repr(
        {key: value for key, value in nested(3).items() if key != "empty"}
    )


def test_tensors_are_loaded_into_their_memory():
    w = torch.zeros(2, 3, requires_grad=True)
    view = w.detach()[0]
    checkpoint.save({"w": torch.arange(6.0).reshape(2, 3)}, checkpoint_id="c")
    checkpoint.load({"w": w}, checkpoint_id="c")
    assert view.tolist() == [0, 1, 2]
    assert w.requires_grad
    assert w.is_leaf


DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2"
).split()


def test_every_dtype_and_shape_comes_back():
    state = {}
    for name in DTYPES:
        dtype = getattr(torch, name)
        state[name] = (
            torch.arange(24).reshape(2, 3, 4).remainder(2 if name == "bool" else 7).to(dtype)
        )
        state[name + ".none"] = torch.ones(0, 3).to(dtype)
        state[name + ".scalar"] = torch.tensor(1).to(dtype)
    state["complex128"] = state["complex128"] * (1 + 2j)
    state["strided"] = torch.arange(12.0).reshape(3, 4).t()[1:, ::2]
    state["expanded"] = torch.ones(1).expand(4)
    state["conj"] = (torch.ones(2) * (1 + 2j)).conj()
    checkpoint.save(state, checkpoint_id="c")
    loaded = _load_state_dict_from_keys(checkpoint_id="c")
    flat = {
        **loaded,
        **{
            f"{n}.{k}": v
            for n in loaded
            if isinstance(loaded[n], dict)
            for k, v in loaded[n].items()
        },
    }
    for name, value in state.items():
        assert flat[name].dtype == value.dtype, name
        assert flat[name].shape == value.shape
        assert flat[name].tolist() == value.tolist(), name


def test_other_libraries_read_the_files():
    checkpoint.save({"w": torch.ones(2), "step": 3}, checkpoint_id="c")
    [name] = [n for n in os.listdir("c") if n != "index.json"]
    assert re.fullmatch(r"rank-0-[0-9a-f]{8}\.safetensors", name)
    assert torch.safetensors.load_file(f"c/{name}")["w"].tolist() == [1, 1]
    index = json.loads(Path("c/index.json").read_text())
    assert index["values"]["w"]["shape"] == [2]
    assert index["values"]["w"]["chunks"][0]["file"] == name


def trained(steps, resume_from=None, save_at=None):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    state = {"model": model, "optimizer": optimizer, "schedule": schedule, "step": 0}
    if resume_from:
        checkpoint.load(state, checkpoint_id=resume_from)
    for step in range(state["step"], steps):
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        schedule.step()
        if step + 1 == save_at:
            checkpoint.save({**state, "step": step + 1}, checkpoint_id="saved")
    return model


def test_training_goes_on_as_if_it_had_not_stopped():
    straight = trained(7, save_at=4)
    resumed = trained(7, resume_from="saved")
    for (name, a), (_, b) in zip(straight.state_dict().items(), resumed.state_dict().items()):
        assert torch.equal(a, b), name


OPTIMIZERS = {
    "Adadelta": {}, "Adafactor": {}, "Adagrad": {}, "Adam": {"amsgrad": True}, "Adamax": {}, "ASGD": {}, "Muon": {},
    "NAdam": {}, "RAdam": {}, "RMSprop": {"momentum": 0.5}, "Rprop": {}, "SGD": {"momentum": 0.5},
}  # fmt: skip


def steps_of(optimizer, w, count):
    for step in range(count):
        w.grad = torch.arange(6.0).reshape(2, 3) - step
        optimizer.step()
    return w.tolist()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_saved_and_loaded_before_and_after_its_first_step(name):
    def fresh(lr=0.1):
        w = torch.nn.Parameter(torch.ones(2, 3))
        return w, getattr(torch.optim, name)([w], lr=lr, **OPTIMIZERS[name])

    w, optimizer = fresh()
    checkpoint.save({"o": optimizer}, checkpoint_id="before")
    assert not optimizer.state or name == "Adagrad"
    wanted = steps_of(optimizer, w, 2)
    checkpoint.save({"w": w, "o": optimizer}, checkpoint_id="after")
    further = steps_of(optimizer, w, 2)

    w, optimizer = fresh(lr=0.5)
    checkpoint.load({"o": optimizer}, checkpoint_id="before")
    assert steps_of(optimizer, w, 2) == wanted
    w, optimizer = fresh(lr=0.5)
    w.grad = torch.ones(2, 3)
    checkpoint.load({"w": w, "o": optimizer}, checkpoint_id="after")
    assert w.grad.tolist() == [[1] * 3] * 2
    assert steps_of(optimizer, w, 2) == further


def test_an_optimizer_that_has_no_state_before_its_first_step_is_named():
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.LBFGS([w])
    optimizer.step(lambda: (w.square().sum()).backward() or w.detach().square().sum())
    checkpoint.save({"o": optimizer}, checkpoint_id="c")
    says = failure(checkpoint.load, {"o": torch.optim.LBFGS([w])}, checkpoint_id="c")
    assert "the state of the optimizer 'o', which has none here to load into" in says


class Point:
    def __init__(self, x):
        self.x = x


def test_objects_of_classes_that_the_state_has_are_taken():
    checkpoint.save({"p": Point(3)}, checkpoint_id="c")
    state = {"p": Point(0)}
    checkpoint.load(state, checkpoint_id="c")
    assert state["p"].x == 3
    assert "Point" in failure(checkpoint.load, {"p": None}, checkpoint_id="c")


# -- what is said of bad ones ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"v": torch.ones(1)}, "RuntimeError: Missing key in checkpoint state_dict: v."),
        ({"other": {"w": torch.ones(1)}}, "Missing key in checkpoint state_dict: other.w. It has inner.w, w."),
        ({"w": torch.ones(3)}, "Size mismatch between saved torch.Size([2]) and current: torch.Size([3]) for w"),
        ({"w": torch.ones(2).long()}, "dtype mismatch between saved torch.float32 and current: torch.int64 for w"),
        ({"c": torch.ones(1)}, "dtype mismatch between saved torch.complex64 and current: torch.float32 for c"),
        ({"w": 3}, "Invalid checkpoint metadata for w, expected BytesStorageMetadata"),
        ({"step": torch.ones(1)}, "'step' is a Python object in the checkpoint, but a tensor of shape (1,) here"),
        ({"a": {"b": 1}, "a.b": 2}, "duplicated flatten key a.b"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(state, says):
    saved = {"w": torch.ones(2), "inner": {"w": torch.ones(1)}, "step": 1, "c": torch.ones(1) * 1j}
    checkpoint.save(saved, checkpoint_id="c")
    before = repr(state)
    assert says in failure(checkpoint.load, state, checkpoint_id="c")
    assert repr(state) == before


def test_a_narrower_float_is_rounded_and_integers_are_not_cut():
    checkpoint.save({"w": torch.tensor([1.001]), "n": torch.tensor([3])}, checkpoint_id="c")
    state = {"w": torch.zeros(1, dtype=torch.bfloat16)}
    checkpoint.load(state, checkpoint_id="c")
    assert state["w"].tolist() == torch.tensor([1.001]).bfloat16().tolist()
    narrow = {"n": torch.zeros(1, dtype=torch.int32)}
    assert "dtype mismatch" in failure(checkpoint.load, narrow, checkpoint_id="c")
    checkpoint.save({"n": torch.tensor([3], dtype=torch.uint8)}, checkpoint_id="c")
    checkpoint.load(narrow, checkpoint_id="c")
    assert narrow["n"].tolist() == [3]


def edit(change):
    def damage(names):
        index = json.loads(Path("c/index.json").read_text())
        change(index)
        Path("c/index.json").write_text(json.dumps(index))

    return damage


def cut_off(names):
    [file] = [f"c/{n}" for n in names if n.endswith("safetensors")]
    os.truncate(file, os.path.getsize(file) - 1)


def rename_entry(index):
    index["values"]["w"]["chunks"][0]["entry"] = "v"


def other_dtype(index):
    index["values"]["w"]["dtype"] = "int32"


DAMAGE = {
    "no such folder": lambda names: os.rename("c", "d"),
    "the save that wrote its files did not come to its end": lambda names: os.unlink("c/index.json"),
    "is missing": lambda names: [os.unlink(f"c/{n}") for n in names if n.endswith("safetensors")],
    "were written": cut_off,
    "index.json is damaged": lambda names: os.truncate("c/index.json", 100),
    "is not the index of a checkpoint": edit(lambda index: index.update(format="x")),
    "a newer release of gradlib has written it": edit(lambda index: index.update(version=9)),
    "index.json is damaged: KeyError": edit(lambda index: index.pop("values")),
    "there is no 'v' in it": edit(rename_entry),
    "the index says I32": edit(other_dtype),
}  # fmt: skip


@pytest.mark.parametrize("says", DAMAGE)
def test_a_damaged_checkpoint_is_named(says):
    checkpoint.save({"w": torch.ones(2)}, checkpoint_id="c")
    DAMAGE[says](os.listdir("c"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink("d/none")
    target = torch.zeros(2, dtype=torch.int32 if "I32" in says else torch.float32)
    error = failure(checkpoint.load, {"w": target}, checkpoint_id="c")
    assert error.startswith("CheckpointError: ")
    assert says in error
    assert target.tolist() == [0, 0]


def test_folders_of_others_are_named():
    for name, says in {
        "x.txt": "but x.txt",
        ".metadata": "PyTorch's own format",
        "a.safetensors": "load_file",
    }.items():
        os.makedirs(f"of-{name}")
        Path(f"of-{name}/{name}").touch()
        assert says in failure(checkpoint.load, {"w": torch.ones(1)}, checkpoint_id=f"of-{name}")


def test_arguments_are_checked():
    for action in (checkpoint.save, checkpoint.load):
        with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
            action({})
        with pytest.raises(RuntimeError, match="Cannot detect which"):
            action({}, checkpoint_id="s3://bucket/c")
        with pytest.raises(TypeError, match="a dict of values by name, but got list"):
            action([torch.ones(1)], checkpoint_id="c")
    with pytest.raises(TypeError, match="expected a StorageWriter, but got FileSystemReader"):
        checkpoint.save({}, storage_writer=FileSystemReader("c"))
    with pytest.raises(NotImplementedError, match="safetensors"):
        FileSystemWriter("c", serialization_format=SerializationFormat.TORCH_SAVE)
    checkpoint.save({"w": torch.ones(1)}, checkpoint_id="c")
    once = FileSystemWriter("c", overwrite=False)
    says = failure(checkpoint.save, {"w": torch.ones(1)}, storage_writer=once)
    assert "Checkpoint already exists and self.overwrite=False." in says
    with pytest.warns(FutureWarning, match="save_state_dict"):
        save_state_dict({"w": torch.ones(1)}, FileSystemWriter("c"))


def test_what_cannot_be_pickled_leaves_nothing_behind():
    assert "pickle" in failure(checkpoint.save, {"f": lambda: 1}, checkpoint_id="c").lower()
    assert os.listdir("c") == []


# -- beside the training ---------------------------------------------------------------------------------------------


def test_async_saves_have_the_values_of_their_call():
    w = torch.zeros(1000)
    model = torch.nn.Linear(2, 2)
    futures = []
    for step in range(4):
        w.fill_(step)
        with torch.no_grad():
            model.weight.fill_(step)
        futures.append(
            checkpoint.async_save({"w": w, "m": model, "n": step}, checkpoint_id=f"c{step}")
        )
    w.fill_(-1)
    for step, future in enumerate(futures):
        assert future.result(30).state_dict_metadata["w"].size == (1000,)
        state = {"w": torch.zeros(1000), "m": torch.nn.Linear(2, 2), "n": None}
        checkpoint.load(state, checkpoint_id=f"c{step}")
        assert (state["w"] == step).all()
        assert (state["m"].weight == step).all()
        assert state["m"].weight.requires_grad
        assert state["n"] == step


def test_async_saves_of_one_writer_reuse_its_memory():
    writer = FileSystemWriter("c", cache_staged_state_dict=True)
    pieces = Pieces(torch.ones(3), Mesh((1,), (0,)), [Shard(0)])
    for value in (1.0, 2.0):
        state = {"w": torch.full((3,), value), "l": [torch.full((1,), value)], "p": pieces}
        checkpoint.async_save(state, storage_writer=writer).result(30)
        assert _load_state_dict_from_keys(checkpoint_id="c")["w"].tolist() == [value] * 3
    assert writer._cache["p"].to_local() is not pieces.to_local()


def test_what_goes_wrong_beside_the_training_is_raised_by_the_future():
    Path("file").touch()
    future = checkpoint.async_save({"w": torch.ones(1)}, checkpoint_id="file/c")
    with pytest.raises(CheckpointException, match="NotADirectoryError"):
        future.result(30)
    checkpoint.async_save({"w": torch.ones(1)}, checkpoint_id="c").result(30)


def test_a_stager_that_copies_later():
    stager = DefaultStager()
    answer = checkpoint.async_save({"w": torch.ones(1)}, checkpoint_id="c", async_stager=stager)
    assert isinstance(answer, AsyncSaveResponse)
    assert answer.staging_completion.result(30) is None
    assert answer.upload_completion.result(30).state_dict_metadata["w"].size == (1,)
    stager.close()


# -- planners and formats --------------------------------------------------------------------------------------------


class Renaming(DefaultLoadPlanner):
    """Loads names that begin with "old_" into names without it."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.given = state_dict
        renamed = {f"old_{name}": value for name, value in state_dict.items()}
        super().set_up_planner(renamed, metadata, is_coordinator)

    def load_bytes(self, read_item, value):
        self.given[read_item.dest_index.fqn.removeprefix("old_")] = torch.load(value)


def test_planners_of_ones_own():
    checkpoint.save({"old_w": torch.ones(2), "old_n": 3}, checkpoint_id="c")
    state = {"w": torch.zeros(2), "n": 0}
    checkpoint.load(state, checkpoint_id="c", planner=Renaming())
    assert state["w"].tolist() == [1, 1]
    assert state["n"] == 3
    partial = {"old_w": torch.zeros(2), "more": torch.zeros(1)}
    checkpoint.load(partial, checkpoint_id="c", planner=DefaultLoadPlanner(allow_partial_load=True))
    assert [partial["old_w"].tolist(), partial["more"].tolist()] == [[1, 1], [0]]


class Careless(DefaultSavePlanner):
    def resolve_data(self, write_item):
        return super().resolve_data(write_item).half()


def test_a_planner_that_gives_other_data_than_it_planned_is_named():
    error = failure(checkpoint.save, {"w": torch.ones(2)}, checkpoint_id="c", planner=Careless())
    assert (
        "'w' was planned as torch.float32 of shape (2,), but resolve_data gave torch.float16"
        in error
    )


def test_without_flattening_dicts_are_objects():
    planner = DefaultSavePlanner(flatten_state_dict=False)
    metadata = checkpoint.save(
        {"a": {"b": 1}, "w": torch.ones(1)}, checkpoint_id="c", planner=planner
    )
    assert set(metadata.state_dict_metadata) == {"a", "w"}
    state = {"a": None, "w": torch.zeros(1)}
    checkpoint.load(state, checkpoint_id="c", planner=DefaultLoadPlanner(flatten_state_dict=False))
    assert state == {"a": {"b": 1}, "w": torch.ones(1)}


def test_parts_of_a_checkpoint():
    checkpoint.save(nested(2), checkpoint_id="c")
    assert list(_load_state_dict_from_keys("inner", checkpoint_id="c")) == ["inner"]
    some = _load_state_dict_from_keys({"inner.pair", "step"}, checkpoint_id="c")
    assert some == {"inner": {"pair": (1, 4)}, "step": 14}


def test_to_one_file_and_back():
    checkpoint.save(nested(2), checkpoint_id="c")
    dcp_to_torch_save("c", "one.pt")
    torch_save_to_dcp("one.pt", "d")
    state = nested(1)
    checkpoint.load(state, checkpoint_id="d")
    assert repr(state) == repr(nested(2))


def test_folders_of_the_hub():
    w, h = torch.arange(6.0).reshape(3, 2), torch.ones(2).bfloat16()
    mapping = {"w": 1, "h": 2}
    writer = checkpoint.HuggingFaceStorageWriter("hub", fqn_to_index_mapping=mapping)
    checkpoint.save({"w": w, "h": h}, storage_writer=writer)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert sorted(os.listdir("hub")) == [*names, "model.safetensors.index.json"]
    index = json.loads(Path("hub/model.safetensors.index.json").read_text())
    assert index == {"metadata": {"total_size": 28}, "weight_map": {"h": names[1], "w": names[0]}}
    assert torch.safetensors.load_file(f"hub/{names[0]}")["w"].tolist() == w.tolist()
    for mesh in meshes((2,)):
        state = {"w": Pieces(w, mesh, [Shard(0)], fill=-1), "h": torch.zeros(2)}
        reader = checkpoint.HuggingFaceStorageReader("hub")
        checkpoint.load(state, storage_reader=reader)
        assert torch.equal(state["w"].to_local(), Pieces(w, mesh, [Shard(0)]).to_local())
        assert state["h"].tolist() == [1, 1]
    assert "whole tensors alone" in failure(checkpoint.save, {"n": 1}, storage_writer=writer)
    piece = {"w": Pieces(w, Mesh((2,), (0,)), [Shard(0)])}
    assert "'w' is a piece of a tensor" in failure(checkpoint.save, piece, storage_writer=writer)
    os.unlink(f"hub/{names[1]}")
    says = failure(checkpoint.load, {"w": w}, storage_reader=reader)
    assert "has not model-00002-of-00002.safetensors" in says


def test_wide_states_stay_in_order():
    state = OrderedDict((f"p{i}", torch.tensor([float(i)])) for i in range(300))
    checkpoint.save(state, checkpoint_id="c")
    assert list(_load_state_dict_from_keys(checkpoint_id="c")) == list(state)
    target = copy.deepcopy(state)
    for t in target.values():
        t.zero_()
    checkpoint.load(target, checkpoint_id="c")
    assert [t.item() for t in target.values()] == list(range(300))
