"""NumPy's where without branches gives bit for bit what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlib.devices.numpy import select

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -3.5]


def operand(draw: np.random.Generator, kind: str, dtype, shape, order: str):
    """An array with all kinds of numbers, or one number."""
    if kind == "array":
        values = draw.standard_normal(shape).astype(dtype)
        if values.size and values.dtype.kind == "f":
            values.reshape(-1)[: len(SPECIAL)] = SPECIAL
        return np.asarray(values, order=order)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return {"zero": 0.0, "negative zero": -0.0, "int": 0, "number": 2.5, "nan": np.nan,
            "scalar": dtype(1.5), "big": 1e300, "none of it": np.asarray(0.0)}[kind]  # fmt: skip


KINDS = ["array", "zero", "negative zero", "int", "number", "nan", "scalar", "big", "none of it"]


@given(
    x=st.sampled_from(KINDS),
    y=st.sampled_from(KINDS),
    dtypes=st.tuples(*[st.sampled_from([np.float32, np.float64, np.float16, np.int32])] * 2),
    size=st.sampled_from([0, 7, 100, 9000, 20000, 70000]),
    orders=st.tuples(*[st.sampled_from("CF")] * 3),
    part=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
)
def test_same_bits_and_layout(x, y, dtypes, size, orders, part):
    draw, shape = np.random.default_rng(size), (size // 7, 7)
    condition = np.asarray(draw.random(shape) < part, order=orders[0])  # pyright: ignore
    a = operand(draw, x, dtypes[0], shape, orders[1])
    b = operand(draw, y, dtypes[1], shape, orders[2])
    found, expected = select.where(condition, a, b), np.where(condition, a, b)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.strides == expected.strides
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [100, 9000])
def test_an_array_of_one_zero_counts_with_its_dtype(size):
    condition, half = np.zeros(size, bool), np.ones(size, np.float16)
    for zero in (np.asarray(0.0), np.float64(0.0)):
        assert select.where(condition, zero, half).dtype == np.where(condition, zero, half).dtype


def test_broadcast_operands_and_other_conditions():
    draw = np.random.default_rng(0)
    condition, row = draw.random((200, 100)) < 0.5, draw.standard_normal(100)
    assert (select.where(condition, row, 0.0) == np.where(condition, row, 0.0)).all()
    numbers = condition.astype(np.int8)
    assert (select.where(numbers, 1.0, row) == np.where(numbers, 1.0, row)).all()
    assert all(
        (a == b).all() for a, b in zip(select.where(condition), np.where(condition), strict=True)
    )
    with pytest.raises(ValueError, match="x and y"):
        select.where(condition, row)
