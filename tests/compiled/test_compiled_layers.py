"""Layers that numba compiles: cross_entropy, batch_norm, attention and max pooling beside float64."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import overlays
from gradlib.nn import functional as F
from gradlib.op.overlays import off
from tests.compiled.beside import close, drawn, with_gradients

pytestmark = pytest.mark.host
inf, nan = math.inf, math.nan
overlays.names()  # imports all modules in their order


# -- cross_entropy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [40, 2000])  # on one thread, in blocks
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction, rows):
    x, classes = drawn(rows, 50, scale=4), gl.from_numpy(np.arange(rows) * 7 % 50)
    classes[::9] = -100
    weight = drawn(50, seed=1).abs() + 0.5
    how = {"reduction": reduction}
    close(lambda x: F.cross_entropy(x, classes, weight.to(x.dtype), **how), x)
    close(lambda x: F.cross_entropy(x, classes, **how), x)

    close(lambda x: F.cross_entropy(x, classes.clamp(min=0), ignore_index=7, **how), x)
    close(lambda x: F.cross_entropy(x, classes.clamp(min=0).to(gl.uint8), **how), x)
    for wrong in (43, -50):
        with pytest.raises(IndexError, match="is out of bounds"):
            F.cross_entropy(x, classes.clamp(min=0) + wrong, **how)


def test_cross_entropy_of_classes_that_are_all_ignored():
    x = drawn(30, 20).requires_grad_()
    loss = F.cross_entropy(x, gl.full((30,), -100))
    loss.backward()
    assert x.grad is not None
    assert loss.isnan() and not x.grad.any()


def test_classes_that_a_hook_unpacks_are_looked_at_before_they_are_used():
    x, classes = drawn(30, 20).requires_grad_(), gl.arange(30) % 20
    spoilt = lambda t: t + 1_000_000 if t.dtype is gl.int64 else t
    with gl.autograd.graph.saved_tensors_hooks(lambda t: t, spoilt):
        loss = F.cross_entropy(x, classes)
    with pytest.raises(IndexError, match="is out of bounds"):
        loss.backward()


def test_cross_entropy_of_scores_that_are_no_numbers():
    x, classes = drawn(30, 20), gl.arange(30) % 20
    x[0, 3], x[1, 2], x[2], x[3, 3], x[4, :4] = nan, inf, -inf, -inf, -inf
    found = F.cross_entropy(x, classes, reduction="none")
    with off():
        exact = F.cross_entropy(x, classes, reduction="none")
    assert gl.allclose(found, exact, rtol=1e-5, atol=1e-6, equal_nan=True)


# -- batch_norm --------------------------------------------------------------------------------------------------------

SHAPES = (6, 5, 9, 11), (3, 4, 5000), (8, 4, 8, 8), (40, 7, 3), (50, 30), (3000, 40)


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm(shape):
    c = shape[1]
    x, w, b = drawn(*shape, scale=2) + 1, drawn(c, seed=1), drawn(c, seed=2)

    def norm(x, w=None, b=None, training=True):
        mean, var = gl.linspace(0, 1, c).to(x.dtype), gl.linspace(1, 2, c).to(x.dtype)
        w, b = (None if t is None else t.to(x.dtype) for t in (w, b))
        out = F.batch_norm(x, mean, var, w, b, training)
        return out + mean.sum() + var.sum()  # what was moved

    close(norm, x, w, b, eps=3e-6)
    close(norm, x, eps=3e-6)
    close(lambda w, b: norm(x.to(w.dtype), w, b), w, b, eps=3e-6)
    close(lambda x, w, b: norm(x, w, b, False), x, w, b, eps=3e-6)
    close(
        lambda x: norm(x.contiguous(memory_format=gl.channels_last) if x.ndim == 4 else x),
        x,
        eps=3e-6,
    )


@pytest.mark.parametrize("how", [{}, {"momentum": None}, {"momentum": 0.3, "affine": False}])
def test_running_statistics_of_small_batches(how):
    layer = gl.nn.BatchNorm1d(20, **how)
    other = copy.deepcopy(layer)
    for seed in range(3):
        x = drawn(6, 20, seed=seed) * 3 + 1
        versions = [t._version for t in layer.buffers()]
        found = layer(x)
        assert [t._version for t in layer.buffers()] == [v + 1 for v in versions]
        with off():
            assert gl.allclose(found, other(x), rtol=1e-5, atol=1e-5)
    for a, b in zip(layer.buffers(), other.buffers(), strict=True):
        assert gl.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_running_statistics_that_lie_in_another_order():
    mean, var = gl.zeros(20, 2)[:, 0], gl.ones(20, 2)[:, 1]
    dense = mean.clone(), var.clone()
    x = drawn(6, 20)
    F.batch_norm(x, mean, var, training=True)
    F.batch_norm(x, *dense, training=True)
    assert mean.any() and gl.allclose(mean, dense[0]) and gl.allclose(var, dense[1])


def test_running_statistics_move_in_captured_steps():
    layer = gl.nn.BatchNorm1d(20)
    other = copy.deepcopy(layer)
    step = gl.capture(layer)
    for seed in range(6):
        x = drawn(6, 20, seed=seed)
        found, wanted = step(x), other(x)
        assert gl.equal(found, wanted)
        assert all([gl.equal(a, b) for a, b in zip(layer.buffers(), other.buffers(), strict=True)])


# -- attention ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (2, 3)])
@pytest.mark.parametrize(("length", "keys"), [(1, 5), (32, 32), (70, 40), (300, 300)])
def test_attention(lead, length, keys):
    q, k, v = (drawn(*lead, n, 16, seed=i) for i, n in enumerate((length, keys, keys)))
    mask = drawn(length, keys, seed=3)
    attend = F.scaled_dot_product_attention
    close(lambda q, k, v: attend(q, k, v), q, k, v, eps=3e-6)
    close(lambda q, k, v: attend(q, k, v, is_causal=True), q, k, v, eps=3e-6)
    close(lambda q, k, v: attend(q, k, v, mask.to(q.dtype)), q, k, v, eps=3e-6)
    close(lambda q, k, v: attend(q, k, v, mask > 0), q, k, v, eps=3e-6)
    close(lambda q, k, v: attend(q * 30, k, v), q, k, v, eps=1e-4)


def test_attention_where_nothing_is_allowed_or_scores_are_no_numbers():
    q, k, v = (drawn(2, 8, 4, seed=i) for i in range(3))
    allowed = drawn(8, 8, seed=3) > 0
    allowed[2] = False
    for mask in (allowed, gl.where(allowed, 0.0, -inf)):
        found = with_gradients(
            lambda q, k, v, m=mask: F.scaled_dot_product_attention(q, k, v, m), q, k, v
        )
        with off():
            exact = with_gradients(
                lambda q, k, v, m=mask: F.scaled_dot_product_attention(q, k, v, m), q, k, v
            )
        assert not found[0][:, 2].any()
        for a, b in zip(found, exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    mask = gl.zeros(8, 8)
    mask[0, 1], mask[1], mask[2, 2] = nan, -inf, inf
    mask[1, 3] = -nan
    found = F.scaled_dot_product_attention(q, k, v, mask)
    assert found[:, :3].isnan().all() and found[:, 3:].isfinite().all()


# -- max pooling -------------------------------------------------------------------------------------------------------

WINDOWS = [
    (2,), (3, 2, 1), (2, 2, 1), (3, 1, 1, 2), (2, 2, 1, 2), (3, 2, 1, 1, True), ((2, 3), (1, 2), (1, 0)), (17, 1, 8),
]  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 3, 18, 17), (5, 20, 19), (3, 4, 150, 160)])
@pytest.mark.parametrize("how", WINDOWS)
def test_max_pool(shape, how):
    x = gl.from_numpy(
        np.random.default_rng(0).permutation(math.prod(shape)).astype(np.float32)
    ).reshape(shape)
    close(lambda x: F.max_pool2d(x, *how), x)
    close(lambda x: F.max_pool2d(x, *how, return_indices=True)[0], x)
    with off():
        exact = F.max_pool2d(x, *how, return_indices=True)
    found = F.max_pool2d(x, *how, return_indices=True)
    assert gl.equal(found[0], exact[0]) and gl.equal(found[1], exact[1])
    if len(shape) == 3 and isinstance(how[0], int):
        close(lambda x: F.max_pool1d(x, *how), x)


@pytest.mark.parametrize("how", [(2,), (3, 2, 1), (2, 1, 1, 2)])
def test_max_pool_of_equal_numbers_and_of_none(how):
    x = gl.from_numpy(np.random.default_rng(0).integers(-1, 2, (3, 9, 8)).astype(np.float32))
    x[0] = -inf
    x[1, ::3, ::2] = nan
    found = F.max_pool2d(x, *how, return_indices=True)
    with off():
        exact = F.max_pool2d(x, *how, return_indices=True)
    for a, b in zip(found, exact, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_max_pool_where_a_window_has_no_number():
    x = drawn(1, 1, 1, 30).requires_grad_()
    y = F.max_pool2d(x, 2, 1, 1, 2)
    y.sum().backward()
    with off():
        other = x.detach().requires_grad_()
        F.max_pool2d(other, 2, 1, 1, 2).sum().backward()
    assert x.grad is not None and other.grad is not None and gl.equal(x.grad, other.grad)


# -- gradients that repeat one number ----------------------------------------------------------------------------------

REPEATED = {
    "softmax": lambda x: gl.softmax(x, 1), "log_softmax": lambda x: gl.log_softmax(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, (30,)), "rms_norm": lambda x: F.rms_norm(x, (30,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True), "cumprod": lambda x: x.cumprod(1),
    "group_norm": lambda x: F.group_norm(x.reshape(20, 6, 5), 3),
    "max_pool": lambda x: F.max_pool1d(x.reshape(1, 20, 30), 3, 2, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_gradients_of_sums(name):
    x = (drawn(20, 30).abs() + 0.5).requires_grad_()
    y = REPEATED[name](x)
    (found,) = gl.autograd.grad(y.sum(), x, retain_graph=True)
    (wanted,) = gl.autograd.grad(y, x, gl.ones(y.shape))
    assert gl.allclose(found, wanted, rtol=1e-5, atol=1e-6)
