"""Sparse tensors on a device: the values and gradients of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn

LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr]
OPS = {
    "mm": lambda s, d: s @ d,
    "left": lambda s, d: d.t()[:, :4] @ s,
    "addmm": lambda s, d: torch.addmm(torch.ones(4, 3, dtype=d.dtype, device=d.device), s, d),
    "sparse mm": lambda s, d: s @ s.t(),
    "mul dense": lambda s, d: s * d.t()[:1],
    "mul sparse": lambda s, d: s * s,
    "add": lambda s, d: s + s * 2,
    "onto dense": lambda s, d: torch.ones(4, 6, dtype=d.dtype, device=d.device) + s,
    "sum": lambda s, d: torch.sparse.sum(s),
    "sin": lambda s, d: s.sin(),
    "t": lambda s, d: s.t(),
}
COO_OPS = {
    "sum of rows": lambda s, d: torch.sparse.sum(s, 0),
    "softmax": lambda s, d: torch.sparse.softmax(s, 1),
    "index_select": lambda s, d: s.index_select(1, torch.tensor([3, 0, 3], device=d.device)),
    "cat": lambda s, d: torch.cat([s, s]),
    "select": lambda s, d: s[2],
    "uncoalesced": lambda s, d: (
        torch.sparse_coo_tensor(
            s.indices().repeat(1, 2), torch.cat([s.values(), s.values()]), s.shape
        )
        @ d
    ),
}


def run(op, layout, dtype, device):
    draw = np.random.default_rng(1)
    dense = draw.normal(size=(4, 6)) * (draw.random((4, 6)) < 0.5)
    s = torch.tensor(dense, dtype=dtype).to(device)
    s = s.to_sparse(layout=layout, blocksize=(2, 2) if layout is torch.sparse_bsr else None)
    s.requires_grad_()
    d = torch.tensor(draw.normal(size=(6, 3)), dtype=dtype).to(device).requires_grad_()
    out = op(s, d).to_dense()
    assert out.device.type == s.device.type == torch.device(device).type
    grads = torch.autograd.grad((out * out).sum().abs(), [s, d], allow_unused=True)
    return [x.to_dense().detach().cpu().numpy() for x in (out, *grads) if x is not None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("name", [*OPS, *COO_OPS])
def test_ops(name, dtype):
    for layout in LAYOUTS if name in OPS and dtype is torch.float64 else LAYOUTS[:1]:
        if name == "add" and layout is torch.sparse_bsr:
            continue
        if name == "softmax" and dtype.is_complex:
            dtype = torch.float64  # of real numbers alone
        op = (OPS | COO_OPS)[name]
        for a, b in zip(run(op, layout, dtype, "cuda"), run(op, layout, dtype, "cpu"), strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_products_are_the_same_in_every_run_and_when_captured(dtype):
    """Rows of many values and of none, both gradients; the places were sorted before the capture."""
    draw = np.random.default_rng(3)
    places = draw.integers(0, [[30], [20]], (2, 200))
    places[0, :90] = 4
    s = torch.sparse_coo_tensor(torch.tensor(places), torch.tensor(draw.normal(size=200)), (30, 20))
    s = s.coalesce().to(dtype)
    x = torch.tensor(draw.normal(size=(20, 33)), dtype=dtype)
    want = (
        s.to_dense().double() @ x.double(),
        s.to_dense().double().t() @ torch.ones(30, 33).double(),
    )
    s, x = s.cuda(), x.cuda().requires_grad_()

    def step():
        out = s @ x
        (slope,) = torch.autograd.grad(out.sum(), x)
        return out.detach(), slope

    first = step()
    for have, exact in zip(first, want, strict=True):
        tolerance = 2e-2 if dtype is torch.float16 else 1e-5
        np.testing.assert_allclose(have.cpu().double().numpy(), exact.numpy(), tolerance, tolerance)
    assert all(torch.equal(a, b) for a, b in zip(first, step(), strict=True))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(first, captured, strict=True))


def test_moves_between_devices():
    values = torch.ones(2, requires_grad=True)
    s = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
    there = s.cuda()
    assert there.is_cuda and there.is_sparse and there.indices().is_cuda
    (there.cpu().to_dense() * 3).sum().backward()
    assert values.grad.tolist() == [3, 3]
    assert "device='cuda:0'" in repr(there) and torch.zeros_like(there).is_cuda
    there.add_(there).mul_(2)
    assert there.to_dense().tolist() == [[0, 4], [4, 0]]


@pytest.mark.parametrize("kind", ["SGD", "Adagrad", "SparseAdam"])
def test_embedding_and_optimizers(kind):
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        module = nn.Embedding(8, 3, padding_idx=2, sparse=True).to(device)
        opt = getattr(torch.optim, kind)(module.parameters(), lr=0.1)
        for rows in ([[1, 1, 2], [7, 0, 1]], [[2, 3, 3], [0, 0, 1]]):
            opt.zero_grad()
            (module(torch.tensor(rows, device=device)) ** 2).sum().backward()
            (module(torch.tensor(rows, device=device)) ** 2).sum().backward()
            assert module.weight.grad.is_sparse
            opt.step()
        found.append(module.weight.detach().cpu().numpy())
    np.testing.assert_allclose(*found, 1e-5, 1e-6)
