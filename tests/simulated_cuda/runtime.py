"""``cupy.cuda.runtime``: the calls that gradlib and its tests make, on handles and addresses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import api
from .cuda import elapsed, get_current_stream
from .machine import CUDARuntimeError, EventState, machine
from .memory import host_bytes, used
from .pinned import is_pinned

streamDefault, streamNonBlocking = 0, 1  # noqa: N816
streamLegacy, streamPerThread = 1, 2  # noqa: N816
streamCaptureModeGlobal, streamCaptureModeThreadLocal, streamCaptureModeRelaxed = 0, 1, 2  # noqa: N816
eventDefault, eventBlockingSync, eventDisableTiming, eventInterprocess = 0, 1, 2, 4  # noqa: N816
memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = range(4)  # noqa: N816
memcpyDefault = 4  # noqa: N816
is_hip = False
CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_C_32F, CUDA_C_64F, CUDA_R_16BF = 0, 1, 2, 4, 5, 14
_raw: dict[int, Any] = {}


def getDeviceCount() -> int:
    machine.check()
    return machine.count


def getDevice() -> int:
    return machine.device


def setDevice(device: int) -> None:
    machine.set_device(device)


def deviceSynchronize() -> None:
    machine.synchronize_device(machine.device)


def driverGetVersion() -> int:
    return 12080


def runtimeGetVersion() -> int:
    return 12080


def memGetInfo() -> tuple[int, int]:
    machine.check()
    return machine.memory - used.bytes.get(machine.device, 0), machine.memory


def getDeviceProperties(device: int) -> dict:
    return {
        "name": b"Simulated CUDA device", "totalGlobalMem": machine.memory, "major": 9, "minor": 0,
        "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerBlock": 1024, "sharedMemPerBlock": 49152,
        "sharedMemPerBlockOptin": 232448, "regsPerBlock": 65536, "maxThreadsPerMultiProcessor": 2048,
        "l2CacheSize": 50 << 20, "clockRate": 1980000, "memoryClockRate": 2619000, "memoryBusWidth": 5120,
        "integrated": 0, "pciBusID": device, "pciDeviceID": 0, "pciDomainID": 0, "uuid": bytes([device] * 16),
        "isMultiGpuBoard": 0, "concurrentKernels": 1, "asyncEngineCount": 3, "canMapHostMemory": 1,
    }  # fmt: skip


def deviceCanAccessPeer(device: int, peer: int) -> int:
    return 0


def deviceGetAttribute(attribute: int, device: int) -> int:
    return {75: 9, 76: 0, 16: 132}.get(attribute, 0)


def streamCreate() -> int:
    return machine.create_stream(True)


def streamCreateWithFlags(flags: int) -> int:
    return machine.create_stream(not flags & streamNonBlocking)


def streamCreateWithPriority(flags: int, priority: int) -> int:
    return machine.create_stream(not flags & streamNonBlocking, priority)


def streamDestroy(stream: int) -> None:
    machine.destroy_stream(stream)


def streamSynchronize(stream: int) -> None:
    machine.synchronize(machine.queue(stream))


def streamQuery(stream: int) -> int:
    return 0 if machine.idle(machine.queue(stream)) else 600


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    machine.wait(machine.queue(stream), _event(event))


def streamBeginCapture(stream: int, mode: int = streamCaptureModeRelaxed) -> None:
    machine.begin_capture(machine.queue(stream), mode)


def streamIsCapturing(stream: int) -> bool:
    return machine.queue(stream).capture is not None


def streamGetFlags(stream: int) -> int:
    return 0 if machine.queue(stream).blocking else streamNonBlocking


def streamGetPriority(stream: int) -> int:
    return machine.queue(stream).priority


def _event(handle: int) -> EventState:
    try:
        return machine.events[handle]
    except KeyError:
        raise CUDARuntimeError(400) from None


def eventCreate() -> int:
    return eventCreateWithFlags(0)


def eventCreateWithFlags(flags: int) -> int:
    handle = machine.new_handle()
    machine.events[handle] = EventState(timing=not flags & eventDisableTiming)
    return handle


def eventDestroy(event: int) -> None:
    machine.events.pop(event, None)


def eventRecord(event: int, stream: int) -> None:
    machine.record(_event(event), machine.queue(stream))


def eventQuery(event: int) -> int:
    return 0 if machine.event_done(_event(event)) else 600


def eventSynchronize(event: int) -> None:
    machine.event_synchronize(_event(event))


def eventElapsedTime(start: int, end: int) -> float:
    return elapsed(_event(start), _event(end))


def malloc(size: int) -> int:
    from .memory import Memory

    made = Memory(size)
    _raw[made.ptr] = made
    return made.ptr


def free(ptr: int) -> None:
    _raw.pop(ptr, None)


def hostAlloc(size: int, flags: int) -> int:
    from .pinned import alloc_pinned_memory

    made = alloc_pinned_memory(size)
    _raw[made.ptr] = made
    return made.ptr


def freeHost(ptr: int) -> None:
    _raw.pop(ptr, None)


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    queue = machine.queue(stream)
    to_host = kind in (memcpyDeviceToHost, memcpyHostToHost)
    from_host = kind in (memcpyHostToDevice, memcpyHostToHost)
    if from_host and not is_pinned(src):
        staged = host_bytes(src, size).copy()
        target = host_bytes(dst, size)
        machine.submit(lambda: np.copyto(target, staged), queue, "memcpy")
    else:
        machine.submit(lambda: ctypes.memmove(dst, src, size), queue, "memcpy")
    if to_host and not is_pinned(dst):
        machine.synchronize(queue)


def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    stream = get_current_stream().ptr
    memcpyAsync(dst, src, size, kind, stream)
    streamSynchronize(stream)


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    target = host_bytes(ptr, size)
    machine.submit(lambda: target.fill(value % 256), machine.queue(stream), "memset")


def memset(ptr: int, value: int, size: int) -> None:
    stream = get_current_stream().ptr
    memsetAsync(ptr, value, size, stream)
    streamSynchronize(stream)


def profilerStart() -> None: ...


def profilerStop() -> None: ...


def _names() -> dict[str, Any]:
    """What is here and in CuPy's module too."""
    return {n: v for n, v in globals().items() if n in api.RUNTIME} | {
        "CUDARuntimeError": CUDARuntimeError
    }


NAMESPACE = _names()
