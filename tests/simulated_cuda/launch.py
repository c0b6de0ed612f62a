"""From a NumPy function and device arrays to queued work on the current stream.

`compute` finds out the shapes and dtypes of the results (by a run on zeros of the same shapes when the machine is
lazy), takes memory for them from the allocator, and submits the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .array import ndarray, wrap
from .machine import machine
from .memory import current_queue, refuse_in_capture

LIBRARIES = {
    "cublas": "cuBLAS",
    "cusolver": "cuSOLVER",
    "cufft": "cuFFT",
    "curand": "cuRAND",
}


def check_device(arrays: list[ndarray]) -> None:
    """CuPy runs on the current device and refuses arrays of others (those it has no peer access to)."""
    here = machine.device
    for a in arrays:
        if a.data.mem.device_id != here and a.size:
            raise ValueError(
                "Array device must be same as the current device: array device = "
                f"{a.data.mem.device_id} while current = {here}"
            )


def refuse_library(name: str) -> None:
    """Calls of NVIDIA's libraries are refused while the current stream is recorded."""
    if current_queue().capture is not None:
        raise NotImplementedError(
            f"calling {LIBRARIES[name]} API during stream capture is currently unsupported"
        )


def zeros_like_host(a: ndarray) -> np.ndarray:
    """Zeros that take no memory."""
    return np.broadcast_to(np.zeros((), a.dtype), a.shape)


def arrays_in(value: Any) -> Iterator[ndarray]:
    if isinstance(value, ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from arrays_in(v)
    elif isinstance(value, slice):
        yield from arrays_in((value.start, value.stop, value.step))


def replace(value: Any, how: Callable[[ndarray], np.ndarray]) -> Any:
    """`value` with every device array in it replaced."""
    if isinstance(value, ndarray):
        return how(value)
    if isinstance(value, (tuple, list)):
        made = [replace(v, how) for v in value]
        return tuple(made) if isinstance(value, tuple) else made
    return value


def host_view(a: ndarray) -> np.ndarray:
    return a._host


def compute(
    fn: Callable[..., Any],
    args: tuple,
    kwargs: dict | None = None,
    *,
    out: Any = None,
    label: str = "",
) -> Any:
    """``fn(*args, **kwargs)`` on the device: fn takes NumPy arrays in the place of the device arrays among `args`."""
    machine.check()
    kwargs = kwargs or {}
    check_device([*arrays_in(args), *arrays_in(tuple(kwargs.values()))])
    label = label or getattr(fn, "__name__", "")
    here = replace(args, host_view)
    there = {k: replace(v, host_view) for k, v in kwargs.items()} if kwargs else kwargs
    if not machine.lazy and (not machine.captures or current_queue().capture is None):
        machine.executed += 1
        if machine.log is not None:
            machine.log.append(label)
        return deliver(fn(*here, **there), out)
    flat = replace(args, zeros_like_host)
    shapes = fn(*flat, **{k: replace(v, zeros_like_host) for k, v in kwargs.items()})
    many = isinstance(shapes, (tuple, list))
    outs = [room(s, o) for s, o in zip(shapes if many else [shapes], outputs(out, shapes))]
    targets = [o._host for o in outs]

    def run():
        results = fn(*here, **there)
        for target, result in zip(targets, results if many else [results], strict=True):
            target[...] = result

    machine.submit(run, current_queue(), label)
    return wrapped(shapes, outs)


def outputs(out: Any, shapes: Any) -> list:
    n = len(shapes) if isinstance(shapes, (tuple, list)) else 1
    if out is None:
        return [None] * n
    return list(out) if isinstance(out, tuple) else [out]


def wrapped(shapes: Any, outs: list) -> Any:
    if not isinstance(shapes, (tuple, list)):
        return outs[0]
    if hasattr(shapes, "_fields"):
        return type(shapes)(*outs)
    return tuple(outs) if isinstance(shapes, tuple) else outs


def deliver(results: Any, out: Any) -> Any:
    """Results of work that is done, in device memory."""
    if isinstance(results, np.ndarray) and out is None:
        made = ndarray(results.shape, results.dtype)
        made._host[...] = results
        return made
    many = isinstance(results, (tuple, list))
    outs = []
    for r, o in zip(results if many else [results], outputs(out, results)):
        r = np.asarray(r)
        o = room(r, o)
        o._host[...] = r
        outs.append(o)
    return wrapped(results, outs)


def room(result: Any, out: ndarray | None) -> ndarray:
    """The given output, checked, or a new array."""
    result = np.asarray(result)
    if out is None:
        return ndarray(result.shape, result.dtype)
    if not isinstance(out, ndarray):
        raise TypeError(f"Unsupported type {type(out)}")
    if out.shape != result.shape:
        raise ValueError(f"Output shape mismatch: {out.shape} given, {result.shape} wanted")
    check_device([out])
    return out


def blocking(
    fn: Callable[..., Any], args: tuple, kwargs: dict | None = None, label: str = ""
) -> Any:
    """`compute` for results whose shape depends on values: waits for the current stream, as CuPy does."""
    kwargs = kwargs or {}
    inputs = list(arrays_in(args)) + list(arrays_in(tuple(kwargs.values())))
    check_device(inputs)
    synchronize()
    result = fn(*replace(args, host_view), **{k: replace(v, host_view) for k, v in kwargs.items()})
    return compute(lambda: result, (), label=label or getattr(fn, "__name__", ""))


def synchronize() -> None:
    """Wait for the current stream, as every transfer to the host does; refused in capture."""
    refuse_in_capture()
    machine.synchronize(current_queue())


__all__ = ["blocking", "check_device", "compute", "refuse_library", "synchronize", "wrap"]
