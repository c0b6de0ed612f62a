"""fully_shard on a GPU: parameters are gathered and gradients summed beside computing, and nothing reads too early.

The other rank of the group is an echo: it has what this one has. Any order that the streams allow gives the same.
"""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib import nn
from gradlib.devices.cuda import lanes
from gradlib.distributed import distributed_c10d as c10d
from gradlib.distributed.device_mesh import DeviceMesh
from gradlib.distributed.fsdp import _streams, fully_shard
from tests.simulated.test_nccl import Echo, floats, group
from tests.simulated_cuda import machine

__all__ = ["group"]
SEEDS = range(12)


def reduce_scatter(self, given, into, count, dtype, op, stream):
    def run():
        floats(into, count)[:] = 2 * floats(given, count)

    machine.submit(run, machine.queue(stream), "reduce_scatter")


@pytest.fixture
def mesh(monkeypatch, group):
    """What makes a mesh of the two ranks."""
    monkeypatch.setattr(Echo, "reduceScatter", reduce_scatter, raising=False)
    monkeypatch.setattr(c10d, "is_initialized", lambda: True)
    monkeypatch.setattr(c10d, "get_rank", lambda *_: 0)
    monkeypatch.setattr(c10d, "get_world_size", lambda *_: 2)

    def make():
        made = group()
        monkeypatch.setattr(c10d, "get_process_group_ranks", lambda *_: [0, 1])
        return DeviceMesh.from_group(made, "cuda"), made

    return make


def trained(mesh, **kwargs) -> list:
    """The parameters after three steps."""
    _streams._sides.clear()  # streams are of the device of the moment
    where, made = mesh()
    gl.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)]
    model = nn.Sequential(*blocks, nn.Linear(6, 2)).to("cuda")
    for block in blocks:
        fully_shard(block, mesh=where, **kwargs)
    fully_shard(model, mesh=where, **kwargs)
    optimizer = gl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = gl.linspace(-1, 1, 24, device="cuda").view(4, 6)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    found = [p.to_local().cpu().tolist() for p in model.parameters()]
    made.shutdown()
    return found


def test_any_order_of_streams_gives_the_same(lazy_cuda, mesh):
    results = []
    for seed in SEEDS:
        with lazy_cuda(seed):
            results.append(trained(mesh))
    assert all(result == results[0] for result in results)
    assert any(
        abs(v) > 0 for row in results[0] for v in (row if isinstance(row[0], float) else row[0])
    )


def test_a_missing_wait_would_be_found(lazy_cuda, mesh, monkeypatch):
    monkeypatch.setattr(lanes.Lane, "wait", lambda self, event: None)
    results = []
    for seed in SEEDS:
        with lazy_cuda(seed):
            results.append(trained(mesh))
    assert any(result != results[0] for result in results)
