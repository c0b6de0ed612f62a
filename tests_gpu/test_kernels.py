"""Every kernel on a GPU: the tests of tests/kernels, with the device in place of the CPU that pretends to be one."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from overlay_checks import close, numpy, values

from gradlib.devices.cuda.fused import optim
from gradlib.devices.cuda.kernels import launcher_of
from gradlib.op.overlays import on
from gradlib.tape.arrays import backend_for
from tests.kernels import (
    test_alignment,
    test_attention,
    test_batch_norm,
    test_cast,
    test_conv,
    test_cross_entropy,
    test_dropout,
    test_indexing,
    test_norm,
    test_optim,
    test_pointwise,
    test_pool,
    test_recurrent,
    test_reduce,
    test_softmax,
    test_sparse,
)

MODULES = (
    test_alignment, test_attention, test_batch_norm, test_cast, test_conv, test_cross_entropy, test_dropout,
    test_indexing, test_norm, test_optim, test_pointwise, test_pool, test_recurrent, test_reduce, test_softmax,
    test_sparse,
)  # fmt: skip
ON_CPU_ONLY = {
    "test_an_index_out_of_range_stops_the_kernel",  # nothing can run after it in the process
    "test_they_compile_for_gpus",
}

deterministic = test_indexing.deterministic


class Recorder:
    """A launcher that remembers the names of what it launched."""

    def __init__(self, launcher: Any):
        self.launcher, self.pointer, self.launched = launcher, launcher.pointer, []

    def launch(self, module, kernel, grid, block, args, shared=0):
        self.launcher.launch(module, kernel, grid, block, args, shared)
        self.launched.append(kernel)


class Device:
    """The CUDA backend, with the few names that the tests use beyond it."""

    overlays = on("cuda")

    def __init__(self, backend: Any):
        self.backend, self.launcher = backend, Recorder(launcher_of(backend))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def matmul(self, a: Any, b: Any) -> Any:
        """A product, remembered among what was launched."""
        self.launcher.launched.append("matmul")
        return self.backend.matmul(a, b)

    def convolution_product(self, a: Any, b: Any, wide: bool = False) -> Any:
        """The same, in a convolution."""
        self.launcher.launched.append("matmul")
        return self.backend.convolution_product(a, b, wide)

    def put(self, value: Any) -> Any:
        """A value with its arrays moved to the device, in their own order of dimensions."""
        if isinstance(value, (tuple, list)):
            return type(value)(self.put(v) for v in value)
        if not isinstance(value, np.ndarray):
            return value
        order = sorted(range(value.ndim), key=lambda d: -abs(value.strides[d]))
        moved = self.backend.asarray(np.asarray(value.transpose(order), order="C"))
        return moved.transpose(np.argsort(order).tolist()) if value.ndim > 1 else moved


@pytest.fixture(scope="module")
def host_session(request):
    """The device; a simulated one gets kernels that run on the CPU."""
    backend = backend_for("cuda")
    if request.config.getoption("--device", "real") == "real":
        yield Device(backend)
        return
    from host_launcher import resolve

    resolvers = sys.modules["tests.simulated_cuda"].kernels.resolvers
    resolvers.append(resolve)
    yield Device(backend)
    resolvers.remove(resolve)


@pytest.fixture
def device(host_session):
    host_session.launcher.launched.clear()
    return host_session


@pytest.fixture(scope="module")
def everything(host_session):
    """The cases of test_pointwise."""
    return tuple(test_pointwise.traced_cases(host_session, kind)[0] for kind in ("forward", "vjp"))


for _module in MODULES:
    for _name in dir(_module):
        if (
            _name.startswith("test_")
            and callable(getattr(_module, _name))
            and _name not in ON_CPU_ONLY
        ):
            globals()[f"{_module.__name__.rpartition('.')[2]}_{_name[5:]}"] = getattr(
                _module, _name
            )


def test_a_captured_step_goes_on_counting(device):
    # rows: DEV-26
    cuda = device.backend.xp.cuda
    exact, grad = values((5, 7)), values((5, 7), 1)
    p, g, m, v = device.put(exact), device.put(grad), device.zeros((5, 7)), device.zeros((5, 7))
    step, lr = device.zeros((), np.float32), device.backend.xp.full((), 0.1, np.float32)
    how = {"lr": lr, "betas": (0.9, 0.99), "eps": 1e-8}
    stream = cuda.Stream(non_blocking=True)
    cuda.get_current_stream().synchronize()
    with stream:
        optim.step(device, "adam", [p], [g], [[m], [v]], [step], how)  # compiles
        stream.begin_capture()
        optim.step(device, "adam", [p], [g], [[m], [v]], [step], how)
        graph = stream.end_capture()
        for _ in range(3):
            graph.launch(stream)
    stream.synchronize()
    assert float(step.get()) == 4
    expected, _ = test_optim.cpu_steps(
        lambda cpu: test_optim.gl.optim.Adam(cpu, 0.1, (0.9, 0.99)), [exact], [grad], 4
    )
    close(p, expected[0].detach().numpy(), "float64", 1e4)
    assert numpy(p).shape == (5, 7)
