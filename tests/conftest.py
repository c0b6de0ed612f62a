"""Settings that all tests share."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import gradlib as gl
from tests.simulated_cuda.fixtures import (
    cuda,
    default_device,
    lazy_cuda,
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
)

sys.path.insert(0, str(Path(__file__).parent / "operators"))  # samples.py

# on a busy machine an example that takes long is no fault
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# numbers are compared with those of the CPU; what the switch does has tests of its own
gl.backends.cudnn.allow_tf32 = False
# the kernels of the project are what tests are about; those of cuDNN itself switch it on
gl.backends.cudnn.enabled = False

# where tests that draw something new in each run begin; set here, so that the processes of one run share it
os.environ.setdefault("FUZZ_SEED", str(int(time.time())))


def pytest_report_header() -> str:
    return f"random programs: FUZZ_SEED={os.environ['FUZZ_SEED']}"


@pytest.fixture(autouse=True)
def _fresh_state():
    """Every test starts from the same seed and leaves the modes as it found them."""
    gl.manual_seed(0)
    yield
    assert gl.is_grad_enabled(), "a test left grad mode switched off"
    gl.set_default_dtype(gl.float32)
