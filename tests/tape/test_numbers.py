"""A Python number beside a tensor: the generated code gives what the general way gives."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradlib as torch
from gradlib.op import interpret

INTS = st.one_of(st.integers(-5, 5), st.integers(2**61, 2**63), st.integers(-(2**63), -(2**61)))
NUMBERS = st.one_of(INTS, st.booleans(), st.floats(-4, 4), st.sampled_from([-0.0, 1e300]))
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.eq, operator.lt, operator.ge,
]  # fmt: skip


def outcome(action):
    """dtype and elements of the result, or the error."""
    try:
        out = action()
    except Exception as exc:
        return type(exc), str(exc)
    return out.dtype, [repr(v) for v in out.tolist()]


@given(
    number=NUMBERS,
    op=st.sampled_from(OPERATORS),
    dtype=st.sampled_from([torch.int64, torch.int32, torch.float32, torch.bfloat16, torch.bool]),
    reflected=st.booleans(),
)
def test_same_as_the_general_way(number, op, dtype, reflected):
    x = torch.tensor([1, 2, 0, 3]).to(dtype)

    def run():
        return op(number, x) if reflected else op(x, number)

    found = outcome(run)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():  # every op goes the general way
        assert interpret.state.bits
        assert found == outcome(run)


def test_whole_numbers_that_do_not_fit():
    x = torch.arange(3)
    assert (x + (2**62)).tolist() == [2**62, 2**62 + 1, 2**62 + 2]
    with pytest.raises(RuntimeError, match="cannot be converted to type int64_t without overflow"):
        x + 2**63


def test_where_with_numbers():
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = torch.where(x > 0, x, 0)
    assert y.dtype is torch.float32 and y.tolist() == [1.0, 0.0, 3.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0]
    assert torch.where(x > 0, 2.5, x).tolist() == [2.5, -2.0, 2.5]
    assert torch.where(x > 0, 1, torch.tensor([1, 2, 3])).dtype is torch.int64
    assert torch.where(x > 0, 1.5, torch.tensor([1, 2, 3])).dtype is torch.float32
    assert torch.where(x > 0, 1.0, 0.0).dtype is torch.float32
