"""These tests need oneMKL; where it is not found they are not collected (.ci/run makes an environment with it)."""

from __future__ import annotations

import pytest

from gradlib.devices.numpy import mkl

collect_ignore_glob = [] if mkl.path() else ["test_*.py"]


@pytest.fixture(autouse=True)
def _own_table(monkeypatch, tmp_path):
    """Functions are timed anew, and what is found is not kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(mkl, "_chosen", {})


@pytest.fixture
def everywhere(monkeypatch):
    """MKL computes large arrays whether it is quicker or not."""
    monkeypatch.setattr(mkl, "_wins", lambda *given: True)
