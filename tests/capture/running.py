"""Runs of programs with and without capture: what tests of capture share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gradlib as torch
from gradlib.tape.pytree import flatten
from tests.capture.programs import bits

CALLS = 12


def x_of(k: int) -> Any:
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(k))


def outcome(call: Callable, *args: Any) -> Any:
    """What a call gives or raises."""
    try:
        return [bits(v) for v in flatten(call(*args))[0]]
    except Exception as exc:
        return type(exc).__name__


def changing(call: Callable, change: Callable[[int], Any], *more: Any) -> list:
    """What CALLS calls give, before each of which `change(k)` was called."""
    found = []
    for k in range(CALLS):
        change(k)
        found.append(outcome(call, x_of(k), *more))
    return found


def assert_same(program: Callable[[Callable], list]) -> None:
    """A program whose step is captured gives, at each place, what it gives without."""
    with warnings.catch_warnings(action="ignore"):
        expected = program(lambda f: f)
        found = program(torch.capture)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a == b, k
