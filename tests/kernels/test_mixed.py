"""Elementwise kernels of float32 beside a half type against the sum of copies in float32, bit for bit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from nvrtc import compile_for
from overlay_checks import numpy

from gradlib.devices.cuda.fused.generate import preamble
from gradlib.devices.cuda.kernels import BF2, F2, F4, HALVES, OPTIONS, instance
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import on

OPS = {"add": np.add, "sub": np.subtract}


def numbers(shape, dtype, seed):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


SHAPES = [
    ((), ()),
    ((3, 41), (3, 41)),
    ((2, 3, 4), (3, 1)),
    ((5,), (4, 1)),
    ((3, 4), (1,)),
    ((0, 3), (3,)),
]


class Recorder:
    """A launcher that only remembers the modules."""

    def __init__(self):
        self.modules = {}

    def launch(self, module, *_):
        self.modules[module.name] = module


@pytest.fixture(scope="module")
def modules(host_session):
    """The kernels of all cases, compiled as one translation unit."""
    recorder = SimpleNamespace(launcher=Recorder(), empty=host_session.empty)
    for name in OPS:
        for shapes in SHAPES:
            for kinds in ((F4, BF2), (BF2, F4)):
                given = [host_session.put(np.ones(*how)) for how in zip(shapes, kinds)]
                on("cuda").mixed_of(REGISTRY[name])(recorder, given)
    found = recorder.launcher.modules.values()
    kernels = tuple(instance(m.name, F4, half) for m in found for half in HALVES)
    host_session.launcher.compile_together(kernels, preamble() + "".join(m.own for m in found))
    return list(found)


def check(device, name, a, b):
    found = on("cuda").mixed_of(REGISTRY[name])(device, [a, b])
    wanted = OPS[name](numpy(a).astype(F4), numpy(b).astype(F4))
    got = numpy(found)
    assert got.dtype == F4 and got.shape == wanted.shape
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_results_are_those_of_copies(device, name, half):
    # rows: DEV-26
    shapes = [
        ((), ()),
        ((3, 41), (3, 41)),
        ((2, 3, 4), (3, 1)),
        ((5,), (4, 1)),
        ((3, 4), (1,)),
        ((0, 3), (3,)),
    ]
    for first, second in shapes:
        for x, y in ((F4, half), (half, F4)):
            check(device, name, device.put(numbers(first, x, 0)), device.put(numbers(second, y, 1)))


def test_arrays_that_are_not_aligned(device, modules):
    # rows: DEV-26
    x, y = device.put(numbers((70,), F4, 0)), device.put(numbers((70,), BF2, 1))
    for a, b in ((0, 0), (1, 0), (0, 1), (2, 2), (0, 4), (4, 2), (3, 5)):
        check(device, "add", x[a : a + 64], y[b : b + 64])


def test_what_is_cast_first(device):
    # rows: DEV-26
    add = on("cuda").mixed_of(REGISTRY["add"])
    x, turned = device.put(np.ones((3, 4), F4)), device.put(np.ones((4, 3), BF2)).T
    assert add(device, [x, turned]) is NotImplemented  # the result keeps an order of strides
    assert add(device, [x, x]) is NotImplemented
    assert add(device, [device.put(np.ones(3, F2)), device.put(np.ones(3, BF2))]) is NotImplemented
    assert (
        on("cuda").mixed_of(REGISTRY["eq"]) is None and on("cuda").mixed_of(REGISTRY["cat"]) is None
    )


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_they_compile_for_gpus(modules, architecture):
    # rows: DEV-26
    kernels = tuple(instance(m.name, F4, BF2) for m in modules)
    code = preamble() + "".join(m.own for m in modules)
    needs = compile_for(architecture, code, kernels, OPTIONS)
    assert needs.keys() == set(kernels) and not any(need.spilled for need in needs.values())
