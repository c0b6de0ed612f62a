"""Training with sparse tensors: embeddings with sparse gradients and their optimizers, a graph convolution."""

from __future__ import annotations

import copy
import tracemalloc

import numpy as np
import pytest

import gradlib as gl
from gradlib import nn, optim

INDEX = [[3, 1, 1, 5], [0, 5, 3, 3]]


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64])
@pytest.mark.parametrize("padding", [None, 3])
def test_embedding_has_the_gradient_of_the_dense_one(padding, dtype):
    thin = nn.Embedding(7, 4, padding_idx=padding, sparse=True, dtype=dtype)
    thick = nn.Embedding(7, 4, padding_idx=padding, dtype=dtype)
    thick.load_state_dict(thin.state_dict())
    for module in (thin, thick):
        (module(gl.tensor(INDEX)) ** 2).sum().backward()
    grad = thin.weight.grad
    assert grad.is_sparse and grad.sparse_dim() == 1 and grad.dense_dim() == 1
    assert grad._nnz() == 8 - 3 * (padding == 3)
    np.testing.assert_allclose(grad.to_dense().numpy(), thick.weight.grad.numpy(), 1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 1])
def test_embedding_bag_has_the_gradient_of_the_dense_one(mode, padding):
    thin = nn.EmbeddingBag(7, 4, mode=mode, padding_idx=padding, sparse=True)
    thick = nn.EmbeddingBag(7, 4, mode=mode, padding_idx=padding)
    thick.load_state_dict(thin.state_dict())
    for module in (thin, thick):
        (module(gl.tensor(INDEX)) ** 2).sum().backward()
    assert thin.weight.grad.is_sparse
    np.testing.assert_allclose(thin.weight.grad.to_dense().numpy(), thick.weight.grad.numpy(), 1e-5)


def test_embedding_bag_of_maxima_refuses():
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        nn.EmbeddingBag(7, 4, mode="max", sparse=True)(gl.tensor(INDEX))


def test_scaled_by_frequency_and_functional_forms():
    weight = gl.rand(6, 2, requires_grad=True)
    index = gl.tensor(INDEX)
    nn.functional.embedding(index, weight, scale_grad_by_freq=True, sparse=True).sum().backward()
    np.testing.assert_allclose(weight.grad.to_dense()[:, 0].tolist(), [1, 1, 0, 1, 0, 1])
    weight.grad = None
    gl.embedding(weight, index, sparse=True).sum().backward()
    assert weight.grad.is_sparse


CHOICES = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "maximize": True}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.01}),
    (optim.Adagrad, {"lr": 0.1, "initial_accumulator_value": 0.5, "maximize": True}),
]


@pytest.mark.parametrize(("kind", "settings"), CHOICES)
def test_steps_are_those_of_dense_gradients(kind, settings):
    """Of SGD and Adagrad a row without gradient is one with gradient 0."""
    weights = []
    for sparse in (True, False):
        gl.manual_seed(1)
        module = nn.Sequential(nn.Embedding(9, 3, sparse=sparse), nn.Linear(3, 2)).double()
        opt = kind(module.parameters(), **settings)
        for step in range(4):
            opt.zero_grad()
            (module(gl.tensor([[step, 1, 1], [8, 2, step]])) ** 2).sum().backward()
            opt.step()
        weights.append([p.detach().numpy() for p in module.parameters()])
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, 1e-10)


def test_momentum_of_sparse_gradients_stays_as_small_as_the_rows_in_use():
    module = nn.Embedding(9, 3, sparse=True)
    opt = optim.SGD(module.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(5):
        opt.zero_grad()
        module(gl.tensor([1, 2, 1])).sum().backward()
        opt.step()
    buffer = opt.state[module.weight]["momentum_buffer"]
    assert buffer.is_sparse and buffer._nnz() == 2
    g = np.array([2.0, 1.0])
    total, b = np.zeros(2), np.zeros(2)
    for _ in range(5):
        b = 0.9 * b + g
        total += 0.1 * (g + 0.9 * b)
    start = nn.Embedding(9, 3, sparse=True)
    assert start.weight.shape == module.weight.shape
    np.testing.assert_allclose(buffer.coalesce().values()[:, 0].tolist(), b, 1e-6)


def test_sparse_adam_against_its_formula():
    gl.manual_seed(0)
    module = nn.Embedding(6, 2, sparse=True, dtype=gl.float64)
    p = module.weight.detach().numpy().copy()
    m, v = np.zeros_like(p), np.zeros_like(p)
    opt = optim.SparseAdam(module.parameters(), lr=0.05, betas=(0.8, 0.95), eps=1e-6)
    for t, rows in enumerate(([1, 4, 4], [4], [0, 1]), 1):
        opt.zero_grad()
        (module(gl.tensor(rows)) ** 2).sum().backward()
        opt.step()
        for r in set(rows):
            g = 2 * p[r] * rows.count(r)
            m[r] = 0.8 * m[r] + 0.2 * g
            v[r] = 0.95 * v[r] + 0.05 * g * g
            size = 0.05 * np.sqrt(1 - 0.95**t) / (1 - 0.8**t)
            p[r] -= size * m[r] / (np.sqrt(v[r]) + 1e-6)
        np.testing.assert_allclose(module.weight.detach().numpy(), p, 1e-12)
    saved = copy.deepcopy(opt.state_dict())
    optim.SparseAdam(module.parameters()).load_state_dict(saved)


def test_optimizers_without_a_step_for_sparse_gradients_say_so():
    for kind in (optim.Adam, optim.AdamW, optim.RMSprop, optim.Adafactor, optim.NAdam):
        module = nn.Embedding(4, 2, sparse=True)
        opt = kind(module.parameters())
        module(gl.tensor([1])).sum().backward()
        with pytest.raises(
            RuntimeError, match=f"{kind.__name__} does not support sparse gradients"
        ):
            opt.step()
    dense = gl.ones(3, requires_grad=True)
    (dense * 2).sum().backward()
    with pytest.raises(
        RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam"
    ):
        optim.SparseAdam([dense]).step()
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 0\]\]"):
        optim.SparseAdam([gl.eye(2).to_sparse().requires_grad_()])
    for kind in (optim.SGD, optim.Adagrad):
        module = nn.Embedding(4, 2, sparse=True)
        module(gl.tensor([1])).sum().backward()
        with pytest.raises(
            RuntimeError, match="weight_decay option is not compatible with sparse gradients"
        ):
            kind(module.parameters(), weight_decay=0.1).step()


def test_clipping_and_zeroing():
    module = nn.Embedding(5, 1, sparse=True)
    module(gl.tensor([1, 1, 3, 3])).sum().backward()
    total = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    np.testing.assert_allclose(total.item(), 8**0.5, 1e-6)
    np.testing.assert_allclose(module.weight.grad.to_dense().norm().item(), 1, 1e-5)
    module.zero_grad(set_to_none=False)
    assert module.weight.grad.is_sparse and module.weight.grad._nnz() == 0
    module(gl.tensor([1])).sum().backward()
    assert module.weight.grad.to_dense().reshape(-1).tolist() == [0, 1, 0, 0, 0]


def test_a_scaler_takes_sparse_gradients():
    module = nn.Embedding(4, 2, sparse=True)
    start = module.weight.detach().clone()
    opt = optim.SGD(module.parameters(), lr=0.5)
    scaler = gl.amp.GradScaler("cpu", init_scale=8.0)
    for factor in (1.0, float("inf")):  # the second step is left out
        opt.zero_grad()
        scaler.scale(module(gl.tensor([1, 1, 3])).sum() * factor).backward()
        scaler.step(opt)
        scaler.update()
    change = (start - module.weight.detach())[:, 0].tolist()
    np.testing.assert_allclose(change, [0, 1, 0, 0.5], 1e-5, 1e-6)
    assert scaler.get_scale() == 4.0


def test_a_step_touches_only_the_rows_in_use():
    """10^6 rows: the memory that a step takes is that of the batch, not of the table."""
    rows, width = 1_000_000, 16
    weight = gl.zeros(rows, width).requires_grad_()
    opt = optim.SparseAdam([weight])
    index = gl.tensor(np.random.default_rng(0).integers(0, rows, 512))

    def step():
        opt.zero_grad()
        nn.functional.embedding(index, weight, sparse=True).sum().backward()
        opt.step()

    step()
    tracemalloc.start()
    step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * 512 * width * 4  # the table is 64 MB
    changed = (weight.detach() != 0).any(1).nonzero().squeeze(1)
    assert gl.equal(changed, index.unique())


class GraphConvolution(nn.Module):
    """Two layers: softmax(A relu(A X W0) W1)."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.first, self.second = nn.Linear(width, 8), nn.Linear(8, classes)

    def forward(self, adjacency, x):
        return adjacency @ self.second((adjacency @ self.first(x)).relu())


def graph(nodes=60, classes=3, seed=0):
    """Nodes of a class are mostly neighbours of each other: (indices, values) of the normalised adjacency, features."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, classes, nodes)
    near = label[:, None] == label[None]
    edges = draw.random((nodes, nodes)) < np.where(near, 0.3, 0.02)
    edges |= edges.T | np.eye(nodes, dtype=bool)
    degree = edges.sum(1)
    indices = np.stack(np.nonzero(edges))
    return (
        indices,
        1 / np.sqrt(degree[indices[0]] * degree[indices[1]]),
        draw.normal(size=(nodes, 5)),
        label,
    )


@pytest.mark.parametrize("layout", [gl.sparse_coo, gl.sparse_csr])
def test_a_graph_convolution_learns_and_is_the_dense_one(layout):
    indices, values, features, label = graph()
    losses = []
    for sparse in (True, False):
        gl.manual_seed(3)
        model = GraphConvolution(5, 3).double()
        a = gl.sparse_coo_tensor(gl.tensor(indices), gl.tensor(values), (60, 60))
        a = a.to_sparse(layout=layout) if sparse else a.to_dense()
        opt = optim.Adam(model.parameters(), lr=0.02)
        found = []
        for _ in range(40):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(a, gl.tensor(features)), gl.tensor(label))
            loss.backward()
            opt.step()
            found.append(loss.item())
        losses.append(found)
    np.testing.assert_allclose(losses[0], losses[1], 1e-9)
    assert losses[0][-1] < 0.3 * losses[0][0]
