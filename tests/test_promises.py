"""Every promise of docs/promises.md has a test, and tests name no others."""

from __future__ import annotations

import runpy
from pathlib import Path

PROGRAM = runpy.run_path(str(Path(__file__).parents[1] / "ci" / "checklist.py"))
PROMISED, COVERED = PROGRAM["promised"](), PROGRAM["covered"]()


def test_every_promise_has_a_test():
    assert len(PROMISED) > 400
    assert sorted(set(PROMISED) - set(COVERED)) == []


def test_tests_name_promises_that_there_are():
    assert sorted(set(COVERED) - set(PROMISED)) == []
