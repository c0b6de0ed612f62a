"""flex_attention is dense attention: values and gradients against scaled_dot_product_attention, edges of its masks."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib.autograd import gradcheck
from gradlib.nn.attention.flex_attention import create_block_mask, flex_attention
from gradlib.nn.functional import scaled_dot_product_attention


def tensors(*shape: int) -> list[gl.Tensor]:
    gl.manual_seed(0)
    return [gl.randn(*shape, dtype=gl.float64, requires_grad=True) for _ in range(3)]


def test_it_is_scaled_dot_product_attention():
    q, k, v = tensors(2, 3, 6, 4)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 6, 6, BLOCK_SIZE=2)
    for ours, theirs in (
        (flex_attention(q, k, v), scaled_dot_product_attention(q, k, v)),
        (
            flex_attention(q, k, v, block_mask=mask),
            scaled_dot_product_attention(q, k, v, is_causal=True),
        ),
    ):
        assert gl.allclose(ours, theirs)
        grads = [gl.autograd.grad(out.square().sum(), (q, k, v)) for out in (ours, theirs)]
        assert all(gl.allclose(a, b) for a, b in zip(*grads, strict=True))


def test_gradients_of_what_the_functions_capture():
    q, k, v = tensors(1, 2, 4, 3)
    bias = gl.randn(2, dtype=gl.float64, requires_grad=True)

    def run(q, k, v, bias):
        mask = create_block_mask(
            lambda b, h, i, j: (i > 0) & (j <= i), None, None, 4, 4, BLOCK_SIZE=2
        )
        out, lse = flex_attention(
            q,
            k,
            v,
            score_mod=lambda s, b, h, i, j: s * bias[h] + (i - j),
            block_mask=mask,
            return_lse=True,
        )
        return out, lse[:, :, 1:]

    assert gradcheck(run, (q, k, v, bias))


def test_a_query_that_may_attend_to_nothing_gives_zero():
    q, k, v = tensors(1, 1, 4, 3)
    mask = create_block_mask(lambda b, h, i, j: i > 1, None, None, 4, 4)
    out = flex_attention(q, k, v, block_mask=mask)
    grads = gl.autograd.grad(out.sum(), (q, k, v))
    assert out[0, 0, :2].tolist() == [[0.0] * 3] * 2
    assert all(bool(g.isfinite().all()) for g in grads)


def test_blocks_that_are_not_listed_are_hidden():
    q, k, v = tensors(1, 1, 4, 3)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 4, 4, BLOCK_SIZE=2)
    first = mask[0]  # has no function: all of its blocks are shown
    shown = flex_attention(q, k, v, block_mask=first)
    blocks = gl.tensor([[True] * 2 + [False] * 2] * 2 + [[True] * 4] * 2)
    assert gl.allclose(shown, scaled_dot_product_attention(q, k, v, attn_mask=blocks))


def test_a_mask_for_other_lengths_is_refused():
    q, k, v = tensors(1, 1, 4, 3)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 8, 8)
    with pytest.raises(ValueError, match="block_mask was created for"):
        flex_attention(q, k, v, block_mask=mask)
    assert flex_attention(q, k, v, block_mask=mask._adjust(4, 4)).shape == (1, 1, 4, 3)
