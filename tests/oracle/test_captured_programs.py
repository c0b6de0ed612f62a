"""Programs give the same bits captured and plain, over 20 steps: new ones in each run, and some that were found."""

from __future__ import annotations

import os
import random

from captured_programs import search
from found_programs import programs

from tests.capture.as_steps import captured_part, differences

PROGRAMS, FOUND = 12, 12


def test_random_programs_as_captured_steps():
    found, crashes = search(int(os.environ["FUZZ_SEED"]), PROGRAMS)
    assert not found, "\n".join(found)
    assert crashes < PROGRAMS


def test_found_programs_as_captured_steps():
    known = programs()
    titles = random.Random(int(os.environ["FUZZ_SEED"])).sample(sorted(known), FOUND)
    for title in titles:
        assert not differences(known[title])[0], title
        some, _ = captured_part(known[title])
        assert not differences(some)[0], some
