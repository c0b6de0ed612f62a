"""The device fails as a driver does: late and for ever, or at once and without harm, and never in a forked child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import machine

ROOT = Path(__file__).parents[2]
PUT = r'''
put = cupy.RawKernel("""
extern "C" __global__ void put(float* to, int place) {
  if (place < 0) __trap();
  to[place] = 1.0f;
}""", "put")
host = np.intp(np.zeros(4).ctypes.data)  # not memory of a device
x = cupy.zeros(4, "f4")
put((1,), (1,), (x, np.int32(0)))
'''
PROGRAMS = {
    "a fault is told late": PUT + r"""
launched = text(lambda: put((1,), (1,), (host, np.int32(0))))
later = text(lambda: put((1,), (1,), (x, np.int32(1))))
found = [launched, later, text(x.get)]
""",
    "what was queued behind it is not done": PUT + r"""
import ctypes
put((1,), (1,), (x, np.int32(-1)))
put((1,), (1,), (x, np.int32(1)))
found = np.frombuffer((ctypes.c_float * 4).from_address(x.data.ptr), "f4").tolist()
""",
    "a fault stays": PUT + r"""
put((1,), (1,), (x, np.int32(-1)))
calls = [
    cupy.cuda.runtime.deviceSynchronize, cupy.cuda.runtime.deviceSynchronize, x.get, lambda: cupy.zeros(1 << 20),
    lambda: put((1,), (1,), (x, np.int32(1))), lambda: x + 1, cupy.cuda.Stream,
    lambda: x.reshape(2, 2) @ x.reshape(2, 2), cupy.cuda.Event, cupy.cuda.runtime.memGetInfo,
]
found = [text(call) for call in calls]
cupy.cuda.runtime.getDeviceCount()  # a question about the machine is answered
""",
    "the first fault is told": PUT + r"""
put((1,), (1,), (x, np.int32(-1)))
put((1,), (1,), (host, np.int32(0)))
found = [text(cupy.cuda.runtime.deviceSynchronize), text(x.get)]
""",
    "a graph stops at a fault": PUT + r"""
import ctypes
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    stream.begin_capture()
    for place in (1, -1, 2):
        put((1,), (1,), (x, np.int32(place)))
    graph = stream.end_capture()
    graph.launch(stream)
found = [np.frombuffer((ctypes.c_float * 4).from_address(x.data.ptr), "f4").tolist(), text(stream.synchronize)]
""",
    "more shared memory than there is": PUT + r"""
def ask(size):
    put.max_dynamic_shared_size_bytes = size
found = [text(lambda: ask(227 * 1024)), text(lambda: ask(227 * 1024 + 1)),
         text(lambda: put((1,), (1,), (x, np.int32(1)), shared_mem=100_000)), x.get().tolist()]
""",
    "memory has an end": r"""
runtime = cupy.cuda.runtime
free, total = runtime.memGetInfo()
refused = text(lambda: runtime.malloc(free + 1))
block = runtime.malloc(1 << 20)
during = runtime.memGetInfo()[0]
runtime.free(block)
found = [refused, free - during, free - runtime.memGetInfo()[0], text(lambda: runtime.free(64))]
""",
    "what a capture does not allow": r"""
runtime = cupy.cuda.runtime
inside, outside = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
found = [text(lambda: runtime.streamBeginCapture(0, 2))]
event, blocking = cupy.cuda.Event(), cupy.cuda.Stream()
event.record(outside)
runtime.streamBeginCapture(inside.ptr, 2)
found += [text(lambda: inside.wait_event(event)), text(lambda: runtime.streamEndCapture(inside.ptr))]
y = cupy.zeros(4, "f4")
runtime.streamBeginCapture(blocking.ptr, 2)
found += [text(lambda: y.fill(1)), text(lambda: runtime.streamEndCapture(blocking.ptr))]
""",
    "handles that are gone": r"""
runtime = cupy.cuda.runtime
stream, event = runtime.streamCreate(), runtime.eventCreate()
runtime.streamDestroy(stream)
runtime.eventDestroy(event)
found = [text(lambda: call(handle)) for call, handle in (
    (runtime.streamDestroy, stream), (runtime.eventDestroy, event), (runtime.streamSynchronize, stream))]
x = cupy.zeros(4, "f4")
host = np.zeros(4, "f4")
found.append(text(lambda: runtime.memcpy(host.ctypes.data, x.data.ptr, 16, 1)))
""",
    "a launch that waits": PUT + r"""
import os
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
found = [text(lambda: put((1,), (1,), (x, np.int32(-1))))]
""",
    "memory of another device": PUT + r"""
cupy.cuda.runtime.deviceEnablePeerAccess(1)
cupy.cuda.runtime.deviceDisablePeerAccess(1)
with cupy.cuda.Device(1):
    there = cupy.zeros(8, "f4")
found = [text(lambda: put((1,), (1,), (there, np.int32(0)))), text(x.get)]
""",
    "an access that is not aligned": r'''
wide = cupy.RawKernel("""
#include "cuda_on_cpu.h"
extern "C" __global__ void wide(double* to) { CHECK_ALIGNED(to, double); }""", "wide")
x = cupy.zeros(4, "f4")
wide((1,), (1,), (x[1:],))
found = text(x.get)
''',
    "refusals do no harm": PUT + r'''
bounded = cupy.RawKernel("""
extern "C" __global__ void __launch_bounds__(64, 2) bounded(float* to) { to[0] += threadIdx.x == 0 ? 1.0f : 0.0f; }
""", "bounded")
found = [text(lambda: launch()) for launch in (
    lambda: bounded((1,), (128,), (x,)), lambda: put((1, 1 << 16), (1,), (x, np.int32(0))),
    lambda: put((1,), (2048,), (x, np.int32(0))), lambda: put((1,), (1,), (x, np.int32(0)), shared_mem=1 << 16),
    lambda: bounded((1,), (64,), (x,)), x.get,
)]
''',
    "too many parameters": r'''
given = np.zeros(1, [("at", "u1", 4096)])
source = """
struct Table {{ unsigned char at[{}]; }};
extern "C" __global__ void f(Table t, float* to) {{ to[0] = t.at[0]; }}"""
x = cupy.zeros(4, "f4")
small = np.zeros(1, [("at", "u1", 4088)])
found = [text(lambda: cupy.RawKernel(source.format(4096), "f")((1,), (1,), (given, x))),
         text(lambda: cupy.RawKernel(source.format(4088), "f")((1,), (1,), (small, x)))]
''',
    "a child": PUT + r"""
found = in_child(lambda: [text(call) for call in (
    x.get, lambda: cupy.zeros(3), cupy.cuda.runtime.getDeviceCount, lambda: put((1,), (1,), (x, np.int32(1))))])
found.append(text(x.get))
""",
    "a child of a program that only asked": r"""
asked = torch.cuda.is_available()
found = [asked, *in_child(lambda: [torch.cuda.is_available(), text(lambda: torch.ones(2, device="cuda")),
                                   text(lambda: torch.ones(2).sum().item())])]
""",
    "a child of a program that did not": r"""
found = in_child(lambda: text(lambda: torch.ones(2, device="cuda").tolist()))
""",
    "a fault under a tensor": r"""
x = torch.ones(4, 4, device="cuda")
index = torch.full((2,), 100, device="cuda")
from gradlib.devices.cuda.fused import embedding
from gradlib.tape.arrays import backend_for
xp = backend_for("cuda")
how = {"padding_idx": -1, "scale_grad_by_freq": False}
taken = text(lambda: embedding.embedding(xp, x._array, index._array, **how).shape)
calls = torch.cuda.synchronize, lambda: torch.ones(3, device="cuda").tolist(), lambda: (x @ x).sum().item()
found = [taken, *map(text, calls)]
""",
}  # fmt: skip
ILLEGAL = "CUDARuntimeError: cudaErrorIllegalAddress: put: argument 0 is not memory of a device"
TRAPPED = "cudaErrorLaunchFailure: put: __trap()"
NO_CONTEXT = "cudaErrorInitializationError: initialization error"


@pytest.fixture(scope="module")
def found():
    command = [sys.executable, "-m", "tests.cupy_on_cpu.children"]
    # a source of these is for g++ alone: not to be given to the compiler of a device
    environment = {k: v for k, v in os.environ.items() if k != machine.RECORD}
    done = subprocess.run(
        command,
        input=json.dumps(PROGRAMS),
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads(done.stdout)
    assert not [
        a
        for a in answers.values()
        if isinstance(a, str) and a.startswith(("no answer", "NameError"))
    ]
    return answers


def test_a_fault_is_told_by_the_first_call_that_waits(found):
    assert found["a fault is told late"] == [None, None, ILLEGAL]
    assert found["memory of another device"] == [
        None,
        "CUDARuntimeError: cudaErrorIllegalAddress: put: argument 0 is memory of device 1, the kernel runs on 0",
    ]


def test_what_was_queued_behind_a_fault_is_not_done(found):
    assert found["what was queued behind it is not done"] == [1, 0, 0, 0]
    values, answer = found["a graph stops at a fault"]
    assert values == [1, 1, 0, 0] and TRAPPED in answer


def test_the_first_of_two_faults_is_told(found):
    assert all(TRAPPED in answer for answer in found["the first fault is told"])


def test_memory_and_shared_memory_have_an_end(found):
    refused, taken, kept, foreign = found["memory has an end"]
    assert "cudaErrorMemoryAllocation" in refused and (taken, kept) == (1 << 20, 0)
    assert "cudaErrorInvalidValue: free of memory that was never given out" in foreign
    taken, refused, launched, values = found["more shared memory than there is"]
    assert taken is None and "cudaErrorInvalidValue" in refused
    assert launched is None and values == [1, 1, 0, 0]


def test_a_capture_refuses_what_a_driver_refuses(found):
    default, isolated, broken, implicit, spoilt = found["what a capture does not allow"]
    assert "the default stream cannot be captured" in default
    assert "cudaErrorStreamCaptureIsolation" in isolated
    assert "cudaErrorStreamCaptureInvalidated" in broken
    assert "cudaErrorStreamCaptureImplicit" in implicit
    assert "cudaErrorStreamCaptureInvalidated" in spoilt


def test_what_is_gone_is_refused(found):
    stream, event, waited, copy = found["handles that are gone"]
    assert "a stream destroyed twice" in stream and "an event destroyed twice" in event
    assert "synchronize on a stream that was destroyed" in waited
    assert "a copy whose kind does not say where the memory is" in copy


def test_a_fault_stays_until_the_process_ends(found):
    answers = found["a fault stays"]
    assert len(answers) == 10
    assert all(TRAPPED in answer for answer in answers), answers


def test_a_launch_waits_where_it_is_told_to(found):
    (answer,) = found["a launch that waits"]
    assert TRAPPED in answer


def test_kinds_of_faults_have_the_names_of_the_driver(found):
    assert found["an access that is not aligned"].startswith(
        "CUDARuntimeError: cudaErrorMisalignedAddress: wide: an access that is not aligned to 8"
    )


def test_a_launch_that_is_refused_does_no_harm(found):
    *refused, launched, values = found["refusals do no harm"]
    for answer, why in zip(
        refused,
        (
            "__launch_bounds__",
            "grid is empty or too large",
            "1 to 1024 threads",
            "more shared memory",
        ),
        strict=True,
    ):
        assert answer.startswith("CUDADriverError: cudaErrorInvalidValue") and why in answer
    assert launched is None and values == [2, 0, 0, 0]


def test_parameters_have_4096_bytes(found):
    refused, launched = found["too many parameters"]
    assert "formal parameter space overflowed" in refused
    assert launched is None


def test_no_call_works_in_a_forked_child(found):
    *answers, parent = found["a child"]
    assert len(answers) == 4
    assert all(NO_CONTEXT in answer for answer in answers), answers
    assert parent == [1, 0, 0, 0]  # goes on


def test_a_child_says_what_to_do_though_its_parent_only_asked_for_a_device(found):
    asked, here, made, on_cpu = found["a child of a program that only asked"]
    assert asked is True and here is False and on_cpu == 2.0
    assert made.startswith("RuntimeError: Cannot re-initialize CUDA in forked subprocess")


def test_a_child_of_a_parent_without_a_device_has_one(found):
    assert found["a child of a program that did not"] == [1, 1]


def test_a_fault_under_a_tensor_is_told(found):
    taken, *answers = found["a fault under a tensor"]
    assert taken == [2, 4]
    assert all("__trap()" in a or "CUDA error" in a for a in answers), answers
