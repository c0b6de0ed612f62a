"""A fixed part of the random calls of `fuzzing`: gradlib and PyTorch agree on each, but for the kinds listed there."""

from __future__ import annotations

import pytest
from fuzz_cases import case
from fuzzing import ACCEPTED, accepted, difference

CHUNK = 250


@pytest.mark.parametrize("chunk", range(12))
def test_random_calls_give_what_pytorch_gives(chunk):
    found = []
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        one = case(seed)
        text = difference(one)
        if text and not accepted(one, text):
            found.append(f"{seed}: {one}\n  {text}")
    assert not found, "\n".join(found)


def test_each_accepted_difference_has_a_reason():
    assert all(len(reason) > 10 for _, _, reason in ACCEPTED)
