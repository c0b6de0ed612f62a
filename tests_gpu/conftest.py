"""Everything here needs a CUDA device; without one it is skipped with the reason.

`pytest tests_gpu` runs on the first device of the machine, `pytest --device simulated tests_gpu` on a simulated one.
There, what tests/ run on the simulated device anyway is left out, and of the tests marked slow every 25th is run.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path

import pytest

from gradlib.devices.cuda import cudnn
from gradlib.devices.cuda.namespace import why_not
from gradlib.tape.arrays import backend_for
from tests.conftest import _fresh_state
from tests.simulated_cuda import simulated
from tests.simulated_cuda.fixtures import pytest_addoption, pytest_configure
from tests_gpu import faults

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # shared.py
sys.path.insert(0, str(HERE.parent / "tests" / "operators"))  # samples.py
sys.path.insert(0, str(HERE.parent / "tests" / "kernels"))  # overlay_checks.py
SAMPLED = ("test_ops.py", "test_kernels.py", "test_half_types.py")  # single ops: see --sample
EVERY = 25  # of the slow tests, on the simulated device
# of these another, smaller sample in each run: each test compiles some forty kernels
CHANGING, RARELY = ("test_distributions.py",), 5


def pytest_sessionstart():
    """What a run on a GPU asks for.

    GRADLIB_NEEDS_GPU: nothing looks green because a device is not found. GRADLIB_NO_POOL: without CuPy's pool each
    array is an allocation of its own, beyond which a sanitizer sees.
    """
    reason = why_not() if os.environ.get("GRADLIB_NEEDS_GPU") else None
    if reason is not None:
        pytest.exit(reason, returncode=pytest.ExitCode.USAGE_ERROR)
    if os.environ.get("GRADLIB_NO_POOL"):
        importlib.import_module("cupy").cuda.set_allocator(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """Wait for the device; where a test has lost it, name the test and run no other in this process.

    A process of xdist ends at once: another one takes its place, with a device.
    """
    result = yield
    problem = faults.lost()
    if not problem:
        return result
    text = f"{item.nodeid} lost the device: {problem}"
    if os.environ.get("PYTEST_XDIST_WORKER"):
        os.write(2, f"\n{text}\n".encode())
        os._exit(faults.LOST)
    pytest.exit(text, returncode=faults.LOST)


def pytest_ignore_collect(collection_path, config):
    """Tests of cuDNN are collected where it is: with a device, or its stand-in of tests/cupy_on_cpu."""
    if collection_path.name == "test_cudnn.py" and collection_path.parent == HERE:
        return is_simulated(config) or cudnn.library() is None or None
    return None


def is_simulated(config) -> bool:
    return config.getoption("--device") == "simulated"


def is_on_cpu(config) -> bool:
    """Whether there is no GPU behind the device."""
    return config.getoption("--device") in ("simulated", "cupy-on-cpu")


def pytest_collection_modifyitems(config, items):
    try:
        reason = faults.why_skip(why_not())
    except RuntimeError as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
    mine = [i for i in items if HERE in i.path.parents]  # tests/ may be run in the same session
    if reason is not None:
        for item in mine:
            item.own_markers[:] = [m for m in item.own_markers if m.name != "skipif"]  # one reason
            item.add_marker(pytest.mark.skip(reason=reason))
    elif is_on_cpu(config):
        slow = [i for i in mine if i.get_closest_marker("slow")]
        dropped = {i for k, i in enumerate(slow) if k % EVERY}
        ops = [i for i in mine if i.path.name in SAMPLED and i not in dropped]
        dropped |= {i for k, i in enumerate(ops) if k % config.getoption("--sample")}
        many = [i for i in mine if i.path.name in CHANGING]
        every = config.getoption("--sample")
        every, seed = every if every == 1 else every * RARELY, int(os.environ["FUZZ_SEED"])
        dropped |= {i for k, i in enumerate(many, seed) if k % every}
        if is_simulated(config):
            dropped |= {i for i in mine if i.function.__module__.startswith("tests.simulated")}
        config.hook.pytest_deselected(items=[i for i in items if i in dropped])
        items[:] = [i for i in items if i not in dropped]


@pytest.fixture
def cuda():
    """CuPy, or what stands for it; the device has done all work when the test ends."""
    cupy = backend_for("cuda").xp
    yield cupy
    cupy.cuda.runtime.deviceSynchronize()


@pytest.fixture
def lazy_cuda(request):
    """``with lazy_cuda(seed) as cupy``: a real device has an order of its own, whatever the seed."""
    if is_simulated(request.config):
        return simulated

    @contextlib.contextmanager
    def real(seed=None):
        cupy = backend_for("cuda").xp
        yield cupy
        cupy.cuda.runtime.deviceSynchronize()

    return real


@pytest.fixture
def on_real_device(request):
    """For what a simulation cannot show."""
    if is_on_cpu(request.config):
        pytest.skip("times of the simulated device are those of NumPy")
