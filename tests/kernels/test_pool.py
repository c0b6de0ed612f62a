"""kernels/pool.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, numpy, tensor, values

import gradlib as gl
from gradlib.op.overlays import on
from gradlib.tape.switches import switches

overlays = on("cuda")

# shape, kernel, stride, padding, dilation, ceil_mode
CASES = [
    ((2, 3, 7), (3,), (2,), (1,), (1,), False),
    ((1, 2, 40), (5,), (1,), (2,), (3,), True),
    ((2, 3, 5, 6), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((1, 2, 9, 7), (3, 2), (2, 3), (1, 1), (2, 3), True),
    ((3, 1, 4, 4), (4, 4), (4, 4), (0, 0), (1, 1), False),
    ((1, 2, 4, 5, 6), (2, 3, 2), (2, 1, 2), (1, 0, 1), (1, 2, 1), True),
    ((0, 3, 5, 6), (2, 2), (2, 2), (0, 0), (1, 1), False),
]


def op_of(kernel) -> str:
    return f"max_pool{max(len(kernel), 2)}d_op"


@pytest.mark.parametrize("kind", DTYPES)
def test_max(device, kind):
    # rows: DEV-26
    for shape, *how in CASES:
        x = tensor(values(shape), kind)
        for name in (op_of(how[0]), "max_pool_with_indices"):
            check_forward(device, name, (x, *how), kind)
            check_vjp(device, name, (x, *how), kind)


def test_equal_and_infinite_values(device):
    # rows: DEV-26
    x = np.zeros((1, 1, 6, 6))
    x[0, 0, 5, 5], x[0, 0, 0, 3], x[0, 0, 4, :3] = np.inf, -np.inf, -np.inf
    how = ((2, 2), (1, 1), (0, 0), (1, 1), False)
    best, taps = check_forward(device, "max_pool2d_op", (tensor(x), *how))
    assert numpy(taps)[0, 0, 0, 0] == 0 and numpy(best)[0, 0, 4, 4] == np.inf


def positions(device, row: list) -> tuple[list, list]:
    """Maxima and positions of windows of three with stride two and padding one."""
    x = device.put(np.array([[row]]))
    how = {"kernel_size": (3,), "stride": (2,), "padding": (1,), "dilation": (1,)}
    found = overlays.forwards["max_pool_with_indices"](device, x, ceil_mode=False, **how)
    best, where = (numpy(a).tolist()[0][0] for a in found)
    return best, where


def test_a_nan_wins(device):
    # rows: DEV-26
    best, where = positions(device, [1.0, np.nan, 3.0, np.nan, 5.0, 6.0])
    assert np.isnan(best).all() and where == [1, 3, 3]


def test_the_first_tap_inside_is_taken_where_all_are_minus_infinity(device):
    # rows: DEV-26
    assert positions(device, [-np.inf] * 4)[1] == [0, 1]


@pytest.mark.parametrize("kind", DTYPES)
def test_average(device, kind):
    # rows: DEV-26
    for shape, kernel, stride, padding, _, ceil_mode in CASES:
        n = len(kernel)
        padding = tuple(min(p, k // 2) for p, k in zip(padding, kernel, strict=True))
        for count, divisor in ((True, None), (False, None), (False, 5)):
            how = (kernel, stride, padding, ceil_mode, count, divisor)
            x = tensor(values(shape), kind)
            out = check_forward(device, f"avg_pool{n}d_op", (x, *how), kind)
            check_vjp(device, f"avg_pool{n}d_op", (x, *how), kind, factor=2)
            g = tensor(values(out.shape), kind)
            name = f"avg_pool{max(n, 2)}d_grad"
            check_forward(device, name, (g, shape[2:], *how), kind, factor=2)


def test_average_of_whole_planes_is_a_mean(device):
    # rows: DEV-26
    how = ((40, 30), (1, 1), (0, 0), False, True, None)
    out = check_forward(device, "avg_pool2d_op", (tensor(values((2, 3, 40, 30))), *how))
    assert out.shape == (2, 3, 1, 1)
    assert device.launcher.launched[0].startswith("sum_rows")


@pytest.mark.parametrize("kind", DTYPES)
def test_putting_and_picking(device, kind):
    # rows: DEV-26
    for shape, *how in CASES:
        x = tensor(values(shape), kind)
        _, taps = check_forward(device, op_of(how[0]), (x, *how), kind)
        taps = numpy(taps)
        g = tensor(values(taps.shape, 5), kind)
        check_forward(device, "pool_put", (g, taps, shape[2:], *how), kind)
        check_forward(device, "pool_pick", (x, taps, *how), kind)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", DTYPES)
def test_values_at_positions(device, monkeypatch, kind, deterministic):
    # rows: DEV-26
    monkeypatch.setattr(switches, "deterministic", deterministic)
    for shape, out in (((2, 3, 5), (4,)), ((1, 2, 3, 4), (5, 2)), ((2, 0, 5), (4,))):
        n = int(np.prod(shape[2:]))
        lead, space = shape[:2], len(shape) - 2
        index = gl.from_numpy(np.random.default_rng(0).integers(0, n, lead + out))
        x, g = tensor(values(shape), kind), tensor(values(lead + out, 1), kind)
        check_forward(device, "gather_plane", (x, index, space), kind)
        check_forward(device, "scatter_plane", (g, index, shape[2:]), kind, factor=2)
        check_vjp(device, "gather_plane", (x, index, space), kind, factor=2)
        check_vjp(device, "scatter_plane", (g, index, shape[2:]), kind)


def test_strided_and_unsupported_arguments(device):
    # rows: DEV-26
    x = tensor(values((2, 3, 5, 6)))
    how = ((2, 2), (2, 2), (0, 0), (1, 1), False)
    check_forward(device, "max_pool2d_op", (x.permute(0, 3, 1, 2), *how))
    check_forward(device, "max_pool2d_op", (x[..., ::2], *how))
    whole = tensor(np.arange(60).reshape(1, 3, 4, 5))
    check_forward(device, "max_pool2d_op", (whole, *how), runs=False)
    wide = (17, 17), (1, 1), (8, 8), (1, 1), False
    check_forward(device, "max_pool2d_op", (x, *wide), runs=False)
    average = ((2, 2), (2, 2), (0, 0), False, True, None)
    check_forward(device, "avg_pool2d_op", (whole, *average), runs=False)
