"""CuPy itself on the runtime of this folder: right numbers, and errors where a GPU gives errors."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

BEYOND = r"""
extern "C" __global__ void put(float* to, int place) { to[place] = 1.0f; }
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


def test_memory_of_another_device_is_refused(cupy):
    kernel = cupy.RawKernel(BEYOND, "put")
    cupy.cuda.runtime.deviceDisablePeerAccess(
        1
    )  # CuPy enables it for the first copy between devices
    with cupy.cuda.Device(1):
        there = cupy.zeros(8, "f4")
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="memory of device 1"):
        kernel((1,), (1,), (there, np.int32(0)))
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="not memory of a device"):
        kernel((1,), (1,), (np.intp(np.zeros(4).ctypes.data), np.int32(0)))


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
