"""Programs give the same numbers on gradlib and on PyTorch."""

from __future__ import annotations

import pytest

import gradlib
from tests import programs

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_program(program):
    programs.assert_same(program(gradlib, "cpu"), program(torch, "cpu"))
