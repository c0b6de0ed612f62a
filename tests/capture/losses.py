"""Losses of one step each, as people write them: ``(model, x (5, 6), y (5, 4)) -> loss``; the model gives (5, 4).

Those in `REPLAYED` become plans. Those in `AS_THEY_ARE` do what no plan can repeat, such as shapes that depend on
values, and give the same numbers, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import distributions as D

Loss = Callable[[Any, Any, Any], Any]
REPLAYED: dict[str, Loss] = {
    "gather": lambda m, x, y: (m(x).gather(1, y.argmax(1, keepdim=True))).sum(),
    "index_select": lambda m, x, y: m(x).index_select(0, y.argmax(0)).pow(2).sum(),
    "index": lambda m, x, y: m(x)[y.argmax(0)].pow(2).sum(),
    "index_pairs": lambda m, x, y: m(x)[torch.arange(5), y.argmax(1)].pow(2).sum(),
    "take": lambda m, x, y: m(x).take(y.argmax(0)).pow(2).sum(),
    "take_along_dim": lambda m, x, y: torch.take_along_dim(m(x), y.argsort(1), 1).mul(y).sum(),
    "scatter_add": lambda m, x, y: (
        torch.zeros(5, 4).scatter_add(1, y.argsort(1), m(x)).mul(y).sum()
    ),
    "scatter": lambda m, x, y: torch.zeros(5, 4).scatter(1, y.argsort(1), m(x)).mul(y).sum(),
    "scatter_reduce": lambda m, x, y: (
        torch.zeros(5, 4).scatter_reduce(0, y.argsort(0), m(x), "mean").mul(y).sum()
    ),
    "index_add": lambda m, x, y: (
        torch.zeros(5, 4).index_add(0, y[:, 0].argsort(), m(x)).mul(y).sum()
    ),
    "index_add2": lambda m, x, y: (
        torch.zeros(5, 4).index_add_(0, y[:, 0].argsort(), m(x)).mul(y).sum()
    ),
    "nll": lambda m, x, y: F.nll_loss(F.log_softmax(m(x), 1), y.argmax(1)),
    "cross_entropy": lambda m, x, y: F.cross_entropy(m(x), y.argmax(1)),
    "cross_entropy_of_chances": lambda m, x, y: F.cross_entropy(
        m(x), y.softmax(1), label_smoothing=0.1
    ),
    "onehot": lambda m, x, y: (m(x) * F.one_hot(y.argmax(1), 4)).sum(),
    "embedding": lambda m, x, y: F.embedding(y.argmax(1), m(x)).pow(2).sum(),
    "embedding_bag": lambda m, x, y: F.embedding_bag(y.argsort(1), m(x)).pow(2).sum(),
    "where": lambda m, x, y: torch.where(y > 0, m(x), -m(x)).sum(),
    "huber": lambda m, x, y: F.smooth_l1_loss(m(x), y) + F.huber_loss(m(x), y),
    "bce": lambda m, x, y: F.binary_cross_entropy(m(x).sigmoid(), y.sigmoid()),
    "bce_with_logits": lambda m, x, y: F.binary_cross_entropy_with_logits(
        m(x), y.sigmoid(), pos_weight=torch.tensor(2.0)
    ),
    "kl_div": lambda m, x, y: F.kl_div(F.log_softmax(m(x), 1), y.softmax(1), reduction="batchmean"),
    "triplet": lambda m, x, y: (
        F.triplet_margin_loss(m(x), y, y.flip(0)) + F.cosine_embedding_loss(m(x), y, torch.ones(5))
    ),
    "norm": lambda m, x, y: F.normalize(m(x)).mul(y).sum() + F.cosine_similarity(m(x), y).sum(),
    "cdist": lambda m, x, y: torch.cdist(m(x), y).sum(),
    "cumsum": lambda m, x, y: (m(x).cumsum(1) * y).sum() + (m(x).cumprod(1) * y).sum(),
    "einsum": lambda m, x, y: torch.einsum("ij,ik->jk", m(x), y).pow(2).sum(),
    "unfold": lambda m, x, y: F.unfold(m(x)[None, None], 2).pow(2).sum(),
    "pads": lambda m, x, y: (
        F.pad(m(x), (1, 2), value=2.0).mul(3).pow(2).sum()
        + F.pad(m(x)[None], (1, 2), mode="reflect").pow(2).sum()
    ),
    "interpolate": lambda m, x, y: (
        F.interpolate(m(x)[None, None], scale_factor=2, mode="bilinear").pow(2).sum()
    ),
    "gridsample": lambda m, x, y: (
        F.grid_sample(m(x)[None, None], y.reshape(1, 5, 2, 2).tanh(), align_corners=False)
        .pow(2)
        .sum()
    ),
    "logsumexp": lambda m, x, y: torch.logsumexp(m(x), 1).sum() + m(x).var(0).sum() + m(x).std(),
    "order_statistics": lambda m, x, y: (
        m(x).median(1)[0].sum() + m(x).quantile(0.3) + m(x).mode(1)[0].sum()
    ),
    "diagonals": lambda m, x, y: (
        (m(x)[:4].tril() @ y.t()).sum() + torch.diag_embed(m(x)).sum() + m(x)[:4].diagonal().sum()
    ),
    "multinomial": lambda m, x, y: m(x)[
        torch.multinomial(y.softmax(1)[:, 0], 3, replacement=True)
    ].sum(),
    "gumbel": lambda m, x, y: (F.gumbel_softmax(m(x), hard=True) * y).sum(),
    "dropouts": lambda m, x, y: (
        F.dropout(m(x), 0.3).sum()
        + F.alpha_dropout(m(x), 0.2).sum()
        + F.dropout1d(m(x)[None]).sum()
    ),
    "bernoulli": lambda m, x, y: (
        (m(x) * torch.bernoulli(y.sigmoid())).sum()
        + (m(x) + torch.randn_like(y)).pow(2).sum()
        + (m(x) * torch.normal(y, 1.0)).sum()
    ),
    "bucketize": lambda m, x, y: m(x)[
        torch.bucketize(y[:, 0], torch.tensor([-1.0, 0.0, 1.0]))
    ].sum(),
    "clipn": lambda m, x, y: (
        m(x).clamp(-1, 1).sum() + m(x).clamp_min(0).sum() + torch.maximum(m(x), y).sum()
    ),
    "fft": lambda m, x, y: torch.fft.rfft(m(x)).abs().sum(),
    "where_numbers": lambda m, x, y: (
        torch.where(y > 0, m(x), 0.0).sum()
        + torch.where(y > 0, 1.0, m(x)).sum()
        + m(x).where(y > 0, 3).sum()
    ),
    "rrelu": lambda m, x, y: F.rrelu(m(x), training=True).sum(),
    "gamma": lambda m, x, y: (D.Gamma(m(x).exp(), 1.0).rsample() * y).sum(),
    "beta": lambda m, x, y: (D.Beta(m(x).exp(), y.exp()).rsample() * y).sum(),
    "dirichlet": lambda m, x, y: (D.Dirichlet(m(x).exp()).rsample() * y).sum(),
    "poisson": lambda m, x, y: (m(x) * torch.poisson(y.exp())).sum(),
    "binom": lambda m, x, y: (m(x) * torch.binomial(y.abs().floor(), y.sigmoid())).sum(),
    "isclose": lambda m, x, y: (m(x) * torch.isclose(m(x), y)).sum(),
    "allclose": lambda m, x, y: m(x).sum() * float(torch.allclose(m(x), y)),
    "masked_mean": lambda m, x, y: (m(x) * (y > 0)).sum() / (y > 0).sum(),
    "nan": lambda m, x, y: torch.nan_to_num(m(x).log()).sum(),
    "roll": lambda m, x, y: (
        (m(x).roll(1, 0) * y).sum()
        + (m(x).flip(1) * y).sum()
        + m(x).repeat(2, 1).sum()
        + m(x).repeat_interleave(2, 0).sum()
        + m(x).tile(2).sum()
    ),
    "lerp": lambda m, x, y: (
        torch.lerp(m(x), y, 0.3).sum()
        + torch.addcmul(m(x), m(x), y, value=2).sum()
        + torch.addmm(m(x)[:4, :4], y.t(), y).sum()
    ),
    "pixel": lambda m, x, y: F.pixel_shuffle(m(x)[:4].reshape(1, 4, 2, 2), 2).pow(2).sum(),
    "pool": lambda m, x, y: (
        F.max_pool2d(m(x)[None, None], 2).sum()
        + F.avg_pool2d(m(x)[None, None], 2).sum()
        + F.adaptive_avg_pool2d(m(x)[None, None], 2).pow(2).sum()
    ),
    "conv": lambda m, x, y: (
        F.conv2d(m(x)[None, None], torch.ones(1, 1, 2, 2)).pow(2).sum()
        + F.conv_transpose2d(m(x)[None, None], torch.ones(1, 1, 2, 2)).pow(2).sum()
        + F.fold(m(x)[None, :4, :4], (3, 3), 2).sum()
    ),
    "norms": lambda m, x, y: (
        F.group_norm(m(x), 2).mul(y).sum()
        + F.layer_norm(m(x), (4,)).mul(y).sum()
        + F.instance_norm(m(x)[None]).mul(y).sum()
        + F.local_response_norm(m(x)[None], 2).sum()
        + F.rms_norm(m(x), (4,)).mul(y).sum()
    ),
    "bilinear": lambda m, x, y: F.bilinear(m(x), y, torch.ones(2, 4, 4)).sum(),
    "other_losses": lambda m, x, y: (
        F.poisson_nll_loss(m(x), y.exp())
        + F.gaussian_nll_loss(m(x), y, y.exp())
        + F.hinge_embedding_loss(m(x), y.sign())
        + F.soft_margin_loss(m(x), y.sign())
    ),
    "multilabel_soft_margin": lambda m, x, y: (
        F.multilabel_soft_margin_loss(m(x), (y > 0).float())
        + F.margin_ranking_loss(m(x), y, y.sign())
    ),
    "multi_margin": lambda m, x, y: F.multi_margin_loss(m(x), y.argmax(1)),
    "mha": lambda m, x, y: F.multi_head_attention_forward(
        m(x)[:, None],
        m(x)[:, None],
        m(x)[:, None],
        4,
        2,
        torch.ones(12, 4) * 0.1,
        torch.zeros(12),
        None,
        None,
        False,
        0.0,
        torch.eye(4),
        torch.zeros(4),
    )[0].sum(),
    "casts": lambda m, x, y: (
        m(x).half().float().sum()
        + m(x).bfloat16().float().mul(y).sum()
        + m(x).double().sum().float()
    ),
    "integers": lambda m, x, y: (
        (m(x) * (y * 10).long().remainder(3)).sum() + (m(x) * (y > 0).int()).sum()
    ),
    "joins": lambda m, x, y: (
        torch.cat([m(x), y], 1).pow(2).sum()
        + torch.hstack([m(x), y]).sum()
        + torch.vstack([m(x), y]).exp().sum()
    ),
    "broadcasts": lambda m, x, y: (
        (m(x)[:, None, :] * y[None]).sum()
        + m(x).expand(2, 5, 4).pow(2).sum()
        + m(x).unsqueeze(0).expand_as(torch.ones(3, 5, 4)).sum()
    ),
    "products": lambda m, x, y: (
        torch.bmm(m(x)[None], y.t()[None]).sum()
        + torch.matmul(m(x), y.t()).pow(2).sum()
        + torch.outer(m(x)[:, 0], y[:, 0]).sum()
        + torch.dot(m(x)[0], y[0])
        + torch.mv(m(x), y[0]).sum()
    ),
    "new_tensors": lambda m, x, y: (
        (m(x) * torch.full_like(y, 2.0)).sum()
        + (m(x) + torch.zeros_like(m(x))).sum()
        + m(x).new_ones(5, 4).mul(m(x)).sum()
        + (m(x) * torch.linspace(0, 1, 4)).sum()
        + (m(x) @ torch.eye(4)).sum()
    ),
    "literals": lambda m, x, y: (
        (m(x) * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum()
        + m(x)[:, torch.tensor([0, 2])].sum()
        + m(x)[[0, 1]].sum()
    ),
    "functional_call": lambda m, x, y: torch.func.functional_call(
        m, dict(m.named_parameters()), (x,)
    ).sum(),
    "sizes": lambda m, x, y: (m(x) * len(x) * x.size(0) * x.shape[1] * y.ndim * x.numel()).sum(),
    "mapped": lambda m, x, y: torch.vmap(lambda a, b: (a * b).sum())(m(x), y).sum(),
    "jacobian": lambda m, x, y: (
        torch.func.jacrev(lambda a: (m(a) ** 2).sum())(x).sum() * m(x).sum()
    ),
    "checkpointed": lambda m, x, y: (
        torch.utils.checkpoint.checkpoint(m, x, use_reentrant=False).mul(y).sum()
    ),
}
AS_THEY_ARE: dict[str, Loss] = {
    "ctc": lambda m, x, y: F.ctc_loss(
        F.log_softmax(m(x), 1)[:, None],
        torch.tensor([[1, 2]]),
        torch.tensor([5]),
        torch.tensor([2]),
    ),
    "margin": lambda m, x, y: (
        F.multi_margin_loss(m(x), y.argmax(1)) + F.multilabel_margin_loss(m(x), y.argsort(1))
    ),
    "histogram": lambda m, x, y: (
        m(x).sum() * torch.histc(y, 3).max()
        + torch.bincount(y.argmax(1), minlength=4).float().mul(m(x)).sum()
    ),
    "unique": lambda m, x, y: m(x).sum() * len(torch.unique(y.argmax(1))),
    "nonzero": lambda m, x, y: m(x)[(y > 0).nonzero(as_tuple=True)].sum(),
    "complex_views": lambda m, x, y: (
        (torch.view_as_complex(m(x).reshape(5, 2, 2)).conj() * (1 + 2j)).abs().sum()
    ),
    "multivariate_normal": lambda m, x, y: (
        -D.MultivariateNormal(m(x), torch.eye(4)).log_prob(y).mean()
    ),
    "bincount": lambda m, x, y: torch.bincount(y.argmax(1), minlength=4).float().mul(m(x)).sum(),
    "masked_select": lambda m, x, y: m(x).masked_select(y > 0).sum(),
    "repeat_interleave_by_tensor": lambda m, x, y: (
        m(x).repeat_interleave(torch.tensor([1, 2, 0, 1, 1]), 0).sum()
    ),
    "pool3": lambda m, x, y: (
        F.adaptive_max_pool2d(m(x)[None, None], 2).pow(2).sum()
        + F.lp_pool2d(m(x)[None, None], 2, 2).sum()
        + F.fractional_max_pool2d(m(x)[None, None], 2, 2).sum()
    ),
}
