"""kernels/softmax.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, close, tensor, values

from gradlib.op.overlays import on

overlays = on("cuda")

SHAPES = [((), 0), ((1,), 0), ((31,), 0), ((3, 33), 1), ((33, 3), 0), ((2, 5, 7), 1), ((9, 1025), 1),
          ((0, 3), 1), ((3, 0), 1), ((2, 3000), 1), ((4, 8), 1), ((5, 1, 2), 1)]  # fmt: skip


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("kind", DTYPES)
def test_values_and_gradients(device, name, kind):
    # rows: DEV-26
    for shape, dim in SHAPES:
        x = tensor(values(shape, low=-6, high=6), kind)
        check_forward(device, name, (x, dim), kind, factor=2)
        check_vjp(device, name, (x, dim), kind, factor=4)


@pytest.mark.parametrize("name", ["softmax_grad", "log_softmax_grad"])
def test_the_gradient_as_an_op(device, name):
    # rows: DEV-26
    for shape, dim in SHAPES:
        check_forward(device, name, (tensor(values(shape)), tensor(values(shape, 1)), dim))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_infinities_and_nan(device, name):
    # rows: DEV-26
    inf = np.inf
    rows = [
        [1, -inf, 2],
        [-inf, -inf, 0],
        [-inf, 3, 4],
        [-inf, -inf, -inf],
        [1, inf, 2],
        [1, np.nan, 2],
        [900, 0, 900],
    ]
    for x, dim in ((np.array(rows), 1), (np.array(rows).T.copy(), 0)):
        with np.errstate(all="ignore"):
            check_forward(device, name, (tensor(x), dim))


def test_rows_that_are_not_aligned(device):
    # rows: DEV-26
    whole = values((33,), low=-6, high=6).astype(np.float32)
    moved = device.put(whole)
    for start in (0, 1):
        x = whole[start : start + 32].reshape(4, 8)
        found = overlays.forwards["softmax"](device, moved[start : start + 32].reshape(4, 8), dim=1)
        close(found, np.exp(x) / np.exp(x).sum(1, keepdims=True), "float32")


def test_strided_and_unsupported_arguments(device):
    # rows: DEV-26
    x = tensor(values((6, 10)))
    check_forward(device, "softmax", (x.t(), 1))
    check_forward(device, "softmax", (x[:, ::2], 1))
    check_forward(device, "softmax", (tensor(np.arange(4)), 0), runs=False)


def test_few_long_columns_are_left_to_the_formula(device):
    # rows: DEV-26
    for shape, runs in (((3000, 4), False), ((1000, 4), True), ((4, 3000), True)):
        dim = 0 if shape[1] == 4 else 1
        check_forward(device, "softmax", (tensor(values(shape)), dim), runs=runs)
