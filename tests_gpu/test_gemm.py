"""Products by cuBLAS itself on a device."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradlib as torch
from gradlib.tape.arrays import backend_for

SHAPES = [
    ((3, 4), (4, 5)), ((1, 4), (4, 1)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
    ((4,), (4,)), ((3, 0), (0, 2)), ((64, 128), (128, 32)),
]  # fmt: skip


def layouts(t):
    """The same values in several layouts."""
    yield t
    if t.ndim > 1:
        yield t.transpose(-1, -2).contiguous().transpose(-1, -2)
    yield torch.stack([t, t], -1)[..., 0]


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "complex64", "complex128", "float16", "bfloat16"]
)
def test_products_of_all_layouts(dtype):
    assert backend_for("cuda").gemm.lib is not None, "cuBLAS was not found"
    kind = getattr(torch, dtype)
    half = kind in (torch.float16, torch.bfloat16)
    torch.manual_seed(0)
    for first, second in SHAPES:
        a, b = (torch.randn(s, dtype=torch.float32).to(kind) for s in (first, second))
        want = (a.float() if half else a) @ (b.float() if half else b)
        for x, y in itertools.product(layouts(a.cuda()), layouts(b.cuda())):
            got = x @ y
            assert got.dtype is kind
            tolerance = 3e-2 if half else 1e-4
            np.testing.assert_allclose(
                (got.float() if half else got).cpu().numpy(),
                want.numpy(),
                rtol=tolerance,
                atol=tolerance * 5,
            )


def test_precision_of_float32():
    a = torch.full((64, 64), 1 + 2.0**-12, device="cuda")
    exact = 64 * (1 + 2.0**-12) ** 2
    assert (a @ a)[0, 0].item() == pytest.approx(exact, rel=1e-7)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert abs((a @ a)[0, 0].item() - exact) > 1e-3
        assert abs((a[None] @ a[None])[0, 0, 0].item() - exact) > 1e-3  # batches, too
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@pytest.fixture
def switches():
    yield torch.backends
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def rounded(got, terms):
    """Whether results are sums of so many squares of what TF32 makes of 1 + 2**-12, and not of the number itself."""
    exact, found = terms * (1 + 2.0**-12) ** 2, got.reshape(-1)[0].item()
    if found == pytest.approx(exact, rel=1e-7):
        return False
    assert found == pytest.approx(terms, rel=1e-7)
    return True


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("products", "convolutions"), [(False, True), (True, False)])
def test_convolutions_have_a_precision_of_their_own(products, convolutions, kernel, switches):
    switches.cuda.matmul.allow_tf32, switches.cudnn.allow_tf32 = products, convolutions
    number = 1 + 2.0**-12
    a = torch.full((16, 16), number, device="cuda")
    assert rounded(a @ a, 16) is products
    taps = kernel * kernel
    x = torch.full((2, 16, kernel, kernel), number, device="cuda", requires_grad=True)
    w = torch.full((16, 16, kernel, kernel), number, device="cuda", requires_grad=True)
    y = torch.nn.functional.conv2d(x, w)
    assert rounded(y, 16 * taps) is convolutions
    dx, dw = torch.autograd.grad(y, (x, w), torch.full_like(y, number), retain_graph=True)
    assert rounded(dx, 16) is convolutions and rounded(dw, 2) is convolutions
    assert rounded(torch.nn.functional.conv_transpose2d(x[..., :1, :1], w), 16) is convolutions
    (again,) = torch.autograd.grad(y, x, torch.full_like(y, number), create_graph=True)
    assert rounded(again, 16) is convolutions


def test_depthwise_convolutions_are_exact(switches):
    switches.cudnn.allow_tf32 = False
    x = torch.full((1, 4, 2, 2), 1 + 2.0**-12, device="cuda")
    assert not rounded(torch.nn.functional.conv2d(x, x.mT.reshape(4, 1, 2, 2), groups=4), 4)


def test_half_types_are_summed_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        a = torch.ones(1, 4096, dtype=dtype, device="cuda")
        assert (a @ a.t()).item() == 4096.0
        assert torch.bmm(a[None], a.t()[None]).item() == 4096.0
