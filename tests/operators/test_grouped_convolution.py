"""Convolutions, by groups and without, on the CPU beside their formula: each phase of a stride is a run of memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import blas, conv, conv_groups, conv_rows
from gradlib.op.overlays import off

# (images, groups, channels and outputs of a group, space, kernel, stride, padding, dilation)
CASES = {
    "depthwise": (3, 4, 1, 1, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "several outputs for each channel": (2, 3, 1, 2, (6, 5), (3, 2), (1, 1), (0, 1), (1, 1)),
    "groups of channels": (2, 2, 3, 2, (5, 6), (2, 3), (1, 1), (1, 1), (2, 1)),
    "strides": (3, 2, 2, 1, (7, 9), (3, 3), (2, 3), (1, 1), (1, 1)),
    "strides beyond the kernel": (2, 2, 1, 1, (9, 8), (2, 1), (3, 2), (0, 0), (1, 1)),
    "strides and dilations": (2, 2, 1, 2, (11, 12), (3, 3), (2, 4), (2, 1), (2, 2)),
    "padding beyond the kernel": (2, 2, 1, 1, (4, 3), (2, 1), (1, 2), (3, 2), (1, 1)),
    "high kernels": (3, 4, 1, 1, (11, 6), (5, 3), (1, 1), (2, 1), (1, 1)),
    "high kernels and strides": (3, 2, 1, 1, (21, 9), (7, 5), (2, 2), (3, 2), (1, 2)),
    "one dimension, high kernels": (3, 4, 1, 1, (19,), (6,), (1,), (5,), (1,)),
    "one dimension": (4, 3, 2, 2, (10,), (4,), (3,), (2,), (2,)),
    "one group": (3, 1, 9, 5, (7, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one group, strides": (5, 1, 9, 4, (9, 20), (4, 3), (2, 2), (1, 0), (1, 1)),
    "one group, strides and dilations": (3, 1, 8, 3, (14, 20), (3, 4), (2, 3), (2, 1), (3, 2)),
    "one group, padding beyond the kernel": (3, 1, 9, 2, (4, 20), (2, 2), (1, 1), (3, 2), (1, 1)),
    "one group, one dimension": (5, 1, 8, 3, (30,), (4,), (2,), (5,), (2,)),
    "one group, three dimensions": (
        2,
        1,
        8,
        3,
        (4, 5, 18),
        (2, 3, 2),
        (1, 2, 1),
        (1, 1, 0),
        (1, 1, 2),
    ),
    "three dimensions": (2, 3, 1, 1, (4, 5, 3), (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 2, 1)),
}


def derivatives(x, w, g, how) -> list:
    ops = [gl.nn.functional.conv1d, gl.nn.functional.conv2d, gl.nn.functional.conv3d]
    y = ops[x.ndim - 3](x, w, None, *how)
    return [y.detach(), *gl.autograd.grad(y, (x, w), g(y))]


@pytest.mark.parametrize("cells", [30, 1 << 19])
@pytest.mark.parametrize("last", [False, True], ids=["rows", "channels last"])
@pytest.mark.parametrize("dtype", [gl.float64, gl.complex128], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_gives_what_the_formula_gives(case, dtype, last, cells, monkeypatch):
    for module in (conv, conv_groups):
        monkeypatch.setattr(module, "CELLS", cells)
    n, groups, channels, outputs, space, kernel, *how = CASES[case]
    x = gl.randn(n, *space, groups * channels, dtype=dtype).movedim(-1, 1)
    x = (x if last else x.contiguous()).requires_grad_()
    w = gl.randn(groups * outputs, channels, *kernel, dtype=dtype, requires_grad=True)
    how, seeds = (*how, groups), []

    def g(y):
        seeds.append(gl.randn(*y.shape, dtype=dtype) if not seeds else seeds[0])
        return seeds[0]

    found = derivatives(x, w, g, how)
    with off():
        wanted = derivatives(x, w, g, how)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


# (channels and outputs, space, kernel, stride, padding, dilation)
LARGE_IMAGES = {
    "one stride": (4, 5, (30, 29), (3, 3), (1, 1), (1, 1), (1, 1)),
    "few channels": (1, 9, (40, 37), (3, 2), (1, 1), (0, 1), (1, 1)),
    "strides": (5, 3, (61, 58), (3, 4), (2, 2), (1, 0), (1, 1)),
    "strides beyond the kernel": (9, 3, (75, 90), (2, 2), (3, 3), (0, 1), (1, 1)),
    "strides and dilations": (9, 2, (64, 70), (3, 3), (2, 3), (2, 1), (3, 2)),
    "stride beyond the padding": (2, 4, (95, 60), (5, 3), (3, 2), (1, 1), (1, 2)),
    "padding beyond the kernel": (9, 4, (20, 30), (2, 3), (1, 1), (5, 6), (1, 1)),
    "a wide kernel": (3, 2, (31, 30), (2, 7), (1, 1), (0, 3), (1, 1)),
}


@pytest.mark.host
@pytest.mark.parametrize("dtype", [gl.float32, gl.float64], ids=str)
@pytest.mark.parametrize("deep", [1, 1 << 10], ids=["whole images", "parts of images"])
@pytest.mark.parametrize("case", LARGE_IMAGES)
def test_large_images_are_read_a_row_of_the_kernel_at_a_time(case, deep, dtype, monkeypatch):
    monkeypatch.setattr(conv_rows, "DEEP", deep)
    monkeypatch.setattr(conv_rows, "PART", 1)
    asked = []
    adding = blas.adding
    monkeypatch.setattr(blas, "adding", lambda d: asked.append(d) or adding(d))
    channels, outputs, space, kernel, *how = LARGE_IMAGES[case]
    x = gl.randn(3, channels, *space, dtype=dtype)[:, :, ::1].requires_grad_()
    w = gl.randn(outputs, channels, *kernel, dtype=dtype, requires_grad=True)
    seeds = []

    def g(y):
        seeds.append(gl.randn(*y.shape, dtype=dtype) if not seeds else seeds[0])
        return seeds[0]

    found = derivatives(x, w, g, (*how, 1))
    with off():
        wanted = derivatives(x, w, g, (*how, 1))
    assert asked  # the way that is tested here
    for a, b in zip(found, wanted, strict=True):
        scale = 1e-4 if dtype is gl.float32 else 1e-12
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=scale * float(b.abs().max()))


def test_a_dtype_or_library_without_such_products_has_the_patches_of_the_whole_kernel(monkeypatch):
    monkeypatch.setattr(blas, "adding", lambda d: None)
    x, w = gl.randn(2, 3, 30, 30).requires_grad_(), gl.randn(4, 3, 3, 3).requires_grad_()
    seed = gl.randn(2, 4, 30, 30)
    found = derivatives(x, w, lambda y: seed, (1, 1, 1, 1))
    with off():
        wanted = derivatives(x, w, lambda y: seed, (1, 1, 1, 1))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [7, 31])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_infinite_numbers_stay_where_they_are_read(groups, stride, size):
    """What lies across the ends of rows counts as 0 times something, which may not be infinite."""

    def run(bad_input: bool):
        x, w = gl.ones(2, 2, size, size), gl.ones(2, 2 // groups, 3, 3)
        if bad_input:
            x[0, 1, 0, size - 1] = math.inf
        else:
            w[1, 0, 0, 2] = math.inf
        x.requires_grad_()
        w.requires_grad_()
        y = gl.nn.functional.conv2d(x, w, None, stride, 0, 1, groups)
        dx, dw = gl.autograd.grad(y, (x, w), gl.ones_like(y))
        return dw if bad_input else dx

    for bad_input in (True, False):
        found = run(bad_input)
        with off():
            wanted = run(bad_input)
        assert wanted.isinf().any() and not wanted.isnan().any()
        assert gl.equal(found, wanted)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_rows_that_are_computed_together_keep_their_infinite_numbers(bad):
    """A row of the output has the weight 0 for what only the rows beside it read."""
    x, w = gl.ones(2, 3, 12, 7), gl.ones(3, 1, 5, 3)
    x[1, 2, 0, 4] = bad
    found = gl.nn.functional.conv2d(x, w, None, 1, 0, 1, 3)
    with off():
        wanted = gl.nn.functional.conv2d(x, w, None, 1, 0, 1, 3)
    assert 0 < (~wanted.isfinite()).sum() < wanted.shape[3] * 2
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


@pytest.mark.host
@pytest.mark.parametrize(
    ("groups", "size", "kernel"), [(8, 20, 3), (8, 20, 7), (1, 40, 3), (1, 90, 3), (1, 64, 5)]
)
def test_the_numbers_do_not_depend_on_the_number_of_threads(groups, size, kernel, monkeypatch):
    monkeypatch.setattr(conv_groups, "CELLS", 4000)
    x, w = gl.randn(5, 8, size, size), gl.randn(8, 8 // groups, kernel, kernel)
    x.requires_grad_()
    w.requires_grad_()
    g = gl.randn(5, 8, size, size)
    found = []
    before = gl.get_num_threads()
    try:
        for threads in (1, 3):
            gl.set_num_threads(threads)
            found.append(derivatives(x, w, lambda y: g, (1, kernel // 2, 1, groups)))
    finally:
        gl.set_num_threads(before)
    if groups == 1:  # a weight's gradient is a sum over all places, which BLAS alone cuts up
        found = [some[:2] for some in found]
    for a, b in zip(*found, strict=True):
        assert gl.equal(a, b)
