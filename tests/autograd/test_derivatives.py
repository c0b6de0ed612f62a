"""Reverse mode, forward mode and finite differences agree, to second order: on random functions and on every op.

The seed is new in each run, and reported by pytest; FUZZ_SEED=7 repeats a run.
"""

from __future__ import annotations

import os

import pytest

from gradlib.op.declare import REGISTRY
from tests.autograd.derivatives import DIFFERENTIABLE, check_op, examine

CHUNKS, PROGRAMS = 10, 100


@pytest.mark.host
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_of_random_functions(chunk):
    start = int(os.environ["FUZZ_SEED"]) + chunk * PROGRAMS
    found = [text for seed in range(start, start + PROGRAMS) if (text := examine(seed))]
    assert not found, "\n".join(found)


@pytest.mark.host
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_of_declared_ops(name):
    found = check_op(REGISTRY[name], int(os.environ["FUZZ_SEED"]))
    assert not found, "\n".join(found)
