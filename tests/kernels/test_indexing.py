"""kernels/embedding.cu and kernels/scatter.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, tensor, values

import gradlib as gl
from gradlib.op.overlays import on
from gradlib.tape.switches import switches

overlays = on("cuda")


@pytest.fixture(params=[False, True], ids=["atomic", "repeatable"])
def deterministic(request):
    switches.deterministic = request.param
    yield request.param
    switches.deterministic = False


def numbers(shape, n, index=np.int64, seed=0):
    return gl.from_numpy(np.asarray(np.random.default_rng(seed).integers(0, n, shape), index))


@pytest.mark.parametrize("kind", DTYPES)
def test_embedding(device, kind, deterministic):
    # rows: DEV-26
    for rows, width, shape in (
        (1, 1, ()),
        (40, 33, (7, 5)),
        (5, 3, (300,)),
        (9, 300, (31,)),
        (4, 2, (0,)),
    ):
        for index in (np.int32, np.int64):
            weight, where = tensor(values((rows, width)), kind), numbers(shape, rows, index)
            check_forward(device, "embedding_op", (weight, where, -1, False), kind)
            check_vjp(device, "embedding_op", (weight, where, -1, False), kind, factor=4)
            g = tensor(values((*shape, width)), kind)
            check_forward(device, "embedding_grad", (g, where, rows), kind, factor=4)


def test_padding_and_frequencies(device, deterministic):
    # rows: DEV-26
    weight, where = tensor(values((6, 5))), numbers((40,), 6)
    for padding in (-1, 2):
        for by_count in (False, True):
            check_vjp(device, "embedding_op", (weight, where, padding, by_count))
    kernels = {k.partition("<")[0] for k in device.launcher.launched}
    assert ("add_rows" in kernels) != deterministic


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sums_of_half_types_are_rounded_once_and_need_no_order(device, kind):
    # rows: DEV-26
    for rows, width, count in ((3, 5, 700), (50, 8, 20), (400, 16, 90)):
        weight, where = tensor(values((rows, width)), kind), numbers((count,), rows)
        for padding in (-1, 1):
            args = (weight, where, padding, False)
            check_vjp(device, "embedding_op", args, kind)
    kernels = {k.partition("<")[0] for k in device.launcher.launched}
    assert kernels == {"claim_rows", "join_rows", "own_rows"}


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.float32, np.complex64, np.complex128])
def test_rows_of_any_dtype(device, dtype):
    # rows: DEV-26
    table = gl.from_numpy(np.arange(12).reshape(4, 3).astype(dtype))
    check_forward(device, "embedding_op", (table, numbers((5,), 4), -1, False))
    wide = gl.from_numpy(
        np.arange(64).reshape(4, 16).astype(dtype)
    )  # rows of whole multiples of 16 bytes
    check_forward(device, "embedding_op", (wide, numbers((5,), 4), -1, False))
    check_forward(device, "gather", (table, numbers((2, 3), 4), 0))


CASES = [((5,), (9,), 0), ((4, 3), (2, 3), 0), ((3, 33), (3, 40), 1), ((2, 5, 3), (2, 7, 3), 1), ((), (), 0),
         ((3, 4), (0, 4), 0)]  # fmt: skip


@pytest.mark.parametrize("kind", DTYPES)
def test_gather_and_scatter_add(device, kind, deterministic):
    # rows: DEV-26
    for shape, wanted, dim in CASES:
        x = tensor(values(shape), kind)
        where = numbers(
            wanted, shape[dim] if shape else 1, np.int32 if len(shape) == 1 else np.int64
        )
        src = tensor(values(wanted, 3), kind)
        check_forward(device, "gather", (x, where, dim), kind)
        check_vjp(device, "gather", (x, where, dim), kind, factor=4)
        check_forward(device, "gather_backward", (src, where, shape, dim), kind, factor=4)
        check_forward(device, "scatter_add", (x, where, src, dim), kind, factor=4)
        check_vjp(device, "scatter_add", (x, where, src, dim), kind)


def test_sums_of_integers(device, deterministic):
    # rows: DEV-26
    for dtype in (np.int32, np.int64):
        x = gl.from_numpy(np.arange(-3, 5, dtype=dtype))
        src = gl.from_numpy(np.arange(-9, 11, dtype=dtype))
        check_forward(device, "scatter_add", (x, numbers((20,), 8), src, 0))


def test_what_falls_back(device):
    # rows: DEV-26
    x = tensor(values((3, 4)))
    check_forward(device, "gather", (x, numbers((3, 2), 3), 0), runs=False)  # a corner only
    check_forward(
        device, "scatter_add", (x, numbers((2, 4), 3), tensor(values((3, 4))), 0), runs=False
    )


@pytest.mark.parametrize("wrong", [-1, 4])
def test_an_index_out_of_range_stops_the_kernel(device, wrong):
    # rows: DEV-26
    table, where = device.put(values((4, 3))), device.put(np.array([0, wrong]))
    calls = [
        lambda: overlays.forwards["embedding_op"](
            device, table, where, padding_idx=-1, scale_grad_by_freq=False
        ),
        lambda: overlays.forwards["embedding_grad"](device, table[:2], where, rows=4),
        lambda: overlays.forwards["embedding_grad"](
            device, table[:2].astype(np.float16), where, rows=4
        ),
        lambda: overlays.forwards["gather"](device, table[:, 0].copy(), where, dim=0),
        lambda: overlays.forwards["gather_backward"](
            device, table[:2, 0].copy(), where, shape=(4,), dim=0
        ),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="__trap"):
            call()
