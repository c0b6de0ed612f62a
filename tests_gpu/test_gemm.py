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


def test_half_types_are_summed_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        a = torch.ones(1, 4096, dtype=dtype, device="cuda")
        assert (a @ a.t()).item() == 4096.0
        assert torch.bmm(a[None], a.t()[None]).item() == 4096.0
