"""Result dtypes, values and gradients under the CPU's autocast are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib

PAIRS = {
    "mm": lambda t, x, y: t.mm(x, y.t()),
    "matmul of vectors": lambda t, x, y: t.matmul(x[0], y[0]),
    "matmul with a vector": lambda t, x, y: t.matmul(x, y[0]),
    "matmul of stacks": lambda t, x, y: t.matmul(x[None], y.t()[None]),
    "bmm": lambda t, x, y: t.bmm(x[None], y.t()[None]),
    "mv": lambda t, x, y: t.mv(x, y[0]),
    "dot": lambda t, x, y: t.dot(x[0], y[0]),
    "addmm": lambda t, x, y: t.addmm(x[:, :2], x, y.t()),
    "addmv": lambda t, x, y: t.addmv(x[:, 0], x, y[0]),
    "addr": lambda t, x, y: t.addr(x, x[:, 0], y[0]),
    "baddbmm": lambda t, x, y: t.baddbmm(x[None, :, :2], x[None], y.t()[None]),
    "addbmm": lambda t, x, y: t.addbmm(x[:, :2], x[None], y.t()[None]),
    "einsum": lambda t, x, y: t.einsum("ij,kj->ik", x, y),
    "einsum that only multiplies": lambda t, x, y: t.einsum("i,j->ij", x[0], y[0]),
    "linear": lambda t, x, y: t.nn.functional.linear(x, y, x[:, 0]),
    "conv1d": lambda t, x, y: t.nn.functional.conv1d(x[None], y.t()[:, :, None]),
    "conv_transpose1d": lambda t, x, y: t.nn.functional.conv_transpose1d(x[None], y[:, :, None]),
    "prelu": lambda t, x, y: t.nn.functional.prelu(x, y[0, :1]),
    "attention": lambda t, x, y: t.nn.functional.scaled_dot_product_attention(x[None], y[None], y[None]),
    "tensordot": lambda t, x, y: t.tensordot(x, y.t(), 1),
    "inner": lambda t, x, y: t.inner(x, y),
    "outer": lambda t, x, y: t.outer(x[0], y[0]),
    "multi_dot": lambda t, x, y: t.linalg.multi_dot([x, y.t(), x]),
    "vecdot": lambda t, x, y: t.linalg.vecdot(x, y),
    "softmax": lambda t, x, y: t.softmax(x, 1),
    "exp": lambda t, x, y: x.exp(),
    "pow": lambda t, x, y: x**2.5,
    "sum": lambda t, x, y: x.sum(),
    "mean": lambda t, x, y: x.mean(),
    "prod": lambda t, x, y: x.prod(),
    "cumsum": lambda t, x, y: x.cumsum(0),
    "norm": lambda t, x, y: x.norm(),
    "layer_norm": lambda t, x, y: t.nn.functional.layer_norm(x, (3,)),
    "batch_norm": lambda t, x, y: t.nn.functional.batch_norm(x, None, None, training=True),
    "cosine_similarity": lambda t, x, y: t.nn.functional.cosine_similarity(x, y),
    "mse_loss": lambda t, x, y: t.nn.functional.mse_loss(x, y),
    "l1_loss": lambda t, x, y: t.nn.functional.l1_loss(x, y),
    "smooth_l1_loss": lambda t, x, y: t.nn.functional.smooth_l1_loss(x, y),
    "huber_loss": lambda t, x, y: t.nn.functional.huber_loss(x, y),
    "cross_entropy": lambda t, x, y: t.nn.functional.cross_entropy(x, t.tensor([0, 1])),
    "nll_loss": lambda t, x, y: t.nn.functional.nll_loss(x, t.tensor([0, 1])),
    "kl_div": lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="sum"),
    "binary_cross_entropy": lambda t, x, y: t.nn.functional.binary_cross_entropy(x / 2, y / 2),
    "with logits": lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x, y),
    "poisson_nll_loss": lambda t, x, y: t.nn.functional.poisson_nll_loss(x, y),
    "hinge_embedding_loss": lambda t, x, y: t.nn.functional.hinge_embedding_loss(x, y.sign()),
    "margin_ranking_loss": lambda t, x, y: t.nn.functional.margin_ranking_loss(x, y, y.sign()),
    "cosine_embedding_loss": lambda t, x, y: t.nn.functional.cosine_embedding_loss(x, y, t.ones(2)),
    "triplet_margin_loss": lambda t, x, y: t.nn.functional.triplet_margin_loss(x, y, y * 2),
    "soft_margin_loss": lambda t, x, y: t.nn.functional.soft_margin_loss(x, y.sign()),
    "multi_margin_loss": lambda t, x, y: t.nn.functional.multi_margin_loss(x, t.tensor([0, 1])),
    "cdist": lambda t, x, y: t.cdist(x, y),
    "pairwise_distance": lambda t, x, y: t.nn.functional.pairwise_distance(x, y),
    "cat": lambda t, x, y: t.cat([x, y.float()]),
    "stack": lambda t, x, y: t.stack([x, y.float()]),
    "add": lambda t, x, y: x + y.float(),
    "addcmul": lambda t, x, y: t.addcmul(x, y.float(), y),
    "index_copy": lambda t, x, y: x.float().index_copy(0, t.tensor([0]), y[:1]),
    "gelu": lambda t, x, y: t.nn.functional.gelu(x),
    "sigmoid": lambda t, x, y: x.sigmoid(),
    "avg_pool2d": lambda t, x, y: t.nn.functional.avg_pool2d(x[None], 2),
    "avg_pool3d": lambda t, x, y: t.nn.functional.avg_pool3d(x[None, None], (1, 2, 2)),
    "max_pool2d": lambda t, x, y: t.nn.functional.max_pool2d(x[None], 2),
    "adaptive_avg_pool3d": lambda t, x, y: t.nn.functional.adaptive_avg_pool3d(x[None, None], 1),
    "interpolate": lambda t, x, y: t.nn.functional.interpolate(x[None], scale_factor=2, mode="linear"),
    "reflect": lambda t, x, y: t.nn.functional.pad(x[None], (1, 1), mode="reflect"),
    "constant pad": lambda t, x, y: t.nn.functional.pad(x, (1, 1)),
    "trace": lambda t, x, y: x.trace(),
    "inv": lambda t, x, y: t.linalg.inv(x[:, :2] + 3 * t.eye(2)),
    "polar": lambda t, x, y: t.polar(x, y),
    "fft": lambda t, x, y: t.fft.fft(x),
    "var": lambda t, x, y: x.var(),
    "where": lambda t, x, y: t.where(x > 0.5, x, y.float()),
    "in place": lambda t, x, y: x.clone().mul_(y),
}  # fmt: skip
VALUES = np.array([[0.25, 0.5, 0.75], [0.375, 0.625, 0.875]], np.float32)
OTHERS = np.array([[0.5, 0.25, 0.125], [0.75, 0.5, 0.875]], np.float32)


def result(library, function, dtype):
    x, y = (library.tensor(a).to(getattr(library, dtype)) for a in (VALUES, OTHERS))
    x.requires_grad_()
    with library.autocast("cpu", dtype=library.bfloat16):
        out = function(library, x, y)
    wide = library.view_as_real(out) if out.is_complex() else out
    wide.float().sum().backward()
    return str(out.dtype), wide.detach().float().numpy(), str(x.grad.dtype), x.grad.float().numpy()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", PAIRS)
def test_autocast(name, dtype):
    want, got = (result(library, PAIRS[name], dtype) for library in (torch, gradlib))
    assert (got[0], got[2]) == (want[0], want[2])
    np.testing.assert_allclose(got[1], want[1], rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(got[3], want[3], rtol=5e-2, atol=5e-2)


def test_a_model_trains_alike():
    def train(library):
        nn = library.nn
        weights = [
            np.linspace(-0.5, 0.5, n, dtype=np.float32).reshape(s)
            for n, s in ((12, (4, 3)), (8, (2, 4)))
        ]
        model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False))
        with library.no_grad():
            for layer, w in zip((model[0], model[2]), weights, strict=True):
                layer.weight.copy_(library.tensor(w))
        optimizer = library.optim.SGD(model.parameters(), lr=0.5)
        scaler = library.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            with library.autocast("cpu"):
                loss = nn.functional.cross_entropy(
                    model(library.tensor(VALUES)), library.tensor([0, 1])
                )
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses, scaler.state_dict()

    (want, state), (got, ours) = train(torch), train(gradlib)
    np.testing.assert_allclose(got, want, rtol=2e-2)
    assert ours == state
