"""Page-locked host memory, and copies from and to it that the host does not wait for.

Whoever reads what was copied to the host without waiting must wait for the stream first. The memory on both sides is
kept until the copy is done (:meth:`Streams.retire`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tape.arrays import backend_for
from ...tape.modes import shared
from . import namespace as cupy

NO_DEVICE = "Cannot access accelerator device when none is available."


class Pinned:
    """The owner of page-locked memory; NumPy arrays on it keep it alive as their base."""

    def __init__(self, size: int):
        self.memory = cupy.get_backend().xp.cuda.alloc_pinned_memory(size)
        self.__array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (self.memory.ptr, False), "version": 3,
        }  # fmt: skip


def empty(shape: tuple, dtype: np.dtype, order: str | None = "C") -> np.ndarray:
    """An uninitialised array in page-locked memory. RuntimeError without a CUDA device."""
    reason = cupy.why_not()
    if reason is not None:
        raise RuntimeError(f"{NO_DEVICE} Pinned memory is memory of the CUDA driver. {reason}")
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.asarray(Pinned(max(size, 1)))[:size]
    return np.ndarray(shape, dtype, raw, order="F" if order == "F" else "C")


def copy(array: np.ndarray) -> np.ndarray:
    """A copy of a host array in page-locked memory."""
    out = empty(array.shape, array.dtype, order_of(array))
    out[...] = array
    return out


def is_pinned(array: Any) -> bool:
    """Whether a host array lies in page-locked memory that was allocated here."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, Pinned)


def order_of(array: Any) -> str | None:
    """ "C" or "F" for a dense array (of either library), None for any other."""
    flags = array.flags
    return "C" if flags.c_contiguous else "F" if flags.f_contiguous else None


def move(array: Any, index: int | None) -> Any:
    """A copy on the device of that index (None: the current one; -1: the host) that nobody has waited for.

    It goes to the current stream of the device. None where only a copy that waits will do: from pageable memory, from
    an array with gaps, between devices.
    """
    order = order_of(array)
    if order is None:
        return None
    if index == -1:
        return None if isinstance(array, np.ndarray) else _to_host(array, order)
    if isinstance(array, np.ndarray) and is_pinned(array):
        return _to_device(array, index, order)
    return None


def _to_host(array: Any, order: str) -> np.ndarray:
    out = empty(array.shape, array.dtype, order)
    lane = shared.cuda.current(array.device.id)
    if array.size:
        with lane.cuda.Device(lane.device):
            array.data.copy_to_host_async(out.ctypes.data, array.nbytes, lane.stream)
        shared.cuda.retire((array, out), lane)
    return out


def _to_device(array: np.ndarray, index: int | None, order: Any) -> Any:
    xp = backend_for("cuda").xp
    lane = shared.cuda.current(index)
    with lane.cuda.Device(lane.device):
        out: Any = xp.empty(array.shape, array.dtype, order)
        if array.size:
            out.data.copy_from_host_async(array.ctypes.data, array.nbytes, lane.stream)
            shared.cuda.retire(array, lane)
    return out
