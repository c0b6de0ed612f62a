"""A CUDA device for tests: kernels compiled by the C++ compiler of the machine, run on NumPy arrays.

`HostBackend` stands where `CupyBackend` stands on a machine with a GPU. Its arrays are `DeviceArray`s: a kernel refuses
any other, as a GPU would. Memory that it hands out is filled with 0xFF bytes (nan), so that an element that a kernel
forgot to write shows, and lies between fences that are checked after every launch.
"""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from gradlib.devices.cuda.kernels import FAMILIES, Module
from gradlib.devices.numpy.namespace import NumpyBackend
from gradlib.op.overlays import on
from tests.kernels.cxx import arithmetic, launchers, shared_object

HEADER = Path(__file__).parent / "cuda_on_cpu.h"
FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-fno-strict-aliasing", "-Wall", "-Wno-sign-compare", "-Wno-unknown-pragmas",
)  # fmt: skip
AS_CUPY = os.environ.get("GRADLIB_ARITHMETIC") == "cupy"
"""Whether kernels compute as those that CuPy compiles: what is small flushed to zero, products fused with sums."""
FENCE = 64  # bytes on either side of an array


class DeviceArray(np.ndarray):
    """An array on the pretended device."""


class Parameter(ctypes.Structure):
    """What a kernel takes: kind "p" (pointer to elements of `pointee` bytes), "i", "f" or "s" (struct)."""

    _fields_ = [("size", ctypes.c_int), ("pointee", ctypes.c_int), ("kind", ctypes.c_char)]


def build(code: str, kernels: tuple[str, ...]) -> ctypes.CDLL:
    """CUDA C++ and its kernels, compiled as C++."""
    text = "\n".join([f'#include "{HEADER.name}"', code, *launchers(kernels, code)])
    flags = (*FLAGS, *arithmetic(AS_CUPY))
    path = shared_object("kernels/kernels", [text], flags, [HEADER.parent], HEADER.read_text())
    return ctypes.CDLL(str(path))


class HostLauncher:
    """`gradlib.devices.cuda.kernels.Launcher` for the CPU. `seed` decides the order in which threads run."""

    def __init__(self) -> None:
        self.libraries: dict[str, tuple[ctypes.CDLL, tuple[str, ...]]] = {}
        self.fenced: dict[int, np.ndarray] = {}
        self.seed = 1
        self.launched: list[str] = []  # kernels, in the order of their launches

    def load(self, module: Module, kernel: str) -> tuple[ctypes.CDLL, tuple[str, ...]]:
        """The compiled module and the kernels that it has: all of a file, one group of a generated module."""
        found = self.libraries.get(kernel)
        if found is None:
            kernels = module.kernels if module.name in FAMILIES else module.group(kernel)
            self._add(kernels, build(module.code, kernels))
            found = self.libraries[kernel]
        return found

    def _add(self, kernels: tuple[str, ...], library: ctypes.CDLL) -> None:
        self.libraries.update(dict.fromkeys(kernels, (library, kernels)))

    def compile_together(self, kernels: tuple[str, ...], code: str) -> None:
        """Compile kernels of many generated modules as one translation unit: quicker than one by one."""
        self._add(kernels, build(code, kernels))

    def launch(
        self, module: Module, kernel: str, grid: Any, block: Any, args: tuple, shared: int = 0
    ) -> None:
        """Run a kernel; TypeError or RuntimeError for what a GPU would refuse or silently get wrong."""
        library, kernels = self.load(module, kernel)
        number = kernels.index(kernel)
        pointers = self._arguments(library, number, kernel, args)
        sizes = _sizes(grid, block)
        run = library[f"launch_{number}"]
        run.restype = ctypes.c_char_p
        self.seed = self.seed * 69069 % 2**32 + 1
        problem = run(sizes, ctypes.c_size_t(shared), ctypes.c_uint(self.seed % 2**32), pointers)
        self.launched.append(kernel)
        if problem is not None:
            raise RuntimeError(f"{kernel}: {problem.decode()}")
        for a in args:
            if isinstance(a, DeviceArray):
                self._check_fences(kernel, a)

    def refused(
        self, module: Module, kernel: str, grid: Any, block: Any, shared: int = 0
    ) -> str | None:
        """Why a driver refuses a launch, if it does."""
        library, kernels = self.load(module, kernel)
        ask = library["cuda_on_cpu_refused"]
        ask.restype = ctypes.c_char_p
        bound = library[f"bound_{kernels.index(kernel)}"]()
        problem = ask(_sizes(grid, block), ctypes.c_size_t(shared), ctypes.c_int(bound))
        return problem and problem.decode()

    def _arguments(self, library: ctypes.CDLL, number: int, kernel: str, args: tuple) -> Any:
        wanted = (Parameter * 64)()
        count = library[f"parameters_{number}"](wanted)
        if count != len(args):
            raise TypeError(f"{kernel} takes {count} arguments, {len(args)} were given")
        values = [
            value_of(a, p, f"{kernel}, argument {i}") for i, (a, p) in enumerate(zip(args, wanted))
        ]
        addresses = [ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values]
        pointers = (ctypes.c_void_p * max(count, 1))(*addresses)
        pointers._values = values  # alive as long as the pointers to them
        return pointers

    def pointer(self, array: Any) -> int:
        """See `Launcher`."""
        if not isinstance(array, DeviceArray):
            raise TypeError(f"not an array of the device: {type(array).__name__}")
        return array.ctypes.data

    # -- memory --------------------------------------------------------------------------------------------------------

    def empty(self, shape: Any, dtype: Any) -> DeviceArray:
        """Uninitialised memory between fences."""
        dtype = np.dtype(dtype)
        shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        size = math.prod(shape) * dtype.itemsize
        memory = np.full(size + 2 * FENCE, 0xFF, np.uint8)
        self.fenced[memory.__array_interface__["data"][0]] = memory
        inner = memory[FENCE : FENCE + size].view(dtype).reshape(shape)
        return inner.view(DeviceArray)

    def _check_fences(self, kernel: str, array: np.ndarray) -> None:
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        memory = self.fenced.get(root.__array_interface__["data"][0])
        if memory is not None and not (
            (memory[:FENCE] == 0xFF).all() and (memory[-FENCE:] == 0xFF).all()
        ):
            raise RuntimeError(f"{kernel} wrote outside of an array of shape {array.shape}")


def _three(sizes: Any) -> tuple[int, ...]:
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    if not 1 <= len(sizes) <= 3 or any(not isinstance(n, int) or n < 0 for n in sizes):
        raise TypeError(f"launch sizes are one to three ints, not {sizes!r}")
    return (*sizes, 1, 1)[:3]


def _sizes(grid: Any, block: Any) -> Any:
    return (ctypes.c_uint * 6)(*_three(grid), *_three(block))


def value_of(a: Any, p: Parameter, where: str) -> Any:
    """A ctypes object with the bytes of an argument; TypeError if it does not fit the parameter."""
    if p.kind == b"p":
        if a is None:
            return ctypes.c_void_p(None)
        if not isinstance(a, DeviceArray):
            raise TypeError(
                f"{where} is a pointer: expected a device array, got {type(a).__name__}"
            )
        if p.pointee and a.itemsize != p.pointee:
            raise TypeError(f"{where} points to elements of {p.pointee} bytes, not to {a.dtype}")
        return ctypes.c_void_p(a.ctypes.data)
    if p.kind == b"s":
        if not isinstance(a, np.ndarray) or a.size != 1 or a.nbytes != p.size:
            raise TypeError(f"{where} is a struct of {p.size} bytes")
        return ctypes.create_string_buffer(a.tobytes(), p.size)
    if not isinstance(a, np.generic) or a.itemsize != p.size:
        raise TypeError(f"{where} is a number of {p.size} bytes: got {a!r} ({type(a).__name__})")
    if (a.dtype.kind == "f") != (p.kind == b"f"):
        raise TypeError(f"{where}: {a!r} is of the wrong kind, the parameter is {p.kind!r}")
    return ctypes.create_string_buffer(a.tobytes(), p.size)


def resolve(code: str, kernel: str, options: tuple = ()) -> Any:
    """A Python function ``run(grid, block, args, shared)`` for a kernel, for the simulated CUDA device.

    `args` are NumPy arrays on the device's memory, and numbers.
    """
    launcher = HostLauncher()
    known = next((m for m in FAMILIES.values() if m.code == code), None)
    module = known or Module(f"simulated {kernel}", (kernel,), code)

    def run(grid: Any, block: Any, args: tuple, shared: int) -> None:
        given = [a if isinstance(a, np.ndarray) and a.dtype.names else _on_device(a) for a in args]
        launcher.launch(module, kernel, grid, block, tuple(given), shared)

    run.refused = lambda *sizes: launcher.refused(module, kernel, *sizes)  # type: ignore[attr-defined]
    return run


def _on_device(a: Any) -> Any:
    return a.view(DeviceArray) if isinstance(a, np.ndarray) else a


class HostBackend(NumpyBackend):
    """The backend of the pretended device: NumPy's functions on `DeviceArray`s."""

    name = "host"
    overlays = on("cuda")

    def __init__(self) -> None:
        self.launcher = HostLauncher()

    def __getattr__(self, name: str) -> Any:
        """NumPy's function; what it returns is on the device."""
        function = getattr(np, name)
        if isinstance(function, (type, np.ufunc)) or not callable(function):
            return function

        def on_device(*args: Any, **kwargs: Any) -> Any:
            out = function(*args, **kwargs)
            return out.view(DeviceArray) if isinstance(out, np.ndarray) else out

        setattr(self, name, on_device)
        return on_device

    def put(self, value: Any) -> Any:
        """A value with its arrays moved to the device (as copies with the same strides)."""
        if isinstance(value, (tuple, list)):
            return type(value)(self.put(v) for v in value)
        if not isinstance(value, np.ndarray):
            return value
        if value.flags.c_contiguous or not value.size:
            out = self.launcher.empty(value.shape, value.dtype)
            out[...] = value
            return out
        return value.copy(order="K").view(DeviceArray)

    def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
        """Uninitialised device memory."""
        return self.launcher.empty(shape, dtype)

    def empty_like(self, array: Any, dtype: Any = None) -> Any:
        """Uninitialised device memory with the shape of `array` and its order of dimensions."""
        order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
        out = self.launcher.empty([array.shape[d] for d in order], dtype or array.dtype)
        return out.transpose(np.argsort(order)) if array.ndim > 1 else out

    def zeros(self, shape: Any, dtype: Any = np.float64) -> Any:
        """Zeros."""
        out = self.launcher.empty(shape, dtype)
        out[...] = np.zeros((), dtype)
        return out

    def matmul(self, a: Any, b: Any) -> Any:
        """The product; half types as cuBLAS multiplies them, in float32 and rounded once."""
        return self.convolution_product(a, b, wide=True).astype(a.dtype, copy=False)

    def convolution_product(self, a: Any, b: Any, wide: bool = False) -> Any:
        """The product; wide: of half types in float32."""
        if not wide:
            return self.matmul(a, b)
        if a.dtype.itemsize == 2:
            a, b = a.astype("f4"), b.astype("f4")
        self.launcher.launched.append("matmul")
        return self.put(np.matmul(np.asarray(a), np.asarray(b)))

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """A value on the device."""
        return self.put(np.asarray(value, dtype))

    def searchsorted(self, array: Any, numbers: Any) -> Any:
        """Where numbers belong in a sorted array, on the device."""
        return self.put(np.searchsorted(array, numbers))
