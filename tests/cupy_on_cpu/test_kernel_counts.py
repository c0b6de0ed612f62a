"""How many kernels layers launch on CUDA, counted where the driver is asked for them."""

from __future__ import annotations

import pytest

import gradlib as gl

from .kernel_counts import Counter

functional = gl.nn.functional


@pytest.fixture
def count(cupy, runtime):
    counter = Counter(runtime)

    def counted(action):
        result, launched = counter(action)
        return result, [name.partition("<")[0] for name, _ in launched]

    return counted


@pytest.mark.parametrize("kind", [gl.float16, gl.bfloat16, gl.float32])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_under_autocast_is_three_kernels_each_way(count, kind, training):
    # rows: DEV-26
    norm = gl.nn.BatchNorm2d(4).cuda().train(training)
    x = gl.randn(6, 4, 3, 3, device="cuda").to(kind).requires_grad_()
    running = norm.running_mean, norm.running_var

    def forward():
        with gl.autocast("cuda", dtype=gl.bfloat16):
            return functional.batch_norm(x, *running, norm.weight, norm.bias, training)

    expected = [t.detach().cpu().clone() for t in running]
    exact = x.detach().cpu().double()
    if training:
        functional.batch_norm(exact, *(given := [t.double() for t in expected]), training=True)
        expected = given
    out, launched = count(forward)
    assert out.dtype is kind
    assert launched == (
        ["batch_moments", "batch_moments_parts", "batch_apply"]
        if training
        else ["batch_running", "batch_apply"]
    )
    for found, wanted in zip(running, expected, strict=True):
        assert gl.allclose(found.cpu().double(), wanted.double(), rtol=1e-5)
        assert found._version == int(training)
    g = gl.ones_like(out)
    wanted = x, norm.weight, norm.bias
    grads, launched = count(lambda: gl.autograd.grad(out, wanted, g))
    assert launched == ["batch_sums", "batch_sums_parts", "batch_apply_grad"]
    assert [t.dtype for t in grads] == [kind, gl.float32, gl.float32]


@pytest.mark.parametrize("kind", [gl.float16, gl.bfloat16])
def test_a_sum_of_float32_and_a_half_type_is_one_kernel(count, kind):
    # rows: DEV-26
    x = gl.randn(5, 7, device="cuda", requires_grad=True)
    half = gl.randn(5, 7, device="cuda", dtype=kind, requires_grad=True)
    wanted = x.detach().cpu() + half.detach().cpu().float()
    out, launched = count(lambda: x + half)
    assert [name.rpartition("_")[0] for name in launched] == ["add_mixed"]
    assert out.dtype is gl.float32 and gl.equal(out.cpu(), wanted)
    assert out.grad_fn.next_functions[1][0].name() == "ToCopyBackward0"
    (dx, dh), launched = count(lambda: gl.autograd.grad(out, (x, half), x.detach()))
    assert launched == ["cast"]
    assert gl.equal(dx, x.detach()) and dh.dtype is kind and gl.equal(dh, x.detach().to(kind))


def test_a_convolution_of_one_by_one_is_one_product(count):
    # rows: DEV-26
    x = gl.randn(3, 4, 5, 6, device="cuda", dtype=gl.bfloat16).requires_grad_()
    w = gl.randn(2, 4, 1, 1, device="cuda", dtype=gl.bfloat16).requires_grad_()
    out, launched = count(lambda: functional.conv2d(x, w))
    assert launched == ["cuBLAS"]
    grads, launched = count(lambda: gl.autograd.grad(out, (x, w), gl.ones_like(out)))
    assert launched.count("cuBLAS") == 2
    exact = [t.detach().cpu().double().requires_grad_() for t in (x, w)]
    double = functional.conv2d(*exact)
    pairs = zip((out, *grads), (double, *gl.autograd.grad(double, exact, gl.ones_like(double))))
    for found, wanted in pairs:
        scale = wanted.abs().max()
        assert ((found.cpu().double() - wanted).abs().max() / scale) < 0.01


def test_the_gradient_of_an_embedding_of_a_half_type_sorts_nothing(count):
    # rows: DEV-26
    table = gl.zeros(9, 4, device="cuda", dtype=gl.bfloat16, requires_grad=True)
    index = gl.tensor([3, 3, 5, 3], device="cuda")
    out = functional.embedding(index, table)
    g = gl.ones_like(out)
    (grad,), launched = count(lambda: gl.autograd.grad(out, (table,), g))
    assert launched == ["memset", "claim_rows", "join_rows", "join_rows", "own_rows"]
    assert grad.cpu().float().sum(1).tolist() == [0, 0, 0, 12, 0, 4, 0, 0, 0]


def test_derivatives_of_a_half_type_with_float32_parameters(cupy):
    # rows: DEV-26
    kind = gl.bfloat16
    gl.manual_seed(0)
    given = gl.randn(6, 4, 3).to(kind), gl.rand(4) + 0.5, gl.randn(4)
    towards = gl.randn(6, 4, 3).to(kind), gl.randn(4)

    def derivatives(*how):
        x, w, b = (t.to(*how).requires_grad_() for t in given)
        v, u = (t.to(*how) for t in towards)
        out = functional.batch_norm(x, None, None, w, b, training=True)
        first = gl.autograd.grad(out.sin().sum(), (x, w, b), create_graph=True)
        return out, *first, *gl.autograd.grad((first[0] * v).sum() + (first[1] * u).sum(), (x, w))

    found, exact = derivatives("cuda"), derivatives(gl.float64)
    assert [t.dtype for t in found[1:4]] == [kind, gl.float32, gl.float32]
    for a, b in zip(found, exact, strict=True):
        distance = (a.detach().cpu().double() - b.detach()).abs().max() / b.abs().max()
        assert distance < 0.05
