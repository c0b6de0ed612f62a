"""Every op of PyTorch's catalogue: see `catalog.py`, which shows the differences of an op when run as a program.

The samples are drawn with a seed that changes daily; GRADLIB_CATALOGUE_SEED repeats one.
"""

from __future__ import annotations

import os
import time

import pytest
from catalog import differences, entries

# of each op and dtype, and how many of them are run in all variants; `python tests/oracle/catalog.py` takes more
SAMPLES, VARIANTS = 3, 1
SEED = int(os.environ.get("GRADLIB_CATALOGUE_SEED") or time.time() // 86400)


def label(info) -> str:
    return info.name + (f"[{info.variant_test_name}]" if info.variant_test_name else "")


# rows: OPS-01
@pytest.mark.parametrize("info", entries(), ids=label)
def test_agrees_with_pytorch(info):
    found = differences(info, SAMPLES, SEED, VARIANTS)
    assert not found, "\n".join([f"GRADLIB_CATALOGUE_SEED={SEED}", *found])
