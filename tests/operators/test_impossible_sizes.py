"""Sizes that no memory holds are refused at once, as RuntimeErrors, before anything is computed."""

import pytest

import gradlib as torch
from gradlib.nn import functional as F

HUGE = 2**44
CALLS = {
    "zeros": lambda n: torch.zeros(n),
    "empty": lambda n: torch.empty(n),
    "ones": lambda n: torch.ones(n),
    "full": lambda n: torch.full((n,), 1.0),
    "new_zeros": lambda n: torch.ones(1).new_zeros(n),
    "eye": lambda n: torch.eye(n, 4),
    "arange": lambda n: torch.arange(n),
    "arange of floats": lambda n: torch.arange(0.0, float(n)),
    "linspace": lambda n: torch.linspace(0, 1, n),
    "randn": lambda n: torch.randn(n),
    "randint": lambda n: torch.randint(5, (n,)),
    "resize_": lambda n: torch.zeros(1).resize_(n),
    "hann_window": lambda n: torch.hann_window(n),
    "nearest": lambda n: F.interpolate(torch.ones(1, 1, 4), size=n),
    "linear": lambda n: F.interpolate(torch.ones(1, 1, 4), size=n, mode="linear"),
    "adaptive_avg_pool1d": lambda n: F.adaptive_avg_pool1d(torch.ones(1, 4), n),
    "adaptive_max_pool1d": lambda n: F.adaptive_max_pool1d(torch.ones(1, 4), n),
    "adaptive_max_pool2d": lambda n: F.adaptive_max_pool2d(torch.ones(1, 4, 4), (n, 2)),
    "repeat": lambda n: torch.ones(1).repeat(n),
    "clone of an expanded tensor": lambda n: torch.ones(1).expand(n).clone(),
}


@pytest.fixture(autouse=True)
def host():
    """These are rules of host memory: on a device nobody waits to look at a number."""
    with torch.device("cpu"):
        yield


@pytest.mark.parametrize("name", CALLS)
def test_more_than_the_memory(name):
    with pytest.raises(RuntimeError, match="can't allocate memory: you tried to allocate"):
        CALLS[name](HUGE)


@pytest.mark.parametrize("name", [n for n in CALLS if n != "clone of an expanded tensor"])
def test_more_than_any_address(name):
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        CALLS[name](2**61)


def test_sizes_that_are_no_64_bit_integers():
    with pytest.raises(TypeError, match="failed to unpack the object at pos 2"):
        torch.zeros(2, 2**63)


def test_a_range_of_too_many_numbers():
    with pytest.raises(RuntimeError, match="invalid size, possible overflow"):
        torch.arange(0, 1, 1e-300)


def test_as_strided_needs_memory():
    for x in (torch.zeros(0), torch.zeros(0, 2)):
        with pytest.raises(RuntimeError, match="out of bounds for storage of size 0"):
            x.as_strided((2, 1), (1, 1))
    assert torch.arange(5)[2:2].storage_offset() >= 0
