"""The stand-in is as strict as CuPy: what CuPy refuses or does differently from NumPy is refused or done so here."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cupy_on_cpu.children import in_child
from tests.simulated_cuda import CUDARuntimeError, api, kernels, machine
from tests.simulated_cuda.linalg import errstate


def test_arrays_do_not_turn_into_numpy_arrays(cuda):
    a = cuda.arange(3.0)
    with pytest.raises(TypeError, match="Implicit conversion to a NumPy array is not allowed"):
        np.asarray(a)
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.zeros(3)[:] = a
    for mix in (
        lambda: a + np.ones(3),
        lambda: np.ones(3) * a,
        lambda: cuda.where(a > 1, np.ones(3), a),
    ):
        with pytest.raises(TypeError, match=r"Unsupported type <class 'numpy.ndarray'>"):
            mix()
    assert isinstance(np.exp(a), cuda.ndarray) and isinstance(np.float32(2) * a, cuda.ndarray)
    assert isinstance(np.concatenate([a, a]), cuda.ndarray)
    assert (a.get() == [0, 1, 2]).all() and a[1].item() == 1.0 and bool(a[2])
    with pytest.raises(ValueError, match="truth value of an array"):
        bool(a)


def test_names_and_parameters_are_those_of_cupy(cuda):
    a = cuda.ones((2, 3))
    for missing in ("vecdot", "errstate", "put_mask", "nanmaximum"):
        with pytest.raises(AttributeError):
            getattr(cuda, missing)
    with pytest.raises(TypeError):
        cuda.sum(a, where=a > 0)
    with pytest.raises(TypeError):
        cuda.max(a, initial=0)
    with pytest.raises(AttributeError):
        a.flags.writeable  # noqa: B018
    with pytest.raises(NotImplementedError, match=r"cupy_maximum.reduce"):
        cuda.maximum.reduce(a)
    with pytest.raises(NotImplementedError, match=r"cupy_multiply.at"):
        cuda.multiply.at(a, 0, 2.0)
    with pytest.raises(TypeError, match=r"add.at only supports"):
        cuda.add.at(cuda.zeros(3, "i2"), cuda.zeros(1, "i8"), 1)
    with pytest.raises(ValueError, match="kind can only be None or 'stable'"):
        cuda.argsort(a, kind="quicksort")
    assert len(api.UFUNCS) > 80 and len(api.FUNCTIONS) > 250


def test_results_have_the_types_of_cupy(cuda):
    half = cuda.ones(2, "f2")
    bf16 = cuda.ones(2, api.BFLOAT16)
    assert (half + 1).dtype == np.float16 and (bf16 * 2).dtype == api.BFLOAT16
    assert (bf16 * 2.5).dtype == np.float32  # a Python float is too wide for it
    assert cuda.divmod(bf16, bf16)[0].dtype == np.float32  # there is no loop for bfloat16
    assert cuda.sqrt(cuda.ones(2, "i1")).dtype == np.float16
    assert (cuda.ones(2, "i8") + 1.5).dtype == np.float64
    assert (
        cuda.ones(2, bool).sum().dtype == np.int64 and cuda.ones(2, "f4").mean().dtype == np.float32
    )
    assert isinstance(cuda.ones(2).sum(), cuda.ndarray)
    with pytest.raises(TypeError, match="Wrong type"):
        cuda.bitwise_and(cuda.ones(2), cuda.ones(2))


def test_indices_wrap_around(cuda):
    a = cuda.arange(5)
    assert a[cuda.array([5, -6, 11])].tolist() == [0, 4, 1]
    a[cuda.array([7])] = 9
    assert a.tolist() == [0, 1, 9, 3, 4]
    with pytest.raises(ValueError, match=r"non-scalar numpy.ndarray"):
        a[:2] = np.zeros(2, int)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        range(cuda.array(3))
    with pytest.raises(TypeError):
        a[: cuda.array(2)]


def test_views_share_memory(cuda):
    a = cuda.zeros((2, 3))
    a.T[0, 1] = 5
    a.reshape(-1)[0] = 2
    a[:, 1:].swapaxes(0, 1)[1] = 7
    assert a.tolist() == [[2.0, 0.0, 7.0], [5.0, 0.0, 7.0]]
    assert a[1:].data.ptr == a.data.ptr + 24 and a[1:].base is a
    assert a.T.reshape(-1).data.ptr != a.data.ptr


def test_linear_algebra_raises_for_singular_matrices_when_told_to(cuda):
    bad = cuda.zeros((2, 2, 2))
    bad[0] = cuda.eye(2)
    assert cuda.isnan(cuda.linalg.inv(bad)).any(axis=(1, 2)).tolist() == [False, True]
    with errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match="reported by inv"):
        cuda.linalg.inv(bad)
    with pytest.raises(TypeError):
        cuda.linalg.inv(cuda.ones((2, 2), "f2"))
    with pytest.raises(TypeError, match="data type 'E' not understood"):  # cupy#10317
        cuda.matmul(cuda.ones((1, 2, 2), api.BFLOAT16), cuda.ones((1, 2, 2), api.BFLOAT16))


def test_devices_are_kept_apart(cuda):
    a = cuda.ones(3)
    with cuda.cuda.Device(1):
        b = cuda.ones(3)
        assert b.device.id == 1
        with pytest.raises(ValueError, match="array device = 0 while current = 1"):
            a + b
        assert (a.copy() + b).tolist() == [2.0] * 3
    with pytest.raises(cuda.cuda.runtime.CUDARuntimeError, match="invalid device ordinal"):
        cuda.cuda.Device(5).use()


def test_the_pool_reuses_and_poisons(cuda):
    a = cuda.ones(100)
    address = a.data.ptr
    del a
    b = cuda.empty(100)
    assert b.data.ptr == address and np.isnan(b.get()).all()
    pool = cuda.get_default_memory_pool()
    assert pool.used_bytes() == 1024 and pool.total_bytes() >= 1024
    with cuda.cuda.Stream() as side:
        c = cuda.empty(10)
    del b
    with side:
        assert cuda.empty(100).data.ptr != address  # the block belongs to the other stream
    del c
    pool.free_all_blocks()
    assert pool.total_bytes() == pool.used_bytes() == 0


def test_the_pool_splits_and_merges(cuda):
    pool = cuda.cuda.MemoryPool()
    with cuda.cuda.using_allocator(pool.malloc):
        big = cuda.zeros(1024, "u1")
        start = big.data.ptr
        del big
        left, right = cuda.zeros(512, "u1"), cuda.zeros(512, "u1")
        assert {left.data.ptr, right.data.ptr} == {start, start + 512}
        del left, right
        assert pool.n_free_blocks() == 1 and cuda.zeros(1024, "u1").data.ptr == start
    pool.set_limit(size=2048)
    with cuda.cuda.using_allocator(pool.malloc), pytest.raises(MemoryError, match="Out of memory"):
        cuda.zeros(4096, "u1")


def test_pinned_memory_is_read_when_the_copy_runs(lazy_cuda):
    with lazy_cuda(1) as cuda:
        machine.early = machine.generous = 0.0
        pinned = np.frombuffer(cuda.cuda.alloc_pinned_memory(24), "f8", 3)
        pageable = np.ones(3)
        pinned[:] = 1
        a, b = cuda.empty(3), cuda.empty(3)
        a.set(pinned)
        b.set(pageable)
        pinned[:] = pageable[:] = 2
        assert a.tolist() == [2.0] * 3 and b.tolist() == [1.0] * 3


def test_kernels_are_functions_registered_by_tests(cuda, monkeypatch):
    def scale(grid, block, args, shared_mem):
        x, factor = args
        x *= factor

    module = cuda.RawModule(code="...")
    with pytest.raises(NotImplementedError, match="cannot run the CUDA kernel 'scale'"):
        module.get_function("scale")
    monkeypatch.setitem(kernels.launchers, "scale", scale)
    a = cuda.ones(3)
    module.get_function("scale")((1,), (32,), (a, np.float64(3)))
    assert a.tolist() == [3.0] * 3


# -- it fails as a driver does -----------------------------------------------------------------------------------------


def stop(grid, block, args, shared_mem):
    raise RuntimeError("stop: __trap()")


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setitem(kernels.launchers, "stop", stop)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_fault_of_a_kernel_is_told_late_and_stays(lazy_cuda, kernel, seed):
    with lazy_cuda(seed) as cupy:
        x = cupy.ones(3)
        cupy.RawKernel("", "stop")((1,), (1,), (x,))  # has succeeded
        y = x + 1
        with pytest.raises(CUDARuntimeError, match="cudaErrorLaunchFailure: stop: __trap"):
            y.get()
        for call in (
            x.get,
            lambda: x + 1,
            cupy.cuda.runtime.deviceSynchronize,
            cupy.cuda.Stream,
            cupy.cuda.Event().record,
            lambda: cupy.RawKernel("", "stop")((1,), (1,), (x,)),
        ):
            with pytest.raises(CUDARuntimeError, match="cudaErrorLaunchFailure: stop: __trap"):
                call()
    with lazy_cuda(seed) as cupy:  # another machine
        assert cupy.ones(2).get().tolist() == [1, 1]


def test_a_launch_that_waits_is_told_itself(cuda, kernel, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(CUDARuntimeError, match="stop: __trap"):
        cuda.RawKernel("", "stop")((1,), (1,), (cuda.ones(3),))


def test_a_launch_that_is_refused_does_no_harm(cuda, monkeypatch):
    def run(grid, block, args, shared_mem):
        args[0][...] = 5

    run.refused = lambda grid, block, shared: "a block too large" if block[0] > 64 else None
    monkeypatch.setitem(kernels.launchers, "run", run)
    x = cuda.ones(3)
    with pytest.raises(CUDARuntimeError, match="cudaErrorInvalidValue: run: a block too large"):
        cuda.RawKernel("", "run")((1,), (128,), (x,))
    cuda.RawKernel("", "run")((1,), (64,), (x,))
    assert x.get().tolist() == [5, 5, 5]


def test_no_call_works_in_a_forked_child(cuda):
    x = cuda.ones(3)

    def answers():
        found = []
        for call in (x.get, lambda: x + 1, lambda: cuda.zeros(3), cuda.cuda.runtime.getDeviceCount):
            try:
                found.append(str(call()))
            except CUDARuntimeError as error:
                found.append(str(error))
        return found

    assert in_child(answers) == ["cudaErrorInitializationError: initialization error"] * 4
    assert x.get().tolist() == [1, 1, 1]
