"""User kernels: CUDA C++ cannot run here, so a launch goes to a Python function that stands for the kernel.

``launchers["softmax_backward"] = fn`` makes ``RawModule(...).get_function("softmax_backward")`` work: a launch submits
``fn(grid, block, args, shared_mem)`` to the current stream, where device arrays among `args` are NumPy arrays on the
device's memory. What such a function raises as a RuntimeError is a fault of the kernel, told as a driver tells it
(`Machine.break_down`). A function ``resolve(source, name, options)`` in `resolvers` may make such functions from
the source.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .array import ndarray
from .launch import check_device
from .machine import CUDARuntimeError, machine
from .memory import queue_of

launchers: dict[str, Callable[..., Any]] = {}
resolvers: list[Callable[[str, str, tuple], Callable[..., Any] | None]] = []


def find(source: str, name: str, options: tuple) -> Callable[..., Any]:
    if name in launchers:
        return launchers[name]
    for resolve in resolvers:
        found = resolve(source, name, options)
        if found is not None:
            return found
    raise NotImplementedError(
        f"the simulated device cannot run the CUDA kernel {name!r}: register a Python function for it in "
        "tests.simulated_cuda.kernels.launchers"
    )


class Function:
    """A kernel of a module: ``f(grid, block, args, shared_mem=0, stream=None)``."""

    def __init__(self, run: Callable[..., Any], name: str):
        self._run, self.name = run, name
        self.max_dynamic_shared_size_bytes = 49152

    @property
    def kernel(self) -> Function:
        return self

    def linear_launch(self, size, args, shared_mem=0, block_max_size=128, stream=None) -> None:
        """Blocks of at most `block_max_size` threads, `size` threads together."""
        # a Python integer is one of 64 bits
        args = tuple([np.int64(a) if isinstance(a, int) else a for a in args])
        grid, block = -(-size // block_max_size), min(size, block_max_size)
        self((grid,), (block,), args, shared_mem, stream)

    def __call__(self, grid, block, args, shared_mem=0, stream=None, **kwargs) -> None:
        check_device([a for a in args if isinstance(a, ndarray)])
        hosts = tuple(a._host if isinstance(a, ndarray) else a for a in args)
        grid, block = tuple(grid), tuple(block)
        kernel = self._run
        refused = getattr(kernel, "refused", None)  # what a driver sees before it launches
        problem = refused(grid, block, shared_mem) if refused is not None else None
        if problem:
            raise CUDARuntimeError(1, f"{self.name}: {problem}")

        def run() -> None:
            try:
                kernel(grid, block, hosts, shared_mem)
            except RuntimeError as error:
                machine.break_down(str(error))

        machine.submit(run, queue_of(stream), self.name)
        if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1" and machine.fault is not None:
            machine.waited()


class RawModule:
    """``RawModule(code=..., path=..., options=(), backend="nvrtc", name_expressions=None, ...)``"""

    def __init__(self, *, code=None, path=None, options=(), backend="nvrtc", translate_cucomplex=False,
                 enable_cooperative_groups=False, name_expressions=None, jitify=False):  # fmt: skip
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        self.code, self.file_path, self.options, self.backend = code, path, tuple(options), backend
        self.name_expressions = name_expressions

    def compile(self, log_stream=None) -> None: ...

    def get_function(self, name: str) -> Function:
        return Function(find(self.code or "", name, self.options), name)

    def get_global(self, name: str):
        raise NotImplementedError("the simulated device has no global variables of modules")


class RawKernel(Function):
    """``RawKernel(code, name, options=(), ...)``; found when it is launched."""

    def __init__(self, code, name, options=(), backend="nvrtc", *, translate_cucomplex=False,
                 enable_cooperative_groups=False, jitify=False):  # fmt: skip
        self.code, self.options, self.backend, self.name = code, tuple(options), backend, name
        self.max_dynamic_shared_size_bytes = 49152

    @property
    def _run(self) -> Callable[..., Any]:
        return find(self.code, self.name, self.options)

    @property
    def kernel(self) -> Function:
        return Function(find(self.code, self.name, self.options), self.name)

    def compile(self, log_stream=None) -> None: ...


class _Refused:
    def __init__(self, *args, **kwargs):
        name = kwargs.get("name") or (args[3] if len(args) > 3 else "?")
        raise NotImplementedError(
            f"the simulated device cannot compile {type(self).__name__} {name!r}"
        )


class ElementwiseKernel(_Refused):
    """Needs CUDA C++."""


class ReductionKernel(_Refused):
    """Needs CUDA C++."""
