"""Reading and writing by index. Indices out of range wrap around, and no mistake in them is reported."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array import ndarray, wrap
from .launch import arrays_in, blocking, check_device, compute
from .machine import machine
from .memory import current_queue
from .transfer import array

INVALID = (
    "only integers, slices (`:`), ellipsis (`...`),numpy.newaxis (`None`) and integer or "
    "boolean arrays are valid indices"
)


def prepare_key(key: Any) -> tuple:
    """The index as a tuple of None, Ellipsis, slices, ints and device arrays; lists, NumPy arrays are copied."""
    made = []
    for k in key if isinstance(key, tuple) else (key,):
        if k is None or k is Ellipsis or isinstance(k, ndarray):
            pass
        elif isinstance(k, slice):
            if any(True for _ in arrays_in(k)):
                raise TypeError(
                    "slice indices must be integers or None or have an __index__ method"
                )
        elif np.isscalar(k) and not isinstance(k, (bool, np.bool_, str)):
            k = int(k) if isinstance(k, (int, np.integer)) else bad(k)
        else:
            empty_list = isinstance(k, (list, tuple)) and not len(k)
            k = array(k, dtype=np.int32 if empty_list else None)
        if isinstance(k, ndarray) and k.dtype.kind not in "iub":
            raise IndexError(
                f"arrays used as indices must be of integer or boolean type. (actual: {k.dtype.type})"
            )
        made.append(k)
    return tuple(made)


def bad(k: Any):
    raise IndexError(INVALID)


def has_arrays(key: tuple) -> bool:
    return any(isinstance(k, ndarray) for k in key)


def has_masks(key: tuple) -> bool:
    return any(isinstance(k, ndarray) and k.dtype.kind == "b" for k in key)


def host_key(key: tuple, hosts: list, shape: tuple) -> tuple:
    """The index for NumPy: device arrays replaced by `hosts`, in order, and wrapped around."""
    queue = iter(hosts)
    used = sum(
        0 if k is None or k is Ellipsis
        else k.ndim if isinstance(k, ndarray) and k.dtype.kind == "b" else 1
        for k in key
    )  # fmt: skip
    axis, made = 0, []
    for k in key:
        if k is Ellipsis:
            axis += len(shape) - used
        elif isinstance(k, ndarray):
            host = next(queue)
            if k.dtype.kind == "b":
                axis += k.ndim
            else:
                host = np.mod(host, shape[axis]) if shape[axis] else host
                axis += 1
            made.append(host)
            continue
        elif k is not None:
            axis += 1
        made.append(k)
    return tuple(made)


def getitem(a: ndarray, key: Any) -> ndarray:
    key = prepare_key(key)
    if not has_arrays(key):
        if sum(k is not None and k is not Ellipsis for k in key) > a.ndim:
            raise IndexError(
                f"too many indices for array: array is {a.ndim}-dimensional, but "
                f"{sum(k is not None and k is not Ellipsis for k in key)} were indexed"
            )
        if Ellipsis not in key:  # a view also where NumPy gives a scalar
            key = (*key, Ellipsis)
        return wrap(a._host[key], a)
    arrays, shape = [k for k in key if isinstance(k, ndarray)], a.shape

    def run(values, *indices):
        return values[host_key(key, list(indices), shape)]

    if has_masks(key):
        return blocking(run, (a, *arrays), label="getitem")
    return compute(run, (a, *arrays), label="getitem")


def setitem(a: ndarray, key: Any, value: Any) -> None:
    key = prepare_key(key)
    arrays, shape, target = [k for k in key if isinstance(k, ndarray)], a.shape, a._host
    if isinstance(value, np.ndarray):
        if not arrays and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        value = value.item() if not value.ndim else array(value, a.dtype)
    elif isinstance(value, (list, tuple)):
        if not arrays:
            raise TypeError(f"Unsupported type {type(value)}")
        value = array(value, a.dtype)
    check_device([a, *arrays, *([value] if isinstance(value, ndarray) else [])])
    hosts = [k._host for k in arrays]
    if has_masks(key):
        from .launch import synchronize

        synchronize()
    if isinstance(value, ndarray):
        source = value._host
        while source.ndim and source.shape[0] == 1:  # leading ones do not count
            source = source[0, ...]
        slots = (
            zeros_view(target)[host_key(key, zeros(arrays), shape)] if not has_masks(key) else None
        )
        if slots is not None:
            np.broadcast_shapes(source.shape, slots.shape)
            if np.broadcast_shapes(source.shape, slots.shape) != slots.shape:
                raise ValueError(f"could not broadcast {value.shape} to {slots.shape}")
    else:
        source = value if isinstance(value, np.generic) else cast_number(value, a.dtype)

    def run():
        target[host_key(key, hosts, shape)] = np.asarray(source).astype(target.dtype, copy=False)

    machine.submit(run, current_queue(), "setitem")


def cast_number(value: Any, dtype: np.dtype) -> Any:
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(f"Unsupported type {type(value)}")
    if dtype.kind in "iu" and isinstance(value, int):
        return np.array(value % 2 ** (8 * dtype.itemsize), np.uint64).astype(dtype)
    return np.asarray(value)


def zeros_view(host: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.zeros((), host.dtype), host.shape)


def zeros(arrays: list[ndarray]) -> list[np.ndarray]:
    return [np.zeros(k.shape, k.dtype) for k in arrays]


def take(a: ndarray, indices, axis=None, out=None) -> ndarray:
    if isinstance(indices, (list, tuple, np.ndarray)):
        indices = array(
            np.asarray(indices, int) if not isinstance(indices, np.ndarray) else indices
        )

    def run(values, where):
        return np.take(values, where, axis, mode="wrap")

    return compute(run, (a, indices), out=out, label="take")


def put(a: ndarray, indices, values, mode: Any = "wrap") -> None:
    indices = indices if isinstance(indices, ndarray) else array(indices)
    values = values if isinstance(values, ndarray) else array(values, a.dtype)
    target, where, given = a._host, indices._host, values._host

    def run():
        np.put(target, where, given.astype(target.dtype), mode=mode)

    machine.submit(run, current_queue(), "put")
