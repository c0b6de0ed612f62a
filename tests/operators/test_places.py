"""Results lie where the arguments do, also if another device is the current one (with ``--device other``)."""

from __future__ import annotations

import copy

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


def matrix(**settings):
    return gl.sparse_coo_tensor([[0, 1, 2], [1, 0, 2]], [1.0, 2.0, 3.0], (3, 4), **settings)


SPARSE = {
    "to_dense": lambda: matrix().to_dense(),
    "compressed": lambda: matrix().to_sparse_csr().to_dense(),
    "columns": lambda: matrix().to_sparse_csc().to_sparse().to_dense(),
    "blocks": lambda: matrix().to_sparse_bsr((1, 2)).to_dense(),
    "of dense": lambda: gl.eye(3).to_sparse().t().to_dense(),
    "made compressed": lambda: gl.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0]).to_dense(),
    "coalesce": lambda: gl.cat([matrix(), matrix()], 1).coalesce().values(),
    "select": lambda: matrix().index_select(0, gl.tensor([2, 0])).to_dense(),
    "narrow": lambda: matrix().narrow(1, 1, 2).to_dense() + matrix()[1].to_dense().sum(),
    "sum": lambda: gl.sparse.sum(matrix(), 0).to_dense(),
    "softmax": lambda: gl.sparse.softmax(matrix(), 1).to_dense(),
    "products": lambda: gl.sparse.mm(matrix(), matrix().t()).to_dense(),
    "elementwise": lambda: (matrix() * 2 + matrix().sin() * matrix()).to_dense(),
    "dense operands": lambda: matrix() @ gl.ones(4, 2) + gl.ones(3, 3) @ matrix() @ gl.ones(4, 2),
    "masked": lambda: gl.ones(3, 4).sparse_mask(matrix()).to_dense(),
    "copies": lambda: copy.deepcopy(matrix()).clone().half().to_dense(),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors_lie_where_their_values_do(name):
    out = SPARSE[name]()
    assert out.device == gl.ones(1).device
    out.sum().item()


def test_gradients_and_steps_of_sparse_tensors_lie_there():
    m = matrix(requires_grad=True)
    (m.to_dense().square().sum() + gl.sparse.mm(m, gl.ones(4, 1)).sum()).backward()
    assert m.grad.to_dense()[0].tolist() == [0.0, 3.0, 0.0, 0.0]
    table = gl.nn.Embedding(5, 2, sparse=True)
    for kind in (gl.optim.SGD, gl.optim.Adagrad, gl.optim.SparseAdam):
        before = table.weight.detach().clone()
        optimizer = kind(table.parameters(), lr=0.1)
        optimizer.zero_grad()
        table(gl.tensor([1, 3])).sum().backward()
        optimizer.step()
        assert ((table.weight.detach() != before).any(1)).tolist() == [
            False,
            True,
            False,
            True,
            False,
        ]
