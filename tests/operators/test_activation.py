"""Activations, softmax, special functions: known values, corners, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as gl
import gradlib.nn.functional as F
import gradlib.special


def slope(fn, *points):
    """The gradient of `fn` at each point."""
    x = gl.tensor(points, dtype=gl.float64, requires_grad=True)
    fn(x).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize(
    ("fn", "points", "expected"),
    [
        (lambda x: F.leaky_relu(x, 0.1), (-1, 0, 1), [0.1, 0.1, 1]),
        (F.relu6, (0, 3, 6), [0, 1, 0]),
        (F.hardtanh, (-1, 0, 1), [0, 1, 0]),
        (F.hardsigmoid, (-3, 0, 3), [0, 1 / 6, 0]),
        (F.hardswish, (-3, 3, 5), [0, 1, 1]),
        (lambda x: F.threshold(x, 1, 0), (0, 1, 2), [0, 0, 1]),
        (F.hardshrink, (-0.5, 0.5, 1), [0, 0, 1]),
        (F.softshrink, (-0.5, 0.5, 1), [0, 0, 1]),
        (F.elu, (0, 1), [1, 1]),
        (F.relu, (0, 1), [0, 1]),
    ],
)
def test_subgradients_at_corners(fn, points, expected):
    np.testing.assert_allclose(slope(fn, *points), expected)


@pytest.mark.parametrize("fn", [F.elu, F.celu, F.selu, F.gelu, F.silu, F.hardswish])
def test_the_gradient_of_nan_is_nan(fn):
    assert math.isnan(slope(fn, math.nan, 1.0)[0])


def test_gelu_known_values_and_large_arrays_in_pieces():
    assert F.gelu(gl.tensor([1.0])).item() == pytest.approx(0.8413447, abs=1e-6)
    x = gl.linspace(-6, 6, 200_000)
    wide = x.numpy().astype("f8")
    exact = 0.5 * wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
    np.testing.assert_allclose(F.gelu(x).numpy(), exact, atol=3e-7)
    np.testing.assert_allclose(F.gelu(x.double()).numpy(), exact, atol=1e-15)
    for dtype in (gl.float32, gl.float64):
        top = gl.finfo(dtype).max
        assert F.gelu(gl.tensor([top, -top], dtype=dtype)).tolist() == [top, 0]
    strided = gl.stack([x, x])[:, ::2]
    np.testing.assert_array_equal(F.gelu(strided).numpy()[0], F.gelu(x).numpy()[::2])


def test_wrong_arguments():
    x = gl.ones(3)
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        F.gelu(x, approximate="fast")
    with pytest.raises(ValueError, match="min_val cannot be greater than max_val"):
        F.hardtanh(x, 1.0, -1.0)
    with pytest.raises(RuntimeError, match="Halving dimension must be even"):
        F.glu(x)
    with pytest.raises(RuntimeError, match="Mismatch of parameter numbers"):
        F.prelu(gl.ones(2, 4), gl.ones(3))
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.silu(gl.arange(3))
    with pytest.raises(IndexError, match="Dimension out of range"):
        gl.softmax(x, 1)


def test_in_place_forms_return_their_argument():
    x = gl.tensor([-1.0, 2.0])
    assert F.leaky_relu(x, 0.5, inplace=True) is x
    assert x.tolist() == [-0.5, 2.0]
    assert F.elu_(x) is x and x._version == 2


def test_softmax_is_safe_and_exact():
    big = gl.tensor([[1e4, 1e4 - 1], [-1e4, -1e4 + 2]])
    rows = gl.softmax(big, 1)
    assert rows.sum(1).tolist() == pytest.approx([1, 1])
    assert gl.log_softmax(big, 1)[0, 1].item() == pytest.approx(-1.3132617, rel=1e-6)
    assert gl.softmax(gl.tensor([[-math.inf, 0.0]]), 1).tolist() == [[0, 1]]
    assert np.isnan(gl.softmax(gl.tensor([[-math.inf, -math.inf]]), 1).numpy()).all()
    wide = gl.tensor([[0.0] * 3, [-200.0, 0.0, -90.0]])  # rows of a block with different maxima
    np.testing.assert_allclose(
        gl.softmax(wide, 1).numpy()[1], [0, 1, np.exp(-90.0)], rtol=1e-5, atol=1e-40
    )
    assert gl.softmax(gl.ones(3, dtype=gl.int64), 0, dtype=gl.float64).dtype is gl.float64
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        F.softmax(gl.ones(2, 2))


def test_softmax_rows_in_blocks_equal_single_rows():
    x = gl.randn(3000, 40)
    whole = gl.softmax(x, 1)
    for i in (0, 1, 818, 819, 2999):
        np.testing.assert_allclose(whole.numpy()[i], gl.softmax(x[i], 0).numpy(), rtol=2e-6)


@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma"])
def test_against_the_standard_library(name):
    x = np.concatenate(
        [np.linspace(-5.9, 5.9, 400), [1e-10, 0.46875, 4.0, 1.0, 2.0, 1.0000001, 12.5]]
    )
    ours = getattr(gl, name)(gl.tensor(x)).numpy()
    np.testing.assert_allclose(ours, np.vectorize(getattr(math, name))(x), rtol=1e-12, atol=1e-15)


def test_special_values():
    inf = math.inf
    assert gl.erf(gl.tensor([-inf, 0.0, inf])).tolist() == [-1, 0, 1]
    assert gl.erfinv(gl.tensor([-1.0, 0.0, 1.0])).tolist() == [-inf, 0, inf]
    assert gl.digamma(gl.tensor([1.0])).item() == pytest.approx(-0.5772157)
    assert gl.polygamma(1, gl.tensor([1.0])).item() == pytest.approx(math.pi**2 / 6)
    assert gl.xlogy(gl.tensor([0.0, 0.0]), gl.tensor([0.0, 2.0])).tolist() == [0, 0]
    assert gl.sinc(gl.tensor([0.0])).item() == 1
    assert gl.special.zeta(gl.tensor([2.0]), gl.tensor([1.0])).item() == pytest.approx(
        math.pi**2 / 6
    )
    assert gl.special.i0(gl.tensor([1.0])).item() == pytest.approx(1.2660658)
    assert gl.special.ndtri(gl.tensor([0.975])).item() == pytest.approx(1.959964)
    assert gl.special.legendre_polynomial_p(gl.tensor([0.5]), 2).item() == pytest.approx(-0.125)
    x = gl.linspace(-3, 3, 50, dtype=gl.float64)
    np.testing.assert_allclose(gl.erfinv(gl.erf(x)).numpy(), x.numpy(), rtol=1e-9)
    assert np.isnan(gl.logit(gl.tensor([2.0])).item()) and gl.logit(
        gl.tensor([2.0]), 0.1
    ).item() == pytest.approx(math.log(9))


def test_every_name_of_torch_special_is_there():
    assert {
        "expit",
        "psi",
        "gammaln",
        "airy_ai",
        "multigammaln",
        "shifted_chebyshev_polynomial_w",
    } <= set(dir(gl.special))


@pytest.mark.parametrize("dtype", [gl.float16, gl.bfloat16], ids=str)
@pytest.mark.parametrize("length", [1 << 10, 1 << 16])
def test_relu_of_every_half_number_is_that_of_the_float(dtype, length):
    bits = np.arange(0, 1 << 16, (1 << 16) // length).astype(np.int16)
    x = gl.from_numpy(bits).view(dtype).reshape(-1, 64).t().requires_grad_()
    wide = x.detach().float().requires_grad_()
    g = gl.linspace(-3, 3, length, dtype=dtype).reshape(64, -1)
    found, expected = F.relu(x), F.relu(wide)
    assert found.dtype is dtype
    gl.testing.assert_close(found.float(), expected, rtol=0, atol=0, equal_nan=True)
    assert gl.equal(found.signbit()[~found.isnan()], expected.signbit()[~found.isnan()])
    found.backward(g)
    expected.backward(g.float())
    assert x.grad.dtype is dtype and gl.equal(x.grad.float(), wide.grad)


@pytest.mark.parametrize("dtype", [gl.float16, gl.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [4, 400])
def test_where_of_halves(dtype, rows):
    a, b = gl.randn(rows, 50).to(dtype), gl.randn(rows, 50).to(dtype)
    chosen = gl.randn(rows, 50) > 0
    for x, y in ((a, b), (a, 0.0), (0.0, b), (a, -0.0), (2.5, b), (a.t(), b.t())):
        condition = chosen if getattr(x, "shape", ()) != (50, rows) else chosen.t()
        found = gl.where(condition, x, y)
        x, y = (v.float() if isinstance(v, gl.Tensor) else v for v in (x, y))
        expected = gl.where(condition, x, y)
        assert found.dtype is dtype and gl.equal(found.float(), expected)
        assert gl.equal(found.signbit(), expected.signbit())


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64])
@pytest.mark.parametrize("copies", [1, 400])
def test_tails_of_the_logistic_function(dtype, copies):
    """Far below 0 all digits are right: sigmoid(x) is exp(x) there."""
    points = np.array([-15.0, -20.0, -40.0, -80.0])
    x = gl.tensor(np.tile(points, (copies, 16)), dtype=dtype, requires_grad=True)
    s = np.exp(points) / (1 + np.exp(points))
    silu, glu = (points * s, s * (1 + points * (1 - s))), (s, s * (1 - s))
    for kind, given, (value, slope) in (
        ("silu", x, silu),
        ("glu", gl.cat([gl.ones_like(x), x], 1), glu),
    ):
        out = getattr(F, kind)(given)
        (grad,) = gl.autograd.grad(out.sum(), x)
        tolerance = 2e-6 if dtype is gl.float32 else 2e-14
        for found, wanted in ((out, value), (grad, slope)):
            np.testing.assert_allclose(
                found.detach().numpy()[-1], np.tile(wanted, 16), tolerance, 0
            )
