"""linear on CuPy itself: how many launches it takes, and what cuBLASLt is told, by a stand-in that is as strict."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl

F = gl.nn.functional


@pytest.fixture
def lt(runtime):
    """The stand-in, which counts its questions; what it was told to decline it takes again."""
    from gradlib.tape.arrays import backend_for

    backend = backend_for("cuda")
    lib = backend.epilogues.lib
    backend.gemm.local.__dict__.pop("plans", None)
    yield lib
    lib.cublaslt_on_cpu_decline(0)
    lib.cublaslt_on_cpu_refuse(0)
    backend.gemm.local.__dict__.pop("plans", None)


def launches(runtime, action) -> int:
    """How many kernels and products `action` launches when all is compiled."""
    action()
    before = runtime.cuda_on_cpu_launches()
    action()
    return runtime.cuda_on_cpu_launches() - before


def layer(dtype="float32", rows=6, **how):
    rng = np.random.default_rng(0)
    x, w, b = (
        gl.from_numpy(rng.uniform(-1, 1, s)).to(getattr(gl, dtype)).cuda().requires_grad_()
        for s in ((rows, 16), (8, 16), (8,))
    )
    return x, w, b


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_forward_is_one_launch_and_backward_two(runtime, lt, dtype):
    x, w, b = layer(dtype)
    assert launches(runtime, lambda: F.linear(x, w, b)) == 1
    assert launches(runtime, lambda: gl.addmm(b, x, w.T)) == 1
    g = gl.ones(6, 8, device="cuda", dtype=x.dtype)
    for function, leaves in (
        (F.linear, (x, w, b)),
        (lambda b, x, w: gl.addmm(b, x, w.T), (b, x, w)),
    ):
        assert launches(runtime, lambda: gl.autograd.grad(function(*leaves), leaves, g)) == 1 + 2  # noqa: B023
    wide = [t.detach().double() for t in (x, w, b)]
    tolerance = 2e-2 if x.itemsize == 2 else 1e-5
    want = wide[0] @ wide[1].T + wide[2]
    np.testing.assert_allclose(
        F.linear(x, w, b).detach().double().cpu(), want.cpu(), rtol=tolerance, atol=tolerance
    )
    grads = gl.autograd.grad(F.linear(x, w, b), (x, w, b), g)
    wants = (g.double() @ wide[1], g.double().T @ wide[0], g.double().sum(0))
    for found, expected in zip(grads, wants, strict=True):
        np.testing.assert_allclose(
            found.double().cpu(), expected.cpu(), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("how", [1, 2])
def test_without_an_algorithm_it_is_a_product_and_a_pass(runtime, lt, how):
    x, w, b = layer()
    want = F.linear(x, w, b).detach().cpu()
    lt.cublaslt_on_cpu_decline(how)
    x, w, b = layer(rows=6)
    from gradlib.tape.arrays import backend_for

    backend_for("cuda").gemm.local.__dict__.pop("plans", None)
    asked = lt.cublaslt_on_cpu_asked()
    assert launches(runtime, lambda: F.linear(x, w, b)) == 2
    assert lt.cublaslt_on_cpu_asked() == asked + 1
    np.testing.assert_allclose(F.linear(x, w, b).detach().cpu(), want, rtol=1e-5)
    g = gl.ones(6, 8, device="cuda")
    assert launches(runtime, lambda: gl.autograd.grad(F.linear(x, w, b), (w, b), g)) > 2 + 1


def test_refused_when_it_is_made(runtime, lt):
    x, w, b = layer()
    lt.cublaslt_on_cpu_refuse(15)
    assert launches(runtime, lambda: F.linear(x, w, b)) == 2
    lt.cublaslt_on_cpu_refuse(13)
    with pytest.raises(RuntimeError, match="cublasLtMatmul failed with status 13"):
        F.linear(x[:5], w, b)


def test_views_that_begin_anywhere(runtime, lt):
    whole = gl.rand(200, device="cuda")
    for start in range(5):
        x, w = whole[start : start + 48].view(3, 16), whole[start + 1 : start + 129].view(8, 16)
        for at in range(5):
            b = whole[at : at + 8]
            found = F.linear(x, w, b).cpu().numpy()
            want = x.cpu().numpy() @ w.cpu().numpy().T + b.cpu().numpy()
            np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_captured_layer(runtime, lt):
    x, w, b = layer()
    x.requires_grad_(False)
    optimizer = gl.optim.SGD([w, b], 0.1)

    def step():
        optimizer.zero_grad(set_to_none=False)
        F.linear(x, w, b).square().sum().backward()
        optimizer.step()

    step()
    start = [t.detach().clone() for t in (w, b)]
    for _ in range(3):
        step()
    want = [t.detach().cpu().numpy() for t in (w, b)]
    with gl.no_grad():
        for t, value in zip((w, b), start, strict=True):
            t.copy_(value)
    graph = gl.cuda.CUDAGraph()
    with gl.cuda.graph(graph):
        step()
    for _ in range(3):
        graph.replay()
    for found, expected in zip((w, b), want, strict=True):
        np.testing.assert_allclose(found.detach().cpu(), expected, rtol=1e-6)


def test_memory_of_a_descriptor_is_given_back(runtime, lt):
    from gradlib.tape.arrays import backend_for

    plans = backend_for("cuda").gemm.local.plans = {}
    x, w, b = layer()
    for n in range(2, 6):
        F.linear(x[:n], w, b)
    assert len(plans) == 4
    plans.clear()  # the stand-in refuses what was given back before
    F.linear(x, w, b)
    assert len(plans) == 1
