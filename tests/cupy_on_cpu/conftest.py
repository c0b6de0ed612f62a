"""These tests need CuPy; where it is not installed they are not collected (.ci/run makes an environment with it)."""

from __future__ import annotations

import importlib.util

import pytest

from tests_gpu.conftest import pytest_runtest_teardown

from . import machine

collect_ignore_glob = [] if importlib.util.find_spec("cupy") else ["test_*.py"]


@pytest.fixture(scope="session")
def runtime():
    return machine.install()


@pytest.fixture
def cupy(runtime):
    import cupy

    yield cupy
    cupy.cuda.Device(0).use()
