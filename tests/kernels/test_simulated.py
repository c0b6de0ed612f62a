"""Kernels launched by gradlib itself, on the simulated CUDA device: dispatch, engine and launcher together."""

from __future__ import annotations

import numpy as np
import pytest
from host_launcher import resolve
from test_optim import CASES

import gradlib as gl
from gradlib.amp.autocast_mode import lowered
from tests.simulated_cuda import kernels, simulated


@pytest.fixture(params=[None, 1, 2], ids=["eager", "late", "later"])
def launched(request, monkeypatch):
    """The kernels that were launched on a simulated device that has them; a seed makes work late."""
    found, launch = [], kernels.Function.__call__

    def record(self, *args, **kwargs):
        found.append(self.name.partition("<")[0])
        launch(self, *args, **kwargs)

    monkeypatch.setattr(kernels.Function, "__call__", record)
    monkeypatch.setattr(kernels, "resolvers", [*kernels.resolvers, resolve])
    with simulated(request.param):
        yield found


def test_a_model_trains_with_kernels(launched):
    # rows: DEV-26 DEV-01
    def run(where):
        gl.manual_seed(0)
        table = gl.randn(7, 12, dtype=gl.float64)
        w, b = gl.randn(12, dtype=gl.float64), gl.randn(12, dtype=gl.float64)
        leaves = [t.to(where).requires_grad_() for t in (table, w, b)]
        index = gl.tensor([[1, 2, 1], [6, 0, 3]]).to(where)
        x = gl.nn.functional.embedding(index, leaves[0])
        x = gl.nn.functional.layer_norm(x, (12,), leaves[1], leaves[2])
        x = gl.nn.functional.gelu(x)
        scores = gl.nn.functional.log_softmax(x, -1)
        loss = gl.nn.functional.nll_loss(
            scores.reshape(6, 12), gl.tensor([1, 2, 3, 4, 5, 6]).to(where)
        )
        loss.backward()
        return [loss.detach(), *[t.grad for t in leaves]]

    here = [t.numpy() for t in run("cpu")]
    assert not launched
    there = [t.cpu().numpy() for t in run("cuda")]
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
    expected = {
        "take_rows",
        "norm",
        "softmax",
        "nll",
        "class_grad",
        "softmax_grad",
        "norm_grad",
        "add_rows",
    }
    assert expected <= set(launched) and any(k.startswith("gelu_vjp") for k in launched)


def test_second_derivatives_use_the_formulas(launched):
    # rows: DEV-26
    x = gl.rand(3, 5, dtype=gl.float64, device="cuda", requires_grad=True)
    (grad,) = gl.autograd.grad(gl.softmax(x, 1).square().sum(), x, create_graph=True)
    grad.square().sum().backward()
    y = x.detach().cpu().requires_grad_()
    (grad,) = gl.autograd.grad(gl.softmax(y, 1).square().sum(), y, create_graph=True)
    grad.square().sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), rtol=1e-9, atol=1e-12)
    assert "softmax" in launched


def test_what_kernels_do_not_take_is_computed_by_the_formula(launched):
    # rows: DEV-26
    z = gl.tensor([1 + 2j, 3 - 1j], device="cuda", requires_grad=True)
    gl.sigmoid(z).abs().sum().backward()
    assert launched == ["sum_rows"] and z.grad.is_cuda  # of magnitudes


def train(where, make, count=3, clip=None):
    """A few steps of an optimizer on parameters of three sizes; the parameters and the norms that were clipped."""
    gl.manual_seed(0)
    weights = [gl.randn(shape, dtype=gl.float64) for shape in ((3, 4), (7,), ())]
    params = [w.to(where).requires_grad_() for w in weights]
    optimizer, norms = make(params), []
    for _ in range(count):
        optimizer.zero_grad()
        sum((p * p).sum() for p in params).backward()
        if clip is not None:
            norms.append(gl.nn.utils.clip_grad_norm_(params, 0.5, clip))
        optimizer.step()
    return [t.detach().cpu().numpy() for t in (*params, *norms)], optimizer


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_optimizers_do_the_same_on_a_device(launched, name, options):
    """A kernel in one launch, or the code of the rule."""
    # rows: DEV-26

    def make(params):
        return getattr(gl.optim, name)(params, **{"lr": 0.1, **options})

    here, optimizer = train("cpu", make)
    there, _ = train("cuda", make)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9)
    assert [k for k in launched if k in ("adam", "sgd")] == [optimizer.kernel] * 3 * bool(
        optimizer.kernel
    )


def test_a_capturable_step_counts_on_the_device(launched):
    # rows: DEV-26
    here, _ = train("cpu", lambda ps: gl.optim.Adam(ps, 0.1))
    rate = gl.tensor(0.1, device="cuda")
    there, optimizer = train("cuda", lambda ps: gl.optim.Adam(ps, rate, capturable=True))
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)
    assert launched.count("advance_steps") == 3
    steps = [s["step"] for s in optimizer.state.values()]
    assert all(s.is_cuda and s.item() == 3 for s in steps)


def test_settings_that_leave_the_kernels_out(launched):
    # rows: DEV-26
    here, _ = train("cpu", lambda ps: gl.optim.Adam(ps, 0.1))
    there, _ = train("cuda", lambda ps: gl.optim.Adam(ps, 0.1, fused=False))
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9)
    assert "adam" not in launched


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf"), 3.0])
def test_clipping(launched, norm_type):
    # rows: DEV-26
    here, _ = train("cpu", lambda ps: gl.optim.SGD(ps, 0.1), clip=norm_type)
    there, _ = train("cuda", lambda ps: gl.optim.SGD(ps, 0.1), clip=norm_type)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9)
    assert (
        launched.count("norm_total") == (3 if norm_type != 3.0 else 0)
        and launched.count("clip") == 3
    )


@pytest.mark.parametrize("dtype", [gl.float16, gl.bfloat16])
def test_parameters_are_cast_together_under_autocast(launched, dtype):
    # rows: DEV-26
    def model():
        gl.manual_seed(0)
        layers = [gl.nn.Linear(3, 5), gl.nn.Conv2d(2, 4, 3), gl.nn.Linear(5, 3)]
        return gl.nn.ModuleList(layers).cuda().to(memory_format=gl.channels_last)

    def casts_of(layers, change=None):
        """What the parameters became in a block, the kernels that were launched for it, and the nodes."""
        before = len(launched)
        with gl.autocast("cuda", dtype=dtype):
            found = []
            for k, p in enumerate(layers.parameters()):
                if change is not None and k == 2:
                    change(layers)
                found.append(lowered(p))
        return found, [k for k in launched[before:] if k.startswith("cast")]

    layers = model()
    alone, kernels = casts_of(layers)
    assert kernels == ["cast"] * 5  # the weight in channels last goes the library's way
    together, kernels = casts_of(layers)
    assert kernels == ["cast_list"]
    for a, b, p in zip(alone, together, layers.parameters()):
        assert a.dtype is b.dtype is dtype and a.stride() == b.stride() == p.stride()
        assert gl.equal(a.view(gl.int16), b.view(gl.int16))
        (grad,) = gl.autograd.grad(b.float().sum(), p)
        assert grad.dtype is gl.float32 and gl.equal(grad, gl.ones_like(p))
    orders = [t.grad_fn._sequence_nr() for t in together]
    assert orders == sorted(orders)

    def change(layers):
        with gl.no_grad():
            for p in layers.parameters():
                p.mul_(2)

    changed, kernels = casts_of(layers, change)
    assert kernels == ["cast_list", "cast", "cast", "cast"]
    for a, b in zip(changed[2:], together[2:]):
        assert gl.equal(a, b * 2)
    other = model()  # another model is another group
    assert casts_of(other)[1] == ["cast"] * 5 and casts_of(other)[1] == ["cast_list"]
    small = other[:1]  # a block that ends early
    assert casts_of(small)[1] == ["cast_list"] and casts_of(small)[1] == ["cast_list"]
    with gl.autocast("cuda", dtype=dtype, cache_enabled=False):
        assert lowered(other[0].weight) is not lowered(other[0].weight)
