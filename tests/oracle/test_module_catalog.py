"""Every module of PyTorch's catalogue, with some of its inputs, is the same in gradlib."""

from __future__ import annotations

import module_catalog
import pytest


@pytest.mark.parametrize("info", module_catalog.module_db, ids=lambda info: info.name)
def test_module_agrees_with_pytorch(info):
    assert list(module_catalog.differences(info, limit=4)) == []
