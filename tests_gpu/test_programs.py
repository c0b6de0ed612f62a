"""Programs give the same numbers on the CPU and on a device."""

from __future__ import annotations

import pytest

import gradlib
from tests import programs


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_program(program, cuda):
    programs.assert_same(program(gradlib, "cuda"), program(gradlib, "cpu"))
