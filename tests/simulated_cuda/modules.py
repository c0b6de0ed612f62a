"""The module objects that stand for `cupy` and its submodules."""

from __future__ import annotations

import contextlib
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

from . import api, cuda, functions, kernels, linalg, memory, methods, pinned, runtime
from .array import ndarray
from .launch import compute
from .machine import CUDARuntimeError, machine
from .ufunc import ufunc


def module(name: str, content: dict[str, Any], doc: str = "") -> ModuleType:
    """A module that says clearly which of CuPy's names the simulated device does not have."""
    made = ModuleType(name, doc)
    made.__dict__.update(content)
    made.__spec__ = ModuleSpec(name, None, is_package=True)
    made.__path__ = []  # type: ignore[attr-defined]

    def missing(attribute: str) -> Any:
        known = name.removeprefix("cupy").lstrip(".")
        full = f"{known}.{attribute}".lstrip(".")
        if full in api.FUNCTIONS or full in api.VALUES:
            raise AttributeError(
                f"the simulated device does not have {name}.{attribute} yet; CuPy has it"
            )
        raise AttributeError(f"module '{name}' has no attribute '{attribute}'")

    made.__getattr__ = missing  # type: ignore[attr-defined]
    return made


def _values() -> dict[str, Any]:
    """NumPy's types and constants that CuPy hands on under the same names."""
    found = {n: getattr(np, n) for n in api.VALUES if "." not in n and hasattr(np, n)}
    found = {n: v for n, v in found.items() if not callable(v) or isinstance(v, type)}
    return found | {"bool": np.bool_, "c_": None} | {"dtype": np.dtype}


def _fft() -> dict[str, Any]:
    def one(name: str):
        fn = getattr(np.fft, name)

        def call(*args, **kwargs):
            functions.refuse_host(args)
            return compute(fn, args, kwargs, label=name)

        return call

    return {
        n.removeprefix("fft."): one(n.removeprefix("fft."))
        for n in api.FUNCTIONS
        if n.startswith("fft.") and hasattr(np.fft, n.removeprefix("fft."))
    }


def _nvtx() -> dict[str, Any]:
    def nothing(*args, **kwargs) -> int:
        return 0

    names = "Mark MarkC RangePush RangePushC RangePop RangeStart RangeEnd".split()
    return {**dict.fromkeys(names, nothing), "available": True}


@contextlib.contextmanager
def _profile():
    yield


def _cuda(parts: dict[str, ModuleType]) -> dict[str, Any]:
    content = {
        n: getattr(cuda, n)
        for n in "Device Stream ExternalStream Event Graph get_current_stream get_elapsed_time get_device_id".split()
    }
    content |= {
        n: getattr(memory, n)
        for n in """BaseMemory Memory UnownedMemory MemoryPointer MemoryPool MemoryHook alloc set_allocator
        get_allocator using_allocator""".split()
    }
    content |= {
        n: getattr(pinned, n)
        for n in """PinnedMemory PinnedMemoryPointer PinnedMemoryPool alloc_pinned_memory
        set_pinned_memory_allocator""".split()
    }
    return content | parts | {
        "is_available": lambda: machine.count > 0, "Function": kernels.Function, "profile": _profile,
        "get_local_runtime_version": runtime.runtimeGetVersion,
    }  # fmt: skip


def build() -> dict[str, ModuleType]:
    """All modules under the names they are imported by."""
    parts = {
        "runtime": module("cupy.cuda.runtime", runtime.NAMESPACE),
        "nvtx": module("cupy.cuda.nvtx", _nvtx()),
        "profiler": module(
            "cupy.cuda.profiler", {"start": runtime.profilerStart, "stop": runtime.profilerStop}
        ),
        "memory": module("cupy.cuda.memory", {
            n: getattr(memory, n) for n in
            "OutOfMemoryError Memory MemoryPool MemoryPointer PooledMemory BaseMemory alloc".split()
        }),
        "stream": module("cupy.cuda.stream", {
            n: getattr(cuda, n) for n in "Stream ExternalStream Event get_current_stream get_elapsed_time".split()
        }),
        "pinned_memory": module("cupy.cuda.pinned_memory", {
            n: getattr(pinned, n) for n in
            "PinnedMemory PinnedMemoryPointer PinnedMemoryPool alloc_pinned_memory".split()
        }),
    }  # fmt: skip
    made = {
        "cupy.cuda": module("cupy.cuda", _cuda(parts)),
        "cupy.linalg": module("cupy.linalg", linalg.NAMESPACE),
        "cupy.fft": module("cupy.fft", _fft()),
        "cupy.random": module("cupy.random", {}),
        "cupyx": module("cupyx", _cupyx()),
        **{m.__name__: m for m in parts.values()},
    }
    made["cupy"] = module("cupy", {
        **_values(), **functions.NAMESPACE, "ndarray": ndarray, "ufunc": ufunc, "cuda": made["cupy.cuda"],
        "linalg": made["cupy.linalg"], "fft": made["cupy.fft"], "random": made["cupy.random"],
        "RawKernel": kernels.RawKernel, "RawModule": kernels.RawModule,
        "ElementwiseKernel": kernels.ElementwiseKernel, "ReductionKernel": kernels.ReductionKernel,
        "is_available": lambda: machine.count > 0, "__version__": "14.2.0",
        "get_default_memory_pool": lambda: memory.default_pool,
        "get_default_pinned_memory_pool": lambda: pinned.default_pinned_pool,
    }, "The simulated CUDA device.")  # fmt: skip
    return made


def _cupyx() -> dict[str, Any]:
    from .transfer import empty_pinned

    def rsqrt(x):
        return compute(lambda h: (1 / np.sqrt(h)).astype(h.dtype), (x,), label="rsqrt")

    return {
        "scatter_add": methods.scatter_add, "scatter_max": methods.scatter_max, "scatter_min": methods.scatter_min,
        "rsqrt": rsqrt, "empty_pinned": empty_pinned, "errstate": linalg.errstate,
    }  # fmt: skip


MODULES = build()
__all__ = ["MODULES", "CUDARuntimeError"]
