"""Random programs do the same on gradlib and on PyTorch: new ones in each run, from the seed that pytest reports.

FUZZ_SEED=7 repeats a run. What is found goes to found/ as a program, and `ACCEPTED` of `fuzz_accepted` may only shrink.
"""

from __future__ import annotations

import os

import pytest
from fuzz import search

CHUNKS, PROGRAMS = 8, 250
# Causes that a chunk may still show. They are printed, each is worth a look, and the number may only be lowered: on
# 22 November 2026 nearly all chunks showed 0, some 1.
KNOWN = 2


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_do_the_same(chunk):
    start = int(os.environ["FUZZ_SEED"]) + chunk * PROGRAMS
    result = search(start, PROGRAMS)
    text = "\n".join(map(str, result.findings.values()))
    print(text)
    assert len(result.findings) <= KNOWN, text
    assert len(result.crashes) < PROGRAMS // 5, "PyTorch crashes too often to tell anything"
