"""linear and addmm on the simulated CUDA device: one product with an epilogue, or what the formula does."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.tape.arrays import backend_for
from tests.kernels import test_simulated

F = gl.nn.functional
launched = test_simulated.launched
BIAS, BGRADA, BGRADB = 4, 256, 512


def library():
    return backend_for("cuda").gemm.lib


def made() -> list[int]:
    """The epilogues of the products so far."""
    return [call["epilogue"] for call in library().epilogues]


def leaves(where, dtype, *shapes, frozen=()):
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, s) for s in shapes]
    return [
        gl.from_numpy(a).to(dtype).to(where).requires_grad_(i not in frozen)
        for i, a in enumerate(arrays)
    ]


def grads(where, layer, dtype, *shapes, frozen=()):
    tensors = leaves(where, dtype, *shapes, frozen=frozen)
    out = layer(*tensors)
    (out * out.detach().sin()).sum().backward()
    found = [out.detach(), *[t.grad for t in tensors if t.grad is not None]]
    return [t.cpu().double().numpy() for t in found]


def same(layer, dtype, *shapes, tolerance=None, frozen=()):
    tolerance = tolerance or {2: 3e-2, 4: 1e-5, 8: 1e-11}[dtype.itemsize]
    here = grads("cpu", layer, dtype, *shapes, frozen=frozen)
    there = grads("cuda", layer, dtype, *shapes, frozen=frozen)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [gl.float64, gl.float32, gl.float16, gl.bfloat16], ids=str)
def test_a_layer_is_one_product_and_its_gradient_two(launched, dtype):
    same(F.linear, dtype, (6, 4), (3, 4), (3,))
    assert made() == [BIAS, BGRADB]
    assert len(library().calls) == 1  # the gradient of the input
    assert launched.count("sum_rows") == 1  # the loss, not the gradient of the bias
    same(F.linear, dtype, (2, 3, 4), (5, 4), (5,))
    same(lambda b, x, w: gl.addmm(b, x, w), dtype, (5,), (6, 4), (4, 5))
    assert made()[2:] == [BIAS, BGRADB, BIAS, BGRADA]


def test_what_has_no_such_product_is_computed_by_the_formula(launched):
    d = gl.float64
    same(F.linear, d, (4,), (3, 4), (3,))  # one row: its gradient is an outer product
    same(F.linear, d, (1, 4), (3, 4), (3,))
    assert made() == [BIAS, BIAS]
    library().epilogues.clear()
    same(lambda x, w: F.linear(x, w), d, (6, 4), (3, 4))
    same(F.linear, d, (6, 4), (1, 4), (1,))
    same(F.linear, d, (6, 1), (3, 1), (3,))
    for x, outputs in (((0, 4), 3), ((2, 0, 4), 3), ((2, 3, 4), 0), ((2, 3, 0), 3)):
        same(F.linear, d, x, (outputs, x[-1]), (outputs,))
    same(lambda x, w, b: F.linear(x[:, ::2], w[:, ::2], b), d, (6, 4), (3, 4), (3,))
    same(lambda x, w, b: F.linear(x.transpose(0, 1), w, b), d, (2, 3, 4), (3, 4), (3,))
    same(lambda b, x, w: gl.addmm(b, x, w, beta=2), d, (5,), (6, 4), (4, 5))
    same(lambda b, x, w: gl.addmm(b, x, w, alpha=0.5), d, (5,), (6, 4), (4, 5))
    same(lambda b, x, w: gl.addmm(b, x, w), d, (6, 5), (6, 4), (4, 5))
    same(lambda b, x, w: gl.addmm(b, x, w), d, (1,), (6, 4), (4, 5))
    assert made() == []
    z = [t.to(gl.complex128) for t in leaves("cuda", d, (6, 4), (3, 4), (3,))]
    assert F.linear(*z).shape == (6, 3) and made() == []
    with pytest.raises(RuntimeError):
        F.linear(z[0], z[1], z[2].real)


def test_only_gradients_that_are_wanted(launched):
    shapes = (6, 4), (3, 4), (3,)
    for frozen in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
        same(F.linear, gl.float64, *shapes, frozen=frozen)
        both = not {1, 2} & set(frozen)
        assert made() == [BIAS, *[BGRADB] * both]
        library().epilogues.clear()
    for frozen in ((0,), (1,), (2,), (0, 1)):
        same(lambda b, x, w: gl.addmm(b, x, w), gl.float64, (5,), (6, 4), (4, 5), frozen=frozen)
        both = not {0, 2} & set(frozen)
        assert made() == [BIAS, *[BGRADA] * both]
        library().epilogues.clear()


def test_gradients_that_are_broadcast_or_transposed(launched):
    for layer in (
        lambda x, w, b: F.linear(x, w, b).sum(),
        lambda x, w, b: F.linear(x, w, b).T.contiguous().sin(),
        lambda x, w, b: F.linear(x.T, w, b),
        lambda x, w, b: F.linear(x, w.T.contiguous().T, b),
    ):
        same(layer, gl.float64, (4, 4), (3, 4), (3,))
    assert made().count(BGRADB) == 4


def test_declined_by_the_library(launched, monkeypatch):
    monkeypatch.setattr(library(), "declines", 15)
    same(F.linear, gl.float32, (6, 4), (3, 4), (3,))
    same(lambda b, x, w: gl.addmm(b, x, w), gl.float32, (5,), (6, 4), (4, 5))
    assert made() == []


def test_sums_are_exact_and_the_same_in_every_run(launched):
    """Tensor cores would round the gradient that is summed; a bias they do not."""
    gl.set_float32_matmul_precision("high")
    try:
        x, w, b = leaves("cuda", gl.float32, (6, 4), (3, 4), (3,))
        F.linear(x, w, b).backward(gl.full((6, 3), 1 + 2.0**-12, device="cuda"))
        assert b.grad.tolist() == [6 * (1 + 2.0**-12)] * 3 and made() == [BIAS]
    finally:
        gl.set_float32_matmul_precision("highest")
    gl.use_deterministic_algorithms(True)
    try:
        same(F.linear, gl.float32, (6, 4), (3, 4), (3,))
        assert made() == [BIAS, BIAS]
    finally:
        gl.use_deterministic_algorithms(False)


def test_second_derivatives_and_forward_mode(launched):
    def double(where):
        x, w, b = leaves(where, gl.float64, (6, 4), (3, 4), (3,))
        loss = F.linear(x, w, b).sin().sum()
        first = gl.autograd.grad(loss, (x, w, b), create_graph=True)
        sum(g.square().sum() for g in first).backward()
        _, tangent = gl.func.jvp(F.linear, (x, w, b), (x, w, b))
        return [t.detach().cpu().numpy() for t in (*first, x.grad, w.grad, b.grad, tangent)]

    for a, b in zip(double("cpu"), double("cuda"), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    assert BIAS in made()


def test_profiles_and_counts_of_operations(launched):
    x, w, b = leaves("cuda", gl.float32, (6, 4), (3, 4), (3,))
    with gl.autograd.profiler.profile(with_flops=True) as prof:
        F.linear(x, w, b).sum().backward()
    rows = {e.key: e for e in prof.key_averages()}
    assert rows["linear"].flops == 2 * 6 * 4 * 3
    assert rows["linear_backward"].flops == 2 * (2 * 6 * 4 * 3)
    assert made() == [BIAS, BGRADB]
    with gl.utils.flop_counter.FlopCounterMode(display=False) as counter:
        gl.addmm(b, x, w.T).sum().backward()
    assert counter.get_total_flops() == 3 * (2 * 6 * 4 * 3)


def test_under_autocast(launched):
    x, w, b = leaves("cuda", gl.float32, (6, 4), (3, 4), (3,))
    with gl.autocast("cuda", dtype=gl.bfloat16):
        out = F.linear(x, w, b)
    assert out.dtype is gl.bfloat16
    out.float().sum().backward()
    assert [call["type"] for call in library().epilogues] == [14, 14]
    assert b.grad.dtype is gl.float32 and b.grad.tolist() == [6.0] * 3
