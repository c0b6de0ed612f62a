"""The profiler's device times and memory, on a GPU."""

from __future__ import annotations

import time

import gradlib
from gradlib.autograd import profiler


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
