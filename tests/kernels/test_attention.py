"""kernels/attention.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, numpy, tensor, values

import gradlib as gl

NAME = "scaled_dot_product_attention_op"
FACTOR = {"float16": 2, "bfloat16": 2, "float32": 8, "float64": 8}

# leading shape, queries, keys, width, width of values
CASES = [
    ((), 3, 5, 4, 3),
    ((2,), 7, 40, 16, 16),
    ((2, 3), 5, 5, 9, 33),
    ((1, 2), 70, 37, 5, 8),
    ((2,), 67, 131, 16, 32),  # several turns of rows that lie for 16 bytes at once
]


def three(case, kind):
    lead, n, m, width, columns = case
    shapes = ((*lead, n, width), (*lead, m, width), (*lead, m, columns))
    return tuple(tensor(values(s, i), kind) for i, s in enumerate(shapes))


def check(device, args, kind, needs=None):
    check_forward(device, NAME, args, kind, factor=FACTOR[kind])
    check_vjp(device, NAME, args, kind, factor=4 * FACTOR[kind], needs=needs)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", DTYPES)
def test_values_and_gradients(device, kind, case):
    # rows: DEV-26
    for causal in (False, True):
        check(device, (*three(case, kind), None, causal, 0.5), kind)


@pytest.mark.parametrize("kind", DTYPES)
def test_wide_heads(device, kind):
    # rows: DEV-26
    width = 64 if kind == "float64" else 101
    check(device, (*three(((1,), 5, 34, width, width - 3), kind), None, True, 0.1), kind)


@pytest.mark.parametrize("kind", DTYPES)
def test_masks(device, kind):
    # rows: DEV-26
    rng = np.random.default_rng(0)
    for lead, shape in (
        ((2, 3), (5, 6)),
        ((2, 3), (2, 1, 1, 6)),
        ((2, 3), (3, 5, 6)),
        ((4,), (5, 1)),
    ):
        look = rng.random(shape) < 0.6
        numbers = tensor(values(shape, 7), kind, grad=False)
        for mask in (gl.from_numpy(look), numbers):
            check(device, (*three((lead, 5, 6, 4, 4), kind), mask, False, 0.5), kind)


def test_many_leading_dimensions(device):
    # rows: DEV-26
    mask = gl.from_numpy(np.random.default_rng(0).random((2, 1, 3, 4, 5)) < 0.7)
    check(device, (*three(((2, 2, 3), 4, 5, 4, 4), "float64"), mask, False, 0.5), "float64")


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_queries_with_nothing_to_look_at(device, kind):
    # rows: DEV-26
    look = np.ones((3, 40), bool)
    look[1] = look[2, :35] = False
    q, k, v = three(((2,), 3, 40, 4, 4), kind)
    out, lse = check_forward(device, NAME, (q, k, v, gl.from_numpy(look), False, 0.5), kind, 2)
    assert (numpy(out)[:, 1] == 0).all() and np.isneginf(numpy(lse)[:, 1]).all()
    check_vjp(device, NAME, (q, k, v, gl.from_numpy(look), False, 0.5), kind, 8)


@pytest.mark.parametrize("case", [((2,), 0, 3, 4, 4), ((0,), 2, 3, 4, 4), ((2,), 3, 0, 4, 4)])
def test_empty(device, case):
    # rows: DEV-26
    check(device, (*three(case, "float64"), None, False, 0.5), "float64")


def test_large_scores(device):
    # rows: DEV-26
    q, k, v = three(((1,), 4, 70, 8, 8), "float32")
    check_forward(device, NAME, (q * 30, k * 30, v, None, False, 1.0), "float32", 64)


def test_heads_are_read_where_they_lie(device, monkeypatch):
    # rows: DEV-26
    q, k, v = (tensor(values((2, 5, 3, 8), i)).transpose(1, 2) for i in range(3))
    monkeypatch.setattr(device, "ascontiguousarray", None)
    check_forward(device, NAME, (q, k, v, None, True, 0.5))
    monkeypatch.undo()
    check_vjp(device, NAME, (q, k, v, None, True, 0.5))
    check_forward(
        device,
        NAME,
        (q.transpose(2, 3), k.transpose(2, 3), v[:, :, :1].expand(2, 3, 8, 8), None, False, 0.5),
    )


def test_only_what_is_needed(device):
    # rows: DEV-26
    args = (*three(((2,), 5, 6, 4, 4), "float64"), None, False, 0.5)
    for i in range(3):
        check_vjp(device, NAME, args, needs=tuple(i == j for j in range(4)))


def test_what_the_formula_does(device):
    # rows: DEV-26
    check_forward(
        device, NAME, (*three(((), 2, 2, 130, 4), "float32"), None, False, 0.5), runs=False
    )
    check_forward(
        device, NAME, (*three(((), 2, 2, 65, 4), "float64"), None, False, 0.5), runs=False
    )
    q, k, v = three(((), 2, 2, 4, 4), "float32")
    check_forward(device, NAME, (q, k, v, tensor(values((2, 2))), False, 0.5), runs=False)
