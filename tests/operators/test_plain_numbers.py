"""Python numbers that become elements: what does not fit in the dtype is refused, in PyTorch's words."""

import math

import pytest

import gradlib as torch

MASK = [True, False, True]
PLACES = {
    "fill_": lambda x, v: x.fill_(v),
    "full": lambda x, v: torch.full((3,), v, dtype=x.dtype),
    "full_like": lambda x, v: torch.full_like(x, v),
    "new_full": lambda x, v: x.new_full((3,), v),
    "masked_fill": lambda x, v: x.masked_fill(torch.tensor(MASK), v),
    "masked_fill of a tensor": lambda x, v: x.masked_fill(
        torch.tensor(MASK), torch.tensor(v, dtype=torch.float64)
    ),
    "masked_fill_": lambda x, v: x.masked_fill_(torch.tensor(MASK), v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([0, 2]), v),
    "index_fill of a tensor": lambda x, v: x.index_fill(
        0, torch.tensor([0]), torch.tensor(v, dtype=torch.float64)
    ),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([0]), v),
    "fill_diagonal_": lambda x, v: x.expand(3, 3).clone().fill_diagonal_(v),
    "pad": lambda x, v: torch.nn.functional.pad(x, (1, 1), value=v),
    "clamp": lambda x, v: x.clamp(min=v),
    "clamp_": lambda x, v: x.clamp_(max=v),
    "alpha of add": lambda x, v: torch.add(x, x, alpha=v),
    "alpha of index_add": lambda x, v: x.index_add(0, torch.tensor([0]), x[:1], alpha=v),
    "threshold": lambda x, v: torch.threshold(x, 0, v),
}
TOO_LARGE = [
    ("int8", 128, "int8_t"), ("uint8", 256, "uint8_t"), ("int16", -(2**15) - 1, "int16_t"),
    ("int32", 2**31, "int"), ("float16", 1e5, "c10::Half"), ("bfloat16", 3.4e38, "c10::BFloat16"),
    ("float32", 1e39, "float"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def host():
    """These are rules of host memory: on a device nobody waits to look at a number."""
    with torch.device("cpu"):
        yield


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("dtype", "value", "name"), TOO_LARGE)
def test_a_number_that_does_not_fit_is_refused(place, dtype, value, name):
    x = torch.ones(3, dtype=getattr(torch, dtype))
    with pytest.raises(RuntimeError, match=f"converted to type {name} without overflow"):
        PLACES[place](x, value)


@pytest.mark.parametrize("key", [slice(None), [0, 1], 0, True, ...])
def test_assigned_numbers(key):
    x = torch.zeros(3, dtype=torch.uint8)
    x[key] = -1  # negative integers wrap around
    assert 255 in x.tolist()
    for value in (-1.5, 256, math.nan, math.inf, 1j):
        with pytest.raises(RuntimeError, match="type uint8_t without overflow"):
            x[key] = value
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        x[key] = 2**63
    half = torch.zeros(3, dtype=torch.float16)
    half[key] = 1e5  # as in PyTorch: the number is a tensor of one element first
    assert math.inf in half.tolist()


def test_infinities_and_nan_have_a_place_in_floating_types():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.zeros(2, dtype=dtype)
        assert x.fill_(math.inf).tolist() == [math.inf] * 2
        assert x.fill_(-math.inf).tolist() == [-math.inf] * 2
        assert math.isnan(x.fill_(math.nan)[0].item())
    assert torch.zeros(1, dtype=torch.bool).fill_(1j).item() is True


def test_numbers_in_arithmetic_wrap_around():
    x = torch.ones(2, dtype=torch.int8)
    assert (x + 300).tolist() == [45, 45]
    with pytest.raises(RuntimeError, match="type int64_t without overflow"):
        x + 2**63
    with pytest.raises(OverflowError, match="int too big to convert"):
        x + 2**64


def test_integers_of_more_than_64_bits():
    with pytest.raises(OverflowError, match="int too big to convert"):
        torch.zeros(2).fill_(2**64)
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        torch.full((2,), -(2**63) - 1)


def test_fractions_below_zero_are_no_unsigned_numbers():
    with pytest.raises(RuntimeError, match="type uint8 without overflow"):
        torch.tensor(-0.5, dtype=torch.uint8)
    assert torch.tensor(-1, dtype=torch.uint8).item() == 255


def test_trapezoid_of_small_integers_does_not_wrap_around():
    y = torch.tensor([100, 200, 50], dtype=torch.uint8)
    assert torch.trapezoid(y, dx=2).item() == 550.0
    assert torch.trapezoid(y, dx=-1).item() == -275.0
