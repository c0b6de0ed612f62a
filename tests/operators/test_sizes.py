"""Ops at the sizes where another kernel takes over: the same numbers on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib as torch
from gradlib.nn import functional as F


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def stable_order(x, descending, dim):
    """What sorting must give: NaN as the greatest, equal elements in their order."""
    if not descending:
        return np.argsort(x, dim, kind="stable")
    flipped = np.argsort(np.flip(x, dim), dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - flipped, dim)


def awkward(rng, dtype, shape):
    """Many equal elements, both zeros, NaN of both signs, infinities and the ends of the range."""
    kind = np.dtype(dtype).kind
    x = np.round(rng.standard_normal(shape) * 40)
    if kind != "f":
        x = (x if kind == "i" else abs(x)).astype(dtype)
        x.flat[:2] = np.iinfo(dtype).max, np.iinfo(dtype).min
        return x
    x[rng.random(shape) < 0.1] = -0.0
    x[rng.random(shape) < 0.1] = np.nan
    x = x.astype(dtype)
    x[rng.random(shape) < 0.05] = -np.array(np.nan, dtype)
    x.flat[:2] = np.inf, -np.inf
    return x


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u1", "i2"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((4000,), 0), ((6, 1400), 1), ((40, 80), 1), ((80, 6, 9), 0), ((5, 900), 1), ((10, 4), 0)],
)
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable_at_every_size(rng, dtype, shape, dim, descending):
    x = awkward(rng, dtype, shape)
    values, indices = torch.from_numpy(x).sort(dim, descending, stable=True)
    expected = stable_order(x, descending, dim)
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, dim))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize(
    ("shape", "dim"), [((3000,), 0), ((4, 900), 1), ((900, 4), 0), ((90, 40), 1)]
)
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("distinct", [False, True])
def test_topk_of_many(rng, dtype, shape, dim, largest, distinct):
    x = awkward(rng, dtype, shape)
    if distinct:
        x = rng.permutation(x.size).reshape(shape).astype(dtype)
    values, indices = torch.from_numpy(x).topk(7, dim, largest)
    expected = np.take_along_axis(x, stable_order(x, largest, dim), dim).take(range(7), dim)
    np.testing.assert_array_equal(values.numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), dim), expected)
    assert all(len(set(row)) == 7 for row in np.moveaxis(indices.numpy(), dim, -1).reshape(-1, 7))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c16", "f2"])
@pytest.mark.parametrize("spread", ["even", "one row", "a few rows", "once"])
@pytest.mark.parametrize("width", [40, 200])
def test_adding_many_rows(rng, dtype, spread, width):
    rows, n = 300, 200
    index = {
        "even": rng.integers(0, rows, n),
        "one row": np.full(n, 5),
        "a few rows": np.where(rng.random(n) < 0.5, 7, rng.integers(0, rows, n)),
        "once": rng.permutation(rows)[:n],
    }[spread]
    x, source = (rng.integers(-4, 5, (m, width)).astype(dtype) for m in (rows, n))
    expected = x.copy()
    np.add.at(expected, index, source)
    i = torch.from_numpy(index)
    found = torch.from_numpy(x.copy()).index_add(0, i, torch.from_numpy(source))
    np.testing.assert_array_equal(found.numpy(), expected)
    if dtype in ("f4", "f8"):
        weight = torch.from_numpy(x).requires_grad_()
        F.embedding(i, weight).backward(torch.from_numpy(source))
        assert weight.grad is not None
        np.testing.assert_array_equal(weight.grad.numpy(), expected - x)


@pytest.mark.parametrize("shape", [(4, 700), (5, 640), (40, 80), (3, 5, 400), (2, 3)])
@pytest.mark.parametrize("dim", [0, 1])
def test_scans_of_long_slices(rng, shape, dim):
    x = rng.standard_normal(shape)
    np.testing.assert_array_equal(torch.from_numpy(x).cumsum(dim).numpy(), np.cumsum(x, dim))
    x = np.round(x * 2)
    x[rng.random(shape) < 0.01] = np.nan
    values, indices = torch.from_numpy(x).cummax(dim)
    best = np.maximum.accumulate(x, dim)
    np.testing.assert_array_equal(values.numpy(), best)
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), dim), best)
    steps = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    last = np.where((x == best) | np.isnan(x), steps, 0)
    np.testing.assert_array_equal(indices.numpy(), np.maximum.accumulate(last, dim))


@pytest.mark.parametrize("mask", ["none", "causal", "numbers", "choice"])
def test_attention_of_several_heads_is_that_of_each(rng, mask):
    q, k, v = (torch.from_numpy(rng.standard_normal((2, 3, 5, 4))).requires_grad_() for _ in "qkv")
    more: dict[str, Any] = {"is_causal": mask == "causal"}
    if mask in ("numbers", "choice"):
        m = rng.standard_normal((2, 1, 5, 5))
        m[0, 0, 2] = -np.inf if mask == "numbers" else 0  # a row with nothing to look at
        more["attn_mask"] = torch.from_numpy(m if mask == "numbers" else m > 0)
    out = F.scaled_dot_product_attention(q, k, v, **more)
    grads = torch.autograd.grad((out**2).sum(), (q, k, v))
    for b in range(2):
        for h in range(3):
            alone = [t.detach()[b, h].clone().requires_grad_() for t in (q, k, v)]
            if mask in ("numbers", "choice"):
                more |= {"attn_mask": torch.from_numpy(m if mask == "numbers" else m > 0)[b, 0]}
            expected = F.scaled_dot_product_attention(alone[0], alone[1], alone[2], **more)
            torch.testing.assert_close(out[b, h], expected)
            for found, own in zip(grads, torch.autograd.grad((expected**2).sum(), alone)):
                torch.testing.assert_close(found[b, h], own)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2)]
)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4"])
def test_pooling_of_few_images_is_that_of_many(rng, kernel, stride, padding, dilation, dtype):
    x = np.round(rng.standard_normal((200, 2, 8, 7)) * 3).astype(dtype)
    many = F.max_pool2d(torch.from_numpy(x), kernel, stride, padding, dilation, return_indices=True)
    few = F.max_pool2d(
        torch.from_numpy(x[:2]), kernel, stride, padding, dilation, return_indices=True
    )
    for a, b in zip(many, few):
        np.testing.assert_array_equal(a[:2].numpy(), b.numpy())
    if dtype == "f4":
        slope, grads = torch.arange(many[0].numel(), dtype=torch.float32).reshape(many[0].shape), []
        for n in (200, 2):
            leaf = torch.from_numpy(x[:n]).requires_grad_()
            F.max_pool2d(leaf, kernel, stride, padding, dilation).backward(slope[:n])
            grads.append(leaf.grad.numpy())
        np.testing.assert_array_equal(grads[0][:2], grads[1])


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_a_cell_in_one_node_is_the_cell_in_many(rng, kind):
    cell = getattr(torch.nn, kind)(3, 4).double()
    x = torch.from_numpy(rng.standard_normal((5, 3)))
    many = torch.func.vmap(cell)(x.unsqueeze(1))  # in separate operations
    one = cell(x)
    if kind == "GRUCell":
        many, one = [many], [one]
    for a, b in zip(many, one):
        torch.testing.assert_close(a.reshape(5, 4), b)
        assert (
            x.is_cuda or "Cell" in b.grad_fn.name()
        )  # on a device it is made of several operations
