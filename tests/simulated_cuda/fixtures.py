"""Fixtures and the command-line option for the simulated CUDA device; the conftest files take them over.

``pytest --device simulated tests_gpu`` runs what needs a CUDA device on the simulated one.
"""

from __future__ import annotations

import contextlib

import pytest

from . import install, machine, simulated, uninstall


def pytest_addoption(parser) -> None:
    with contextlib.suppress(
        ValueError
    ):  # the conftest files of tests/ and tests_gpu/ both have it
        parser.addoption(
            "--device",
            choices=("real", "simulated"),
            default="real",
            help="simulated: run with the stand-in for CuPy of tests/simulated_cuda installed",
        )


def pytest_configure(config) -> None:
    if config.getoption("--device") == "simulated" and not machine.installed:
        install()
        config.add_cleanup(uninstall)


@pytest.fixture
def cuda():
    """`cupy` simulated, two devices, work done when it is submitted."""
    with simulated() as cupy:
        yield cupy


@pytest.fixture
def lazy_cuda():
    """``with lazy_cuda(seed) as cupy``: work done late, in an order that the seed picks."""
    return simulated
