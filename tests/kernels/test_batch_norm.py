"""kernels/batch_norm.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, numpy, tensor, values

from gradlib.devices.cuda.fused.batch_norm import _Channels

SHAPES = [
    (5, 3),
    (1, 3, 2),
    (33, 2, 1),
    (4, 3, 5, 7),
    (70, 2, 33),
    (2, 3, 300),
    (300, 40),
    (1, 1, 1025),
]


def five(shape, kind, weight=True, running=False):
    c = shape[1]
    return (
        tensor(values(shape) + 3, kind),
        tensor(values((c,), 1, 0.5, 1.5), kind) if weight else None,
        tensor(values((c,), 2), kind) if weight else None,
        tensor(values((c,), 3), kind, grad=False) if running else None,
        tensor(values((c,), 4, 0.5, 2), kind, grad=False) if running else None,
    )


@pytest.mark.parametrize("kind", DTYPES)
def test_training(device, kind):
    # rows: DEV-26
    for shape in SHAPES:
        for weight in (True, False):
            args = (*five(shape, kind, weight), True, 1e-3, None)
            check_forward(device, "native_batch_norm", args, kind, factor=4)
            check_vjp(device, "native_batch_norm", args, kind, factor=8)


@pytest.mark.parametrize("kind", DTYPES)
def test_evaluation(device, kind):
    # rows: DEV-26
    for shape in SHAPES:
        for weight in (True, False):
            args = (*five(shape, kind, weight, running=True), False, 1e-3, None)
            check_forward(device, "native_batch_norm", args, kind, factor=4)
            check_vjp(device, "native_batch_norm", args, kind, factor=8)


def test_channels_last_is_read_in_place(device):
    # rows: DEV-26
    x = tensor(values((4, 5, 6, 3))).permute(0, 3, 1, 2)
    args = (x, *five((4, 3, 5, 6), "float64")[1:], True, 1e-5, None)
    out = check_forward(device, "native_batch_norm", args)[0]
    assert out.transpose(0, 2, 3, 1).flags.c_contiguous
    check_vjp(device, "native_batch_norm", args)


def test_statistics_are_given_to_the_caller_and_parts_are_combined(device):
    # rows: DEV-26
    x, box = tensor(values((600, 5, 4)) * 2 + 100), []
    found, expected = [], []
    from gradlib.devices.numpy.namespace import backend as numpy_backend
    from gradlib.op.declare import REGISTRY
    from gradlib.op.overlays import on

    assert _Channels(x._array).launch()[0][1] > 1
    on("cuda").forwards["native_batch_norm"](
        device, device.put(x._array), training=True, eps=1e-5, box=found
    )
    REGISTRY["native_batch_norm"].forward(
        numpy_backend, x._array, training=True, eps=1e-5, box=expected
    )
    assert box == [] and found[2] == expected[2]
    np.testing.assert_allclose(numpy(found[0]), expected[0], rtol=1e-12)
    np.testing.assert_allclose(numpy(found[1]), expected[1], rtol=1e-12)


def test_only_what_is_needed(device):
    # rows: DEV-26
    for training in (True, False):
        args = (*five((6, 3, 4), "float64", running=not training), training, 1e-5, None)
        for first in ((True, False, False), (False, True, False), (False, False, True)):
            check_vjp(device, "native_batch_norm", args, needs=(*first, False, False))
