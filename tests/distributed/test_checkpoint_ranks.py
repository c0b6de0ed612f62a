"""Checkpoints of several processes: written by two, read by one and by three; a process that fails or is killed."""

from __future__ import annotations

import os
import signal

import gradlib as torch
from gradlib import distributed as dist
from gradlib.distributed import checkpoint
from gradlib.distributed import tensor as dtensor
from gradlib.distributed.checkpoint import (
    CheckpointException,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
)
from gradlib.distributed.checkpoint.filesystem import FileSystem
from gradlib.distributed.checkpoint.format_utils import (
    BroadcastingTorchSaveReader,
    DynamicMetaLoadPlanner,
)
from gradlib.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from gradlib.distributed.device_mesh import init_device_mesh
from gradlib.distributed.fsdp import fully_shard
from gradlib.distributed.tensor import distribute_tensor
from tests.distributed.harness import run, start
from tests.distributed.pieces import Mesh, Pieces, Shard

WHOLE = torch.arange(35.0).reshape(5, 7)


def model_and_optimizer():
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return model, optimizer


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().sum().backward()
        optimizer.step()


def piece(dim=0, fill=None):
    mesh = Mesh((dist.get_world_size(),), (dist.get_rank(),))
    return Pieces(WHOLE, mesh, [Shard(dim)], fill=fill)


def sums(model, optimizer):
    values = [*model.state_dict().values()]
    values += [v for s in optimizer.state.values() for v in s.values()]
    return [float(v.double().sum()) for v in values]


# -- from two to one and to three --------------------------------------------------------------------------------------


def save_of_two(path):
    model, optimizer = model_and_optimizer()
    train(model, optimizer, 3)
    mesh = init_device_mesh("cpu", (2,))
    state = {"model": model, "optimizer": optimizer, "p": piece(), "rank": dist.get_rank()}
    state["d"] = {
        "rows": distribute_tensor(WHOLE, mesh, [dtensor.Shard(0)]),
        "all": distribute_tensor(WHOLE, mesh),
    }
    metadata = checkpoint.save(state, checkpoint_id=f"{path}/sync")
    future = checkpoint.async_save(state, checkpoint_id=f"{path}/async")
    for _ in range(20):  # collectives of the training go on beside it
        dist.all_reduce(torch.ones(4))
    future.result(60)
    checkpoint.async_save(state, checkpoint_id=f"{path}/async").result(60)
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "n": 3, "p": WHOLE}, f"{path}/one.pt")
    return sums(model, optimizer), len(metadata.state_dict_metadata["p"].chunks)


def load_of_any(path):
    model, optimizer = model_and_optimizer()
    mesh = init_device_mesh("cpu", (3,))
    found = []
    for name in ("sync", "async"):
        state = {"model": model, "optimizer": optimizer, "p": piece(1, fill=-1), "rank": None}
        empty = torch.zeros(5, 7)
        state["d"] = {"rows": distribute_tensor(empty, mesh, [dtensor.Shard(1)]), "all": empty}
        checkpoint.load(state, checkpoint_id=f"{path}/{name}")
        assert torch.equal(state["d"]["rows"].full_tensor(), WHOLE)
        assert torch.equal(state["d"]["all"], WHOLE)
        assert torch.equal(state["p"].to_local(), piece(1).to_local())
        found.append((sums(model, optimizer), state["rank"]))
        model, optimizer = model_and_optimizer()

    state = {"model": model.state_dict(), "n": 0, "p": piece(fill=-1)}
    reader = BroadcastingTorchSaveReader(f"{path}/one.pt")
    checkpoint.load(state, storage_reader=reader, planner=DynamicMetaLoadPlanner())
    assert torch.equal(state["p"].to_local(), piece().to_local())
    found.append((float(state["model"]["0.weight"].double().sum()), state["n"]))

    # the first process has a state, the others get it
    train(model, optimizer, 1 + dist.get_rank())
    whole = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    if dist.get_rank():
        model_state, optimizer_state = {}, {}
    fresh, fresh_optimizer = model_and_optimizer()
    set_model_state_dict(fresh, model_state, options=whole)
    set_optimizer_state_dict(fresh, fresh_optimizer, optimizer_state, options=whole)
    found.append(sums(fresh, fresh_optimizer))
    ddp = torch.nn.parallel.DistributedDataParallel(fresh)
    assert list(get_state_dict(ddp, fresh_optimizer)[0]) == list(fresh.state_dict())
    set_model_state_dict(ddp, get_state_dict(fresh, [])[0])
    only_first = StateDictOptions(full_state_dict=True, cpu_offload=True)
    full, _ = get_state_dict(model, optimizer, options=only_first)
    found.append(len(full))
    return found


def test_saved_by_two_and_loaded_by_one_and_three(tmp_path):
    saved = run(save_of_two, 2, path=str(tmp_path))
    assert saved[0] == saved[1]
    [values, chunks] = saved[0]
    assert chunks == 2
    for name in ("sync", "async"):
        files = [n for n in os.listdir(tmp_path / name) if n.endswith("safetensors")]
        assert sorted(n[:6] for n in files) == ["rank-0", "rank-1"]
        sizes = [os.path.getsize(tmp_path / name / n) for n in files]
        assert max(sizes) < 3 * min(sizes)

    model, optimizer = model_and_optimizer()
    state = {"model": model, "optimizer": optimizer, "p": torch.zeros(5, 7), "rank": None}
    checkpoint.load(state, checkpoint_id=tmp_path / "sync")
    assert torch.equal(state["p"], WHOLE)
    assert sums(model, optimizer) == values
    assert state["rank"] == 0

    loaded = run(load_of_any, 3, path=str(tmp_path))
    for sync, beside, one, sent, _ in loaded:
        assert sync == beside == (values, 0)
        assert one == (values[0], 3)
        assert sent == loaded[0][3]
    assert [full for *_, full in loaded] == [4, 0, 0]


def sharded_model(mesh):
    """A model and optimizer whose parameters are pieces, as tensor parallelism and fully_shard make them."""
    model, _ = model_and_optimizer()
    for layer in model:
        for name, p in list(layer.named_parameters()):
            cut = distribute_tensor(p.detach(), mesh, [dtensor.Shard(0)])
            setattr(layer, name, torch.nn.Parameter(cut))
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def states_of_pieces(path):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model, optimizer = sharded_model(mesh)
    plain, plain_optimizer = model_and_optimizer()
    train(plain, plain_optimizer, 2)
    whole = StateDictOptions(full_state_dict=True)
    model_state, optimizer_state = get_state_dict(plain, plain_optimizer)
    set_model_state_dict(model, model_state, options=whole)
    set_optimizer_state_dict(model, optimizer, optimizer_state, options=whole)
    pieces, state_of_pieces = get_state_dict(model, optimizer)
    assert all(hasattr(v, "placements") for v in pieces.values())
    assert hasattr(state_of_pieces["state"]["0.weight"]["exp_avg"], "placements")
    checkpoint.save({"model": pieces, "optimizer": state_of_pieces}, checkpoint_id=f"{path}/pieces")
    reader = FileSystemReader(f"{path}/pieces")
    loaded = checkpoint.load_sharded_optimizer_state_dict(pieces, "optimizer", reader)["optimizer"]
    kept = loaded["state"]["0.weight"]["exp_avg"]
    assert kept.placements == pieces["0.weight"].placements
    assert torch.equal(kept.full_tensor(), optimizer_state["state"]["0.weight"]["exp_avg"])
    assert loaded["param_groups"][0]["params"] == list(pieces)
    back, back_optimizer = get_state_dict(model, optimizer, options=whole)
    for name, value in model_state.items():
        assert torch.equal(back[name], value)
        for kind, kept in optimizer_state["state"][name].items():
            assert torch.equal(back_optimizer["state"][name][kind], kept), (name, kind)
    return sums(plain, plain_optimizer)


def test_states_of_pieces_are_those_of_whole_tensors(tmp_path):
    [wanted, _] = run(states_of_pieces, 2, path=str(tmp_path))
    model, optimizer = model_and_optimizer()
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    checkpoint.load(state, checkpoint_id=tmp_path / "pieces")
    set_model_state_dict(model, model_state)
    set_optimizer_state_dict(model, optimizer, optimizer_state)
    assert sums(model, optimizer) == wanted


def sharded_training(path, steps, resume):
    """Train with fully_shard from the beginning, or from the checkpoint of others; the whole weights at the end."""
    model, _ = model_and_optimizer()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer, "step": 0}
    if resume:
        checkpoint.load(state, checkpoint_id=path)
    for step in range(state["step"], steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4) * (step + 1)).square().mean().backward()
        optimizer.step()
    if not resume:
        checkpoint.save({**state, "step": steps}, checkpoint_id=path)
    options = StateDictOptions(full_state_dict=True)
    return {n: v.tolist() for n, v in get_model_state_dict(model, options=options).items()}


def half_of_it_and_all(path):
    """A checkpoint in the middle, and the weights of a training that did not stop."""
    sharded_training(path, steps=2, resume=False)
    return sharded_training(f"{path}-straight", steps=4, resume=False)


def test_fully_sharded_training_goes_on_with_another_number_of_processes(tmp_path):
    path = str(tmp_path / "c")
    straight = run(half_of_it_and_all, 2, path=path)
    resumed = run(sharded_training, 3, path=path, steps=4, resume=True)
    for name, values in straight[0].items():
        assert torch.allclose(torch.tensor(resumed[0][name]), torch.tensor(values), atol=1e-6), name


# -- what goes wrong ---------------------------------------------------------------------------------------------------


class Broken(DefaultSavePlanner):
    """Fails on process 1."""

    def resolve_data(self, write_item):
        if dist.get_rank() == 1:
            raise OSError(28, "No space left on device")
        return super().resolve_data(write_item)


def fail_on_one(path):
    big = {f"w{i}": torch.full((50,), 2.0) for i in range(4)}
    old = {name: torch.ones(50) for name in big}
    checkpoint.save(old, checkpoint_id=path)
    texts = []
    for action in (
        lambda: checkpoint.save(big, checkpoint_id=path, planner=Broken()),
        lambda: checkpoint.async_save(big, checkpoint_id=path, planner=Broken()).result(60),
        lambda: checkpoint.load({"w0" if dist.get_rank() else "v": big["w0"]}, checkpoint_id=path),
        lambda: checkpoint.save({"w": torch.ones(2 + dist.get_rank())}, checkpoint_id=path),
    ):
        try:
            action()
        except CheckpointException as error:
            texts.append((list(error.failures), str(error)))
    dist.barrier()
    state = {name: torch.zeros(50) for name in big}
    checkpoint.load(state, checkpoint_id=path)
    assert all((w == 1).all() for w in state.values())
    return texts


def test_an_error_of_one_process_is_known_to_all(tmp_path):
    for texts in run(fail_on_one, 2, path=str(tmp_path / "c")):
        (full, no_space), beside, (load, missing), (plan, shapes) = texts
        assert full == [1]
        assert "(RANK 1)" in no_space
        assert "No space left on device" in no_space
        assert beside[0] == [1]
        assert load == [0]
        assert "Missing key in checkpoint state_dict: v." in missing
        assert plan == [0]
        assert (
            "'w' is torch.float32 of shape (2,) in process 0 and torch.float32 of shape (3,) in process 1"
            in shapes
        )
    assert len(os.listdir(tmp_path / "c")) == 3


class Deadly(FileSystem):
    """Kills its process when it writes the index, or the file of tensors."""

    def __init__(self, at):
        self.at = at

    def create_stream(self, path, mode):
        if mode == "wb" and self.at in str(path):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().create_stream(path, mode)


def die(path, rank, at):
    state = {f"w{i}": torch.full((50,), 2.0) for i in range(4)}
    writer = FileSystemWriter(path)
    if dist.get_rank() == rank:
        writer.fs = Deadly(at)
    try:
        checkpoint.save(state, storage_writer=writer)
    except BaseException as error:
        return type(error).__name__
    return "saved"


def test_a_killed_process_leaves_the_checkpoint_that_was_there(tmp_path):
    path = str(tmp_path / "c")
    checkpoint.save({f"w{i}": torch.ones(50) for i in range(4)}, checkpoint_id=path)
    for rank, at in ((1, "rank-1"), (0, "index.json")):
        with start(die, 2, path=path, rank=rank, at=at) as job:
            ends = job.ends()
        assert ends[rank] == ("ended", -signal.SIGKILL)
        assert "saved" not in ends[1 - rank]
        state = {f"w{i}": torch.zeros(50) for i in range(4)}
        checkpoint.load(state, checkpoint_id=path)
        assert all((w == 1).all() for w in state.values())
    assert FileSystemReader(path).read_metadata().storage_meta is not None
    checkpoint.save(state, checkpoint_id=path)
    assert len(os.listdir(path)) == 2
