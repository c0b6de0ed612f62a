"""Tests that run on every CUDA device: those of tests/ are taken over, not copied."""

from __future__ import annotations

import types
from typing import Any

import pytest

import gradlib as gl

needs_two_devices = pytest.mark.skipif(
    gl.cuda.device_count() < 2, reason="needs two CUDA devices; this machine has fewer"
)


def take_over(
    names: dict[str, Any], module: types.ModuleType, *, but: str = "", two_devices: str = ""
) -> None:
    """Put the tests of a module into the names of another.

    but: tests that are left out, since they look into the simulated device or need no device. two_devices: tests that
    are skipped on a machine with one.
    """
    left_out, on_two = set(but.split()), set(two_devices.split())
    tests = {name for name in vars(module) if name.startswith("test_")}
    unknown = (left_out | on_two) - tests
    if unknown:
        raise ValueError(f"{module.__name__} has no tests named {sorted(unknown)}")
    for name in sorted(tests - left_out):
        test = getattr(module, name)
        if name in on_two:
            test = needs_two_devices(copied(test))
        names[name] = test


def copied(test: Any) -> Any:
    """The function anew, so that a mark given to it is not one of the original."""
    made = types.FunctionType(
        test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__
    )
    made.__dict__.update(test.__dict__)
    made.pytestmark = list(getattr(test, "pytestmark", ()))
    made.__module__ = test.__module__
    return made
