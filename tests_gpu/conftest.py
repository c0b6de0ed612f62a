"""Everything here needs a CUDA device; without one it is skipped with the reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradlib.backends.cupy import why_not
from tests.simulated_cuda.fixtures import pytest_addoption, pytest_configure

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "ops"))  # samples.py
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "kernels"))  # overlay_checks.py


def pytest_collection_modifyitems(items):
    reason = why_not()
    if reason is not None:
        here = Path(__file__).parent
        for item in [
            i for i in items if here in i.path.parents
        ]:  # tests/ may be run in the same session
            item.add_marker(pytest.mark.skip(reason=reason))
