"""A program of two processes that shards in every way, for both libraries: rank 0 writes what it found to a file."""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

found: dict = {}
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("all",))


def wave(*shape: int) -> torch.Tensor:
    """Numbers that both libraries agree on."""
    n = 1
    for length in shape:
        n *= length
    return torch.sin(torch.arange(n, dtype=torch.float32) * 1.7).reshape(shape)


def log(name: str, *values) -> None:
    found[name] = [v.tolist() if isinstance(v, torch.Tensor) else v for v in values]


def placed(d) -> list:
    return [str(p) for p in d.placements]


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(6, 10), nn.LayerNorm(10), nn.Linear(10, 3)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(wave(*p.shape))

    def forward(self, x):
        return self.down(torch.tanh(self.norm(self.up(x))))


# DTensors
x = distribute_tensor(wave(5, 4), mesh, [Shard(0)])
w = distribute_tensor(wave(3, 4), mesh, [Shard(1)])
log("parts", x.to_local(), w.to_local(), x.shape, x.stride(), str(x), placed(x))
y = F.linear(x.redistribute(placements=[Replicate()]), w)
log(
    "linear",
    y.full_tensor(),
    placed(x.sum()),
    x.sum().full_tensor(),
    placed(x.t()),
    x.mean().full_tensor(),
)
log("moves", x.redistribute(placements=[Shard(1)]).to_local(), x.full_tensor())
term = DTensor.from_local(torch.ones(2) * (rank + 1), mesh, [Partial()])
log(
    "terms",
    term.full_tensor(),
    (term * 2).full_tensor(),
    (term + 1).full_tensor(),
    placed(term * 2),
)
log("norm", x.norm().full_tensor(), x.max().full_tensor(), F.softmax(x, -1).full_tensor())
p = nn.Parameter(distribute_tensor(wave(4, 4), mesh, [Shard(0)]))
(p * p).sum().backward()
log("gradient", p.grad.full_tensor(), placed(p.grad), type(p.grad).__name__)
errors = []
for wrong in (
    lambda: distribute_tensor(wave(2), mesh, [Shard(0), Shard(0)]),
    lambda: distribute_tensor(wave(2), mesh, [Shard(3)]),
    lambda: x.redistribute(placements=[Partial()]),
    lambda: mesh["nobody"],
    lambda: x.numpy(),
    lambda: fully_shard(nn.ModuleList([nn.Linear(2, 2)])),
):
    try:
        wrong()
    except Exception as error:
        errors.append(type(error).__name__)
log("errors", errors)

# fully_shard
for name, policy in (
    ("plain", MixedPrecisionPolicy()),
    ("half", MixedPrecisionPolicy(torch.bfloat16, torch.float32)),
):
    model = MLP()
    fully_shard(model.up, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)
    norms = []
    for step in range(4):
        inputs, targets = wave(4, 6) * (step + 1), torch.tensor([0, 1, 2, 0])
        part = slice(2 * rank, 2 * rank + 2)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[part]).float(), targets[part]).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.3).full_tensor().item())
        optimizer.step()
    log(f"trained {name}", norms, *[p.full_tensor() for p in model.parameters()])
    log(
        f"state {name}",
        list(model.state_dict()),
        type(model).__name__,
        [placed(p) for p in model.parameters()],
    )
    log(f"slots {name}", optimizer.state[model.up.weight]["exp_avg"].full_tensor())

# tensor parallelism
plan = {
    "up": ColwiseParallel(output_layouts=Replicate()),
    "down": RowwiseParallel(input_layouts=Replicate()),
}
model = parallelize_module(MLP(), mesh, plan)
out = model(wave(4, 6))
out.square().sum().backward()
log(
    "parallel",
    out.detach(),
    placed(model.up.weight),
    placed(model.down.weight),
    placed(model.down.bias),
)
log(
    "parallel gradients",
    *[getattr(p.grad, "full_tensor", lambda p=p: p.grad)() for p in model.parameters()],
)

if rank == 0:
    with open(sys.argv[2], "w") as file:
        json.dump(found, file)
dist.barrier()
dist.destroy_process_group()
