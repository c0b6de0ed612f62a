"""Products with a bias, and with the sum of an operand, by cuBLASLt on a device: the same as in pieces."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradlib as torch
from gradlib.tape.arrays import backend_for

F = torch.nn.functional
SIZES = [(6, 4, 3), (1, 8, 8), (33, 64, 17), (64, 16, 128), (5, 3, 7)]
TOLERANCES = {"float32": 1e-5, "float64": 1e-12, "float16": 5e-3, "bfloat16": 4e-2}


def check(found, want, dtype):
    """Equal up to the type's rounding of the largest number."""
    want = want.cpu().numpy()
    limit = TOLERANCES[dtype] * max(1.0, float(abs(want).max()))
    assert str(found.dtype) == f"torch.{dtype}"
    np.testing.assert_allclose(found.detach().double().cpu().numpy(), want, rtol=0, atol=limit)


def made(sizes, dtype):
    """Input, weight and bias with gradients, and the same in float64."""
    n, k, m = sizes
    torch.manual_seed(0)
    given = [torch.randn(s).to(getattr(torch, dtype)) for s in ((n, k), (m, k), (m,), (n, m))]
    return [t.cuda() for t in given], [t.double() for t in given]


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_layers_and_their_gradients(dtype):
    for sizes in SIZES:
        (x, w, b, g), (wide, weight, bias, grad) = made(sizes, dtype)
        wants = grad @ weight, grad.T @ wide, grad.sum(0)
        for layout in (lambda t: t, lambda t: t.T.contiguous().T):
            leaves = [layout(t).detach().requires_grad_() for t in (x, w)] + [b.requires_grad_()]
            out = F.linear(*leaves)
            check(out, wide @ weight.T + bias, dtype)
            for found, want in zip(torch.autograd.grad(out, leaves, g), wants, strict=True):
                check(found, want, dtype)
        mat2 = w.T.contiguous().requires_grad_()
        out = torch.addmm(b, x, mat2)
        check(out, wide @ weight.T + bias, dtype)
        found, found_bias = torch.autograd.grad(out, (mat2, b), g)
        check(found, wants[1].T, dtype)
        check(found_bias, wants[2], dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_each_epilogue_of_the_library(dtype):
    """Where it has one. A bias is there for the common sizes: the speed of a layer stands on it."""
    lt = backend_for("cuda").epilogues
    assert lt.lib is not None, "cuBLASLt was not found"
    for sizes in SIZES:
        (x, w, b, _), (wide, weight, bias, _) = made(sizes, dtype)
        a, c, vector = x._array, w._array.T, b._array
        product = wide @ weight.T
        found = lt.product_and_bias(a, c, vector)
        if found is not NotImplemented:
            check(torch.Tensor._make(found), product + bias, dtype)
        assert found is not NotImplemented or dtype == "float64" or sizes != (64, 16, 128)
        for name, sums in (("row", wide.sum(1)), ("column", weight.sum(1))):
            found = getattr(lt, f"product_and_{name}_sums")(a, c)
            if found is not NotImplemented:
                check(torch.Tensor._make(found[0]), product, dtype)
                check(torch.Tensor._make(found[1]), sums, dtype)


def test_biases_that_begin_anywhere():
    whole = torch.rand(300, device="cuda")
    for start, at in itertools.product(range(4), range(5)):
        x, w = whole[start : start + 64].view(4, 16), whole[start + 1 : start + 129].view(8, 16)
        b = whole[at : at + 8]
        check(F.linear(x, w, b), x.double() @ w.double().T + b.double(), "float32")


def test_a_captured_layer_is_the_layer():
    (x, w, b, g), _ = made((8, 16, 32), "float32")
    w.requires_grad_(), b.requires_grad_()
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        want = [F.linear(x, w, b), *torch.autograd.grad(F.linear(x, w, b), (w, b), g)]
    torch.cuda.current_stream().wait_stream(s)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [F.linear(x, w, b), *torch.autograd.grad(F.linear(x, w, b), (w, b), g)]
    with torch.no_grad():
        x.mul_(2)
    graph.replay()
    wants = 2 * (want[0] - b) + b, 2 * want[1], want[2]
    for got, expected in zip(found, wants, strict=True):
        check(got, expected.detach().double(), "float32")
