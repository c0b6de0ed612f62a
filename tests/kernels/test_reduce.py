"""kernels/reduce.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, tensor, values

from gradlib.devices.cuda.fused import reduce

CASES = [((3, 33), (1,)), ((33, 3), (0,)), ((2, 5, 7), (1,)), ((2, 5, 7), (0, 1)), ((2, 5, 7), (1, 2)), ((), ()),
         ((1025,), (0,)), ((4, 1, 5), (1,)), ((2, 3, 1, 4), (1, 3)), ((2, 3), ()), ((9, 1300), (1,)), ((1, 6000), (1,)),
         ((6000, 40), (0,)), ((3, 2100, 33), (1,)), ((3, 4, 5), (0, 2)), ((2, 3, 4, 5, 6), (0, 3, 4)),
         ((2, 3, 4500), (0, 2)), ((1, 3, 1, 5), (0, 3)), ((7, 300, 1, 2), (0, 2, 3))]  # fmt: skip


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_over_dimensions(device, name, kind):
    # rows: DEV-26
    for shape, dim in CASES:
        for keepdim in (False, True):
            x = tensor(values(shape), kind)
            check_forward(
                device, name, (x, dim, keepdim), kind, factor=4 if x.numel() < 1000 else 40
            )


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ["sum_all", "mean_all"])
def test_over_everything(device, name, kind):
    # rows: DEV-26
    for shape in ((), (1,), (31, 33), (5000,)):
        check_forward(device, name, (tensor(values(shape, low=0.5), kind),), kind, factor=4)


def test_long_sums_are_cut(device):
    # rows: DEV-26
    check_forward(
        device, "sum_all", (tensor(values((100001,))),)
    )  # in 48 parts, and no whole packs
    check_forward(device, "sum", (tensor(values((5000, 2))), (0,), False))  # in 39 parts
    device.launcher.launched.clear()
    check_forward(device, "sum_all", (tensor(values((5000,))),))
    assert device.launcher.launched == ["sum_rows<double>", "sum_parts<double>"]


def test_half_types_add_up_in_float(device):
    # rows: DEV-26
    x = np.ones(5000, np.float16)
    assert reduce.sum_all(device, device.put(x)) == 5000
    assert reduce.mean_all(device, device.put(x * 20)) == 20


@pytest.mark.parametrize("kind", DTYPES)
def test_other_orders_of_dimensions_are_read_in_place(device, kind):
    # rows: DEV-26
    last = tensor(values((2, 5, 6, 3)), kind).permute(0, 3, 1, 2)  # channels last
    for dim in ((0, 2, 3), (2, 3), (0, 1, 2)):
        check_forward(device, "sum", (last, dim, False), kind, factor=4)
        check_forward(device, "mean", (last, dim, True), kind, factor=4)
    check_forward(device, "sum", (tensor(values((40, 6)), kind).t(), (1,), False), kind, factor=4)


def test_what_falls_back(device):
    # rows: DEV-26
    x = tensor(values((3, 4, 5)))
    check_forward(device, "sum", (x.transpose(0, 1), (2,), False), runs=False)
    check_forward(device, "sum", (tensor(values((3, 4, 5, 2, 3))), (0, 2, 4), False), runs=False)
    check_forward(device, "sum", (x[:0], (0,), False), runs=False)
    check_forward(device, "sum", (tensor(np.arange(4)), (0,), False), runs=False)
