"""Normalisation, convolution, pooling, embedding, dropout, attention, images: known values, corners, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as gl
import gradlib.nn.functional as F

# -- normalisation -----------------------------------------------------------------------------------------------------


def test_batch_norm_moves_running_statistics_outside_the_graph():
    x = gl.tensor([[1.0, 2.0], [3.0, 6.0]], requires_grad=True)
    mean, var = gl.zeros(2), gl.ones(2)
    y = F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.tolist() == [1, 2] and var.tolist() == [
        1.5,
        4.5,
    ]  # the variance is the unbiased one
    assert not mean.requires_grad and mean._version == 1
    assert y.grad_fn.name() == "NativeBatchNormBackward0"
    still = F.batch_norm(x, mean, var)
    assert mean._version == 1 and still.shape == x.shape


def test_batch_norm_of_channels_last_storage_equals_contiguous():
    x = gl.randn(2, 3, 4, 5)
    last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    results = []
    for leaf in (x.clone(), last):
        leaf.requires_grad_()
        y = F.batch_norm(leaf, None, None, gl.tensor([1.0, 2.0, 3.0]), training=True)
        (y * gl.arange(120.0).view(2, 3, 4, 5)).sum().backward()
        results.append((y.detach().numpy(), leaf.grad.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], atol=1e-5)
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-3)


def test_gradients_of_layer_norm_of_many_rows_have_the_dtypes_of_what_they_belong_to():
    x, scale = gl.randn(2000, 96), gl.ones(96, requires_grad=True)
    weight, bias = scale * 2, scale * 0.5  # made by ops: nobody converts what arrives there
    y = F.layer_norm(x, (96,), weight, bias)
    found = gl.autograd.grad(y.sum(), (weight, bias))
    assert [g.dtype for g in found] == [gl.float32, gl.float32]


def test_layer_norm_of_many_rows():
    x = gl.randn(5000, 16, dtype=gl.float64, requires_grad=True)
    y = F.layer_norm(x, (16,))
    np.testing.assert_allclose(y.detach().numpy().mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(y.detach().numpy().var(1), 1, atol=1e-3)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 0, atol=1e-10)


def test_normalisation_errors():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        F.batch_norm(gl.ones(1, 3), None, None, training=True)
    with pytest.raises(RuntimeError, match="running_mean should contain 3 elements not 2"):
        F.batch_norm(gl.ones(2, 3), gl.ones(2), gl.ones(3))
    with pytest.raises(
        RuntimeError, match=r"Given normalized_shape=\[4\], expected input with shape \[\*, 4\]"
    ):
        F.layer_norm(gl.ones(2, 3), (4,))
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        F.group_norm(gl.ones(2, 3, 2), 2)


# -- convolution -------------------------------------------------------------------------------------------------------


def test_conv2d_known_value_and_layout():
    x = gl.arange(16.0).view(1, 1, 4, 4)
    y = F.conv2d(x, gl.ones(1, 1, 2, 2))
    assert y[0, 0].tolist() == [[10, 14, 18], [26, 30, 34], [42, 46, 50]]
    assert F.conv2d(gl.randn(2, 3, 8, 8), gl.randn(4, 3, 3, 3), padding=1).is_contiguous()
    assert F.conv2d(x.double(), gl.ones(1, 1, 2, 2, dtype=gl.float64)).dtype is gl.float64
    assert F.conv2d(gl.ones(0, 1, 4, 4), gl.ones(2, 1, 3, 3)).shape == (0, 2, 2, 2)


@pytest.mark.parametrize("images", [1, 3, 70])
def test_blocks_of_images_equal_single_images(images):
    """Convolution and both gradients do not depend on how many images share a matrix of patches."""
    x = gl.randn(images, 2, 6, 5, dtype=gl.float64, requires_grad=True)
    w = gl.randn(3, 2, 3, 3, dtype=gl.float64, requires_grad=True)
    for stride in (1, 2):
        y = F.conv2d(x, w, stride=stride, padding=1)
        g = gl.randn(*y.shape, dtype=gl.float64)
        dx, dw = gl.autograd.grad(y, (x, w), g)
        parts = [
            gl.autograd.grad(
                F.conv2d(x[i : i + 1], w, stride=stride, padding=1), (x, w), g[i : i + 1]
            )
            for i in range(images)
        ]
        np.testing.assert_allclose(dx.numpy(), sum(p[0].numpy() for p in parts), atol=1e-12)
        np.testing.assert_allclose(dw.numpy(), sum(p[1].numpy() for p in parts), atol=1e-12)


def test_conv_transpose_is_the_gradient_of_conv():
    x, w = gl.randn(2, 3, 7, 7, requires_grad=True), gl.randn(4, 3, 3, 3)
    y = F.conv2d(x, w, stride=2, padding=1)
    g = gl.randn(*y.shape)
    (dx,) = gl.autograd.grad(y, x, g)
    np.testing.assert_allclose(
        F.conv_transpose2d(g, w, stride=2, padding=1).numpy(), dx.numpy(), atol=1e-5
    )


def test_convolution_errors():
    x, w = gl.ones(1, 3, 5, 5), gl.ones(4, 4, 3, 3)
    with pytest.raises(
        RuntimeError,
        match=r"expected input\[1, 3, 5, 5\] to have 4 channels, but got 3 channels instead",
    ):
        F.conv2d(x, w)
    with pytest.raises(
        RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d"
    ):
        F.conv2d(gl.ones(3), w)
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        F.conv2d(gl.ones(1, 4, 2, 2), w)
    with pytest.raises(
        RuntimeError, match="padding='same' is not supported for strided convolutions"
    ):
        F.conv2d(gl.ones(1, 4, 5, 5), w, stride=2, padding="same")
    with pytest.raises(
        RuntimeError, match="output padding must be smaller than either stride or dilation"
    ):
        F.conv_transpose2d(gl.ones(1, 4, 5, 5), w, output_padding=1)


# -- pooling -----------------------------------------------------------------------------------------------------------


def test_max_pool_picks_the_first_of_equal_maxima():
    x = gl.zeros(1, 1, 2, 4, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad[0, 0].tolist() == [[1, 0, 1, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("size", [4, 64], ids=["small", "large"])
@pytest.mark.parametrize("pool", [F.max_pool2d, F.adaptive_max_pool2d])
def test_the_index_of_a_maximum_that_is_nan_is_that_of_the_nan(pool, size):
    values = np.arange(float(size * size)).reshape(1, 1, size, size)
    values[0, 0, 0, 0] = values[0, 0, 3, 2] = np.nan
    x = gl.tensor(values.tolist(), requires_grad=True)
    y, where = pool(x, 2 if pool is F.max_pool2d else size // 2, return_indices=True)
    y.sum().backward()
    assert where[0, 0, 0, 0].item() == 0 and where[0, 0, 1, 1].item() == 3 * size + 2
    assert gl.equal(x.flatten()[where.flatten()].isnan(), y.flatten().isnan())
    assert x.grad[0, 0, 0, 0].item() == x.grad[0, 0, 3, 2].item() == 1


@pytest.mark.parametrize("size", [5, 65], ids=["small", "large"])
def test_the_index_of_a_maximum_is_never_one_of_the_padding(size):
    x = gl.full((1, 1, size, size), -math.inf)
    where = F.max_pool2d(x, 3, 2, 1, return_indices=True)[1]
    assert where[0, 0, 0, 0].item() == 0 and where[0, 0, 1, 1].item() == size + 1
    assert where.min().item() >= 0 and where.max().item() < size * size


def test_max_pool_indices_invert_it():
    x = gl.arange(16.0).view(1, 1, 4, 4)
    y, where = F.max_pool2d(x, 2, return_indices=True)
    assert where.dtype is gl.int64 and where[0, 0].tolist() == [[5, 7], [13, 15]]
    back = F.max_unpool2d(y, where, 2)
    assert back.sum().item() == y.sum().item() and back[0, 0, 1, 1].item() == 5


def test_pooling_keeps_integers_apart():
    assert F.max_pool2d(gl.arange(16).view(1, 1, 4, 4), 2).tolist() == [[[[5, 7], [13, 15]]]]
    # 64-bit integers are averaged towards zero
    assert F.avg_pool2d(gl.arange(16).view(1, 1, 4, 4) - 8, 2).tolist() == [[[[-5, -3], [2, 4]]]]
    with pytest.raises(NotImplementedError):
        F.avg_pool2d(gl.arange(16, dtype=gl.int32).view(1, 1, 4, 4), 2)


def test_average_pooling_counts():
    x = gl.ones(1, 1, 3)
    assert F.avg_pool1d(x, 3, 1, 1).tolist() == [[[2 / 3, 1, 2 / 3]]] or F.avg_pool1d(
        x, 3, 1, 1
    ).sum().item() == pytest.approx(7 / 3)
    assert F.avg_pool1d(x, 3, 1, 1, count_include_pad=False).tolist() == [[[1, 1, 1]]]
    assert F.adaptive_avg_pool1d(gl.arange(4.0).view(1, 1, 4), 2).tolist() == [[[0.5, 2.5]]]


def test_pooling_errors():
    with pytest.raises(RuntimeError, match="pad should be at most half of effective kernel size"):
        F.max_pool2d(gl.ones(1, 1, 4, 4), 2, padding=2)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.max_pool2d(gl.ones(1, 1, 2, 2), 3)
    with pytest.raises(RuntimeError, match=r"non-empty 3D or 4D .batch mode. tensor expected"):
        F.max_pool2d(gl.ones(2, 2), 2)


# -- embedding, dropout, attention -------------------------------------------------------------------------------------


def test_embedding_limits_norms():
    table = gl.tensor([[3.0, 4.0], [0.3, 0.4]])
    rows = F.embedding(gl.tensor([0, 1]), table, max_norm=1.0)
    np.testing.assert_allclose(rows.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    assert table._version == 1
    with pytest.raises(RuntimeError, match="Long, Int"):
        F.embedding(gl.tensor([0.5]), table)


@pytest.mark.host  # to look at indices on a device means to wait for it
@pytest.mark.parametrize("bad", [2, -1])
def test_embedding_checks_indices(bad):
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding(gl.tensor([bad]), gl.ones(2, 2))


@pytest.mark.parametrize("rows", [4, 400])
def test_embedding_gradient_adds_repeated_rows(rows):
    table = gl.ones(rows, 3, requires_grad=True)
    F.embedding(gl.tensor([[1, 1], [2, 0]]), table, padding_idx=2).sum().backward()
    assert table.grad[:4, 0].tolist() == [1, 2, 0, 0]


def test_one_hot():
    assert F.one_hot(gl.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(gl.tensor(1), 4).tolist() == [0, 1, 0, 0]
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        F.one_hot(gl.tensor([3]), 2)


def test_dropout_scales_and_is_the_identity_outside_training():
    x = gl.ones(200_000, requires_grad=True)
    y = F.dropout(x, 0.25)
    assert set(np.unique(y.detach().numpy())) == {0, np.float32(1 / 0.75)}
    assert y.mean().item() == pytest.approx(1, abs=0.01)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert F.dropout(x, 0.5, training=False) is x
    assert F.dropout(x, 1.0).sum().item() == 0
    rare = F.dropout(gl.ones(1_000_000), 1e-4)
    assert 0 < (rare == 0).sum().item() < 400
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        F.dropout(x, 1.5)


def test_dropout_of_channels_and_seed():
    y = F.dropout2d(gl.ones(8, 16, 3, 3))
    per_channel = y.numpy().reshape(128, 9)
    assert (per_channel == per_channel[:, :1]).all() and len(np.unique(per_channel)) == 2
    gl.manual_seed(3)
    a = F.dropout(gl.ones(50))
    gl.manual_seed(3)
    assert gl.equal(a, F.dropout(gl.ones(50)))
    z = F.alpha_dropout(gl.randn(100_000), 0.3, training=True)
    assert z.mean().item() == pytest.approx(0, abs=0.03) and z.std().item() == pytest.approx(
        1, abs=0.03
    )


def reference_attention(q, k, v, allowed):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return gl.softmax(s.masked_fill(~allowed, -math.inf), -1) @ v


@pytest.mark.parametrize("length", [5, 300])
def test_causal_attention_in_tiles_equals_the_formula(length):
    q, k, v = (gl.randn(2, 2, length, 8, dtype=gl.float64, requires_grad=True) for _ in range(3))
    allowed = gl.ones(length, length, dtype=gl.bool).tril()
    g = gl.randn(2, 2, length, 8, dtype=gl.float64)
    ours = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    theirs = reference_attention(q, k, v, allowed)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-12)
    for a, b in zip(
        gl.autograd.grad(ours, (q, k, v), g), gl.autograd.grad(theirs, (q, k, v), g), strict=True
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_attention_rows_without_keys_give_zero():
    q = gl.randn(1, 2, 4, requires_grad=True)
    mask = gl.tensor([[False, False], [True, True]])
    y = F.scaled_dot_product_attention(q, q, q, mask)
    assert (y[0, 0] == 0).all()
    y.sum().backward()
    assert np.isfinite(q.grad.numpy()).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3), (1, 0, 2, 3), (0, 1, 3, 2)]
)
def test_attention_takes_heads_as_they_lie(order, causal):
    """Strided, broadcast and transposed arguments; the result has the order of strides of the queries."""
    back = [order.index(i) for i in range(4)]
    shape = (2, 3, 5, 4)
    plain = [gl.randn(*shape, dtype=gl.float64, requires_grad=True) for _ in "qkv"]
    laid = [t.detach().permute(order).contiguous().permute(back) for t in plain]
    laid = [t.requires_grad_() for t in laid]
    allowed = gl.ones(5, 5, dtype=gl.bool)
    expected = reference_attention(*plain, allowed.tril() if causal else allowed)
    found = F.scaled_dot_product_attention(*laid, is_causal=causal)
    if order[-1] == 3 and not found.is_cuda:  # on a device its kernel decides (tests/kernels)
        assert found.permute(order).is_contiguous()
    gl.testing.assert_close(found, expected)
    g = gl.randn(*shape, dtype=gl.float64)
    wanted = gl.autograd.grad(expected, plain, g)
    for a, b in zip(gl.autograd.grad(found, laid, g), wanted, strict=True):
        gl.testing.assert_close(a, b)


def test_attention_of_broadcast_heads():
    q = gl.randn(2, 3, 5, 4, dtype=gl.float64, requires_grad=True)
    k, v = (gl.randn(2, 1, 6, 4, dtype=gl.float64, requires_grad=True) for _ in "kv")
    found = F.scaled_dot_product_attention(q, k, v)
    expected = reference_attention(q, k, v, gl.ones(5, 6, dtype=gl.bool))
    gl.testing.assert_close(found, expected)
    one = gl.ones((), dtype=gl.float64)  # its gradients are broadcast, too
    for a, b in zip(
        gl.autograd.grad(found.sum(), (q, k, v), one),
        gl.autograd.grad(expected.sum(), (q, k, v), one),
        strict=True,
    ):
        gl.testing.assert_close(a, b)
    one_query = F.scaled_dot_product_attention(q[:1, :1].expand(2, 3, 5, 4), k, v)
    gl.testing.assert_close(
        one_query[1, 2], F.scaled_dot_product_attention(q[0, 0], k[1, 0], v[1, 0])
    )


def test_backward_of_attention_uses_the_result_and_the_logarithms_of_sums():
    """Both are saved, go through saved-tensor hooks, and a change of the result is noticed."""
    q, k, v = (gl.randn(2, 5, 4, dtype=gl.float64, requires_grad=True) for _ in "qkv")
    packed = []
    with gl.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t) or len(packed) - 1, lambda i: packed[i] * 1.0
    ):
        out = F.scaled_dot_product_attention(q, k, v)
    assert sorted(t.shape for t in packed) == [(2, 5), *4 * [(2, 5, 4)]]
    found = gl.autograd.grad(out.sum(), (q, k, v))
    plain = F.scaled_dot_product_attention(q, k, v)
    assert gl.equal(plain.grad_fn._saved_result, plain)
    for a, b in zip(found, gl.autograd.grad(plain.sum(), (q, k, v)), strict=True):
        gl.testing.assert_close(a, b)
    changed = F.scaled_dot_product_attention(q, k, v)
    changed.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        changed.sum().backward()


def test_attention_rows_without_keys_give_zero_with_dropout():
    q = gl.randn(1, 2, 4, requires_grad=True)
    mask = gl.tensor([[False, False], [True, True]])
    for m in (mask, gl.where(mask, 0.0, -math.inf)):
        y = F.scaled_dot_product_attention(q, q, q, m, dropout_p=0.5)
        assert (y[0, 0] == 0).all()
        (g,) = gl.autograd.grad(y.sum(), q)
        assert g.isfinite().all()
    y = F.scaled_dot_product_attention(q, q, q, mask)
    (g,) = gl.autograd.grad(y.sum(), q, create_graph=True)
    assert gl.autograd.grad(g.sum(), q)[0].isfinite().all()


def test_attention_errors():
    q = gl.ones(2, 3, 4)
    with pytest.raises(RuntimeError, match="should not be set when is_causal=True"):
        F.scaled_dot_product_attention(q, q, q, gl.ones(3, 3), is_causal=True)
    with pytest.raises(RuntimeError, match="to have the same dtype"):
        F.scaled_dot_product_attention(q, q.double(), q)


# -- images ------------------------------------------------------------------------------------------------------------


def test_pad_modes():
    x = gl.arange(4.0).view(1, 1, 4)
    assert F.pad(x, (1, 2)).tolist() == [[[0, 0, 1, 2, 3, 0, 0]]]
    assert F.pad(x, (-1, 1), value=9).tolist() == [[[1, 2, 3, 9]]]
    assert F.pad(x, (2, 1), "reflect").tolist() == [[[2, 1, 0, 1, 2, 3, 2]]]
    assert F.pad(x, (2, 1), "replicate").tolist() == [[[0, 0, 0, 1, 2, 3, 3]]]
    assert F.pad(x, (2, 1), "circular").tolist() == [[[2, 3, 0, 1, 2, 3, 0]]]
    with pytest.raises(RuntimeError, match="Padding length must be divisible by 2"):
        F.pad(x, (1,))
    with pytest.raises(
        RuntimeError, match="Padding size should be less than the corresponding input dimension"
    ):
        F.pad(x, (4, 0), "reflect")


def test_fold_of_unfold_counts_the_windows():
    x = gl.ones(1, 1, 3, 3)
    back = F.fold(F.unfold(x, 2), (3, 3), 2)
    assert back[0, 0].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]


def test_interpolate_and_shuffles():
    x = gl.arange(4.0).view(1, 1, 2, 2)
    assert F.interpolate(x, scale_factor=2)[0, 0].tolist() == [
        [0, 0, 1, 1],
        [0, 0, 1, 1],
        [2, 2, 3, 3],
        [2, 2, 3, 3],
    ]
    assert F.interpolate(x, size=(3, 3), mode="bilinear", align_corners=True)[0, 0, 1].tolist() == [
        1,
        1.5,
        2,
    ]
    y = gl.arange(16.0).view(1, 4, 2, 2)
    assert gl.equal(F.pixel_unshuffle(F.pixel_shuffle(y, 2), 2), y)
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        F.interpolate(x, size=3, scale_factor=2)


def test_grid_sample_of_the_identity_grid():
    x = gl.randn(2, 3, 4, 5)
    theta = gl.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2)
    for corners in (False, True):
        grid = F.affine_grid(theta, (2, 3, 4, 5), align_corners=corners)
        np.testing.assert_allclose(
            F.grid_sample(x, grid, align_corners=corners).numpy(), x.numpy(), atol=1e-5
        )


def test_layer_norm_with_a_bias_and_no_weight_twice():
    x, bias = (
        gl.tensor([[0.3, -1.0, 2.0], [1.0, 0.5, -0.7]], dtype=gl.float64, requires_grad=True),
        gl.tensor([0.1, 0.2, -0.4], dtype=gl.float64, requires_grad=True),
    )
    assert gl.autograd.gradgradcheck(lambda x, b: F.layer_norm(x, (3,), None, b, 0.5), (x, bias))


@pytest.mark.parametrize(("mode", "last"), [("sum", 12.0), ("mean", 6.0), ("max", 10.0)])
def test_bags_end_at_the_last_offset(mode, last):
    w = gl.tensor([[1.0], [2.0], [10.0], [100.0]], requires_grad=True)
    out = F.embedding_bag(
        gl.tensor([0, 1, 2, 3]), w, gl.tensor([0, 1, 3]), mode=mode, include_last_offset=True
    )
    assert out.tolist() == [[1.0], [last]]
    out.sum().backward()
    assert w.grad[3].item() == 0


def test_decreasing_offsets_are_refused():
    with pytest.raises(RuntimeError, match="offsets must not decrease"):
        F.embedding_bag(gl.tensor([0, 1, 2]), gl.ones(3, 1), gl.tensor([0, 2, 1]))
