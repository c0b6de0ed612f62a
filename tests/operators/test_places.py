"""Results lie where the arguments do, also if another device is the current one (with ``--device other``)."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib.nn import functional as F


def some():
    return gl.randn(4, 3)


def labels():
    return gl.tensor([0, 1, 2, 1])


def image():
    return gl.randn(1, 2, 5, 5)


def unpooled():
    out, indices = F.max_pool2d(image()[..., 1:, 1:], 2, return_indices=True)
    return F.max_unpool2d(out, indices, 2)


CALLS = {
    "bucketize": lambda: gl.bucketize(some(), gl.tensor([0.0, 1.0])),
    "searchsorted": lambda: gl.searchsorted(some().sort()[0], some()),
    "isin": lambda: gl.isin(labels(), labels()[:1]),
    "isin number": lambda: gl.isin(labels(), 1),
    "histc": lambda: gl.histc(some(), 3),
    "histogram": lambda: gl.histogram(some(), 3),
    "histogramdd": lambda: gl.histogramdd(some(), 2, density=True),
    "tril_indices": lambda: gl.tril_indices(3, 3, device=some().device),
    "triu_indices": lambda: gl.triu_indices(3, 3, 1, device=some().device),
    "one_hot": lambda: F.one_hot(labels()),
    "bincount": lambda: gl.bincount(labels()),
    "multilabel_margin_loss": lambda: F.multilabel_margin_loss(some(), labels()[:3].expand(4, 3)),
    "multi_margin_loss": lambda: F.multi_margin_loss(some(), labels()),
    "fractional_max_pool2d": lambda: F.fractional_max_pool2d(
        image(), 2, output_size=2, return_indices=True
    ),
    "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(image(), 3, return_indices=True),
    "max_unpool2d": unpooled,
    "unique": lambda: some().unique(dim=0, return_inverse=True),
    "mode": lambda: some().mode(-1),
    "repeat_interleave": lambda: some().repeat_interleave(labels(), 0),
    "multinomial": lambda: gl.multinomial(some().softmax(-1), 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_lie_where_arguments_do(name):
    out = CALLS[name]()
    for part in out if isinstance(out, tuple) else (out,):
        for tensor in part if isinstance(part, tuple) else (part,):
            assert tensor.device == some().device
