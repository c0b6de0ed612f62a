"""Programs give the same bits captured and plain, over 20 steps: new ones in each run, and some that were found."""

from __future__ import annotations

import os
import random
import re
import time

from captured_programs import LONG, search
from found_programs import programs

from tests.capture.as_steps import captured_part, differences

PROGRAMS, FOUND = 12, 10
# programs about more than tensors: files, servers, threads, which a part of a program may wait for
OTHER = re.compile(r"import|Store|open\(|save\(|load|Thread|hub|LIB|DataLoader")


def test_random_programs_as_captured_steps():
    found, crashes = search(int(os.environ["FUZZ_SEED"]), PROGRAMS)
    assert not found, "\n".join(found)
    assert crashes < PROGRAMS


def test_found_programs_as_captured_steps():
    began = time.monotonic()
    known = [text for text in programs().values() if not OTHER.search(text)]
    for program in random.Random(int(os.environ["FUZZ_SEED"])).sample(known, FOUND):
        if time.monotonic() - began > LONG:
            break
        assert not differences(program)[0], program
        part, _ = captured_part(program)
        assert not differences(part)[0], part
