"""Functions made of several ops give on a CUDA device what they give on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib as gl

F: Any = gl.nn.functional
pytestmark = pytest.mark.usefixtures("cuda")


class Make:
    """The same numbers on either device."""

    def __init__(self, device: str):
        self.device, self.rng = device, np.random.default_rng(1)

    def __call__(self, *shape):
        return gl.from_numpy(np.asarray(self.rng.normal(size=shape))).to(self.device)

    def ints(self, *rows):
        return gl.tensor(list(rows), device=self.device)


FUNCTIONS = {
    "linspace": lambda t: gl.linspace(0, 1, 5, device=t.device),
    "logspace": lambda t: gl.logspace(0, 2, 5, device=t.device),
    "tril_indices": lambda t: gl.tril_indices(3, 4, device=t.device),
    "stft": lambda t: gl.stft(t(200), 32, window=t(32), return_complex=True),
    "irfft": lambda t: gl.fft.irfft(gl.fft.rfft(t(3, 6))),
    "cov": lambda t: gl.cov(t(3, 5)),
    "corrcoef": lambda t: gl.corrcoef(t(3, 5)),
    "solve_triangular": lambda t: gl.linalg.solve_triangular(
        t(4, 4) + 4 * gl.eye(4, device=t.device), t(4, 2), upper=True
    ),
    "matrix_exp": lambda t: gl.linalg.matrix_exp(t(3, 3)),
    "lu_unpivoted": lambda t: gl.linalg.lu(t(3, 3) + 3 * gl.eye(3, device=t.device), pivot=False)[1],
    "histc": lambda t: gl.histc(t(20), 5),
    "bincount": lambda t: gl.bincount(t.ints(1, 2, 2, 5)),
    "unique": lambda t: gl.unique(t.ints(3, 1, 3, 2)),
    "searchsorted": lambda t: gl.searchsorted(t(6).sort()[0], t(4)),
    "bucketize": lambda t: gl.bucketize(t(4), t(3).sort()[0]),
    "topk": lambda t: gl.topk(t(3, 5), 2)[0],
    "kthvalue": lambda t: gl.kthvalue(t(3, 5), 2)[0],
    "median": lambda t: t(3, 5).median(1)[0],
    "cummax": lambda t: gl.cummax(t(3, 5), 1)[0],
    "renorm": lambda t: gl.renorm(t(3, 5), 2, 0, 1.0),
    "cartesian_prod": lambda t: gl.cartesian_prod(t(2), t(3)),
    "combinations": lambda t: gl.combinations(t(4)),
    "kron": lambda t: gl.kron(t(2, 2), t(3, 2)),
    "grid_sample": lambda t: F.grid_sample(
        t(1, 2, 4, 4), F.affine_grid(t(1, 2, 3) * 0.3, (1, 2, 3, 3), align_corners=True), align_corners=True
    ),
    "ctc_loss": lambda t: F.ctc_loss(
        t(6, 2, 4).log_softmax(2), t.ints([1, 2], [2, 3]), t.ints(6, 5), t.ints(2, 1)
    ),
    "multilabel_margin_loss": lambda t: F.multilabel_margin_loss(
        t(2, 4), t.ints([0, 1, -1, 2], [3, -1, 0, 0])
    ),
    "triplet_margin_loss": lambda t: F.triplet_margin_loss(t(3, 4), t(3, 4), t(3, 4)),
    "gaussian_nll_loss": lambda t: F.gaussian_nll_loss(t(3, 4), t(3, 4), t(3, 4).abs()),
    "poisson_nll_loss": lambda t: F.poisson_nll_loss(t(3, 4), t(3, 4).abs()),
    "fractional_max_pool2d": lambda t: F.fractional_max_pool2d(
        t(1, 2, 6, 6), 2, output_size=3, _random_samples=t(1, 2, 2).abs() % 1
    ),
    "adaptive_max_pool2d": lambda t: F.adaptive_max_pool2d(t(1, 2, 5, 5), 3),
    "lp_pool2d": lambda t: F.lp_pool2d(t(1, 2, 6, 6).abs(), 2, 2),
    "max_unpool2d": lambda t: F.max_unpool2d(
        *F.max_pool2d(t(1, 1, 4, 4), 2, return_indices=True), 2
    ),
    "fold": lambda t: F.fold(F.unfold(t(1, 2, 4, 4), 2), (4, 4), 2),
    "pixel_shuffle": lambda t: F.pixel_shuffle(t(1, 4, 2, 2), 2),
    "interpolate": lambda t: F.interpolate(t(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
    "pdist": lambda t: F.pdist(t(4, 3)),
    "cdist": lambda t: gl.cdist(t(4, 3), t(2, 3)),
    "one_hot": lambda t: F.one_hot(t.ints(1, 2, 0)),
    "attention": lambda t: F.scaled_dot_product_attention(
        t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), is_causal=True
    ),
    "embedding": lambda t: F.embedding(t.ints(1, 2, 0), t(4, 3), max_norm=1.0),
    "pad": lambda t: F.pad(t(2, 3, 4), (1, 2), mode="reflect"),
    "index_put": lambda t: t(4, 3).index_put((t.ints(1, 1),), t(2, 3), accumulate=True),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    # rows: DEV-12
    here, there = FUNCTIONS[name](Make("cpu")), FUNCTIONS[name](Make("cuda"))
    assert there.is_cuda and there.dtype is here.dtype and there.shape == here.shape
    np.testing.assert_allclose(
        here.numpy(force=True), there.numpy(force=True), rtol=1e-7, atol=1e-9
    )


def test_repr_of_device_tensors():
    assert repr(gl.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"
