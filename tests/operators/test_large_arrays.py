"""What kernels of large arrays make of the numbers that need care: zeros, signs, infinities, extreme sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import remainders

pytestmark = pytest.mark.host  # NumPy's kernels

SPECIAL = np.array([0.0, -0.0, 1.0, -6.0, 6.0, 3.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], "f4")


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def with_gradient(compute: Any, values: Any, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    x = gl.from_numpy(values.astype(dtype)).requires_grad_()
    out = compute(x)
    (grad,) = gl.autograd.grad(out.sum(), x)
    return out.detach().numpy(), grad.numpy()


# -- products ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "shape", [(100, 257), (1000, 8), (3, 4096), (1, 70000), (4500, 3), (7, 1000)]
)
def test_products_and_their_gradients(shape, dtype):
    values = (1 + 0.05 * drawn(*shape)).astype(dtype)
    for dim in (-1, None):
        out, grad = with_gradient(
            lambda x, d=dim: x.prod() if d is None else x.prod(d), values, dtype
        )
        logs = np.log(np.abs(values).astype("f8"))
        whole = np.exp(logs.sum(dim)) * np.sign(values).prod(dim)
        if dim is not None:
            whole = whole[:, None]
        if np.abs(whole).min() > 1e-30:  # of an ordinary size
            wide = {"rtol": 1e-6 if dtype == "f4" else 1e-10}
            np.testing.assert_allclose(out.reshape(np.shape(whole)), whole, **wide)
            np.testing.assert_allclose(grad, whole / values, **wide)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_with_zeros_have_exact_gradients(dtype):
    values = 1 + 0.01 * drawn(60, 100)
    values[3, 7] = values[5, 1] = values[5, 2] = 0
    out, grad = with_gradient(lambda x: x.prod(-1), values, dtype)
    assert out[3] == out[5] == 0 and not grad[5].any()
    others = np.delete(values[3], 7).prod()
    assert grad[3, 7] == pytest.approx(others, rel=1e-5) and np.count_nonzero(grad[3]) == 1


def test_products_that_would_leave_the_range_pairwise():
    """One factor after the other they do not."""
    values = np.ones((40, 128), "f4")
    values[:, ::4] = values[:, 1::4] = 1e30
    values[:, 2::4] = values[:, 3::4] = 1e-30
    wide = values.astype("f8")
    wide[:, 0::4], wide[:, 1::4] = 1e160, 1e-160
    wide[:, 2::4], wide[:, 3::4] = 1e160, 1e-160
    wide = wide[:, [*range(0, 128, 2), *range(1, 128, 2)]]  # 1e160 64 times, then 1e-160
    out, grad = with_gradient(lambda x: x.prod(-1), values, "f4")
    assert np.allclose(out, 1, rtol=1e-5) and np.allclose(grad * values, 1, rtol=1e-5)
    alternating = np.where(np.arange(128) % 2, 1e-200, 1e200) * np.ones((40, 1))
    out, grad = with_gradient(lambda x: x.prod(-1), alternating, "f8")
    assert np.allclose(out, 1) and np.allclose(grad[:, 0] * 1e200, 1)


# -- remainders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fmod", "remainder"])
@pytest.mark.parametrize("scale", [1.0, 1e-44, 1e30])
@pytest.mark.parametrize("other", [1.0, 1e-44, 1e-8, 1e30])
def test_remainders_are_numpys_to_the_last_bit(name, scale, other):
    function, own = getattr(np, name), getattr(gl, name)
    x, y = (drawn(5000) * scale).astype("f4"), (drawn(4999, 1)[:, 0] * other).astype("f4")
    y = np.append(y, y[:1])
    y[y == 0] = 1
    steps = np.random.default_rng(3).integers(-(2**27), 2**27, 5000)
    multiples = (y.astype("f8") * steps).astype("f4")  # nothing or nearly nothing is left
    for a in (x, multiples, np.nextafter(multiples, np.float32(0)), np.round(x)):
        found = own(gl.from_numpy(a), gl.from_numpy(y)).numpy()
        expected = function(a, y)
        nan = np.isnan(expected)
        assert (np.isnan(found) == nan).all()
        assert (found.view("i4")[~nan] == expected.view("i4")[~nan]).all()


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_of_special_numbers(name):
    for number in SPECIAL:
        for a, b in ((SPECIAL, number), (number, SPECIAL)):
            x, y = (np.resize(v, remainders.BLOCK + 100).astype("f4") for v in (a, b))
            found, expected = (
                getattr(gl, name)(gl.from_numpy(x), gl.from_numpy(y)).numpy(),
                getattr(np, name)(x, y),
            )
            np.testing.assert_array_equal(found, expected)
            some = ~np.isnan(expected)
            assert (np.signbit(found) == np.signbit(expected))[some].all()


# -- limits, signs, what is no number ----------------------------------------------------------------------------------


def test_special_numbers_elementwise():
    x = gl.from_numpy(np.resize(SPECIAL, 11 * 1000))
    few = gl.from_numpy(SPECIAL)

    def same(found: Any, expected: Any) -> None:
        found = found.numpy().reshape(1000, 11)
        np.testing.assert_array_equal(found, np.broadcast_to(expected, (1000, 11)))

    def zeros(found: Any) -> list:
        return np.signbit(found.numpy()[:2]).tolist()

    same(x.sign(), [0, 0, 1, -1, 1, 1, 1, -1, 0, 1, 1])
    same(x.clamp(min=2.0), np.where(SPECIAL < 2, np.float32(2), SPECIAL))
    same(x.clamp(max=2.0), np.where(SPECIAL > 2, np.float32(2), SPECIAL))
    assert (
        zeros(x.clamp(min=0.0)) == zeros(x.clamp(min=0)) == zeros(x.clamp(max=0.0)) == [False, True]
    )  # as PyTorch has it
    for function in (
        gl.nan_to_num, gl.nn.functional.elu, gl.nn.functional.softplus, gl.nn.functional.mish,
        gl.nn.functional.logsigmoid, gl.nn.functional.leaky_relu, gl.erf, gl.erfc,
    ):  # fmt: skip
        small = function(few).numpy()
        np.testing.assert_allclose(
            function(x).numpy().reshape(1000, 11), np.broadcast_to(small, (1000, 11)), rtol=3e-6
        )
    assert zeros(gl.nn.functional.elu(x)) == [False, True]


def test_nothing_to_replace_is_a_copy():
    x = gl.from_numpy(drawn(100, 100).astype("f4"))
    for some in (x, x.t()):
        out = some.nan_to_num()
        assert out.stride() == some.stride() and gl.equal(out, some)
        assert out.data_ptr() != some.data_ptr()


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 0.8, 1.0, -2.0, 7.0, math.nan])
def test_interpolation_meets_both_ends(weight):
    a, b = (drawn(300, k) for k in (300, 301))
    a, b = a.astype("f4"), b[:, :300].astype("f4")
    w = np.full((300, 300), weight, "f4")
    found = gl.lerp(*[gl.from_numpy(v) for v in (a, b, w)]).numpy()
    step = b - a
    expected = a + w * step if abs(weight) < 0.5 else b - step * (1 - w)
    np.testing.assert_array_equal(found, expected)


# -- norms of rows, and of differences ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [33, 1000, 1024, 2000, 2003, 5000])
def test_lengths_and_sums_of_rows(width):
    values = drawn(120, width).astype("f4")
    x, wide = gl.from_numpy(values), values.astype("f8")
    np.testing.assert_allclose(x.norm(dim=-1), np.sqrt((wide**2).sum(-1)), rtol=1e-6)
    positive = abs(x)
    np.testing.assert_allclose(positive.sum(-1), np.abs(wide).sum(-1), rtol=1e-6)
    assert x.norm(dim=-1, keepdim=True).shape == (120, 1)


def test_squared_errors():
    x, y = drawn(700, 433), drawn(700, 434)[:, :433]
    for reduction in ("mean", "sum"):
        made = [gl.from_numpy(v.astype("f4")).requires_grad_() for v in (x, y)]
        loss = gl.nn.functional.mse_loss(*made, reduction=reduction)
        total = ((made[0].detach().numpy().astype("f8") - made[1].detach().numpy()) ** 2).sum()
        count = x.size if reduction == "mean" else 1
        assert float(loss) == pytest.approx(total / count, rel=1e-6)
        first, second = gl.autograd.grad(loss, made)
        expected = 2 * (made[0] - made[1]).detach().numpy() / count
        np.testing.assert_allclose(first, expected, rtol=1e-6)
        np.testing.assert_array_equal(first.numpy(), -second.numpy())


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_gradients_of_norms_of_rows_that_are_far_from_zero(norm):
    """float32 against float64; the mean of a row is a thousand times its spread."""
    values = drawn(700, 300) + (1000 if norm == "layer_norm" else 3)
    given = [values.astype("f4"), drawn(300) + 2, drawn(700, 301)[:, :300]]
    grads = []
    for dtype in (gl.float32, gl.float64):
        x, w, g = (gl.from_numpy(np.ascontiguousarray(v)).to(dtype) for v in given)
        x.requires_grad_(), w.requires_grad_()
        out = getattr(gl.nn.functional, norm)(x, (300,), w)
        grads.append(gl.autograd.grad(out, [x, w], g))
    for single, exact in zip(*grads, strict=True):
        size = float(exact.abs().max())
        np.testing.assert_allclose(
            single.double() / size, exact / size, atol=3e-4 if norm == "layer_norm" else 3e-6
        )


def test_sums_of_exponentials():
    values = drawn(300, 400) * np.linspace(0, 300, 300)[:, None]
    values[7], values[8, 3], values[9, 3], values[10, :3] = -np.inf, np.inf, np.nan, -np.inf
    x = gl.from_numpy(values.astype("f4"))
    with np.errstate(all="ignore"):
        wide = x.double().numpy()
        top = np.where(np.isfinite(wide.max(1)), wide.max(1), 0)[:, None]
        expected = np.log(np.exp(wide - top).sum(1)) + top[:, 0]
    np.testing.assert_allclose(x.logsumexp(1), expected, rtol=1e-6)
    some = [0, 50, 100, 299]
    np.testing.assert_allclose(x[11:].logsumexp(1)[some[:3]], expected[11:][some[:3]], rtol=1e-6)
