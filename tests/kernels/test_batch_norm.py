"""kernels/batch_norm.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import STORED, check_forward, check_vjp, close, numpy, tensor, values

import gradlib as gl
from gradlib.devices.cuda.fused.batch_norm import _Channels
from gradlib.op.overlays import on
from gradlib.operators.nn.batch_norm import Statistics

SHAPES = [
    (5, 3),
    (1, 3, 2),
    (33, 2, 1),
    (4, 3, 5, 7),
    (70, 2, 33),
    (2, 3, 300),
    (300, 40),
    (900, 8),
    (9, 530),
    (1, 1, 1025),
]


def five(shape, kind, weight=True, running=False, stored=None):
    """stored: the kind of all but the first."""
    c, stored = shape[1], stored or kind
    return (
        tensor(values(shape) + 3, kind),
        tensor(values((c,), 1, 0.5, 1.5), stored) if weight else None,
        tensor(values((c,), 2), stored) if weight else None,
        tensor(values((c,), 3), stored, grad=False) if running else None,
        tensor(values((c,), 4, 0.5, 2), stored, grad=False) if running else None,
    )


@pytest.mark.parametrize(("kind", "stored"), STORED)
def test_training(device, kind, stored):
    # rows: DEV-26
    for shape in SHAPES:
        for weight in (True, False):
            args = (*five(shape, kind, weight, stored=stored), True, 1e-3, None)
            check_forward(device, "native_batch_norm", args, kind, factor=4)
            check_vjp(device, "native_batch_norm", args, kind, factor=8)


@pytest.mark.parametrize(("kind", "stored"), STORED)
def test_evaluation(device, kind, stored):
    # rows: DEV-26
    for shape in SHAPES:
        for weight in (True, False):
            args = (*five(shape, kind, weight, True, stored), False, 1e-3, None)
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


class Running:
    """A tensor of running statistics, as far as a kernel asks."""

    def __init__(self, array):
        self._array = array


@pytest.mark.parametrize(("kind", "stored"), STORED)
def test_running_statistics_are_moved_by_the_kernel_that_combines_parts(device, kind, stored):
    # rows: DEV-26
    for shape in ((5, 3), (600, 5, 4), (2, 1)):
        x, _, _, mean, var = five(shape, kind, running=True, stored=stored)
        expected = [t.detach().double().clone() for t in (mean, var)]
        gl.nn.functional.batch_norm(x.detach().double(), *expected, training=True, momentum=0.3)
        running = [Running(device.put(t._array)) for t in (mean, var)]
        box = Statistics(tuple(running), 0.3)
        how = {"training": True, "eps": 1e-5, "box": box}
        on("cuda").forwards["native_batch_norm"](device, device.put(x._array), **how)
        assert box.moved and len(device.launcher.launched) == 3
        for found, wanted in zip(running, expected, strict=True):
            close(found._array, wanted.numpy(), stored, 3)
        device.launcher.launched.clear()


def test_running_statistics_that_the_kernel_cannot_move_are_left_to_the_caller(device):
    # rows: DEV-26
    x = device.put(values((6, 4)))
    fine = [device.put(np.ones(4)) for _ in range(2)]
    every_other = device.put(np.ones(8))[::2]
    for mean, var in ((every_other, fine[1]), (fine[0], fine[1].astype("f4"))):
        box = Statistics((Running(mean), Running(var)), 0.1)
        how = {"training": True, "eps": 1e-5, "box": box}
        on("cuda").forwards["native_batch_norm"](device, x, **how)
        assert not box.moved and len(box) == 3
        assert (numpy(mean) == 1).all() and (numpy(var) == 1).all()
