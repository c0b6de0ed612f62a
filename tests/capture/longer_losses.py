"""Losses of several statements (see `losses.py`): most write in place, to views, by masks and indices."""

from __future__ import annotations

from collections.abc import Callable

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import distributions as D
from tests.capture.losses import Loss

REPLAYED: dict[str, Loss] = {}
AS_THEY_ARE: dict[str, Loss] = {}


def replayed(loss: Callable) -> Callable:
    REPLAYED[loss.__name__] = loss
    return loss


def as_it_is(loss: Callable) -> Callable:
    AS_THEY_ARE[loss.__name__] = loss
    return loss


@replayed
def zero_column(m, x, y):
    h = m(x)
    h[:, 0] = 0
    return (h * y).sum()


@replayed
def scale_column(m, x, y):
    h = m(x)
    h[:, 0] *= 2
    return (h * y).sum()


@replayed
def scale_columns_by_tensor(m, x, y):
    h = m(x)
    h[:, :2].mul_(y[:, :2])
    return (h * y).sum()


@replayed
def exp_of_rows(m, x, y):
    h = m(x)
    h[1:3].exp_()
    return (h * y).sum()


@replayed
def write_into_zeros(m, x, y):
    h = m(x)
    o = torch.zeros(5, 8)
    o[:, :4] = h
    o[:, 4:] = h.exp()
    return (o.sin()).sum()


@replayed
def view_written_and_used(m, x, y):
    h = m(x)
    v = h[:, 1]
    v.mul_(3)
    return (v * v).sum() + h.sum()


@replayed
def base_written_and_view_used(m, x, y):
    h = m(x)
    v = h[:, 1]
    h.mul_(3)
    return (v * v).sum() + h.sum()


@replayed
def write_transposed(m, x, y):
    h = m(x).t()
    h[0].add_(y[:, 0])
    h.relu_()
    return (h.t() * y).sum()


@replayed
def write_number_by_mask(m, x, y):
    h = m(x)
    h[y > 0] = 0.5
    return (h * y).sum()


@replayed
def masked_fill_of_view(m, x, y):
    h = m(x)
    h[:, 1:].masked_fill_(y[:, 1:] > 0, 0.5)
    return (h * h).sum()


@as_it_is
def write_masked_by_masked(m, x, y):
    h = m(x)
    h[y > 0.2] = m(y @ torch.ones(4, 6))[y > 0.2]
    return (h * h).sum()


@as_it_is
def write_a_leaf_of_the_step_by_mask(m, x, y):
    h = m(x)
    v = torch.ones((), requires_grad=True)
    h[y > 0.2] = v * 3
    return (h * y).sum()


@as_it_is
def scale_masked(m, x, y):
    h = m(x)
    h[:, 1:][y[:, 1:] > 0.2] *= 2
    return (h * y).sum()


@replayed
def write_rows_by_mask(m, x, y):
    h = m(x)
    h[y.sum(1) > 0] = m(x[:1]) * 2
    return (h * y).sum()


@replayed
def index_put_accumulates(m, x, y):
    h = m(x)
    h.index_put_((y > 0.1,), m(x)[0, 0], accumulate=True)
    return (h * y).sum()


@replayed
def masked_scatter(m, x, y):
    h = m(x)
    h.masked_scatter_(y > 0.1, m(x * 2))
    return (h * y).sum()


@replayed
def write_by_mask_and_slice(m, x, y):
    b = y.clone()
    b[b < 0] = 0
    b[1:3, b[0] > 0.5] = 7.0
    return (m(x) * b).sum()


@replayed
def scatter_and_index_add(m, x, y):
    h = m(x)
    h.scatter_(1, torch.argmax(y, 1, keepdim=True), 0.3)
    h.index_add_(0, torch.argsort(y[:, 0]), m(x))
    return (h * y).sum()


@replayed
def write_arguments(m, x, y):
    x[x < 0] = 0
    y.mul_(2)
    x[0] = 1
    return (m(x) * y).sum()


@replayed
def write_several(m, x, y):
    h = m(x)
    h[:, 0].mul_(2)
    h[0].pow_(2)
    h[0, 0] = h[1, 1] * 2
    h[2].sigmoid_()
    return (h * h * y).sum()


@replayed
def write_views_of_views(m, x, y):
    h = m(x)
    h[:, 1:][1:].mul_(2).add_(1)
    a = h.view(-1)
    a[3:7] -= 1.0
    return (a * a).sum() + (h * y).sum()


@replayed
def write_diagonal(m, x, y):
    h = m(x)
    h.select(0, 1).copy_(y[0])
    h.diagonal().zero_()
    return (h * h).sum()


@replayed
def write_at_indices(m, x, y):
    h = m(x)
    h[torch.tensor([0, 2])] = y[:2]
    h[:, torch.tensor([1])] += 2
    return (h * h).sum()


@replayed
def write_activations(m, x, y):
    h = m(x)
    F.leaky_relu_(h[:, 1:3])
    F.relu_(h[2:3].clone())
    h[0, :1].clamp_(-0.1, 0.1)
    return (h * h).sum()


@replayed
def topk(m, x, y):
    v, i = m(x).topk(2)
    return (v * y.gather(1, i)).sum()


@replayed
def sort(m, x, y):
    v, i = m(x).sort(1)
    return (v * y.gather(1, i)).sum()


@replayed
def max_of_rows(m, x, y):
    v, i = m(x).max(1)
    return (v * y.gather(1, i[:, None])[:, 0]).sum()


@replayed
def linalg(m, x, y):
    h = m(x)
    return torch.linalg.slogdet(h.t() @ h + torch.eye(4))[1] + torch.linalg.norm(h)


@replayed
def solve(m, x, y):
    h = m(x)
    return torch.linalg.solve(h.t() @ h + torch.eye(4), y.t()).sum()


@replayed
def sdpa(m, x, y):
    h = m(x)[None]
    return F.scaled_dot_product_attention(h, h, h, is_causal=True).mul(y).sum()


@replayed
def chunk(m, x, y):
    a, b = m(x).chunk(2, 1)
    return (a * b.sigmoid()).sum() + torch.cat([a, b], 0).pow(2).sum() + torch.stack([a, b]).sum()


@replayed
def split(m, x, y):
    a, b = m(x).split([1, 3], 1)
    c, *d = m(x).unbind(1)
    return (a * b).sum() + (c * d[1]).sum()


@replayed
def normal_log_prob(m, x, y):
    d = D.Normal(m(x), 1.0)
    return -d.log_prob(y).mean()


@replayed
def categorical(m, x, y):
    d = D.Categorical(logits=m(x))
    return -(d.log_prob(y.argmax(1))).mean() - d.entropy().mean()


@replayed
def normal_rsample(m, x, y):
    d = D.Normal(m(x), m(x).exp())
    return d.rsample().pow(2).sum() + D.kl_divergence(d, D.Normal(0.0, 1.0)).sum()


@replayed
def categorical_sample(m, x, y):
    d = D.Categorical(logits=m(x))
    a = d.sample()
    return -(d.log_prob(a) * y[:, 0]).mean()


@replayed
def meshgrid(m, x, y):
    a, b = torch.meshgrid(torch.arange(5.0), torch.arange(4.0), indexing="ij")
    return (m(x) * (a - b)).sum()


@replayed
def bernoulli_distribution(m, x, y):
    d = D.Bernoulli(logits=m(x))
    a = d.sample()
    return (d.log_prob(a) * y).sum()


@replayed
def independent(m, x, y):
    d = D.Independent(D.Normal(m(x), 1.0), 1)
    return -d.log_prob(y).mean() + d.entropy().mean()


@replayed
def transformed(m, x, y):
    d = D.TransformedDistribution(D.Normal(m(x), 1.0), [D.TanhTransform()])
    a = d.rsample()
    return (d.log_prob(a) * y).sum()


@replayed
def mixture(m, x, y):
    d = D.MixtureSameFamily(D.Categorical(logits=y), D.Normal(m(x), 1.0))
    return -d.log_prob(y[:, 0]).mean()


@replayed
def pool2(m, x, y):
    o, i = F.max_pool2d(m(x)[None, None], 2, return_indices=True)
    return F.max_unpool2d(o, i, 2).sum()


@replayed
def gradient_penalty(m, x, y):
    z = y.clone().requires_grad_()
    o = (m(x) * z.sin()).sum()
    (g,) = torch.autograd.grad(o, z, create_graph=True)
    return (g.norm(2, dim=1) - 1).pow(2).mean()


@replayed
def without_gradient(m, x, y):
    with torch.no_grad():
        t = m(x).softmax(1)
    return (t * F.log_softmax(m(y @ torch.ones(4, 6)), 1)).sum()


@replayed
def average_in_place(m, x, y):
    with torch.no_grad():
        for p in m.parameters():
            p.mul_(0.99)
    return m(x).sum()


@replayed
def decompositions(m, x, y):
    _, s, _ = torch.linalg.svd(m(x), full_matrices=False)
    return (
        s.sum()
        + torch.linalg.qr(m(x))[1].abs().sum()
        + torch.linalg.cholesky(m(x).t() @ m(x) + torch.eye(4)).sum()
        + torch.linalg.inv(m(x)[:4]).sum()
    )


@replayed
def loop(m, x, y):
    h = torch.zeros(5, 4)
    for _ in range(4):
        h = torch.tanh(m(x) + h * 0.5)
    return h.sum()


@replayed
def list_of_rows(m, x, y):
    out = []
    h = m(x)
    for i in range(5):
        out.append(h[i] * i)
    return torch.stack(out).pow(2).sum()


@replayed
def uninitialised(m, x, y):
    out = torch.empty(5, 4)
    out[:] = m(x)
    out[:, ::2] += 1
    return out.pow(2).sum()


@replayed
def branch_on_any(m, x, y):
    if torch.isnan(m(x)).any():
        return m(x).sum()
    return (m(x) * y).sum()


@replayed
def asserts(m, x, y):
    h = m(x)
    assert h.isfinite().all()
    assert h.shape == (5, 4)
    return h.sum()


@replayed
def weight_decay(m, x, y):
    s = 0.0
    for n, p in m.named_parameters():
        if "bias" not in n:
            s = s + p.pow(2).sum()
    return (m(x) * y).sum() + 0.01 * s


@replayed
def autocast(m, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = m(x)
    return h.float().mul(y).sum()


@replayed
def write_views_of_numbers(m, x, y):
    h, scale = y.sum(), m(x).mean()
    h[None] += scale
    h.view(1).mul_(scale)
    return h.sinh() + (h * scale)[None].exp().squeeze()
