"""What goes wrong, uneven inputs, and what stands beside DistributedDataParallel: more features."""

from __future__ import annotations

import copy

import gradlib as torch
from gradlib import distributed, nn
from gradlib.distributed._agreement import check_parameters
from gradlib.distributed.algorithms import Join
from gradlib.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
from gradlib.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from gradlib.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from gradlib.nn.parallel import DistributedDataParallel
from tests.distributed.ddp_programs import (
    Two,
    batch,
    feature,
    line,
    loss_of,
    make,
    mine,
    part,
    raised,
    rank,
    size,
    weights,
)

# -- errors --------------------------------------------------------------------------------------------------------


@feature
def different_models():
    class Named(nn.Module):
        def __init__(self, name, width=2):
            super().__init__()
            setattr(self, name, nn.Linear(2, width))

    last = rank() == size() - 1
    return (
        raised(lambda: DistributedDataParallel(Named("layer", 3 if last else 2))),
        raised(
            lambda: DistributedDataParallel(
                nn.Sequential(*[nn.Linear(2, 2)] * 1, *([nn.Linear(2, 2)] if last else []))
            )
        ),
        raised(lambda: DistributedDataParallel(Named("other" if last else "layer"))),
        raised(
            lambda: DistributedDataParallel(
                Named("layer").to(torch.float64 if last else torch.float32)
            )
        ),
    )


@feature
def checked():
    model = line(check_every=2)
    quiet = raised(lambda: check_parameters(model))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps():
        for step in range(5):
            optimizer.zero_grad()
            model(mine()).sum().backward()
            optimizer.step()
            if step == 2 and rank() == 1:
                with torch.no_grad():
                    model.module.weight.add_(1e-6)

    return quiet, raised(steps), raised(lambda: check_parameters(model.module, 9))


@feature
def failed_backward():
    """An error in backward on all ranks: the next forward says that the averages are not done."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))

    def fail(grad):
        raise ValueError("no gradient today")

    model(mine()).sum().backward()
    out = model(mine())
    model.module[0].weight.register_hook(fail)
    return raised(lambda: out.sum().backward()), raised(lambda: model(mine()))


@feature
def arguments():
    net = nn.Linear(1, 1)
    texts = [
        raised(lambda: DistributedDataParallel(nn.ReLU())),
        raised(lambda: DistributedDataParallel(net, device_ids=[0])),
        raised(lambda: DistributedDataParallel(net, device_ids=[0, 1])),
        raised(
            lambda: DistributedDataParallel(
                net, process_group=distributed.group.WORLD, device_mesh=3
            )
        ),
        raised(lambda: DistributedDataParallel(net, param_to_hook_all_reduce=net.weight)),
        raised(lambda: DistributedDataParallel(nn.LazyLinear(1))),
        raised(lambda: DistributedDataParallel(net, check_every=-1)),
    ]
    return texts


# -- uneven inputs -------------------------------------------------------------------------------------------------


@feature
def uneven():
    found = []
    for options in ({}, {"divide_by_initial_world_size": False}):
        model = line()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with model.join(**options):
            for _ in range(1 + 2 * rank()):
                optimizer.zero_grad()
                model(mine()).sum().backward()
                optimizer.step()
        found.append(model.module.weight.item())
    return found


@feature
def uneven_with_buffers():
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)))
    with model.join():
        for step in range(2 + rank()):
            if step == 1:
                with model.no_sync():
                    model(torch.randn(4, 1)).sum().backward()
            else:
                model(torch.randn(4, 1)).sum().backward()
    return model.module[1].num_batches_tracked.item(), model.module[1].running_mean.item()


@feature
def uneven_thrown():
    model = line()

    def steps():
        with model.join(throw_on_early_termination=True):
            for _ in range(1 + rank()):
                model(mine()).sum().backward()

    return raised(steps)


@feature
def uneven_with_zero():
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1.0)
    with Join([model, optimizer]):
        for _ in range(1 + rank()):
            optimizer.zero_grad()
            model(mine()).sum().backward()
            optimizer.step()
    return [p.item() for p in model.parameters()]


# -- what stands beside it -----------------------------------------------------------------------------------------


@feature
def zero():
    """AdamW with its state divided: the weights of one process, and a state_dict that it can load."""
    found = []
    for views in (False, True):
        model = DistributedDataParallel(make("gpt"))
        groups = [
            {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
        ]
        optimizer = ZeroRedundancyOptimizer(
            groups, torch.optim.AdamW, lr=0.01, eps=1e-3, parameters_as_bucket_view=views
        )
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for step in range(6):
            x, y = part(batch("gpt", step))
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
            scheduler.step()
        early = raised(optimizer.state_dict)
        optimizer.consolidate_state_dict(to=0)
        saved = optimizer.state_dict() if rank() == 0 else None
        held = sum(s["exp_avg"].numel() for s in optimizer.optim.state.values())
        found.append((weights(model), early, saved, held))
        if rank() == 0:
            states = [saved]
        else:
            states = [None]
        distributed.broadcast_object_list(states, src=0)
        again = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, lr=1.0)
        again.load_state_dict(states[0])
        assert again.param_groups[0]["lr"] == again.optim.param_groups[0]["lr"] != 1.0
        for p, state in optimizer.optim.state.items():
            assert torch.equal(state["exp_avg"], again.optim.state[p]["exp_avg"])
    return found


@feature
def zero_refuses():
    net = nn.Linear(1, 1)
    return raised(
        lambda: ZeroRedundancyOptimizer(
            net.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=1.0
        )
    )


@feature
def sync_batch_norm():
    """Rows divided unevenly among the ranks: outputs and gradients are those of all rows in one process."""
    found = []
    for affine in (True, False):
        torch.manual_seed(5)
        rows = torch.randn(size() * 3 + 1, 4, 3, dtype=torch.float64) + 10
        factors = torch.randn_like(rows)
        alone = nn.BatchNorm1d(4, affine=affine, dtype=torch.float64)
        net = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone))
        x = rows.clone().requires_grad_()
        whole = alone(x)
        (whole * factors).sum().backward()
        mine = slice(rank() * 3, rank() * 3 + 3 + (rank() == size() - 1))
        y = rows[mine].clone().requires_grad_()
        out = net(y)
        (out * factors[mine]).sum().backward()
        same = [
            torch.allclose(out, whole[mine]),
            torch.allclose(y.grad, x.grad[mine]),
            torch.allclose(net.running_mean, alone.running_mean),
            torch.allclose(net.running_var, alone.running_var),
        ]
        if affine:
            for p, q in zip(net.parameters(), alone.parameters()):
                total = p.grad.clone()
                distributed.all_reduce(total)
                same.append(torch.allclose(total, q.grad))
        net.eval()
        alone.eval()
        same.append(torch.allclose(net(rows), alone(rows)))
        found.append(same)
    half = nn.SyncBatchNorm(2).to(torch.bfloat16)
    out = half((torch.ones(2, 2, 2) * (rank() + 1)).to(torch.bfloat16))
    return found, str(out.dtype), str(half.running_mean.dtype)


@feature
def averaged_models():
    subgroup = [distributed.new_group([r]) for r in range(size())][rank()]
    model = line()
    state = local.PostLocalSGDState(None, subgroup, start_localSGD_iter=2)
    model.register_comm_hook(state, local.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(period=2, warmup_steps=2)
    )
    values = []
    for _ in range(5):
        optimizer.zero_grad()
        model(mine()).sum().backward()
        optimizer.step()
        values.append(model.module.weight.item())
    saved = optimizer.state_dict()
    texts = [raised(lambda: PeriodicModelAverager(0)), raised(lambda: PeriodicModelAverager(2, -1))]
    return values, saved["step"], texts


# -- what would go wrong in silence --------------------------------------------------------------------------------


@feature
def lost_step():
    """The loss of rank 0 does not use the output, once: from then on its gradients belong to other batches."""
    model = line()
    other = torch.ones(1, requires_grad=True)
    for step in range(4 - (rank() > 0)):
        out = model(mine())
        (other.sum() if rank() == 0 and step == 1 else out.sum()).backward()
    return model.reducer.passes


@feature
def different_numbers_of_forwards():
    """One backward through all of them: nothing is lost, and nothing said."""
    model = line()
    for _ in range(3):
        sum(model(mine()) for _ in range(1 + rank())).sum().backward()
    return model.module.weight.grad.item()
