"""Fixtures and the command-line option for the simulated CUDA device; the conftest files take them over.

``pytest --device simulated tests_gpu`` runs what needs a CUDA device on the simulated one. ``pytest --device default
tests/autograd`` runs tests that were written for the CPU with ``set_default_device("cuda")``; ``Tensor.numpy`` then
copies to the host. What is about host memory fails there.
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
            choices=("real", "simulated", "default"),
            default="real",
            help="simulated: install the stand-in for CuPy of tests/simulated_cuda; "
            "default: and make it the default device of every test",
        )


def pytest_configure(config) -> None:
    if config.getoption("--device") != "real" and not machine.installed:
        install()
        config.add_cleanup(uninstall)


@pytest.fixture(autouse=True)
def default_device(request, monkeypatch):
    """With ``--device default``, tensors are made on the simulated device unless a test says where."""
    if request.config.getoption("--device") != "default":
        yield
        return
    import gradlib

    numpy = gradlib.Tensor.numpy

    def to_host(self, *, force=False):
        return numpy(self if self.requires_grad and not force else self.detach().cpu(), force=force)

    monkeypatch.setattr(gradlib.Tensor, "numpy", to_host)
    gradlib.set_default_device("cuda")
    yield
    gradlib.set_default_device("cpu")


@pytest.fixture
def cuda():
    """`cupy` simulated, two devices, work done when it is submitted."""
    with simulated() as cupy:
        yield cupy


@pytest.fixture
def lazy_cuda():
    """``with lazy_cuda(seed) as cupy``: work done late, in an order that the seed picks."""
    return simulated
