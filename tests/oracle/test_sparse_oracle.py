"""Sparse tensors beside PyTorch: the same programs, values, gradients and texts."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import torch

import gradlib as gl

pytestmark = pytest.mark.filterwarnings("ignore:.*[Ss]parse.*:UserWarning")  # PyTorch's

OPS = {
    "mm": lambda t, s, d: s @ d,
    "sparse.mm": lambda t, s, d: t.sparse.mm(s, d),
    "addmm": lambda t, s, d: t.sparse.addmm(t.ones(3, 2, dtype=d.dtype), s, d, beta=0.5, alpha=2.0),
    "sparse sparse": lambda t, s, d: t.sparse.mm(s, s.t()),
    "mul dense": lambda t, s, d: s * (d.t()[:1] * t.ones(3, 4, dtype=d.dtype)),
    "mul sparse": lambda t, s, d: s * s.detach(),
    "mul number": lambda t, s, d: s * 3.0,
    "div": lambda t, s, d: s / 2.0,
    "neg": lambda t, s, d: -s,
    "add": lambda t, s, d: s + s.detach() * 2,
    "dense add": lambda t, s, d: t.ones(3, 4, dtype=d.dtype) + s,
    "sum": lambda t, s, d: t.sparse.sum(s),
    "sum 0": lambda t, s, d: t.sparse.sum(s, 0),
    "sum 1": lambda t, s, d: t.sparse.sum(s, [1]),
    "t": lambda t, s, d: s.t(),
    "transpose": lambda t, s, d: s.transpose(0, 1),
    "index_select": lambda t, s, d: s.index_select(1, t.tensor([2, 0, 2])),
    "sin": lambda t, s, d: s.sin(),
    "pow": lambda t, s, d: s.pow(2),
    "values": lambda t, s, d: s.coalesce().values(),
    "cat": lambda t, s, d: t.cat([s, s], 0),
    "unsqueeze": lambda t, s, d: s.unsqueeze(0),
    "softmax": lambda t, s, d: t.sparse.softmax(s, 1),
    "log_softmax": lambda t, s, d: t.sparse.log_softmax(s, 0),
    "narrow_copy": lambda t, s, d: s.narrow_copy(1, 1, 2),
    "bmm": lambda t, s, d: t.bmm(t.stack([s, s]).coalesce(), t.stack([d, d * 2])),
    "sum 0 kept": lambda t, s, d: s.sum(0, keepdim=True),
    "round": lambda t, s, d: (s * 1.7).round(),
    "mean of products": lambda t, s, d: t.sparse.mm(s.to_sparse_csr(), d, "mean"),
    "greatest product": lambda t, s, d: t.sparse.mm(s.to_sparse_csr(), d, "amax"),
}
# PyTorch has no gradient of these for sparse tensors, or (mm) a dense one: tests/sparse compares those with dense ops
FORWARD_ALONE = {
    "narrow_copy",
    "bmm",
    "sum 0 kept",
    "round",
    "mean of products",
    "greatest product",
    "mm",
    "mul dense",
    "index_select",
    "sin",
    "cat",
    "unsqueeze",
}
INDICES, SIZE = [[0, 0, 1, 2, 0], [1, 3, 0, 2, 1]], (3, 4)
VALUES = [0.5, -1.5, 2.0, 0.75, 1.25]


def outcome(library, name: str, dtype: str) -> list[np.ndarray]:
    """The value, and the gradients of values and of the dense operand."""
    kind = getattr(library, dtype)
    values = library.tensor(VALUES, dtype=kind)
    s = library.sparse_coo_tensor(INDICES, values, SIZE).coalesce().detach().requires_grad_()
    draw = np.random.default_rng(2).normal(size=(4, 2))
    d = library.tensor(draw, dtype=kind).requires_grad_()
    out = OPS[name](library, s, d).to_dense()
    if name in FORWARD_ALONE:
        return [out.detach().numpy()]
    weight = library.tensor(np.random.default_rng(4).normal(size=tuple(out.shape)), dtype=kind)
    out.backward(weight)
    found = [out, s.grad, *([] if d.grad is None else [d.grad])]
    return [x.detach().to_dense().numpy() for x in found]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients(name, dtype):
    if dtype == "complex128" and any(w in name for w in ("softmax", "sum", "round", "product")):
        dtype = "float64"  # PyTorch's are of real numbers alone
    for a, b in zip(outcome(gl, name, dtype), outcome(torch, name, dtype), strict=True):
        np.testing.assert_allclose(a, b, 1e-5 if dtype == "float32" else 1e-12, 1e-6)


PRINTED = [
    "t.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], (2, 3))",
    "t.sparse_coo_tensor([[0, 1], [1, 2]], t.ones(2, 2), (2, 3, 2))",
    "t.sparse_coo_tensor([[0, 1], [1, 2]], [1, 2], (2, 3))",
    "t.sparse_coo_tensor((2, 3))",
    "t.sparse_coo_tensor([[0, 1]], [1.0, 2.0], dtype=t.float64, requires_grad=True)",
    "t.eye(3).to_sparse_csr()",
    "t.eye(3).to_sparse_csc()",
    "t.eye(4).to_sparse_bsr((2, 2))",
    "t.eye(2).to_sparse(1)",
    "t.eye(20).to_sparse().double().coalesce()",
    "t.sparse.spdiags(t.ones(2, 3), t.tensor([0, -1]), (3, 3))",
    "t.zeros_like(t.eye(2).to_sparse())",
    "t.eye(3).to_sparse_csr().t()",
    "t.eye(3).to_sparse().t().coalesce()",
    "t.sparse.sampled_addmm(t.eye(2).to_sparse_csr(), t.ones(2, 3), t.ones(3, 2), beta=0.5)",
]


@pytest.mark.parametrize("text", PRINTED)
def test_printed_alike(text):
    assert repr(eval(text, {"t": gl})) == repr(eval(text, {"t": torch}))


REFUSED = [
    "t.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (3,))",
    "t.sparse_coo_tensor([[0, -1]], [1.0, 2.0])",
    "t.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), check_invariants=True)",
    "t.sparse_coo_tensor([[0, 1]], t.ones(2, 2), (3,))",
    "t.sparse_coo_tensor([[0, 1]], t.ones(2, 2), (3, 4))",
    "t.sparse_csr_tensor([0, 1], [1, 0], [1.0, 2.0], (2, 3), check_invariants=True)",
    "t.sparse_csr_tensor([0, 1, 2], [1], [1.0, 2.0], (2, 3), check_invariants=True)",
    "t.sparse_csr_tensor([0, 1, 3], [1, 0], [1.0, 2.0], (2, 3), check_invariants=True)",
    "t.sparse_csc_tensor([0, 1, 2], [1, 7], [1.0, 2.0], (3, 2), check_invariants=True)",
    "t.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,)).indices()",
    "t.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,)).values()",
    "t.ones(2).values()",
    "t.ones(2).coalesce()",
    "t.ones(2).indices()",
    "t.ones(2, 2).to_sparse_csr().coalesce()",
    "t.eye(2).to_sparse().crow_indices()",
    "t.eye(2).to_sparse_csr().ccol_indices()",
    "t.eye(2).to_sparse().numpy()",
    "t.ones(2, 2).sparse_mask(t.eye(3).to_sparse())",
    "t.optim.SparseAdam([t.eye(2).to_sparse().requires_grad_()])",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused_alike(text):
    try:
        eval(text, {"t": torch})
    except (RuntimeError, TypeError, ValueError) as exc:
        want = exc
    else:
        raise AssertionError(f"PyTorch takes {text}")
    with pytest.raises(type(want), match=re.escape(str(want))):
        eval(text, {"t": gl})


@pytest.mark.parametrize("kind", ["SGD", "Adagrad", "SparseAdam"])
@pytest.mark.parametrize("bag", [False, True])
def test_embeddings_train_to_the_same_numbers(kind, bag):
    found = []
    start = np.random.default_rng(0).normal(size=(9, 3))
    for t in (gl, torch):
        layer = (t.nn.EmbeddingBag if bag else t.nn.Embedding)(
            9, 3, padding_idx=4, sparse=True, dtype=t.float64
        )
        with t.no_grad():
            layer.weight.copy_(t.tensor(start))
        extra = {"momentum": 0.9} if kind == "SGD" else {}
        opt = getattr(t.optim, kind)(layer.parameters(), lr=0.1, **extra)
        for rows in ([[1, 1, 4], [0, 8, 2]], [[3, 1, 1], [4, 4, 0]], [[5, 6, 7], [1, 1, 1]]):
            opt.zero_grad()
            (layer(t.tensor(rows)) ** 2).sum().backward()
            (layer(t.tensor(rows)) ** 3).sum().backward()
            opt.step()
        found.append(layer.weight.detach().numpy())
    np.testing.assert_allclose(*found, 1e-9, 1e-12)


def test_a_graph_convolution_trains_to_the_same_numbers():
    draw = np.random.default_rng(1)
    edges = (draw.random((40, 40)) < 0.1) | np.eye(40, dtype=bool)
    edges |= edges.T
    indices, degree = np.stack(np.nonzero(edges)), edges.sum(1)
    values = 1 / np.sqrt(degree[indices[0]] * degree[indices[1]])
    x, label = draw.normal(size=(40, 5)), draw.integers(0, 3, 40)
    first, second = draw.normal(size=(5, 8)) * 0.3, draw.normal(size=(8, 3)) * 0.3
    runs = []
    for t in (gl, torch):
        a = t.sparse_coo_tensor(t.tensor(indices), t.tensor(values), (40, 40)).coalesce()
        weights = [t.tensor(w).requires_grad_() for w in (first, second)]
        edge_weights = t.tensor(values).requires_grad_()
        opt = t.optim.Adam([*weights, edge_weights], lr=0.05)
        losses = []
        for _ in range(25):
            learned = t.sparse_coo_tensor(a.indices(), edge_weights, (40, 40))
            hidden = t.sparse.mm(a, t.tensor(x) @ weights[0]).relu()
            out = t.sparse.mm(learned, hidden @ weights[1])
            loss = t.nn.functional.cross_entropy(out, t.tensor(label))
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        runs.append((losses, *[w.detach().numpy() for w in (*weights, edge_weights)]))
    for a, b in zip(*runs, strict=True):
        np.testing.assert_allclose(a, b, 1e-8, 1e-10)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_files_of_each_are_read_by_the_other(layout):
    blocks = (2, 2) if layout == "sparse_bsr" else None
    for writer, reader in ((gl, torch), (torch, gl)):
        file = io.BytesIO()
        s = writer.eye(4).to_sparse(layout=getattr(writer, layout), blocksize=blocks)
        writer.save({"s": s}, file)
        file.seek(0)
        made = reader.load(file)["s"]
        assert (
            made.layout is getattr(reader, layout)
            and made.to_dense().tolist() == np.eye(4).tolist()
        )


def test_accumulation_alike():
    seen = []
    for t in (gl, torch):
        w = t.ones(4, 2, requires_grad=True)
        e, log = t.nn.functional.embedding, []

        def look(w=w, log=log):
            log.append((str(w.grad.layout), w.grad.to_dense().tolist()))

        e(t.tensor([1, 1]), w, sparse=True).sum().backward()
        look()
        e(t.tensor([2]), w, sparse=True).sum().backward()
        look()
        (w * 2).sum().backward()
        look()
        e(t.tensor([0]), w, sparse=True).sum().backward()
        look()
        w.grad = None
        (e(t.tensor([0]), w, sparse=True).sum() + (w * w).sum()).backward()
        look()
        seen.append(log)
    assert seen[0] == seen[1]
