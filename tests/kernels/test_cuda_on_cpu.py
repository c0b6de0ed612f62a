"""The machine that kernels run on in these tests: collectives, barriers, and that it catches mistakes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from host_launcher import AS_CUPY, HostBackend

from gradlib.devices.cuda.kernels import Module, source

CODE = r"""
__global__ void scan(const int* x, int* out) {  // inclusive sums over a warp
  int v = x[threadIdx.x];
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(~0u, v, d);
    if (threadIdx.x % 32 >= d) v += other;
  }
  out[threadIdx.x] = v;
}
__global__ void collectives(const int* x, int* out) {
  int i = threadIdx.x, v = x[i];
  out[i] = __shfl_sync(~0u, v, 3);
  out[32 + i] = __shfl_down_sync(~0u, v, 4, 16);
  out[64 + i] = __shfl_xor_sync(~0u, v, 1);
  out[96 + i] = __ballot_sync(~0u, v > 5);
  out[128 + i] = __reduce_add_sync(~0u, v);
  out[160 + i] = __reduce_max_sync(~0u, v) * 100 + __any_sync(~0u, v == 7) * 10 + __all_sync(~0u, v < 5);
}
template <bool SAFE> __global__ void reverse(const float* x, float* out) {
  SHARED_MEMORY(float, line);
  line[threadIdx.x] = x[threadIdx.x];
  if (SAFE) __syncthreads();
  out[threadIdx.x] = line[blockDim.x - 1 - threadIdx.x];
}
template <bool SAFE> __global__ void twice(const float* x, float* out) {  // a buffer used again
  __shared__ float box;
  for (int k = 0; k < 3; ++k) {
    if (threadIdx.x == 40) box = x[k];
    __syncthreads();
    out[k * blockDim.x + threadIdx.x] = box;
    if (SAFE) __syncthreads();
  }
}
__global__ void count(int* total, unsigned long long* largest) {
  atomicAdd(total, 1);
  atomicMax(largest, (unsigned long long)(blockIdx.x * blockDim.x + threadIdx.x));
}
__global__ void uneven(int* out) {
  if (threadIdx.x < 8) __syncthreads();
  else __syncthreads();
  out[threadIdx.x] = 1;
}
__global__ void forgotten_lane(int* out) {
  if (threadIdx.x != 5) out[threadIdx.x] = __shfl_xor_sync(~0u, 1, 1);
}
__global__ void beyond(int* out) { out[threadIdx.x] = 1; }
__global__ void beyond_shared() {
  SHARED_MEMORY(float, line);
  line[threadIdx.x] = 0;
}
template <typename T> __global__ void from_float(const float* x, T* y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = T(x[i]);
}
template <typename T> __global__ void to_float(const T* x, float* y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];
}
template <typename T> __global__ void arithmetic(const T* x, T* to) {
  to[0] = x[0] * x[1] + x[2];
  to[1] = x[3] * x[4];
}
__global__ void four(const float* x, float* out) { pack_of(out) = pack_of(x); }
template <bool FLIPPED> __global__ void fragments(const float16* x, unsigned* out) {  // of a matrix [16, 16]
  SHARED_MEMORY(float16, tile);
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = x[i];
  __syncwarp();
  unsigned four[4];
  load_four<FLIPPED>(four, tile + threadIdx.x % 16 * 16 + threadIdx.x / 16 * 8);
  for (int i = 0; i < 4; ++i) out[i * 32 + threadIdx.x] = four[i];
}
template <int LATER, bool WAITED> __global__ void copies(const float* x, float* out) {  // two groups, and zeros
  SHARED_MEMORY(float, line);
  const int place = threadIdx.x * 4, all = blockDim.x * 4;
  send(line + place, x + place, threadIdx.x == 1);
  sent();
  send(line + all + place, x + all + place, false);
  sent();
  arrived<LATER>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    out[place + i] = line[(all - place - 4) + i];
    out[all + place + i] = line[all + place + i];
  }
  if (WAITED) arrived<0>();
}
struct Pair { double a; int b; };
__global__ void by_value(Pair pair, float x, double* out) { out[0] = pair.a * pair.b + x; }
__global__ void grid_numbers(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += block * 100 + thread;
}
"""
KERNELS = [
    "scan", "collectives", "reverse<true>", "reverse<false>", "twice<true>", "twice<false>", "count", "uneven",
    "forgotten_lane", "beyond", "beyond_shared", "from_float<float16>", "from_float<bfloat16>", "to_float<float16>",
    "to_float<bfloat16>", "by_value", "grid_numbers", "four", "arithmetic<float>", "arithmetic<double>",
    "fragments<false>", "fragments<true>", "copies<0, true>", "copies<1, true>", "copies<2, true>", "copies<1, false>",
]  # fmt: skip
MODULE = Module("test machine", KERNELS, source("common.cuh") + source("product.cuh") + CODE)


def run(device: HostBackend, kernel: str, grid, block, *args, shared=0) -> None:
    device.launcher.launch(MODULE, kernel, grid, block, args, shared)


def test_warp_collectives(device):
    # rows: DEV-26
    x = device.put(np.arange(96, dtype=np.int32))
    out = device.zeros(96, np.int32)
    run(device, "scan", 1, 96, x, out)
    assert (out.reshape(3, 32) == np.cumsum(np.arange(96).reshape(3, 32), 1)).all()
    x, out = device.put(np.arange(32, dtype=np.int32) % 8), device.zeros(192, np.int32)
    run(device, "collectives", 1, 32, x, out)
    same, down, xor, ballot, total, rest = np.asarray(out).reshape(6, 32)
    lane = np.arange(32)
    assert (same == 3).all() and (xor == (lane ^ 1) % 8).all() and (total == 112).all()
    assert (down == np.where(lane % 16 + 4 < 16, (lane + 4) % 8, lane % 8)).all()
    assert (ballot.view(np.uint32) == 0xC0C0C0C0).all() and (rest == 710).all()


def test_grids_blocks_and_atomics(device):
    # rows: DEV-26
    out = device.zeros(2 * 3 * 2 * 24, np.int32)
    run(device, "grid_numbers", (2, 3, 2), (4, 3, 2), out)
    assert (out.reshape(12, 24) == np.arange(12)[:, None] * 100 + np.arange(24)).all()
    total, largest = device.zeros(1, np.int32), device.zeros(1, np.uint64)
    run(device, "count", 5, 100, total, largest)
    assert total[0] == 500 and largest[0] == 499


def test_a_missing_barrier_gives_wrong_numbers(device):
    # rows: DEV-26
    x = device.put(np.arange(64, dtype=np.float32))
    for kernel, right in (("reverse<true>", True), ("reverse<false>", False)):
        out = device.empty(64, np.float32)
        run(device, kernel, 1, 64, x, out, shared=256)
        assert (out == np.asarray(x)[::-1]).all() == right
    for kernel, right in (("twice<true>", True), ("twice<false>", False)):
        out = device.empty((3, 64), np.float32)
        run(device, kernel, 1, 64, x, out)
        assert (out == np.arange(3)[:, None]).all() == right


def test_mistakes_are_reported(device):
    # rows: DEV-26
    out = device.zeros(32, np.int32)
    with pytest.raises(RuntimeError, match="two different barriers"):
        run(device, "uneven", 1, 32, out)
    with pytest.raises(RuntimeError, match="wait for ever"):
        run(device, "forgotten_lane", 1, 32, out)
    with pytest.raises(RuntimeError, match="lanes that do not exist"):
        run(device, "scan", 1, 40, out, out)
    with pytest.raises(RuntimeError, match="wrote outside of an array"):
        run(device, "beyond", 1, 33, out)
    with pytest.raises(RuntimeError, match="beyond its dynamic shared memory"):
        run(device, "beyond_shared", 1, 32, shared=124)
    with pytest.raises(RuntimeError, match="1 to 1024 threads"):
        run(device, "beyond", 1, 1025, out)
    with pytest.raises(RuntimeError, match="the grid is empty"):
        run(device, "beyond", 0, 32, out)
    x = device.zeros(8, np.float32)
    run(device, "four", 1, 1, x, x[4:])
    with pytest.raises(RuntimeError, match="not aligned to 16"):
        run(device, "four", 1, 1, x[1:], x)


@pytest.mark.parametrize("flipped", [False, True])
def test_operands_of_tensor_cores(device, flipped):
    # rows: DEV-26
    x = np.arange(256, dtype=np.float16).reshape(16, 16)
    out = device.zeros((4, 32), np.uint32)
    kernel = f"fragments<{str(flipped).lower()}>"
    run(device, kernel, 1, 32, device.put(x), out, shared=512)
    got = np.ascontiguousarray(out).view(np.float16).reshape(4, 32, 2)
    for i, matrix in enumerate((x[:8, :8], x[8:, :8], x[:8, 8:], x[8:, 8:])):
        wanted = matrix.T if flipped else matrix
        assert (got[i].reshape(8, 8) == wanted).all()  # lane l has elements 2 (l % 4) of row l / 4


def test_copies_are_there_once_they_were_waited_for(device):
    # rows: DEV-26
    x = device.put(np.arange(512, dtype=np.float32))
    line = np.arange(256.0)
    line[4:8] = 0
    want = line.reshape(64, 4)[::-1].ravel()
    for later, first, second in ((0, True, True), (1, True, False), (2, False, False)):
        out = device.empty(512, np.float32)
        run(device, f"copies<{later}, true>", 1, 64, x, out, shared=2048)
        assert (out[:256] == want).all() == first
        assert (out[256:] == np.arange(256, 512)).all() == second
    with pytest.raises(RuntimeError, match="ended without waiting for copies"):
        run(device, "copies<1, false>", 1, 64, x, out, shared=2048)


def test_arguments_must_fit_the_kernel(device):
    # rows: DEV-26
    x, out = device.zeros(32, np.float32), device.zeros(32, np.float16)
    with pytest.raises(TypeError, match="takes 3 arguments, 2 were given"):
        run(device, "from_float<float16>", 1, 32, x, out)
    with pytest.raises(TypeError, match="expected a device array, got ndarray"):
        run(device, "from_float<float16>", 1, 32, np.zeros(32, np.float32), out, np.int32(32))
    with pytest.raises(TypeError, match="points to elements of 4 bytes, not to float16"):
        run(device, "from_float<float16>", 1, 32, out, out, np.int32(32))
    for wrong in (32, np.int64(32), np.float32(32)):
        with pytest.raises(TypeError, match="argument 2"):
            run(device, "from_float<float16>", 1, 32, x, out, wrong)


def test_structs_are_passed_by_value(device):
    # rows: DEV-26
    pair = np.zeros(1, np.dtype([("a", "f8"), ("b", "i4")], align=True))
    pair["a"], pair["b"] = 2.5, 4
    out = device.zeros(1, np.float64)
    run(device, "by_value", 1, 1, pair, np.float32(0.5), out)
    assert out[0] == 10.5


@pytest.mark.parametrize(
    ("name", "dtype"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)]
)
def test_half_types_convert_as_ieee_says(device, name, dtype):
    # rows: DEV-26
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    out = device.empty(every.shape, np.float32)
    run(device, f"to_float<{name}>", 1, 128, device.put(every), out, np.int32(every.size))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.asarray(out), every.astype(np.float32))
        finite = every.astype(np.float32)[np.isfinite(every.astype(np.float32))]
        between = (finite[:-1] / 2 + finite[1:] / 2).astype(np.float32)  # ties
        rng = np.random.default_rng(0)
        anything = rng.integers(0, 1 << 32, 40000, dtype=np.uint32).view(np.float32)
        x = np.concatenate([finite, between, np.nextafter(between, np.float32(9e9)), anything])
        x = np.concatenate(
            [x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520, 1e-8], np.float32)]
        )
        narrow = device.empty(x.shape, dtype)
        run(device, f"from_float<{name}>", 1, 128, device.put(x), narrow, np.int32(x.size))
        expected = x.astype(dtype).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(narrow).astype(np.float32), expected)
        assert (np.signbit(np.asarray(narrow)) == np.signbit(expected))[x == x].all()


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_arithmetic_is_that_of_numpy_or_that_of_cupy(device, kind):
    # rows: DEV-26
    eps, small = np.finfo(kind).eps, np.finfo(kind).tiny / 4
    x = device.put(np.array([1 + eps, 1 - eps / 2, -1, small, 1], kind))
    to = device.put(np.ones(2, kind))
    run(device, f"arithmetic<{'float' if kind == 'f4' else 'double'}>", 1, 1, x, to)
    assert to[0] == (np.array(eps / 2 - eps * eps / 2, kind) if AS_CUPY else 0)
    assert to[1] == (0 if AS_CUPY and kind == "f4" else small)
    assert (np.array([small], kind) * 1)[0] == small  # the processor's mode is as it was
