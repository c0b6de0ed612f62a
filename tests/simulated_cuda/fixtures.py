"""Fixtures and the command-line option for the simulated CUDA device; the conftest files take them over.

``pytest --device simulated tests_gpu`` runs what needs a CUDA device on the simulated one. ``pytest --device default
tests/autograd`` runs tests that were written for the CPU with ``set_default_device("cuda")``; ``Tensor.numpy`` and
``from_numpy`` then copy between the host and the device. Tests marked ``host`` are about host memory, NumPy or the CPU
itself; they are deselected. ``--device other`` does the same with the second device, while the first one stays current.
"""

from __future__ import annotations

import contextlib
import os
import zlib

import pytest

from ..cupy_on_cpu import machine as cupy_on_cpu
from . import install, machine, simulated, uninstall

DEFAULTS = {"default": "cuda", "other": "cuda:1"}


def pytest_addoption(parser) -> None:
    with contextlib.suppress(
        ValueError
    ):  # the conftest files of tests/ and tests_gpu/ both have it
        parser.addoption(
            "--device",
            choices=("real", "cupy-on-cpu", "simulated", "default", "other"),
            default="real",
            help="cupy-on-cpu: CuPy itself, with its CUDA runtime and kernels on the CPU (tests/cupy_on_cpu); "
            "simulated: install the stand-in for CuPy of tests/simulated_cuda; "
            "default: and make it the default device of every test; "
            "other: make its second device the default one, while the first stays current",
        )
        parser.addoption(
            "--sample",
            type=int,
            default=1,
            metavar="N",
            help="run every Nth of the tests of single ops in tests_gpu",
        )
        parser.addoption(
            "--portion",
            type=int,
            default=1,
            metavar="N",
            help="run an Nth of the tests, drawn by FUZZ_SEED: another one in each run",
        )


def pytest_configure(config) -> None:
    device = config.getoption("--device")
    if device == "cupy-on-cpu":
        cupy_on_cpu.install()
    elif device != "real" and not machine.installed:
        install()
        config.add_cleanup(uninstall)


def pytest_collection_modifyitems(config, items) -> None:
    device, portion = config.getoption("--device"), config.getoption("--portion")
    drawn = f"{os.environ['FUZZ_SEED']} {device} "
    dropped = {item for item in items if zlib.crc32((drawn + item.nodeid).encode()) % portion}
    if device in DEFAULTS:
        markers = ("host",) if device == "default" else ("host", "first_device")
        dropped |= {item for item in items if any(item.get_closest_marker(m) for m in markers)}
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture(autouse=True)
def default_device(request, monkeypatch):
    """With ``--device default``, tensors are made on the simulated device unless a test says where."""
    device = DEFAULTS.get(request.config.getoption("--device"))
    if device is None:
        yield
        return
    import gradlib
    from gradlib.tape import device as devices

    numpy, from_numpy = gradlib.Tensor.numpy, gradlib.from_numpy

    def to_host(self, *, force=False):
        refused = self.requires_grad and gradlib.is_grad_enabled() and not force
        return numpy(self if refused else self.detach().cpu(), force=force)

    monkeypatch.setattr(gradlib.Tensor, "numpy", to_host)
    monkeypatch.setattr(gradlib, "from_numpy", lambda array: from_numpy(array).to(device))
    # not set_default_device, which is about one thread: the threads of tests make tensors there, too
    monkeypatch.setattr(devices.Default, "device", gradlib.device(device))
    yield
    gradlib.set_default_device("cpu")
    del devices.default.device  # what the thread says itself


@pytest.fixture
def cuda():
    """`cupy` simulated, two devices, work done when it is submitted."""
    with simulated() as cupy:
        yield cupy


@pytest.fixture
def lazy_cuda():
    """``with lazy_cuda(seed) as cupy``: work done late, in an order that the seed picks."""
    return simulated
