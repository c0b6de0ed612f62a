"""cuDNN under CuPy on the CPU: which convolutions it gets, what it is told, and what happens when it refuses.

Its stand-in (`cudnn.cpp`) is as strict as the library; tests_gpu/test_cudnn.py compares results with the formulas.
"""

from __future__ import annotations

import ctypes
import gc
import threading

import pytest

import gradlib as gl
from gradlib.devices.cuda import cudnn
from gradlib.devices.cuda.fused import paths

from .kernel_counts import Counter

F = gl.nn.functional
KINDS = (cudnn.FORWARD, cudnn.DATA, cudnn.FILTER)


class Stand:
    """The stand-in: `tell` what statuses it is to give, and ask what it did."""

    def __init__(self, convolutions):
        self.convolutions, self.lib = convolutions, convolutions.lib

    def __getattr__(self, name):
        return getattr(self.lib, f"cudnn_on_cpu_{name}")

    def last(self):
        """(kind, algorithm, math, channels last, type) of the last call."""
        five = (ctypes.c_int * 5)()
        self.lib.cudnn_on_cpu_last(five)
        kind, *rest = five
        return KINDS[kind], *rest


@pytest.fixture
def stand(cupy):
    """cuDNN switched on, with no plans; afterwards it is told nothing."""
    from gradlib.tape.arrays import backend_for

    backend = backend_for("cuda")
    backend.__dict__.pop("cudnn", None)
    stand = Stand(backend.cudnn)
    with gl.backends.cudnn.flags(enabled=True):
        yield stand
    stand.tell(0, 0, 0)
    backend.__dict__.pop("cudnn", None)


@pytest.fixture
def count(runtime):
    """``count(f)``: what `f` launches when all is compiled; calls of cuDNN and cuBLAS are "library"."""
    counter = Counter(runtime)

    def counted(action):
        action()
        _, launched = counter(action)
        names = ["library" if name == "cuBLAS" else name.partition("<")[0] for name, _ in launched]
        return names

    return counted


def operands(dtype=gl.float16, weight=(4, 3, 3, 3), x=(2, 3, 6, 5), **how):
    made = [gl.randn(*s).to(dtype) for s in (x, weight)]
    return [t.contiguous(**how).cuda().requires_grad_() for t in made]


def gradients(x, w, *how):
    y = F.conv2d(x, w, None, *how)
    return gl.autograd.grad(y, (x, w), gl.ones_like(y))


# -- which convolutions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [gl.contiguous_format, gl.channels_last])
@pytest.mark.parametrize("dtype", [gl.float16, gl.bfloat16])
def test_half_types_are_one_call_each_way_and_nothing_is_moved(stand, count, dtype, layout):
    x, w = operands(dtype, memory_format=layout)
    assert count(lambda: F.conv2d(x, w)) == ["library"]
    assert stand.last() == (
        cudnn.FORWARD,
        1,
        1,
        layout is gl.channels_last,
        cudnn.TYPES[dtype.np][0],
    )
    y = F.conv2d(x, w)
    seed = gl.ones_like(y)
    assert count(lambda: gl.autograd.grad(y, (x, w), seed, retain_graph=True)) == ["library"] * 2
    assert y.is_contiguous(memory_format=layout)
    b = gl.randn(4).to(dtype)
    assert count(lambda: F.conv2d(x, w, b.cuda())) == ["library", "add_bias"]
    found, want = (
        F.conv2d(x, w, b.cuda()).cpu(),
        (y.cpu().float() + b.float().view(4, 1, 1)).to(dtype),
    )
    assert gl.equal(found, want)


def test_float32_goes_there_in_tf32_alone(stand, count):
    x, w = operands(gl.float32)
    assert count(lambda: F.conv2d(x, w)) == ["conv_map"]
    with gl.backends.cudnn.flags(allow_tf32=True):
        assert count(lambda: F.conv2d(x, w)) == ["library"]
        assert stand.last() == (cudnn.FORWARD, 1, cudnn.DEFAULT_MATH, 0, cudnn.FLOAT)
    with paths.force(convolution="cudnn"):
        F.conv2d(x, w)
    assert stand.last() == (cudnn.FORWARD, 1, cudnn.FMA_MATH, 0, cudnn.FLOAT)
    x, w = operands(gl.float64)
    assert count(lambda: F.conv2d(x, w)) == ["conv_map"]


def test_others_keep_their_ways(stand, count):
    x, w = operands(weight=(4, 3, 1, 1))
    before = stand.calls()
    assert count(lambda: F.conv2d(x, w)) == ["library"]  # cuBLAS
    x, w = operands(weight=(3, 1, 3, 3))
    assert count(lambda: F.conv2d(x, w, groups=3)) == ["conv_depthwise"]
    assert stand.calls() == before and not stand.convolutions.plans
    x, w = operands(weight=(4, 3, 1, 1))
    F.conv2d(x, w, stride=2)  # no product of matrices as they lie
    assert stand.calls() == before + 1
    with gl.backends.cudnn.flags(enabled=False):
        x, w = operands()
        assert count(lambda: F.conv2d(x, w)) == ["conv_map"]
    empty = gl.zeros(0, 3, 6, 5, device="cuda", dtype=gl.float16)
    assert F.conv2d(empty, w.detach()).shape == (0, 4, 4, 3)
    assert stand.calls() == before + 1


def test_the_heuristics_are_asked_once(stand):
    x, w = operands()
    start = stand.asked()
    for _ in range(3):
        gradients(x, w)
    assert stand.asked() == start + 3
    gradients(x, w, 2)  # each of these is another problem
    gradients(x, w, 1, 1)
    gradients(x, w, 1, 1, 2)
    gradients(*operands(gl.bfloat16))
    gradients(*operands(memory_format=gl.channels_last))
    assert stand.asked() == start + 18
    assert len(stand.convolutions.plans) == 18


def test_plans_are_few_and_give_their_descriptors_back(stand, monkeypatch):
    monkeypatch.setattr(cudnn, "PLANS", 3)
    gc.collect()
    for n in range(4, 12):
        x, w = operands(x=(1, 3, n, 5))
        F.conv2d(x, w)
        assert len(stand.convolutions.plans) <= 3
    gc.collect()
    before = stand.living()
    stand.convolutions.plans.clear()
    gc.collect()
    assert stand.living() < before
    F.conv2d(x, w)


def test_a_handle_goes_with_its_thread(stand):
    x, w = operands()
    F.conv2d(x, w)
    gc.collect()
    before, seen = stand.living(), []

    def work():
        F.conv2d(x, w)
        seen.append(stand.living())

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    gc.collect()
    assert seen == [before + 1] * 3 and stand.living() == before


def test_a_handle_goes_with_its_device(stand):
    x, w = operands()
    want = F.conv2d(x, w).detach().cpu()
    there = [t.detach().to("cuda:1") for t in (x, w)]
    before = stand.calls()
    assert gl.equal(F.conv2d(*there).cpu(), want)
    with gl.cuda.device(1):
        assert gl.equal(F.conv2d(*there).cpu(), want)
        out = F.conv2d(x, w)
    assert out.device.index == 0 and gl.equal(out.detach().cpu(), want)
    assert stand.calls() == before + 3


# -- algorithms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deterministic", "use_deterministic_algorithms", None])
def test_algorithms_that_are_not_deterministic(stand, how):
    x, w = operands()
    if how == "use_deterministic_algorithms":
        gl.use_deterministic_algorithms(True)
    try:
        with gl.backends.cudnn.flags(deterministic=how == "deterministic"):
            for wanted, kind in ((x, cudnn.DATA), (w, cudnn.FILTER)):
                y = F.conv2d(x, w)
                gl.autograd.grad(y, wanted, gl.ones_like(y))
                assert stand.last()[:2] == (kind, 0 if how is None else 1)
    finally:
        gl.use_deterministic_algorithms(False)


def test_memory_of_an_algorithm_is_limited(stand, monkeypatch, count):
    monkeypatch.setattr(cudnn, "WORKSPACE", 100)
    x, w = operands()
    assert count(lambda: F.conv2d(x, w)) == ["conv_map"]  # each takes more


# -- what it does not have, and what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("status", [2000, 3000, 3004])
def test_what_it_does_not_have_takes_another_way(stand, count, status):
    x, w = operands()
    want = F.conv2d(x, w).detach()
    stand.convolutions.plans.clear()
    stand.tell(status, 0, 0)
    assert count(lambda: F.conv2d(x, w)) == ["conv_map"]
    assert gl.allclose(F.conv2d(x, w), want, rtol=1e-2, atol=1e-2)
    assert set(count(lambda: gradients(x, w))) >= {"conv_map", "conv_weight"}
    with (
        paths.force(convolution="cudnn"),
        pytest.raises(ValueError, match="the way 'cudnn' cannot compute Convolution"),
    ):
        F.conv2d(x, w)
    asked = stand.asked()
    F.conv2d(x, w)
    assert stand.asked() == asked  # it is known


def test_a_layout_that_it_does_not_have_is_tried_in_the_other(stand):
    x, w = operands(memory_format=gl.channels_last)
    want = F.conv2d(x, w).detach()
    for problem, plan in stand.convolutions.plans.items():
        plan.works = not problem.last
    out = F.conv2d(x, w)
    assert stand.last()[3] == 0
    assert gl.equal(out, want) and out.is_contiguous(memory_format=gl.channels_last)


def test_refused_when_it_is_called(stand, count):
    x, w = operands()
    want = F.conv2d(x, w).detach()
    stand.tell(0, 3002, 0)
    assert count(lambda: F.conv2d(x, w)) == ["conv_map"]
    stand.tell(0, 0, 0)
    assert count(lambda: F.conv2d(x, w)) == ["conv_map"]  # that is remembered
    assert gl.allclose(F.conv2d(x, w), want, rtol=1e-2, atol=1e-2)


def test_a_call_that_fails(stand):
    x, w = operands(weight=(4, 3, 3, 2))
    stand.tell(0, 5000, 0)
    said = (
        r"cuDNN error: CUDNN_STATUS_EXECUTION_FAILED: cudnnConvolutionForward of float16, input \[2, 3, 6, 5\], weight "
        r"\[4, 3, 3, 2\], output \[2, 4, 3, 4\], stride \(2, 1\), padding \(1, 0\), dilation \(1, 1\), groups 1 "
        r"failed with status 5000 \(told to refuse\). GRADLIB_CUDNN=0"
    )
    with pytest.raises(RuntimeError, match=said):
        F.conv2d(x, w, None, (2, 1), (1, 0))
    stand.tell(4000, 0, 0)
    with pytest.raises(
        RuntimeError, match="the choice of an algorithm for cudnnConvolutionForward"
    ):
        F.conv2d(x, w)
    with pytest.raises(
        RuntimeError, match=r"STATUS_BAD_PARAM: cudnnSetConvolutionGroupCount\(0,\) failed"
    ):
        cudnn._Owned(stand.lib, "ConvolutionDescriptor").set("cudnnSetConvolutionGroupCount", 0)


@pytest.mark.parametrize("statuses", [(0, 0, 1001), (1008, 0, 0)])
def test_a_library_that_cannot_work_is_done_without(stand, count, statuses):
    x, w = operands()
    stand.tell(*statuses)
    with pytest.warns(
        UserWarning, match="Convolutions do without cuDNN. cuDNN error: CUDNN_STATUS_"
    ):
        F.conv2d(x, w)
    stand.tell(0, 0, 0)
    assert count(lambda: F.conv2d(x, w)) == ["conv_map"]


@pytest.mark.parametrize("value", ["0", "/nowhere/libcudnn.so.9"])
def test_without_the_library(cupy, count, monkeypatch, value):
    from gradlib.tape.arrays import backend_for

    backend = backend_for("cuda")
    monkeypatch.setenv("GRADLIB_CUDNN", value)
    monkeypatch.delitem(backend.__dict__, "cudnn", raising=False)
    cudnn.library.cache_clear()
    try:
        with gl.backends.cudnn.flags(enabled=True):
            x, w = operands()
            assert count(lambda: F.conv2d(x, w)) == ["conv_map"]
            assert not gl.backends.cudnn.is_available() and gl.backends.cudnn.version() is None
            assert not gl.backends.cudnn.is_acceptable(x)
            with (
                paths.force(convolution="cudnn"),
                pytest.raises(ValueError, match="cannot compute"),
            ):
                F.conv2d(x, w)
    finally:
        cudnn.library.cache_clear()
        backend.__dict__.pop("cudnn", None)
