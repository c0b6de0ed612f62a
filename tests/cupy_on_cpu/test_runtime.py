"""CuPy itself on the runtime of this folder: right numbers, and errors where a GPU gives errors."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from . import machine

BEYOND = r"""
extern "C" __global__ void put(float* to, int place) { to[place] = 1.0f; }
"""
ARITHMETIC = r"""
extern "C" __global__ void compute(const T* x, T* to) {
  to[0] = x[0] * x[1] + x[2];
  to[1] = x[3] * x[4];
}
"""
SHARED = r"""
extern "C" __global__ void fill(float* to) {
  extern __shared__ float room[];
  room[threadIdx.x] = threadIdx.x;
  __syncthreads();
  to[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}
"""


def test_elementwise_reductions_and_scans(cupy):
    x = np.random.default_rng(0).normal(size=(7, 5)).astype("f4")
    d = cupy.asarray(x)
    np.testing.assert_allclose((cupy.exp(d) * 2 - d.T.T).get(), np.exp(x) * 2 - x, rtol=1e-6)
    np.testing.assert_allclose(d.sum(0).get(), x.sum(0), rtol=1e-5)
    np.testing.assert_allclose(cupy.cumsum(d, 1).get(), np.cumsum(x, 1), rtol=1e-5)
    assert (d.argmax(1).get() == x.argmax(1)).all()
    assert (cupy.sort(d, 0).get() == np.sort(x, 0)).all()


@pytest.mark.parametrize("kind", ["e", "f", "d", "F", "D"])
def test_products_and_factorisations(cupy, kind):
    rng = np.random.default_rng(1)
    a = rng.normal(size=(2, 4, 4)) + (1j * rng.normal(size=(2, 4, 4)) if kind in "FD" else 0)
    a = a.astype(kind)
    d, tolerance = cupy.asarray(a), {"e": 2e-2, "f": 1e-4, "F": 1e-4}.get(kind, 1e-10)
    np.testing.assert_allclose((d[0] @ d[1]).get(), a[0] @ a[1], rtol=tolerance, atol=tolerance)
    if kind == "e":
        return
    for array in (d, d[0]):
        u, s, vh = cupy.linalg.svd(array, full_matrices=False)
        np.testing.assert_allclose(
            ((u * s[..., None, :]) @ vh).get(), array.get(), rtol=tolerance, atol=tolerance
        )
        one = (cupy.linalg.inv(array) @ array).get()
        np.testing.assert_allclose(one, np.broadcast_to(np.eye(4), one.shape), atol=10 * tolerance)


def test_fresh_memory_has_no_zeros(cupy):
    assert np.isnan(cupy.empty(1 << 22, "f4").get()).all()


def test_a_write_behind_a_block_is_reported(cupy, runtime):
    memory = cupy.cuda.Memory(64)
    array = cupy.ndarray((16,), "f4", cupy.cuda.MemoryPointer(memory, 0))
    cupy.RawKernel(BEYOND, "put")((1,), (1,), (array, np.int32(16)))
    del array, memory
    runtime.cuda_on_cpu_problem.restype = ctypes.c_char_p
    assert b"behind a block" in runtime.cuda_on_cpu_problem()


def test_dynamic_shared_memory_and_its_limit(cupy):
    kernel = cupy.RawKernel(SHARED, "fill")
    to = cupy.empty(32, "f4")
    kernel((1,), (32,), (to,), shared_mem=128)
    assert to.get().tolist() == list(range(31, -1, -1))
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="more shared memory"):
        kernel((1,), (32,), (to,), shared_mem=64 * 1024)


def test_a_capture_records_and_replays(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.arange(4, dtype="f4")
        y = cupy.zeros(4, "f4")
        cupy.add(x, 1, out=y)  # compiled before
        y[...] = 0
        stream.begin_capture()
        cupy.add(x, 1, out=y)
        graph = stream.end_capture()
        assert y.get().tolist() == [0, 0, 0, 0]
        x += 10
        graph.launch(stream)
        assert y.get().tolist() == [11, 12, 13, 14]


def test_a_capture_refuses_to_wait(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="CaptureUnsupported"):
            stream.synchronize()
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="Invalidated"):
            stream.end_capture()


@pytest.mark.parametrize(("kind", "name"), [("f4", "float"), ("f8", "double")])
def test_products_are_fused_with_sums_and_small_float32_are_zero(cupy, kind, name):
    # as CuPy compiles: -ftz=true, and NVRTC's own choice to fuse
    eps, small = np.finfo(kind).eps, np.finfo(kind).tiny / 4
    x = cupy.asarray(np.array([1 + eps, 1 - eps / 2, -1, small, 1], kind))
    to = cupy.ones(2, kind)
    cupy.RawKernel(ARITHMETIC.replace("T*", f"{name}*"), "compute")((1,), (1,), (x, to))
    assert to.get()[0] == np.array(eps / 2 - eps * eps / 2, kind)  # rounded twice it is 0
    assert to.get()[1] == (0 if kind == "f4" else small)
    assert (x * 1).get()[3] == (0 if kind == "f4" else small)


@pytest.mark.parametrize("kind", ["l", "e", "f"])
def test_cub_reduces_as_on_a_device(cupy, kind):
    x = (np.random.default_rng(2).normal(size=(4, 600)) * 3).astype(kind)
    d, before = cupy.asarray(x), machine.cub().cuda_on_cpu_cub_calls()
    tolerance = {"e": 2e-2, "f": 1e-5}.get(kind, 0)
    for name in ("sum", "max"):
        for axis in (None, 1):
            wanted = getattr(x.astype("f4") if kind == "e" else x, name)(axis)
            atol = tolerance * np.abs(wanted).max()
            np.testing.assert_allclose(getattr(d, name)(axis).get(), wanted, tolerance, atol)
    assert machine.cub().cuda_on_cpu_cub_calls() >= before + 4
    assert int(d.argmin()) == x.argmin()
    np.testing.assert_array_equal(d.argmax(1).get(), x.argmax(1))  # by blocks
    if kind != "e":
        np.testing.assert_allclose(cupy.cumsum(d).get(), x.cumsum(), rtol=1e-4, atol=1e-3)
    counts, edges = np.histogram(x, bins=5)
    assert (cupy.histogram(d, bins=cupy.asarray(edges))[0].get() == counts).all()
    if kind != "l":
        x[2, 7] = np.nan
        assert np.isnan(cupy.asarray(x).max().get()) and int(cupy.asarray(x).argmax()) == 1207


def test_a_captured_sum_of_cub_is_replayed(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x, total = cupy.arange(300, dtype="f4"), cupy.zeros((), "f4")
        x.sum(out=total)
        stream.begin_capture()
        x.sum(out=total)
        graph = stream.end_capture()
        x += 1
        graph.launch(stream)
        assert total.get() == 300 * 299 / 2 + 300
