"""The profiler's device times and memory, on a GPU."""

from __future__ import annotations

import time
from collections import Counter

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.devices.cuda import kernels
from gradlib.nn import functional as F
from gradlib.tape.arrays import backend_for


# rows: PROF-06 PROF-10
def test_device_times_are_those_of_events_around(request):
    size = 2048 if request.config.getoption("--device") == "real" else 512  # NumPy takes its time
    a = gradlib.randn(size, size, device="cuda", requires_grad=True)
    (a @ a).sum().backward()  # warm up
    a.grad = None
    start, end = (gradlib.cuda.Event(enable_timing=True) for _ in range(2))
    with profiler.profile(use_device="cuda", profile_memory=True) as prof:
        start.record()
        b = a
        for _ in range(10):
            b = b @ a
        b.sum().backward()
        end.record()
    between = start.elapsed_time(end) * 1e3
    on_device = sum(e.self_device_time_total for e in prof.function_events)
    assert 0.5 * between < on_device <= 1.05 * between
    products = [e for e in prof.function_events if e.name == "mm"]
    assert all(e.device_time_total > 0 for e in products)
    assert all(e.device_memory_usage == size * size * 4 for e in products[:10])
    assert all(e.cpu_memory_usage == 0 for e in products)


# rows: PROF-06
def test_timing_a_small_op_costs_little(on_real_device):
    x = gradlib.ones(16, device="cuda")

    def chain():
        y = x
        for _ in range(500):
            y = y * 1.0
        gradlib.cuda.synchronize()

    def best(action):
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            action()
            times.append(time.perf_counter() - begin)
        return min(times)

    chain()
    plain = best(chain)
    with profiler.profile(use_device="cuda"):
        timed = best(chain)
    assert (timed - plain) / 500 < 20e-6  # the aim is 4 us


LAYERS = {
    "batch_norm": lambda: (gradlib.nn.BatchNorm2d(3), (4, 3, 5, 5)),
    "conv": lambda: (gradlib.nn.Conv2d(3, 2, 3), (2, 3, 6, 6)),
    "gelu": lambda: (gradlib.nn.GELU(), (4, 5)),
    "layer_norm": lambda: (gradlib.nn.LayerNorm(6), (4, 6)),
    "lstm": lambda: (gradlib.nn.LSTMCell(4, 3), (2, 4)),
    "max_pool": lambda: (gradlib.nn.MaxPool2d(2), (2, 3, 6, 6)),
    "softmax": lambda: (gradlib.nn.Softmax(-1), (3, 6)),
}


# rows: PROF-01
@pytest.mark.parametrize("layer", LAYERS)
def test_a_profile_shows_the_kernels_that_run_without_it(layer, monkeypatch):
    module, shape = LAYERS[layer]()
    module.cuda()
    launched: list[str] = []
    kind = type(kernels.launcher_of(backend_for("cuda")))
    plain = kind.launch

    def launch(self, module, kernel, *args, **kwargs):
        launched.append(kernel)
        return plain(self, module, kernel, *args, **kwargs)

    monkeypatch.setattr(kind, "launch", launch)

    def step():
        x = gradlib.ones(shape, device="cuda", requires_grad=True)
        out = module(x)
        (out[0] if isinstance(out, tuple) else out).sum().backward()
        found, launched[:] = list(launched), []
        return found

    step()  # what is made once
    without = step()
    with profiler.profile():
        profiled = step()
    assert profiled == without
    assert bool(without) == backend_for("cuda").fuses


PRODUCTS = {
    "convolution": lambda t: F.conv2d(t(2, 4, 9, 9), t(6, 2, 3, 3), stride=2, padding=1, groups=2),
    "image only": lambda t: F.conv2d(t(2, 3, 8, 8), t(4, 3, 3, 3).detach()),
    "transposed": lambda t: F.conv_transpose2d(t(2, 3, 8, 8), t(3, 4, 3, 3)),
}


# rows: PROF-09
@pytest.mark.parametrize("name", PRODUCTS)
def test_flops_are_those_of_the_cpu(name):
    def flops(device):
        def ones(*shape):
            return gradlib.ones(shape, device=device, requires_grad=True)

        with profiler.profile(with_flops=True) as prof:
            PRODUCTS[name](ones).sum().backward()
        return prof.total_average().flops

    assert flops("cuda") == flops("cpu") > 0


# rows: PROF-09
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_flops_of_attention(device):
    shapes = (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)
    q, k, v = (gradlib.ones(s, device=device, requires_grad=True) for s in shapes)
    with profiler.profile(with_flops=True) as prof:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    name, forward = "scaled_dot_product_attention", 2 * 6 * 5 * 7 * (8 + 4)
    found = Counter()
    for e in prof.function_events:
        found[e.name] += e.flops or 0
    products = 2 * 6 * 5 * 7 * (3 * 8 + 2 * 4)  # five of them
    backward = {name + "_backward": products}
    if (
        backend_for(device).overlays is None
    ):  # a device without kernels of its own: those of the formula
        backward = {"matmul": products}
    assert +found == {name: forward, **backward}
