"""DistributedDataParallel and what stands beside it, on gradlib and on PyTorch's gloo: the same numbers."""

from __future__ import annotations

import importlib
import multiprocessing
import tempfile
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
SIZE = 2


def program(torch: Any, log: Any) -> None:
    """What both libraries run on each rank; `log` takes what is to be compared."""
    nn, dist = torch.nn, torch.distributed
    DDP = nn.parallel.DistributedDataParallel
    hooks = importlib.import_module(f"{torch.__name__}.distributed.algorithms.ddp_comm_hooks")
    optim = importlib.import_module(f"{torch.__name__}.distributed.optim")
    averaging = importlib.import_module(
        f"{torch.__name__}.distributed.algorithms.model_averaging.averagers"
    )
    data = importlib.import_module(f"{torch.__name__}.utils.data")
    rank = dist.get_rank()

    def numbers(seed: int, *shape: int) -> Any:
        return torch.from_numpy(np.random.RandomState(seed).randn(*shape).astype("float32"))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
            self.head = nn.Linear(4 * 36, 3)
            self.spare = nn.Linear(2, 2)
            for i, parameter in enumerate(self.parameters()):
                with torch.no_grad():
                    parameter.copy_(numbers(i, *parameter.shape) * 0.2)

        def forward(self, x: Any, spare: bool = False) -> Any:
            y = self.head(self.features(x).flatten(1))
            return y + self.spare(x[:, 0, 0, :2]).sum() if spare else y

    def batch(step: int) -> tuple[Any, Any]:
        x = numbers(100 * step + rank, 4, 1, 8, 8)
        return x, torch.tensor([0, 1, 2, 1])

    def train(model: Any, optimizer: Any, steps: int = 4, spare: Any = lambda step: True) -> Any:
        losses = []
        for step in range(steps):
            x, y = batch(step)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x, spare(step)), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().numpy().copy() for p in model.parameters()]

    def sgd(model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for options in (
        {},
        {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001},
        {"static_graph": True, "bucket_cap_mb": 0.0001},
        {"find_unused_parameters": True, "forward_sync_buffers": False},
    ):
        model = DDP(Net(), **options)
        log("keys", list(model.state_dict()))
        log("trained", train(model, sgd(model)))
        log("buffer", [b.numpy().copy() for b in model.buffers()])
    model = DDP(Net(), find_unused_parameters=True)
    log("unused", train(model, sgd(model), spare=lambda step: (rank + step) % 3 == 0))
    for kind in ("ALLREDUCE", "FP16_COMPRESS", "NOOP"):
        model = DDP(Net(), bucket_cap_mb=0.001)
        hooks.register_ddp_comm_hook(hooks.DDPCommHookType[kind], model)
        log(kind, train(model, sgd(model), 2))

    for options in ({}, {"find_unused_parameters": True, "bucket_cap_mb": 0.0001}):
        model = DDP(Net(), **options)
        seen: list = []

        def watching(state, bucket, seen=seen):  # annotated, it would have to be with the library's
            shapes = sorted(tuple(p.shape) for p in bucket.parameters())
            sizes = [tuple(g.shape) for g in bucket.gradients()]
            buffer = bucket.buffer()
            seen.append((bucket.index(), bucket.is_last(), tuple(buffer.shape), shapes, len(sizes)))
            seen.append(buffer.abs().sum().item())
            return hooks.default_hooks.allreduce_hook(state, bucket)

        model.register_comm_hook(None, watching)
        train(model, sgd(model), 1)
        log("buckets", seen)

    model = DDP(Net())
    with model.no_sync():
        x, y = batch(0)
        nn.functional.cross_entropy(model(x, True), y).backward()
    log("local", [p.grad.numpy().copy() for p in model.parameters()])
    x, y = batch(1)
    nn.functional.cross_entropy(model(x, True), y).backward()
    log("together", [p.grad.numpy().copy() for p in model.parameters()])
    for options in ({}, {"divide_by_initial_world_size": False}):
        model = DDP(Net())
        with model.join(**options):
            losses, _ = train(model, sgd(model), 1 + rank)
        log("uneven", losses, [p.detach().numpy().copy() for p in model.parameters()])

    words = nn.Embedding(6, 3, sparse=True)
    with torch.no_grad():
        words.weight.copy_(numbers(7, 6, 3))
    model = DDP(words)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.1)
    for rows in ([[0, 1, 1], [4, 1, 0]], [[2, 2], [3, 5, 5]], [[0], [0]]):
        optimizer.zero_grad()
        model(torch.tensor(rows[rank])).sin().sum().backward()
        grad = words.weight.grad
        log("rows", grad.is_coalesced(), grad._nnz(), grad.to_dense().numpy().copy())
        optimizer.step()
        log("words", words.weight.detach().numpy().copy())
    thin = torch.sparse_coo_tensor([[rank, 2]], torch.tensor([1.0, 2.0]), (3,))
    dist.all_reduce(thin)
    log("thin", thin.to_dense().tolist())

    model = DDP(Net())
    zero = optim.ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, lr=0.01, eps=1e-3, weight_decay=0.1
    )
    log("zero", train(model, zero))
    log("shares", sorted(p.numel() for group in zero.optim.param_groups for p in group["params"]))
    zero.consolidate_state_dict(to=1)
    if rank == 1:
        saved = zero.state_dict()
        log("saved", sorted(saved["state"]), [g["params"] for g in saved["param_groups"]])
        log("state", [saved["state"][i]["exp_avg"].numpy().copy() for i in sorted(saved["state"])])

    model = Net()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    averager = averaging.PeriodicModelAverager(period=2, warmup_steps=1)
    log("averaged", train(model, optim.PostLocalSGDOptimizer(inner, averager)))
    sampler = data.DistributedSampler(range(11), seed=3)
    sampler.set_epoch(5)
    log("sampler", list(sampler))
    for label, run in {
        "no parameters": lambda: DDP(nn.ReLU()),
        "devices": lambda: DDP(Net(), device_ids=[0]),
        "two devices": lambda: DDP(Net(), device_ids=[0, 1]),
        "hook": lambda: DDP(Net()).register_comm_hook(None, 3),
        "trigger": lambda: DDP(Net(), param_to_hook_all_reduce=model.head.weight),
        "period": lambda: averaging.PeriodicModelAverager(0),
        "state": lambda: optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=1).state_dict(),
        "joinables": lambda: importlib.import_module(f"{torch.__name__}.distributed.algorithms").Join([]),
    }.items():  # fmt: skip
        try:
            run()
            log(label, None)
        except Exception as error:
            log(label, f"{type(error).__name__}: {error}".rstrip())


def _main(library: str, rank: int, path: str, pipe: Any) -> None:
    torch = importlib.import_module(library)
    torch.set_num_threads(1)
    logged: list = []
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{path}/meet", rank=rank, world_size=SIZE
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program(torch, lambda *what: logged.append(what))
    finally:
        pipe.send(logged)


def _run(library: str) -> list[list[Any]]:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as path:
        pipes, processes = [], []
        for rank in range(SIZE):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_main, args=(library, rank, path, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        try:
            found = [pipe.recv() if pipe.poll(120) else [] for pipe in pipes]
        finally:
            for process in processes:
                process.join(10)
                process.kill()
    return found


def _same(found: Any, expected: Any, where: str, tolerance: float) -> None:
    """Equal, but for the last digits of floating point numbers."""
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for one, other in zip(found, expected):
            _same(one, other, where, tolerance)
    elif isinstance(expected, (float, np.ndarray)):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=where)
    else:
        assert found == expected, where


def test_training_in_several_processes_is_as_pytorch_has_it():
    theirs, ours = _run("torch"), _run("gradlib")
    for rank, (expected, found) in enumerate(zip(theirs, ours, strict=True)):
        assert len(expected) > 30
        for one, other in zip(found, expected):
            halves = "COMPRESS" in str(other[0])
            _same(one, other, f"{other[0]} on rank {rank}", 2e-3 if halves else 2e-5)
        assert len(found) == len(expected)
