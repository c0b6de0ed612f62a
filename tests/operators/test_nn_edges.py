"""Corners of the functional interface: empty and integer inputs, aliases, refused arguments, new functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as gl
import gradlib.nn.functional as F

# -- integers and empty inputs -----------------------------------------------------------------------------------------


def test_integers():
    x = gl.tensor([[[-7, 2, 9]]])
    assert F.hardtanh(x, -1.5, 4.5).tolist() == [[[-1, 2, 4]]]
    assert F.relu6(x).tolist() == [[[0, 2, 6]]]
    assert F.avg_pool1d(x, 2, 1).tolist() == [[[-2, 5]]]  # towards zero
    assert F.conv1d(x, gl.tensor([[[1, -1]]])).tolist() == [[[-9, -7]]]
    assert F.conv_transpose1d(x, gl.tensor([[[1, 2]]])).tolist() == [[[-7, -12, 13, 18]]]
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
        F.hardtanh(x.to(gl.uint8))
    with pytest.raises(RuntimeError, match="Boolean inputs not supported for relu"):
        F.relu(gl.tensor([True]))
    with pytest.raises(NotImplementedError, match="max_pool1d_impl"):
        F.max_pool1d(x, 2)


def test_padding_of_integer_maxima_is_less_than_every_element():
    x = gl.zeros(1, 1, 3, 3, dtype=gl.uint8)
    y, where = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert y.tolist() == [[[[0, 0], [0, 0]]]] and where.min() == 0


def test_empty_batches():
    assert F.pad(gl.zeros(0, 3, 4), (1, 2), "reflect").shape == (0, 3, 7)
    assert F.adaptive_max_pool2d(gl.zeros(0, 2, 4, 4), 2).shape == (0, 2, 2, 2)
    assert F.batch_norm(gl.zeros(0, 3), None, None).shape == (0, 3)
    assert F.rms_norm(gl.zeros(2, 0), (0,)).shape == (2, 0)
    with pytest.raises(RuntimeError, match="optional 0 dim batch size"):
        F.max_pool2d(gl.zeros(2, 0, 4, 4), 2)
    with pytest.raises(RuntimeError, match="possibly 0 batch size"):
        F.pad(gl.zeros(2, 3, 0), (1, 1), "replicate")
    with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions"):
        F.adaptive_avg_pool2d(gl.zeros(2, 3, 0, 4), 2)


def test_mean_cross_entropy_of_ignored_targets_alone_has_no_gradient():
    x = gl.randn(2, 3, requires_grad=True)
    loss = F.cross_entropy(x, gl.tensor([1, 1]), ignore_index=1)
    loss.backward()
    assert math.isnan(loss.item()) and not x.grad.abs().sum()


# -- aliases -----------------------------------------------------------------------------------------------------------


def test_dropout_of_nothing_is_its_input():
    x = gl.ones(2, 3, 4)
    for fn in (F.dropout, F.dropout1d, F.alpha_dropout, F.feature_alpha_dropout):
        assert fn(x, 0.0, True) is x and fn(x, 0.5, False) is x
    x = gl.ones(2, 3, 4, 1)
    assert F.dropout3d(x, 0.0, True) is x and F.dropout3d(x, 0.5, False) is x


def test_shuffles_never_share_memory_with_their_input():
    x = gl.ones(1, 4, 1, 3)
    for y in (
        F.pixel_shuffle(x, 1),
        F.pixel_unshuffle(x, 1),
        F.channel_shuffle(x, 1),
        F.pixel_shuffle(x, 2),
    ):
        assert not np.may_share_memory(x.numpy(), y.numpy())


# -- shapes ------------------------------------------------------------------------------------------------------------


def test_negative_circular_padding_wraps_what_is_left():
    x = gl.arange(4.0).view(1, 1, 4)
    assert F.pad(x, (-1, 2), "circular").tolist() == [[[1, 2, 3, 1, 2]]]


def test_gradient_of_a_broadcast_bias_has_its_shape():
    b = gl.zeros(1, requires_grad=True)
    F.linear(gl.ones(2, 3), gl.ones(4, 3), b).sum().backward()
    assert b.grad.tolist() == [8]


def test_transposed_convolution_with_an_output_padding_beyond_its_stride():
    x = gl.randn(2, 2, 4, dtype=gl.float64, requires_grad=True)
    w = gl.randn(2, 1, 3, dtype=gl.float64, requires_grad=True)

    def run(x, w):
        return F.conv_transpose1d(x, w, stride=2, output_padding=3, dilation=4, padding=1)

    assert gl.autograd.gradcheck(run, (x, w)) and gl.autograd.gradgradcheck(run, (x, w))


def test_ctc_gradient_is_that_of_normalised_scores():
    scores = gl.randn(5, 2, 4, dtype=gl.float64, requires_grad=True)
    logs = scores.log_softmax(2).detach().requires_grad_()
    targets, lengths = gl.tensor([[1, 2], [3, 3]]), (5, 4)
    F.ctc_loss(scores.log_softmax(2), targets, lengths, (2, 2), reduction="sum").backward()
    F.ctc_loss(logs, targets, lengths, (2, 2), reduction="sum").backward()
    np.testing.assert_allclose(logs.grad.numpy(), scores.grad.numpy(), atol=1e-12)
    assert not logs.grad[4, 1].abs().sum()  # after the end of a sequence


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_images_of_bytes_are_resized_with_rounding():
    x = gl.tensor([[[[0, 255], [255, 0]]]], dtype=gl.uint8)
    y = F.interpolate(x, (3, 3), mode="bilinear", align_corners=True)
    assert y.dtype is gl.uint8 and y[0, 0, 1].tolist() == [128, 128, 128]
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.interpolate(gl.zeros(1, 1, 2, 2, dtype=gl.int64), 3)


# -- new functions -----------------------------------------------------------------------------------------------------


def test_native_normalisations_return_their_statistics():
    x = gl.randn(2, 4, 3, dtype=gl.float64, requires_grad=True)
    out, mean, rstd = gl.native_layer_norm(x, (3,), None, None, 1e-5)
    assert mean.shape == (2, 4, 1) and not mean.requires_grad
    np.testing.assert_allclose(
        ((x - mean) * rstd).detach().numpy(), out.detach().numpy(), atol=1e-12
    )
    out, mean, rstd = gl.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
    assert mean.shape == (2, 2) and mean.requires_grad
    out, mean, rstd = gl.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    assert mean.shape == (4,) and not mean.requires_grad


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_linear_cross_entropy_in_pieces_equals_the_whole(reduction):
    x = gl.randn(7, 3, dtype=gl.float64, requires_grad=True)
    w = gl.randn(5, 3, dtype=gl.float64, requires_grad=True)
    b = gl.randn(5, dtype=gl.float64, requires_grad=True)
    target, weight = gl.tensor([0, 1, 2, 3, 4, 0, 1]), gl.rand(5, dtype=gl.float64)
    results = []
    for options in (None, gl.nn.LinearCrossEntropyOptions(batch_chunk_size=2)):
        loss = F.linear_cross_entropy(
            x, w, target, linear_bias=b, weight=weight, reduction=reduction, ignore_index=2,
            label_smoothing=0.1, options=options,
        )  # fmt: skip
        grads = gl.autograd.grad(loss.sum(), (x, w, b))
        results.append([loss.detach().numpy(), *(g.numpy() for g in grads)])
    for whole, pieces in zip(*results, strict=True):
        np.testing.assert_allclose(pieces, whole, atol=1e-12)


def test_linear_cross_entropy_refuses():
    x, w, y = gl.ones(2, 3), gl.ones(4, 3), gl.tensor([0, 1])
    with pytest.raises(RuntimeError, match="expected linear_bias shape"):
        F.linear_cross_entropy(x, w, y, linear_bias=gl.ones(2))
    with pytest.raises(RuntimeError, match="in_features"):
        F.linear_cross_entropy(x, gl.ones(4, 2), y)
    with pytest.raises(ValueError, match="batch_chunk_size"):
        gl.nn.LinearCrossEntropyOptions(batch_chunk_size=0)


def test_grouped_mm_multiplies_each_group_with_its_own_matrix():
    a, b = gl.randn(6, 2, requires_grad=True), gl.randn(2, 2, 3)
    offs = gl.tensor([2, 5], dtype=gl.int32)
    out = F.grouped_mm(a, b, offs=offs)
    np.testing.assert_allclose(
        out[2:5].detach().numpy(), (a[2:5] @ b[1]).detach().numpy(), rtol=1e-5
    )
    assert out.shape == (6, 3) and not out[5].abs().sum()
    both = F.grouped_mm(a.T, gl.randn(6, 4), offs=offs)
    assert both.shape == (2, 2, 4)
    with pytest.raises(RuntimeError, match="Offsets have to be int32"):
        F.grouped_mm(a, b, offs=gl.tensor([2, 5]))
    with pytest.raises(RuntimeError, match="Have to provide offsets"):
        F.grouped_mm(a, b)


def test_losses_refuse_what_has_no_meaning():
    x = gl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        F.binary_cross_entropy_with_logits(x, gl.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'target'"):
        F.soft_margin_loss(x, gl.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="Integral inputs not supported"):
        F.kl_div(x, gl.tensor([0, 1]), reduction="sum")
    with pytest.raises(RuntimeError, match="expected target dtype to be Long or Byte, but got Int"):
        F.cross_entropy(gl.ones(2, 3), gl.tensor([0, 1], dtype=gl.int32))
    with pytest.raises(ValueError, match="eps must be positive during training"):
        F.batch_norm(gl.ones(2, 3), None, None, training=True, eps=0.0)


@pytest.mark.parametrize("name", ["gelu", "softplus", "logsigmoid", "hardshrink", "softshrink"])
def test_results_into_a_given_tensor(name):
    x, out = gl.randn(3), gl.empty(3)
    assert getattr(F, name)(x, out=out) is out
    np.testing.assert_array_equal(out.numpy(), getattr(F, name)(x).numpy())


@pytest.mark.parametrize("kind", [gl.float64, gl.bfloat16])
def test_a_normalisation_with_a_bias_alone_has_gradients(kind):
    stored = gl.float32 if kind is gl.bfloat16 else kind
    norms = [
        lambda x, b: F.batch_norm(x, None, None, None, b, training=True),
        lambda x, b: F.layer_norm(x, (4,), None, b),
        lambda x, b: F.group_norm(x, 2, None, b),
    ]
    for norm in norms:
        x, b = gl.randn(5, 4).to(kind).requires_grad_(), gl.zeros(4, dtype=stored)
        b.requires_grad_()
        dx, db = gl.autograd.grad(norm(x, b).square().sum(), (x, b), create_graph=True)
        wanted = 2 * norm(x, b).sum(0).detach()
        assert gl.allclose(db.to(kind), wanted, atol=0.1 if kind is gl.bfloat16 else 1e-12)
        assert dx.dtype is kind and db.dtype is stored
        (second,) = gl.autograd.grad(db.sum(), b)
        assert second.tolist() == [10.0] * 4
