"""Copies between host and device: asarray, get, set. They use the current stream, and most wait for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import pinned
from .array import ndarray
from .launch import compute
from .machine import machine
from .memory import current_queue, queue_of, refuse_in_capture
from .pinned import is_pinned


def from_host(host: np.ndarray, order: Any = "C") -> ndarray:
    """A device array with the values that the host array has now."""
    if host.dtype.kind in "OUSmM" or (host.dtype.kind == "V" and host.dtype.itemsize != 2):
        raise ValueError(f"Unsupported dtype {host.dtype}")
    refuse_in_capture()
    made = ndarray(host.shape, host.dtype, order=order)
    values, target = host.copy(), made._host  # staged in pinned memory before the call returns

    def run():
        target[...] = values

    machine.submit(run, current_queue(), "copy from host")
    return made


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    """``cupy.array``: from device arrays, nested lists of them, NumPy arrays and numbers."""
    if isinstance(obj, ndarray):
        made = obj if dtype is None else obj.astype(dtype, copy=False)
        if copy and made is obj:
            made = obj.copy(order="C" if order in (None, "K") else order)
    elif isinstance(obj, (list, tuple)) and holds_device(obj):
        made = stacked(obj)
        made = made if dtype is None else made.astype(dtype, copy=False)
    else:
        if hasattr(obj, "__cuda_array_interface__"):
            raise NotImplementedError("the simulated device takes only its own arrays")
        host = np.asarray(obj, dtype)
        fortran = order == "F" or (
            order in ("K", "A") and host.flags.f_contiguous and not host.flags.c_contiguous
        )
        made = from_host(host, "F" if fortran else "C")
        if blocking:
            machine.synchronize(current_queue())
    while made.ndim < ndmin:
        made = made[None]
    return made


def holds_device(obj: Any) -> bool:
    if isinstance(obj, (list, tuple)):
        return any(holds_device(o) for o in obj)
    return isinstance(obj, ndarray)


def stacked(obj: Any) -> ndarray:
    """A nested list of device arrays; CuPy refuses to mix them with host values."""
    if isinstance(obj, ndarray):
        return obj
    if not isinstance(obj, (list, tuple)):
        raise TypeError(f"Unsupported type {type(obj)}")
    parts = [stacked(o) for o in obj]
    return compute(lambda ps: np.stack(ps), (parts,), label="array")


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return array(a, dtype, copy=bool(copy), order=order or "K", blocking=blocking)


def ascontiguousarray(a, dtype=None):
    if isinstance(a, ndarray):
        made = a if dtype is None or a.dtype == np.dtype(dtype) else a.astype(dtype)
        made = made if made.ndim else made.reshape(1)
        return made if made.flags.c_contiguous else made.copy()
    return from_host(np.ascontiguousarray(a, dtype))


def asfortranarray(a, dtype=None):
    made = asarray(a, dtype)
    return made if made.flags.f_contiguous else made.copy(order="F")


def asnumpy(a, stream=None, order: Any = "C", out=None, *, blocking=True):
    if isinstance(a, ndarray):
        return a.get(stream=stream, order=order, out=out, blocking=blocking)
    return np.asarray(a, order=order)


def get(a: ndarray, stream, order, out, blocking: bool) -> np.ndarray:
    """Waits for the stream only (the current one of the array's device), not for what others still work on."""
    from .cuda import Device

    with Device(a.data.device_id):
        return _get(a, stream, order, out, blocking)


def _get(a: ndarray, stream, order, out, blocking: bool) -> np.ndarray:
    refuse_in_capture()
    queue = queue_of(stream)
    if out is None:
        fortran = order == "F" or (
            order in ("A", "K") and a.flags.f_contiguous and not a.flags.c_contiguous
        )
        out = np.empty(a.shape, a.dtype, "F" if fortran else "C")
    elif not isinstance(out, np.ndarray):
        raise TypeError("Only numpy.ndarray can be obtained from cupy.ndarray")
    elif out.dtype != a.dtype:
        raise TypeError(f"{out.dtype} array cannot be obtained from {a.dtype} array")
    elif out.shape != a.shape:
        raise ValueError(f"Shape mismatch. Expected shape: {a.shape}, actual shape: {out.shape}")
    source = a._host

    def run():
        out[...] = source

    machine.submit(run, queue, "copy to host")
    if blocking or not is_pinned(out.__array_interface__["data"][0]):
        machine.synchronize(queue)
    return out


def set_from(a: ndarray, arr, stream) -> None:
    if not isinstance(arr, np.ndarray):
        raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
    if a.dtype != arr.dtype:
        raise TypeError(f"{arr.dtype} array cannot be set to {a.dtype} array")
    if a.shape != arr.shape:
        raise ValueError(f"Shape mismatch. Old shape: {arr.shape}, new shape: {a.shape}")
    if not (a.flags.c_contiguous or a.flags.f_contiguous):
        raise RuntimeError("Cannot set to non-contiguous array")
    refuse_in_capture()
    if not is_pinned(arr.__array_interface__["data"][0] if arr.size else 0):
        arr = arr.copy()  # pageable memory is read before the call returns
    target = a._host

    def run():
        target[...] = arr

    machine.submit(run, queue_of(stream), "copy from host")


def restore(host: np.ndarray) -> ndarray:
    return array(host)


def empty(shape, dtype=float, order="C") -> ndarray:
    return ndarray(shape, dtype, order=order)


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None) -> ndarray:
    if subok is not None:
        raise TypeError("subok is not supported yet")
    if shape is not None:
        return ndarray(shape, dtype or prototype.dtype)
    dtype = prototype.dtype if dtype is None else np.dtype(dtype)
    if order in ("C", "F") or prototype.flags.c_contiguous:
        return ndarray(prototype.shape, dtype, order="F" if order == "F" else "C")
    if prototype.flags.f_contiguous:
        return ndarray(prototype.shape, dtype, order="F")
    meta = np.empty_like(np.broadcast_to(np.zeros((), dtype), prototype.shape), order="C")
    like = np.lib.stride_tricks.as_strided(
        np.empty(0, np.uint8), prototype.shape, prototype.strides
    )
    axes = sorted(range(prototype.ndim), key=lambda i: (-abs(like.strides[i]), i))
    strides, step = [0] * prototype.ndim, dtype.itemsize
    for axis in reversed(axes):
        strides[axis] = step
        step *= meta.shape[axis]
    return ndarray(prototype.shape, dtype, strides=tuple(strides))


def empty_pinned(shape, dtype: Any = float, order: Any = "C") -> np.ndarray:
    """A NumPy array in page-locked memory."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(shape, dtype=np.int64))
    mem = pinned.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, count).reshape(shape, order=order)
