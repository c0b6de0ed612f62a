"""Every op of PyTorch's catalogue: see `catalog.py`, which shows the differences of an op when run as a program."""

from __future__ import annotations

import pytest
from catalog import differences, entries

SAMPLES = 5  # of each op and dtype; `python tests/oracle/catalog.py --limit 25` takes more


def label(info) -> str:
    return info.name + (f"[{info.variant_test_name}]" if info.variant_test_name else "")


# rows: OPS-01
@pytest.mark.parametrize("info", entries(), ids=label)
def test_agrees_with_pytorch(info):
    assert differences(info, SAMPLES) == []
