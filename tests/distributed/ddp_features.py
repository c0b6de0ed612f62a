"""Features of DistributedDataParallel: a function each, which gives what its test looks at."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import dataclass

import gradlib as torch
from gradlib import distributed, nn
from gradlib.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from gradlib.nn.parallel import DistributedDataParallel
from gradlib.nn.parallel.distributed import _MixedPrecision
from gradlib.utils.checkpoint import checkpoint
from tests.distributed.ddp_programs import (
    Two,
    batch,
    feature,
    grads,
    line,
    loss_of,
    make,
    mine,
    optimizer_of,
    part,
    raised,
    rank,
    size,
    weights,
)

# -- buckets and hooks ---------------------------------------------------------------------------------------------


def seen_buckets(**options):
    net = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 200), nn.Linear(200, 300))
    model = DistributedDataParallel(net, **options)
    seen = []

    def hook(state, bucket):
        grads = bucket.gradients()
        assert [g.shape for g in grads] == [p.shape for p in bucket.parameters()]
        assert sum(g.numel() for g in grads) == bucket.buffer().numel()
        shapes = sorted(tuple(g.shape) for g in grads)
        seen.append((bucket.index(), bucket.is_last(), tuple(bucket.buffer().shape), shapes))
        return default_hooks.allreduce_hook(state, bucket)

    model.register_comm_hook(None, hook)
    per_pass = []
    for _ in range(3):
        model(torch.ones(3, 100)).sum().backward()
        per_pass.append(list(seen))
        seen.clear()
    return per_pass


@feature
def buckets():
    return (
        seen_buckets(bucket_cap_mb=0.05),
        seen_buckets(bucket_cap_mb=0.05, find_unused_parameters=True),
        seen_buckets(),
    )


@feature
def bucket_facts():
    model = line()
    model(mine()).sum().backward()
    return model._get_ddp_logging_data()


def trained_with_hook(state, hook, steps=4, kind="cnn", **options):
    model = DistributedDataParallel(make(kind), bucket_cap_mb=0.002, **options)
    if isinstance(hook, DDPCommHookType):
        register_ddp_comm_hook(hook, model, state)
    elif hook is not None:
        model.register_comm_hook(state, hook)
    optimizer = optimizer_of(model)
    for step in range(steps):
        x, y = part(batch(kind, step))
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    return weights(model)


@feature
def hooks():
    exact = {}
    for views in (False, True):
        results = [
            trained_with_hook(None, hook, gradient_as_bucket_view=views)
            for hook in (
                None,
                default_hooks.allreduce_hook,
                DDPCommHookType.ALLREDUCE,
                default_hooks.bf16_compress_hook,
                default_hooks.fp16_compress_hook,
                default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
            )
        ]
        exact[views] = results
    return exact


@feature
def power_sgd():
    """With as many columns as the matrices have, nothing is lost."""
    results = [trained_with_hook(None, None, steps=6)]
    for rank_of_factors, hook in (
        (64, powerSGD_hook.powerSGD_hook),
        (1, powerSGD_hook.powerSGD_hook),
        (2, powerSGD_hook.batched_powerSGD_hook),
    ):
        state = powerSGD_hook.PowerSGDState(
            None,
            rank_of_factors,
            start_powerSGD_iter=2,
            min_compression_rate=0.001 if rank_of_factors > 2 else 2,
        )
        results.append(trained_with_hook(state, hook, steps=6))
    return results, state.compression_stats()


@feature
def hook_errors():
    model = line()

    def of_something_else(state, bucket: int):
        pass

    def gives_something_else(state, bucket) -> int:
        pass

    first = raised(lambda: model.register_comm_hook(None, 3))
    second = raised(lambda: model.register_comm_hook(None, of_something_else))
    third = raised(lambda: model.register_comm_hook(None, gives_something_else))
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    return first, second, third, raised(lambda: model.register_comm_hook(None, print))


@feature
def builtin_hooks():
    from gradlib.nn.parallel._ddp_parts import BuiltinCommHookType

    found = []
    for kind in BuiltinCommHookType:
        model = line()
        model._register_builtin_comm_hook(kind)
        model(mine()).sum().backward()
        found.append(model.module.weight.grad.item())
    return found


# -- several backward passes ---------------------------------------------------------------------------------------


@feature
def accumulation():
    """Sums of the first two on each rank its own, averaged with the third."""
    found = []
    for views in (False, True):
        model = line(gradient_as_bucket_view=views)
        for zeroed in (True, False, None):
            if zeroed is not None:
                model.zero_grad(set_to_none=zeroed)
            with model.no_sync():
                model(mine()).sum().backward()
                model(mine()).sum().backward()
            local = model.module.weight.grad.item()
            model(mine()).sum().backward()
            found.append((local, model.module.weight.grad.item()))
    return found


@feature
def retained_graph():
    model = line()
    out = model(mine())
    out.sum().backward(retain_graph=True)
    first = model.module.weight.grad.item()
    out.sum().backward()
    return first, model.module.weight.grad.item()


@feature
def two_forwards_one_backward():
    model = line()
    (model(mine()) + model(10 * mine())).sum().backward()
    return model.module.weight.grad.item()


@feature
def module_alone():
    """Backward through the module itself averages nothing."""
    model = line()
    model(mine()).sum().backward()
    model.zero_grad()
    model.module(mine()).sum().backward()
    return model.module.weight.grad.item()


@feature
def grad_of_inputs():
    """autograd.grad and backward(inputs=...) touch no parameter, and start nothing."""
    model = line()
    x = mine().requires_grad_()
    [g] = torch.autograd.grad(model(x).sum(), x)
    model(x).sum().backward(inputs=[x])
    before = model.reducer.passes
    model(x).sum().backward()
    return g.item(), before, model.reducer.passes, model.module.weight.grad.item()


@feature
def double_backward():
    """d/dw of (mean over ranks of d loss/dw)^2, loss = (w x)^2: of 4 w^2 m^2, m the mean of x^2: 8 w m^2."""
    model = line()
    loss = (model(mine()) ** 2).sum()
    loss.backward(create_graph=True)
    gradient = model.module.weight.grad
    first = gradient.item()
    model.module.weight.grad = None
    gradient.square().sum().backward()
    return first, model.module.weight.grad.item()


@feature
def gradient_penalty():
    """A loss with a derivative in it: one backward, averaged as usual."""
    model = line()
    x = mine().requires_grad_()
    [slope] = torch.autograd.grad((model(x) ** 2).sum(), x, create_graph=True)
    (slope**2).sum().backward()  # (2 w^2 x)^2 = 4 w^4 x^2: 16 w^3 x^2
    return model.module.weight.grad.item()


# -- parameters without gradient -----------------------------------------------------------------------------------


@feature
def unused_here():
    """The last rank does not use b."""
    model = DistributedDataParallel(Two())
    found = []
    for _ in range(3):
        model.zero_grad()
        model(mine(), "a" if rank() == size() - 1 else "ab").sum().backward()
        found.append(grads(model))
    return found


@feature
def unused_everywhere():
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    model.module.b.weight.grad = torch.full((1, 1), 5.0)
    model(mine(), "a").sum().backward()
    first = grads(model)
    model.zero_grad()
    model(mine(), "a").sum().backward()
    return first, grads(model)


@feature
def cut_path():
    model = DistributedDataParallel(Two())
    model(mine().requires_grad_(), "d").sum().backward()
    return grads(model)


@feature
def changing_use():
    """Another layer on each rank in each step."""
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    found = []
    for step in range(4):
        model.zero_grad()
        model(mine(), "ab"[(rank() + step) % 2]).sum().backward()
        found.append(grads(model))
    return found


@feature
def unused_with_hook():
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    model(mine(), "a" if rank() else "ab").sum().backward()
    first = grads(model)
    model.zero_grad()
    model(mine(), "a").sum().backward()
    return first, grads(model)


@feature
def accumulated_but_unused():
    """b is used under no_sync alone: what it has got is averaged."""
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    with model.no_sync():
        model(mine(), "ab").sum().backward()
    model(mine(), "a").sum().backward()
    return grads(model)


@feature
def frozen():
    net = Two()
    net.b.weight.requires_grad_(False)
    model = DistributedDataParallel(net)
    model(mine()).sum().backward()
    before = grads(model)
    net.a.weight.requires_grad_(True)
    return before, len(model.reducer.params)


@feature
def skipped():
    model = DistributedDataParallel(Two(), static_graph=True, skip_all_reduce_unused_params=True)
    for _ in range(2):
        model.zero_grad()
        model(mine(), "a").sum().backward()
    return grads(model), sum(len(b.members) for b in model.reducer.buckets)


# -- forms of modules ----------------------------------------------------------------------------------------------


@dataclass
class Out:
    scores: object
    other: object = None


class Shaped(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form, self.layer = form, nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.layer.weight)

    def forward(self, x, *, scale=1):
        return self.form(scale * self.layer(x))


@feature
def outputs():
    """A retained graph is averaged again only if the output was found."""
    forms = {
        "tensor": (lambda y: y, lambda o: o),
        "tuple": (lambda y: (1, y), lambda o: o[1]),
        "dict": (lambda y: {"a": [y]}, lambda o: o["a"][0]),
        "dataclass": (lambda y: Out(None, {"y": y}), lambda o: o.other["y"]),
    }
    found = {}
    for name, (form, back) in forms.items():
        model = DistributedDataParallel(Shaped(form))
        y = back(model(mine(), scale=2))
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        found[name] = model.module.layer.weight.grad.item()
    return found


class Checkpointed(nn.Module):
    def __init__(self, reentrant, twice=False):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        self.reentrant, self.twice = reentrant, twice

    def forward(self, x):
        for _ in range(1 + self.twice):
            x = checkpoint(lambda x: self.b(self.a(x)).tanh(), x, use_reentrant=self.reentrant)
        return x


@feature
def checkpointed():
    """The gradients of each kind over three steps, and those without checkpoints."""
    found = {}
    for twice in (False, True):
        for kind in ("plain", False, True):
            torch.manual_seed(3)
            net = Checkpointed(kind, twice)
            if kind == "plain":
                net.forward = lambda x, net=net: [
                    x := net.b(net.a(x)).tanh() for _ in range(1 + net.twice)
                ][-1]
            model = DistributedDataParallel(net, bucket_cap_mb=0.00001)
            for _ in range(3):
                model.zero_grad()
                x = (mine() * torch.ones(1, 2)).requires_grad_()
                model(x).sum().backward()
            found[twice, kind] = [p.grad.numpy().copy() for p in model.parameters()]
    return found


@feature
def copies():
    model = line()
    model(mine()).sum().backward()
    found = []
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        made.zero_grad()
        made(mine()).sum().backward()
        found.append(made.module.weight.grad.item())
    group = distributed.new_group()
    other = line(process_group=group)
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    return found, list(model.state_dict()), raised(lambda: pickle.dumps(other))


@feature
def module_hooks():
    model = line()
    called = []
    model.register_forward_pre_hook(lambda m, args: called.append("pre"))
    model.register_forward_hook(lambda m, args, out: called.append("post"))
    model.module.register_forward_hook(lambda m, args, out: called.append("inner"))
    model.module.register_full_backward_hook(lambda m, gi, go: called.append("backward"))
    model(mine().requires_grad_()).sum().backward()
    return called, model.module.weight.grad.item()


@feature
def wrapped_again():
    """Only the newest of two wrappers averages."""
    net = nn.Linear(1, 1, bias=False)
    for _ in range(2):
        model = DistributedDataParallel(net)
        model(mine()).sum().backward()
        net.zero_grad()
    model(mine()).sum().backward()
    return net.weight.grad.item(), model.reducer.passes


@feature
def channels_last():
    torch.manual_seed(0)
    net = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    x = torch.randn(2, 3, 5, 5) * (rank() + 1)
    for _ in range(2):
        model.zero_grad()
        model(x).sum().backward()
    torch.manual_seed(0)
    alone = nn.Conv2d(3, 4, 3)
    alone(torch.randn(2, 3, 5, 5)).sum().backward()
    scale = sum(r + 1 for r in range(size())) / size()
    return net.weight.grad.stride(), bool(
        torch.allclose(net.weight.grad, alone.weight.grad * scale, 1e-4, 1e-4)
    )


@feature
def buffers():
    """Each rank's own running mean is replaced by that of rank 0, before the next forward."""
    net = nn.BatchNorm1d(1, momentum=1.0)
    net.running_mean.fill_(float(rank() + 7))
    model = DistributedDataParallel(net)
    start = net.running_mean.item()
    x = torch.tensor([[0.0], [2.0]]) * (rank() + 1)
    model(x).sum().backward()
    own = net.running_mean.item()
    model.eval()
    model(x)
    taken = net.running_mean.item()
    model = DistributedDataParallel(nn.BatchNorm1d(1, momentum=1.0), forward_sync_buffers=False)
    model(x).sum().backward()
    model(x).sum().backward()
    return start, own, taken, model.module.running_mean.item()


@feature
def mixed_precision():
    kept = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)

        def forward(self, x):
            kept.append((x.dtype, self.layer.weight.dtype, self.norm.running_mean.dtype))
            return self.layer(x)

    settings = _MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)
    model = DistributedDataParallel(Net(), mixed_precision=settings, find_unused_parameters=True)
    out = model(torch.ones(1, 2) * (rank() + 1))
    out.float().sum().backward()
    weight = model.module.layer.weight
    dtypes = [*map(str, kept[0]), str(out.dtype), str(weight.dtype), str(weight.grad.dtype)]
    return dtypes, weight.grad.flatten().tolist(), str(model.reducer.buckets[0].flat.dtype)


@feature
def delayed():
    net = Two()
    model = DistributedDataParallel(
        net,
        delay_all_reduce_named_params=[("b.weight", net.b.weight)],
        param_to_hook_all_reduce=net.a.weight,
    )
    model(mine()).sum().backward()
    return grads(model)
