"""gradlib's CUDA backend: what CuPy lacks, made from what it has, means what NumPy's means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gradlib
from gradlib.devices.numpy.namespace import backend as numpy_backend
from gradlib.op.declare import REGISTRY
from gradlib.tape.arrays import backend_for
from gradlib.tape.device import device
from tests.simulated_cuda import machine

DTYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16, "i8", "i4", "i2", "i1", "u1", "?", "c8"]
RNG = np.random.default_rng(3)


@pytest.fixture
def xp(cuda):
    return backend_for("cuda")


def same(here, there) -> None:
    there = there.get()
    assert there.dtype == here.dtype and there.shape == here.shape
    if here.dtype.kind == "V":
        here, there = here.astype("f4"), there.astype("f4")
    np.testing.assert_allclose(there, here, rtol=1e-6)


def numbers(dtype, *shape) -> np.ndarray:
    return RNG.integers(0, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_adding_at_repeated_places(xp, dtype):
    places = RNG.integers(0, 6, (7,))
    here, values = numbers(dtype, 6, 3), numbers(dtype, 7, 3)
    there = xp.asarray(here)
    numpy_backend.add_at(here, (places,), values)
    xp.add_at(there, (xp.asarray(places),), xp.asarray(values))
    same(here, there)
    same(
        numpy_backend.sum_at((6,), places, values[:, 0]),
        xp.sum_at((6,), xp.asarray(places), xp.asarray(values[:, 0])),
    )


@pytest.mark.parametrize("name", ["multiply", "maximum", "minimum"])
def test_combining_at_repeated_places(xp, name):
    for dtype in ("f4", "i8"):
        places, values = RNG.integers(0, 5, (40,)), numbers(dtype, 40) + np.dtype(dtype).type(1)
        here = numbers(dtype, 6)
        there = xp.asarray(here)
        getattr(np, name).at(here, places, values)
        getattr(xp, name).at(there, xp.asarray(places), xp.asarray(values))
        same(here, there)
    square, where = np.ones((3, 4)), (RNG.integers(0, 3, (5,)), RNG.integers(0, 4, (5,)))
    there = xp.asarray(square)
    getattr(np, name).at(square, where, 3.0)
    getattr(xp, name).at(there, tuple(map(xp.asarray, where)), xp.asarray(3.0))
    same(square, there)
    with_nan = xp.asarray(np.zeros(2))
    xp.maximum.at(with_nan, xp.asarray(np.array([1, 1, 1])), xp.asarray(np.array([1, np.nan, 2])))
    assert np.isnan(with_nan.get()).tolist() == [False, True]


@pytest.mark.parametrize("name", ["maximum", "minimum", "logaddexp", "bitwise_xor"])
def test_running_and_folded(xp, name):
    ufunc, there = getattr(np, name), getattr(xp, name)
    x = numbers("i8" if name == "bitwise_xor" else "f8", 3, 5, 2)
    for axis in (0, 1, -1):
        same(ufunc.accumulate(x, axis), there.accumulate(xp.asarray(x), axis))
        same(np.asarray(ufunc.reduce(x, axis)), there.reduce(xp.asarray(x), axis))
    same(ufunc.reduce(x, (0, 2), keepdims=True), there.reduce(xp.asarray(x), (0, 2), keepdims=True))
    same(np.asarray(ufunc.reduce(x, None)), there.reduce(xp.asarray(x), None))
    same(np.logical_or.reduce(x > 3, 1), xp.logical_or.reduce(xp.asarray(x > 3), 1))


def test_bfloat16(xp):
    x = RNG.normal(size=(3, 4, 4)).astype(ml_dtypes.bfloat16)
    there = xp.asarray(x)
    same(np.sort(x.astype("f4"), -1).astype(x.dtype), xp.sort(there, -1))
    assert (xp.argsort(there, 0).get() == np.argsort(x.astype("f4"), 0, kind="stable")).all()
    clipped = xp.clip(there, -0.5, 0.5)
    assert clipped.dtype == x.dtype and abs(clipped.get().astype("f4")).max() == 0.5
    assert xp.matmul(there, there).dtype == x.dtype


def test_small_differences(xp):
    a, b = RNG.normal(size=(2, 5)), RNG.normal(size=(2, 5))
    same(np.vecdot(a, b), xp.vecdot(xp.asarray(a), xp.asarray(b)))
    same(np.repeat(a, [2, 0, 1, 1, 3], 1), xp.repeat(xp.asarray(a), xp.asarray([2, 0, 1, 1, 3]), 1))
    assert xp.ascontiguousarray(xp.asarray(2.0)).shape == ()
    strided = xp.asarray(a).T
    assert xp.array(strided).strides == strided.strides
    with pytest.raises(ValueError, match="no identity"):
        xp.bitwise_xor.reduce(xp.zeros((0, 2), "i4"))


def test_constants_are_copied_once(xp):
    machine.log = []
    first = xp.table([1, 2, 3])
    assert xp.table(np.array([1, 2, 3])) is first and xp.table([1, 2, 3], "f4").dtype == np.float32
    assert machine.log.count("copy from host") == 2 and xp.table(first) is first
    with xp.cuda.Device(1):
        assert xp.table([1, 2, 3]).device.id == 1


def test_numbers_need_no_copy_from_the_host(xp):
    machine.log = []
    assert xp.number(2.5, np.dtype("f4")).dtype == np.float32 and xp.asarray(3).dtype == np.int64
    assert not any("host" in label for label in machine.log) and not machine.waits


def test_kinds_without_a_loop_are_refused_as_on_the_cpu(xp):
    for where in ("cpu", "cuda"):
        with pytest.raises(NotImplementedError, match=r"not implemented for 'Float'"):
            gradlib.bitwise_not(gradlib.ones(2, device=where))


def test_tensors_on_two_devices_are_not_compared(xp):
    with pytest.raises(RuntimeError, match="Cannot compare two tensors on different devices"):
        gradlib.equal(gradlib.ones(2), gradlib.ones(2, device="cuda"))
    assert gradlib.equal(gradlib.ones(2, device="cuda"), gradlib.ones(2, device="cuda"))


def test_arrays_move_between_devices(xp):
    x = xp.asarray(np.arange(6.0).reshape(2, 3)).T
    y = xp.to_backend(x, device("cuda:1"))
    assert y.device.id == 1 and y.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert xp.to_backend(y, device("cuda:1")) is y and xp.to_backend(y, device("cuda")) is y
    assert numpy_backend.to_backend(y).tolist() == y.tolist()


def test_the_tests_for_a_gpu_pass_on_the_simulated_device():
    # rows: DEV-04 DEV-05 DEV-06 DEV-07 DEV-10 DEV-11 DEV-12
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "simulated",
            "tests_gpu/test_device.py",
        ],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stdout


def test_numbers_that_come_again_are_kept_for_their_stream(xp, monkeypatch):
    monkeypatch.setattr(xp, "numbers", {})
    monkeypatch.setattr(xp, "seen", set())
    kind = np.dtype("f4")
    first, *again = [xp.number(2.5, kind) for _ in range(4)]
    assert again[0] is again[1] is again[2] and first is not again[0]
    assert {a.get().item() for a in (first, *again)} == {2.5} and again[0].dtype == kind
    with xp.cuda.Stream(non_blocking=True):
        assert xp.number(2.5, kind) is not again[0]
    zeros = [xp.number(x, kind).get() for _ in range(3) for x in (0.0, -0.0)]
    assert [bool(np.signbit(z)) for z in zeros] == [False, True] * 3
    x = gradlib.ones(2, device="cuda")
    for _ in range(3):
        y = x * 2.5
        y.add_(2.5)
    assert again[0].get() == 2.5 and y.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("kind", ["f4", "i8"])
def test_ops_have_code_of_their_own_for_a_device(kind, cuda):
    x = gradlib.ones(3, device="cuda").to(gradlib.from_numpy(np.ones(1, kind)).dtype)
    plain = x * x, x * 2, 2 * x, x.exp()
    assert all(REGISTRY[name].on_device is not None for name in ("mul", "exp"))
    with cuda.cuda.Device(1):  # not the tensors' device: the general way
        again = x * x, x * 2, 2 * x, x.exp()
    for a, b in zip(plain, again, strict=True):
        assert a.device == b.device == x.device and a.dtype is b.dtype
        gradlib.testing.assert_close(a, b)
    if kind == "f4":
        w = gradlib.ones(3, device="cuda", requires_grad=True)
        y = 2.5 * w
        assert type(y.grad_fn).__name__ == "MulBackward0" and y.grad_fn.stream is not None
        y.sum().backward()
        assert w.grad.tolist() == [2.5] * 3
