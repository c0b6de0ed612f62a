"""kernels/conv.cu and kernels/im2col.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, numpy, tensor, values

import gradlib as gl
from gradlib.devices.cuda import precision
from gradlib.devices.cuda.kernels import C_TYPES

# input, weight, stride, padding, dilation, groups
CASES = [
    ((2, 3, 9), (4, 3, 3), (2,), (1,), (1,), 1),
    ((1, 2, 11), (3, 2, 4), (3,), (2,), (2,), 1),
    ((2, 2, 6, 5), (3, 2, 3, 2), (1, 1), (1, 0), (1, 2), 1),
    ((2, 4, 7, 6), (6, 2, 3, 3), (2, 3), (1, 2), (2, 1), 2),
    ((1, 2, 5, 4, 3), (2, 1, 2, 3, 2), (1, 2, 1), (0, 1, 1), (2, 1, 1), 2),
    ((2, 3, 5, 5), (3, 3, 1, 1), (2, 2), (0, 0), (1, 1), 1),
]
LARGER = [
    ((3, 5, 7, 9), (70, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # several tiles of rows and columns
    ((1, 20, 6, 6), (3, 20, 3, 3), (2, 2), (1, 1), (1, 1), 1),
]
DEPTHWISE = [
    ((2, 3, 6, 5), (3, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((2, 3, 9), (6, 1, 3), (2,), (2,), (2,), 3),
]


def three(case, kind, bias=True):
    shape, weight, *how = case
    x, w = tensor(values(shape), kind), tensor(values(weight, 1), kind)
    return (x, w, tensor(values(weight[:1], 2), kind) if bias else None), tuple(how)


def check_all(device, case, kind, bias=True):
    """A convolution, its gradients, the gradients as operations, and the transposed convolution."""
    (x, w, b), how = three(case, kind, bias)
    out = check_forward(device, "convolution", (x, w, b, *how), kind, factor=4)
    check_vjp(device, "convolution", (x, w, b, *how), kind, factor=8)
    g, (shape, kernel) = tensor(values(out.shape, 3), kind), case[:2]
    check_forward(device, "conv_grad_input", (g, w, shape[2:], *how), kind, factor=4)
    check_forward(device, "conv_grad_weight", (x, g, kernel[2:], *how), kind, factor=8)
    c = tensor(values((shape[1],), 4), kind) if bias else None
    check_forward(device, "conv_transpose", (g, w, c, shape[2:], *how), kind, factor=4)
    check_vjp(device, "conv_transpose", (g, w, c, shape[2:], *how), kind, factor=8)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", DTYPES)
def test_dense(device, kind, case):
    # rows: DEV-26
    check_all(device, case, kind)


@pytest.mark.parametrize("case", LARGER)
@pytest.mark.parametrize("kind", DTYPES)
def test_several_tiles(device, kind, case):
    # rows: DEV-26
    (x, w, b), how = three(case, kind)
    check_forward(device, "convolution", (x, w, b, *how), kind, factor=4)
    check_vjp(device, "convolution", (x, w, b, *how), kind, factor=16)


@pytest.mark.parametrize("case", DEPTHWISE)
@pytest.mark.parametrize("kind", DTYPES)
def test_depthwise(device, kind, case):
    # rows: DEV-26
    check_all(device, case, kind)
    assert {k.partition("<")[0] for k in device.launcher.launched} <= {
        "conv_depthwise",
        "conv_depthwise_weight",
        "sum_rows",  # the bias
        "sum_parts",
    }


def test_without_bias_and_only_what_is_needed(device):
    # rows: DEV-26
    check_all(device, CASES[3], "float64", bias=False)
    for needs in ((True, False, False), (False, True, False), (False, False, True)):
        (x, w, b), how = three(CASES[3], "float64")
        check_vjp(device, "convolution", (x, w, b, *how), needs=needs)


@pytest.mark.parametrize("kind", DTYPES)
def test_a_long_sum_is_cut_into_parts(device, kind):
    # rows: DEV-26
    x, g = tensor(values((2, 2, 700)), kind), tensor(values((2, 3, 700), 1), kind)
    check_forward(device, "conv_grad_weight", (x, g, (3,), (1,), (1,), (1,), 1), kind, factor=64)
    ctype = C_TYPES[x.dtype.np]
    assert device.launcher.launched == [f"conv_weight<{ctype}>", f"sum_parts<{ctype}>"]


def test_output_padding_of_a_transposed_convolution(device):
    # rows: DEV-26
    x, w, b = tensor(values((1, 2, 4, 3))), tensor(values((2, 1, 2, 2))), tensor(values((1,)))
    how = ((14, 10), (3, 2), (1, 0), (4, 4), 1)
    check_forward(device, "conv_transpose", (x, w, b, *how))


def test_padding_beyond_the_kernel(device):
    # rows: DEV-26
    check_all(device, ((1, 2, 3), (2, 2, 2), (1,), (4,), (1,), 1), "float64")


def test_strided_arguments(device):
    # rows: DEV-26
    x = tensor(values((2, 6, 5, 3))).permute(0, 3, 1, 2)
    w = tensor(values((3, 3, 2, 4))).transpose(0, 3)
    how = ((1, 1), (1, 1), (1, 1), 1)
    check_forward(device, "convolution", (x, w, None, *how), factor=4)
    check_vjp(device, "convolution", (x, w, None, *how), factor=4)


def test_what_the_formula_does(device, monkeypatch):
    # rows: DEV-26
    how = ((1, 1), (0, 0), (1, 1), 1)
    for kernel in (1, 2):
        x, w = tensor(values((0, 3, 4, 4))), tensor(values((5, 3, kernel, kernel)))
        check_forward(device, "convolution", (x, w, None, *how), runs=False)
    z = gl.from_numpy(values((1, 3, 4, 4)).astype(np.complex128))
    check_forward(device, "convolution", (z, z, None, *how), runs=False)
    monkeypatch.setattr(precision, "_tf32_in_convolutions", True)  # on tensor cores
    x, w = tensor(values((2, 3, 4, 4)), "float32"), tensor(values((5, 3, 2, 2)), "float32")
    check_forward(device, "convolution", (x, w, None, *how), runs=False)


ONE_BY_ONE = [
    ((3, 2, 40), (2, 2, 1)),  # the weight's gradient is a sum of products of images
    ((3, 8, 1, 2), (9, 8, 1, 1)),  # and one product of images that were moved together
    ((1, 3, 5, 7), (4, 3, 1, 1)),
    ((4, 3, 1), (5, 3, 1)),  # one position: a product of two matrices
    ((2, 1, 3, 1, 2), (1, 1, 1, 1, 1)),
]


def one_by_one(shape):
    """Stride, padding, dilation and groups of a convolution of an array of `shape`."""
    n = len(shape) - 2
    return (1,) * n, (0,) * n, (1,) * n, 1


@pytest.mark.parametrize("kind", DTYPES)
def test_one_by_one_is_a_product_of_cublas(device, kind):
    # rows: DEV-26
    for shape, weight in ONE_BY_ONE:
        for bias in (True, False):
            check_all(device, (shape, weight, *one_by_one(shape)), kind, bias)
    names = {k.partition("<")[0] for k in device.launcher.launched}
    assert names <= {"matmul", "add_bias", "sum_parts", "sum_rows", "sum_columns"}


@pytest.mark.parametrize("kind", DTYPES)
def test_one_by_one_reads_channels_last_in_place(device, kind):
    # rows: DEV-26
    x = tensor(values((2, 5, 3, 4)), kind).permute(0, 3, 1, 2)
    w, b = tensor(values((6, 4, 1, 1), 1), kind), tensor(values((6,), 2), kind)
    how = one_by_one(x.shape)
    out = check_forward(device, "convolution", (x, w, b, *how), kind, factor=4)
    assert out.transpose(0, 2, 3, 1).flags.c_contiguous
    assert [k.partition("<")[0] for k in device.launcher.launched] == ["matmul", "add_bias"]
    check_vjp(device, "convolution", (x, w, b, *how), kind, factor=8)
    g = tensor(values((2, 5, 3, 6), 3), kind).permute(0, 3, 1, 2)
    check_forward(device, "conv_grad_weight", (x, g, (1, 1), *how), kind, factor=8)
    g = g.contiguous()  # only one of the two is channels last
    check_forward(device, "conv_grad_weight", (x, g, (1, 1), *how), kind, factor=8)


UNFOLD = [
    ((2, 3, 4, 5), (2, 3), (1, 1), (1, 0), (2, 1)),
    ((1, 2, 7, 6), (2, 2), (2, 1), (0, 1), (1, 2)),
    ((0, 2, 7, 6), (2, 2), (2, 1), (0, 1), (1, 2)),
]


@pytest.mark.parametrize("kind", DTYPES)
def test_unfold_and_fold(device, kind):
    # rows: DEV-26
    for shape, *how in UNFOLD:
        x = tensor(values(shape), kind)
        columns = check_forward(device, "im2col", (x, *how), kind)
        check_vjp(device, "im2col", (x, *how), kind, factor=2)
        c = tensor(values(numpy(columns).shape, 1), kind)
        check_forward(device, "col2im", (c, shape[2:], *how), kind, factor=2)
        check_vjp(device, "col2im", (c, shape[2:], *how), kind)


def test_unfold_of_complex_values(device):
    # rows: DEV-26
    z = gl.from_numpy(values((1, 2, 4, 4)) + 1j * values((1, 2, 4, 4), 1))
    check_forward(device, "im2col", (z, (2, 2), (1, 1), (1, 1), (1, 1)))
