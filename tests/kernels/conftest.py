"""Kernels run on the CPU: what the tests of this folder share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # host_launcher.py, overlay_checks.py

from host_launcher import HostBackend


@pytest.fixture(scope="session")
def host_session():
    return HostBackend()


@pytest.fixture
def device(host_session):
    """The pretended device, with a fresh record of launches."""
    host_session.launcher.fenced.clear()
    host_session.launcher.launched.clear()
    host_session.launcher.seed = 1
    return host_session
