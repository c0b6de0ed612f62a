"""Kernels that numba compiles: their numbers beside float64 and NumPy's, and where they step aside."""

from __future__ import annotations

import contextlib
import importlib
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import compiled, overlays
from gradlib.nn import functional as F
from gradlib.op.overlays import off
from tests.compiled.beside import close, drawn, with_gradients

pytestmark = pytest.mark.host
inf, nan = math.inf, math.nan
overlays.names()  # imports all modules in their order
elementwise, rows, *_ = (
    importlib.import_module(f"{compiled.__name__}.{name}") for name in compiled.MODULES
)


# -- exp and gelu ------------------------------------------------------------------------------------------------------


@elementwise.jit()
def _each(x, out):
    for i in range(x.size):
        out[i] = elementwise.exp(x[i])


def test_exp_is_right_to_the_last_bits_down_to_the_smallest_number():
    x = np.concatenate([np.linspace(-110, 90, 300_001), np.linspace(-1, 1, 100_001)]).astype("f4")
    out = np.empty_like(x)
    _each(x, out)
    exact = np.exp(x.astype("f8"))
    with np.errstate(over="ignore"):
        unit = np.spacing(np.minimum(exact, 3e38).astype("f4")).astype("f8")
        assert (out[exact > 3.4029e38] == inf).all()
    finite = exact < 3.4028e38
    assert (np.abs(out - exact)[finite] <= unit[finite]).all()
    special = np.array([nan, inf, -inf, 0.0, -0.0, 1000, -1000, -100, 88.7], "f4")
    out = np.empty_like(special)
    _each(special, out)
    assert np.isnan(out[0]) and out[1:7].tolist() == [inf, 0, 1, 1, inf, 0]
    np.testing.assert_allclose(out[7:], np.exp(special[7:].astype("f8")), rtol=0.1)


def test_gelu():
    x = drawn(70_001, scale=3)
    close(F.gelu, x)
    close(lambda t: F.gelu(t.T), drawn(300, 257, seed=1))  # another layout
    close(lambda t: F.gelu(t[:, ::2]), drawn(300, 257, seed=1))
    special = gl.tensor([nan, inf, -inf, 0.0, -0.0, 20.0, -20.0] * 1000)
    found = F.gelu(special)[:7]
    with off():
        exact = F.gelu(special)[:7]
    assert gl.isclose(found, exact, equal_nan=True, atol=1e-7, rtol=0).all()


def test_silu():
    x = drawn(70_001, scale=5)
    close(F.silu, x)
    close(lambda t: F.silu(t.T), drawn(300, 257, seed=1))
    special = gl.tensor([nan, inf, -inf, 0.0, -0.0, 100.0, -100.0] * 1000)
    found = with_gradients(F.silu, special)
    with off():
        exact = with_gradients(F.silu, special)
    for a, b in zip(found, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-30)


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(300, 256), (3, 9000), (2000, 7), (8, 16, 33)])
def test_rms_norm(shape):
    n = shape[-1]
    x, w = drawn(*shape, scale=2) + 1, drawn(n, seed=1)
    close(lambda x, w: F.rms_norm(x, (n,), w), x, w)
    close(lambda x: F.rms_norm(x, (n,)), x)
    close(lambda w: F.rms_norm(x.to(w.dtype), (n,), w), w)
    close(lambda x, w: F.rms_norm(x, shape[-2:], w), x, drawn(*shape[-2:], seed=2))


@pytest.mark.parametrize("shape", [(300, 256), (3, 5000), (2000, 7), (8, 16, 33)])
def test_layer_norm(shape):
    n = shape[-1]
    x, w, b = drawn(*shape, scale=2) + 3, drawn(n, seed=1), drawn(n, seed=2)
    close(lambda x, w, b: F.layer_norm(x, (n,), w, b), x, w, b, eps=3e-6)
    close(lambda x: F.layer_norm(x, (n,)), x, eps=3e-6)
    close(lambda x, w: F.layer_norm(x, (n,), w), x, w, eps=3e-6)


def test_layer_norm_of_several_dimensions():
    x, w = drawn(100, 6, 10), drawn(6, 10, seed=1)
    close(lambda x, w: F.layer_norm(x, (6, 10), w), x, w, eps=3e-6)


@pytest.mark.parametrize("shape", [(300, 256), (3, 5000), (2000, 3), (8, 16, 33)])
@pytest.mark.parametrize("f", [gl.softmax, gl.log_softmax])
def test_softmax(f, shape):
    close(lambda x: f(x, -1), drawn(*shape, scale=5))
    close(lambda x: f(x, 0), drawn(*shape, scale=5))  # not in rows: left to NumPy


@pytest.mark.parametrize("f", [gl.softmax, gl.log_softmax])
def test_softmax_of_rows_that_have_none(f):
    x = drawn(100, 64)
    x[0, 0], x[1], x[2, 3], x[3, 5] = nan, -inf, inf, -inf
    found = f(x, 1)
    with off():
        exact = f(x, 1)
    assert gl.allclose(found, exact, rtol=1e-5, atol=1e-6, equal_nan=True)


# -- norms of channels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 12, 9, 11), (3, 6, 5000), (2, 12), (1, 6, 70, 90)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(shape, groups):
    c = shape[1]
    x, w, b = drawn(*shape, scale=2) + 1, drawn(c, seed=1), drawn(c, seed=2)
    if math.prod(shape[1:]) // groups > 1:
        close(lambda x, w, b: F.group_norm(x, groups, w, b), x, w, b, eps=3e-6)
        close(lambda x: F.group_norm(x, groups), x, eps=3e-6)
        close(lambda b: F.group_norm(x.to(b.dtype), groups, None, b), b, eps=3e-6)


def test_norms_of_numbers_far_from_0():
    x = drawn(4, 8, 30, 30) + 1000
    close(lambda x: F.group_norm(x, 2), x, eps=1e-3)  # as exact as the mean in float32
    close(lambda x: F.batch_norm(x, None, None, training=True), x, eps=1e-3)


# -- running sums and products, sums by index --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(300, 256), (9, 5000), (1000, 40), (8, 3, 33), (11, 100)])
@pytest.mark.parametrize("f", [gl.cumsum, gl.cumprod])
def test_running_sums_and_products(f, shape):
    x = drawn(*shape)
    if f is gl.cumprod:  # products that stay in range
        x = 1 + 0.05 * x
    close(lambda x: f(x, -1), x, eps=5e-6)  # the given gradients are rounded
    close(lambda x: f(x, 0), x[:8])  # left to NumPy
    close(lambda x: f(x.mT, -1), x, eps=5e-6)
    close(lambda x: f(x.flip(-1), -1), x, eps=5e-6)


def test_running_sums_are_kept_in_double_precision():
    x = gl.ones(8, 5000) * 0.1
    x[:, 0] = 1e8
    np.testing.assert_array_equal(
        gl.cumsum(x, 1).numpy(), x.numpy().astype("f8").cumsum(1).astype("f4")
    )


@pytest.mark.parametrize("special", [0.0, inf, nan, 1e-30, 1e30])
def test_gradient_of_running_products_that_cannot_be_divided(special):
    x = 1 + 0.1 * drawn(10, 30)
    x[3, 5:17] = special
    x[4, 9] = 0
    found = with_gradients(lambda x: gl.cumprod(x, 1), x)
    with off():
        exact = with_gradients(lambda x: gl.cumprod(x, 1), x)
    for a, b in zip(found, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("rows", [3, 1000])
def test_rows_added_by_index(rows):
    places = gl.from_numpy(np.random.default_rng(1).integers(0, rows, 2000))
    table, x = drawn(rows, 65), drawn(2000, 65, seed=1)
    close(lambda t, x: t.index_add(0, places, x), table, x)
    close(lambda t: F.embedding(places, t), table)
    close(lambda t: t[places - rows], table)
    close(lambda t, x: t.index_put((places,), x, accumulate=True), table, x)
    many = gl.zeros(rows, 65).index_add(0, places * 0, gl.full((2000, 65), 0.1))
    assert gl.isclose(
        many[0], gl.tensor(2000 * np.float32(0.1).astype("f8")).float(), rtol=1e-7
    ).all()
    with pytest.raises((IndexError, RuntimeError)):
        table.index_put((places + rows,), x, accumulate=True)


# -- where they are ----------------------------------------------------------------------------------------------------


# (images, channels, space, kernel, stride, padding, dilation)
DEPTHWISE: dict[str, Any] = {
    "plain": (2, 8, (14, 14), (3, 3), (1, 1), (1, 1), (1, 1)),
    "strides": (2, 8, (15, 14), (3, 3), (2, 2), (1, 1), (1, 1)),
    "high kernels": (2, 8, (12, 17), (7, 5), (1, 2), (3, 2), (1, 1)),
    "strides and dilations": (2, 8, (21, 19), (3, 2), (2, 3), (2, 1), (2, 2)),
    "strides beyond the kernel": (2, 8, (19, 18), (2, 1), (3, 2), (0, 0), (1, 1)),
    "padding beyond the kernel": (2, 8, (14, 13), (2, 1), (1, 2), (3, 2), (1, 1)),
    "padding beyond the kernel, no strides": (2, 8, (14, 13), (2, 1), (1, 1), (3, 2), (1, 1)),
    "one dimension": (2, 8, (150,), (4,), (1,), (3,), (1,)),
    "one dimension, strides": (2, 8, (150,), (4,), (3,), (2,), (2,)),
}


@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise_convolution(case):
    n, channels, space, kernel, *how = DEPTHWISE[case]
    f: Any = F.conv1d if len(space) == 1 else F.conv2d
    tensors = (
        drawn(n, channels, *space),
        drawn(channels, 1, *kernel, seed=1),
        drawn(channels, seed=2),
    )
    close(lambda x, w, b: f(x, w, b, *how, channels), *tensors)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("where", ["input", "weight", "gradient"])
def test_depthwise_convolution_of_infinite_numbers(where, stride):
    """What lies beyond the ends of rows is 0 times something, which may not be infinite."""
    images, weights = gl.ones(2, 4, 24, 24), gl.ones(4, 1, 3, 3)
    g = gl.ones_like(F.conv2d(images, weights, None, stride, 0, 1, 4))
    {"input": images[1, 1], "weight": weights[1, 0], "gradient": g[1, 1]}[where][0, -1] = inf
    found = []
    for context in (contextlib.nullcontext(), off()):
        with context:
            x, w = [t.clone().requires_grad_() for t in (images, weights)]
            y = F.conv2d(x, w, None, stride, 0, 1, 4)
            found.append([y.detach(), *gl.autograd.grad(y, (x, w), g)])
    for a, b in zip(*found, strict=True):
        assert not b.isnan().any()
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_results_do_not_depend_on_threads():
    x, w = drawn(2048, 300), drawn(300, seed=1)
    images = x.reshape(4, 32, 60, 80)

    def run() -> list:
        return [
            *with_gradients(F.gelu, x), *with_gradients(lambda a, w: F.layer_norm(a, (300,), w), x, w),
            *with_gradients(lambda a: gl.softmax(a, 1), x), *with_gradients(F.silu, x),
            *with_gradients(lambda a, w: F.rms_norm(a, (300,), w), x, w),
            *with_gradients(lambda a, w: F.group_norm(a, 4, w[:32]), images, w),
            *with_gradients(lambda a, w: F.batch_norm(a, None, None, w[:32], training=True), images, w),
            *with_gradients(lambda a: gl.cumsum(a, 1), x), *with_gradients(lambda a: gl.cumprod(1 + a / 99, 1), x),
            *with_gradients(lambda a, b: F.conv2d(a, b, groups=32), images, w[:288].reshape(32, 1, 3, 3)),
        ]  # fmt: skip

    threads = gl.get_num_threads()
    try:
        gl.set_num_threads(1)
        one = run()
        gl.set_num_threads(3)
        assert all([np.array_equal(a, b) for a, b in zip(one, run(), strict=True)])
    finally:
        gl.set_num_threads(threads)


def test_other_dtypes_and_few_elements_are_left_to_numpy(monkeypatch):
    ran = []
    for module, name in ((elementwise, "_gelu"), (rows, "_softmax")):
        kernel = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, kernel=kernel: ran.append(1) or kernel(*a))
    F.gelu(drawn(100, 100))
    assert len(ran) == 1
    F.gelu(drawn(100, 100).double())
    monkeypatch.setattr(elementwise, "FEW", 1 << 11)
    F.gelu(drawn(2, 10))
    gl.softmax(drawn(100, 100).double(), 1)
    assert len(ran) == 1


@pytest.mark.parametrize("f", [F.silu, F.gelu])
@pytest.mark.parametrize("dtype", [gl.float16, gl.bfloat16])
def test_half_types_are_computed_in_float32_and_rounded_once(f, dtype):
    x, g = drawn(300, 300).to(dtype), drawn(300, 300, seed=1).to(dtype)
    found = []
    for kind in (dtype, gl.float32):
        given = x.to(kind).requires_grad_()
        y = f(given)
        found.append([y.detach(), *gl.autograd.grad(y, given, g.to(kind))])
    for a, b in zip(*found, strict=True):
        assert a.dtype is dtype and gl.equal(a, b.to(dtype))


def test_a_second_overlay_must_take_the_same_parameters():
    table = type(overlays)("none")
    table.forward("f")(lambda xp, self, *, dim: 1)
    with pytest.raises(TypeError, match="other parameters"):
        table.before("f")(lambda xp, self: 2)
    table.forward("h")(lambda xp, self: 1)
    table.before("h")(lambda xp, self: NotImplemented if self else 2)
    assert table.forwards["h"](None, True) == 1 and table.forwards["h"](None, False) == 2


PROGRAM = """
import sys
{before}
import gradlib
gradlib.softmax(gradlib.ones(100, 100), 1)
print("numba" in sys.modules)
"""


def run(before: str, switch: str) -> subprocess.CompletedProcess:
    program = [sys.executable, "-c", PROGRAM.format(before=before)]
    return subprocess.run(program, env={"GRADLIB_NUMBA": switch}, capture_output=True, text=True)


def test_what_is_compiled_is_told():
    told = [line for line in gl.__config__.show().splitlines() if "numba" in line]
    assert len(told) == 1 and told[0].endswith("sums of rows by index")
    names = "cross_entropy_op", "cumprod", "gelu", "native_batch_norm", "silu_grad", "softmax"
    assert all([f" {name}," in told[0] for name in names])


def test_numba_is_imported_where_it_is_asked_for():
    assert run("", "0").stdout == "False\n"
    assert run("", "1").stdout == "True\n"
    failed = run("sys.modules['numba'] = None", "1")
    assert failed.returncode == 1 and "pip install 'gradlib[fast]'" in failed.stderr
