"""kernels/recurrent.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, tensor, values

SHAPES = [(3, 2), (1, 1), (33, 40), (0, 4), (4, 0)]


def cell(name: str, rows: int, n: int, kind: str) -> tuple:
    """Arguments of the op, some of them large enough to saturate the gates."""
    if name == "lstm_step":
        shapes = (rows, 4 * n), (rows, n)
    else:
        shapes = (rows, 3 * n), (rows, 3 * n), (rows, n)
    return tuple(tensor(values(s, seed, -9, 9), kind) for seed, s in enumerate(shapes))


@pytest.mark.parametrize("name", ["lstm_step", "gru_step"])
@pytest.mark.parametrize("kind", DTYPES)
def test_values_and_gradients(device, name, kind):
    # rows: DEV-26
    for rows, n in SHAPES:
        check_forward(device, name, cell(name, rows, n, kind), kind, factor=2)
        check_vjp(device, name, cell(name, rows, n, kind), kind, factor=4)
        if name == "lstm_step":
            for given in ((True, True), (False, True)):
                check_vjp(device, name, cell(name, rows, n, kind), kind, factor=4, given=given)


def test_strided_and_unsupported_arguments(device):
    # rows: DEV-26
    gates, c = values((4, 24)), values((3, 4), 1)
    check_forward(device, "lstm_step", (tensor(gates)[:, ::2], tensor(c).t()))
    check_vjp(device, "lstm_step", (tensor(gates)[:, ::2], tensor(c).t()))
    numbers = np.arange(12).reshape(1, 12)
    check_forward(device, "lstm_step", (tensor(numbers), tensor(numbers[:, :3])), runs=False)
