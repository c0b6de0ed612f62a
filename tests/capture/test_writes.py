"""Writes in place, on views and by all kinds of ops, within a step: the same bits captured, fused and plain."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.autograd import Function
from gradlib.devices.numpy import chains
from gradlib.nn import functional as F
from tests.capture.as_steps import facts


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


# on the output h (5, 4) of a model, or on its input x (5, 6) or a target y (5, 4)
WRITES = [
    "h[0].floor_()",
    "h[0].sign_()",
    "h[1].fill_(2)",
    "h[1].zero_()",
    "h[0].normal_()",
    "h[0].uniform_()",
    "torch._foreach_mul_([h[0],h[1]],2.)",
    "h[0].data.mul_(2)",
    "h[0].copy_(torch.arange(4))",
    "h[:,0].clamp_(0)",
    "h.diagonal().add_(1)",
    "h.view_as(h).mul_(2)",
    "h.unfold(0,2,2).mul_(3)",
    "h[..., None].mul_(y[...,None])",
    "h.view(-1)[3:5].add_(y.view(-1)[:2])",
    "h.permute(1,0)[1].sub_(1)",
    "h[0].add_(h[1])",
    "h[:, :2].copy_(h[:, 2:])",
    "h[0].lerp_(y[0],.3)",
    "h[0].addcmul_(y[0],y[1])",
    "h.index_fill_(0,torch.tensor([0]),1.)",
    "h[0].put_(torch.tensor([1]),y[0,:1])",
    "h[0].cumsum_(0)",
    "h[0].atan2_(y[0])",
    "h[0].remainder_(y[0].abs()+1)",
    "h[0].pow_(2)",
    "h[0].nan_to_num_()",
    "h[0].clip_(-1,1)",
    "h[0].round_()",
    "h[0].trunc_()",
    "h[0].neg_()",
    "h[0].tanh_()",
    "F.elu_(h[0])",
    "F.leaky_relu_(h[:,1])",
    "h.tril_()",
    "h[1:].triu_()",
    "h[0].hypot_(y[0])",
    "h[0].xlogy_(y[0].abs())",
    "h.fill_diagonal_(0)",
    "h.index_copy_(0,torch.tensor([1]),y[:1])",
    "h.scatter_add_(0,torch.zeros(1,4,dtype=torch.long),y[:1])",
    "h.requires_grad_()",
    "h.sum().backward(retain_graph=True)",
    "h += 1; h[0] += 1",
    "h = h[0]; h.mul_(2)",
    "h = h.t(); h[0].mul_(3)",
    "h = h.t() * 2; h[0].mul_(3)",
    "h = h[1:]; h[0] = 1.",
    "h = h.chunk(2,1)[1].clone().mul_(2)",
    "h = h.expand(2,5,4).contiguous().mul_(2)",
    "h = h.unsqueeze(0); h[0,0]=2",
    "h = h.flatten(); h[::3]=0",
    "h = h.real.mul_(2)",
    "h = h.to(torch.float64).mul_(2)",
    "h = h.half().mul_(2).float()",
    "h[0].masked_fill_(y[0]>0, 1.)",
    "h[0].abs_()",
    "F.relu_(h[0])",
    "h[0].erf_()",
    "h[:4].addmm_(y[:4],y[:4])",
    "h.renorm_(2,0,1.)",
    "h = h.narrow(1,0,2).mul_(2)",
    "h[::2].mul_(h[::2].clone())",
    "h[0].detach().mul_(2)",
    "y.add_(1)",
    "y[:, 1] = x[:, 1]",
    "h.retain_grad()",
]
AS_THEY_ARE = [
    "h[:,0].gt_(0)",
    "h.gt_(0)",
    "h[0].bernoulli_()",
    "h[0].random_(3)",
    "Doubled.apply(h)",
    "Doubled.apply(h[0])",
    "h.t_()",
    "h.squeeze_()",
    "h.as_strided((2,2),(4,1)).add_(y[0,0])",
    "h[0].exponential_()",
    "h[0].eq_(0)",
    "h[0].logical_not_()",
    "h[0].swapaxes_(0,0)",
]
MODES = [None, "max"] if chains.available() else [None]


def run(write, wrap):
    space = {"torch": torch, "F": F, "Doubled": Doubled}
    exec(f"def written(h, x, y):\n    {write}\n    return h", space)
    written = space["written"]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(x, y):
        optimizer.zero_grad()
        first = model(x)
        last = written(first, x, y)
        loss = (last * last.detach().clone()).sum() + first.sum() + (model(y @ y.t() @ x) * y).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step, found = wrap(step), []
    for _ in range(6):
        x, y = torch.randn(5, 6), torch.randn(5, 4)
        loss = step(x, y)
        found.append(facts([loss, x, y, *model.parameters(), torch.get_rng_state()]))
    return found, step


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", [*WRITES, *AS_THEY_ARE])
def test_writes(write):
    expected, _ = run(write, lambda f: f)
    for mode in MODES:
        found, step = run(write, lambda f, mode=mode: torch.capture(f, mode=mode))
        assert found == expected
        assert step.replays == (write in WRITES), torch.explain(step)
        assert bool(torch.explain(step)) == (write in AS_THEY_ARE or bool(step.fused()))
