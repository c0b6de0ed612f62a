"""Layers launched by gradlib itself on the simulated CUDA device: convolution, pooling and attention."""

from __future__ import annotations

import numpy as np

import gradlib as gl
from tests.kernels import test_simulated

F = gl.nn.functional
launched = test_simulated.launched


def run(where, layer, *arrays):
    """The result of ``layer(*tensors).square().sum()`` and its gradients."""
    leaves = [gl.from_numpy(a).to(where).requires_grad_() for a in arrays]
    loss = layer(*leaves).square().sum()
    loss.backward()
    grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
    assert len(grads) == len(leaves)
    return [t.detach().cpu().numpy() for t in (loss, *grads)]


def same_on_both(layer, *shapes) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.permutation(int(np.prod(s))).reshape(s) / np.prod(s) for s in shapes]
    for a, b in zip(run("cpu", layer, *arrays), run("cuda", layer, *arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)


def test_convolution_and_pooling(launched):
    # rows: DEV-26
    def layer(x, w, b):
        x = F.max_pool2d(F.conv2d(x, w, b, padding=1), 2)
        return F.avg_pool2d(F.conv_transpose2d(x, w, stride=2), 2)

    same_on_both(layer, (2, 3, 6, 7), (3, 3, 3, 3), (3,))
    expected = {"conv_map", "conv_weight", "max_pool", "pool_put", "avg_pool", "avg_pool_grad"}
    assert expected <= set(launched)


def test_unfold_and_fold(launched):
    # rows: DEV-26
    same_on_both(lambda x: F.fold(F.unfold(x, 2), (4, 5), 2), (1, 2, 4, 5))
    assert {"im2col", "col2im"} <= set(launched)


def test_attention(launched):
    # rows: DEV-26
    def layer(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    same_on_both(layer, (2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 3))
    mine = [name for name in launched if name.startswith("attention")]
    assert mine == [
        "attention",
        "attention_dq",
        "attention_dkv",
    ]  # backward does not run forward again


def test_attention_of_heads_that_lie_beside_each_other(launched):
    # rows: DEV-26
    def layer(x):
        q, k, v = x.view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        assert out.is_contiguous()
        return out.reshape(2, 5, 8)

    same_on_both(layer, (2, 5, 24))
    assert {"attention", "attention_dq", "attention_dkv"} <= set(launched)


def test_the_gradient_of_a_mask_is_the_formula(launched):
    # rows: DEV-26
    same_on_both(F.scaled_dot_product_attention, (2, 3, 4), (2, 5, 4), (2, 5, 4), (3, 5))
    assert "attention" in launched and "attention_dq" not in launched


def test_second_derivatives_use_the_formulas(launched):
    # rows: DEV-26
    found = []
    for where in ("cpu", "cuda"):
        x, w = (gl.arange(n, dtype=gl.float64).reshape(s).sin().to(where).requires_grad_()
                for n, s in ((32, (1, 2, 4, 4)), (36, (2, 2, 3, 3))))  # fmt: skip
        (grad,) = gl.autograd.grad(F.conv2d(x, w, padding=1).square().sum(), x, create_graph=True)
        grad.square().sum().backward()
        found.append([t.grad.cpu().numpy() for t in (x, w) if t.grad is not None])
    assert len(found[0]) == 2
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    assert "conv_map" in launched
