"""CUDA kernels: where their sources are, which instances there are, and how they are compiled and launched.

A `Module` is a translation unit (a file of `kernels/`, or generated text) with the kernels that may be instantiated
from it, written as C++ name expressions: ``softmax_rows<float, false>``. A launcher compiles modules and runs kernels:

- `CupyLauncher` compiles with NVRTC through CuPy and launches on the current stream;
- the tests have one that compiles the same sources with g++ and runs them on NumPy arrays, so that grids, argument
  lists and strides chosen in Python are tested on machines without a GPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

F2, BF2, F4, F8 = (np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
HALVES, SINGLES = (F2, BF2), (F4, F8)
FLOATS = HALVES + SINGLES

C_TYPES: dict[Any, str] = {
    F2: "float16", BF2: "bfloat16", F4: "float", F8: "double", np.dtype(np.bool_): "bool",
    np.dtype(np.int8): "signed char", np.dtype(np.uint8): "unsigned char", np.dtype(np.int16): "short",
    np.dtype(np.uint16): "unsigned short", np.dtype(np.int32): "int", np.dtype(np.uint32): "unsigned",
    np.dtype(np.int64): "int64", np.dtype(np.uint64): "uint64",
}  # fmt: skip
"""NumPy dtypes and what kernels call them (`kernels/common.cuh`)."""

OPTIONS = ("--std=c++17",)
WARP, BLOCK, MAX_BLOCK = 32, 256, 1024
MOST_BLOCKS = (1 << 31) - 1  # of the first dimension of a grid


# -- sources -----------------------------------------------------------------------------------------------------------


@cache
def folder() -> Path:
    """The folder of the kernel sources: in the installed package, else in the checkout.

    Raises FileNotFoundError if it is in neither.
    """
    from pathlib import Path  # no program without CUDA needs it

    package = Path(__file__).parents[2]
    for place in (package / "_kernels", package.parent / "kernels"):
        if (place / "common.cuh").is_file():
            return place
    raise FileNotFoundError(
        f"the CUDA kernel sources are missing: neither {package / '_kernels'} nor {package.parent / 'kernels'} has "
        "them; reinstall gradlib"
    )


@cache
def source(name: str) -> str:
    """The text of a file of `folder()`, with the files that it includes by ``#include "..."`` pasted in."""

    def paste(match: re.Match) -> str:
        return source(match[1])

    text = (folder() / name).read_text(encoding="utf-8")
    return re.sub(r'^#include "([^"]+)"$', paste, text.replace("#pragma once\n", ""), flags=re.M)


def type_name(value: Any) -> str:
    """A template argument in C++: a dtype, a bool, an int, or text as it is."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return C_TYPES[value] if isinstance(value, np.dtype) else str(value)


@cache
def instance(kernel: str, *arguments: Any) -> str:
    """The name expression of a kernel template: ``instance("f", F4, True)`` is ``"f<float, true>"``."""
    return f"{kernel}<{', '.join(map(type_name, arguments))}>" if arguments else kernel


def words(dtype: Any) -> str:
    """The C++ type that an element is moved as, whatever it means.

    Raises KeyError for an element size that no word has.
    """
    sizes = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint64", 16: "uint4"}
    return sizes[dtype.itemsize]


def instances(kernel: str, *choices: Iterable[Any]) -> list[str]:
    """The name expressions of a template for every combination of its arguments."""
    return [instance(kernel, *arguments) for arguments in product(*choices)]


class Module:
    """A translation unit and its kernels.

    name: names it in caches and errors. kernels: the name expressions that may be launched. code: the text; if it is
    None the text is the file `name`.cu.
    """

    __slots__ = ("_code", "kernels", "name")

    def __init__(self, name: str, kernels: Sequence[str], code: str | None = None):
        self.name, self.kernels, self._code = name, tuple(kernels), code

    @property
    def code(self) -> str:
        return source(f"{self.name}.cu") if self._code is None else self._code

    def group(self, kernel: str) -> tuple[str, ...]:
        """The kernels that are compiled together with `kernel`: those with the same first template argument.

        Raises KeyError for a kernel that is not one of the module's.
        """
        if kernel not in self.kernels:
            raise KeyError(
                f"module {self.name} has no kernel {kernel}; it has {', '.join(self.kernels)}"
            )
        first = _first_argument(kernel)
        return tuple(k for k in self.kernels if _first_argument(k) == first)

    def launch(
        self, xp: Any, kernel: tuple, grid: Any, block: Any, *args: Any, shared: int = 0
    ) -> None:
        """Run a kernel, given as the name of its template and the template's arguments; see `Launcher`."""
        launcher_of(xp).launch(self, instance(*kernel), grid, block, args, shared)


def _first_argument(kernel: str) -> str:
    return kernel.partition("<")[2].partition(",")[0].rstrip(">")


FAMILIES: dict[str, Module] = {}
"""The modules that are files of `kernels/`, by name."""


def family(name: str, **templates: Iterable[tuple]) -> Module:
    """Declare the kernels of a file of `kernels/`: for each template the arguments of its instances."""
    kernels = [instance(name, *one) for name, kinds in templates.items() for one in kinds]
    FAMILIES[name] = Module(name, kernels)
    return FAMILIES[name]


# -- launching ---------------------------------------------------------------------------------------------------------


class Launcher(Protocol):
    """What compiles and runs kernels."""

    def launch(
        self, module: Module, kernel: str, grid: Any, block: Any, args: tuple, shared: int = 0
    ) -> None:
        """Run a kernel.

        module, kernel: see `Module`. grid, block: an int or up to three. args: device arrays (passed as pointers),
        None (a null pointer), NumPy scalars of exactly the parameter's type, or NumPy arrays of one structured element
        (passed by value). shared: bytes of dynamic shared memory.
        """
        ...

    def pointer(self, array: Any, /) -> int:
        """The address of an array's first element, for tables of pointers."""
        ...


class Counts(dict):
    """n -> an argument of a launch that is the 64-bit integer n: CuPy makes an object of each that it is given.

    pointer: CuPy's class of arguments by address; None for a launcher that takes integers.
    """

    MOST = 4096

    def __init__(self, pointer: Any):
        self.kind = None if pointer is None else _argument_of(pointer)

    def __missing__(self, n: int) -> Any:
        if len(self) >= self.MOST:
            self.clear()
        found = self[n] = n if self.kind is None else self.kind(n)
        return found


def _argument_of(pointer: Any) -> Any:
    class Integer(pointer):
        """Keeps the integer at the address that it stands for."""

        def __init__(self, n: int):
            self.held = np.array([n], np.int64)
            super().__init__(self.held.ctypes.data)

    return Integer


class CupyLauncher:
    """Compiles with NVRTC, once per device, and launches on the current stream."""

    def __init__(self, cupy: Any):
        self.cupy = cupy
        self.device_number = cupy.cuda.runtime.getDevice
        self.pointer = attrgetter("data.ptr")  # see `Launcher`
        self.functions: dict[tuple, Any] = {}
        self.plain: dict[tuple, Callable] = {}  # what `launch` calls for them
        function = getattr(cupy.cuda, "function", None)
        self.counts = Counts(getattr(function, "CPointer", None))

    def launch(
        self, module: Module, kernel: str, grid: Any, block: Any, args: tuple, shared: int = 0
    ) -> None:
        """See `Launcher`."""
        key = (module, kernel, self.device_number())
        function = self.plain.get(key) or self._ready(key)
        if shared > 48 * 1024:
            raw = self.functions[key]
            if raw.max_dynamic_shared_size_bytes < shared:  # beyond 48 KB a kernel must ask for it
                raw.max_dynamic_shared_size_bytes = shared
        grid = grid if grid.__class__ is tuple else (grid,)
        block = block if block.__class__ is tuple else (block,)
        function(grid, block, args, shared)

    def _ready(self, key: tuple) -> Any:
        """The function of a kernel on the current device itself: CuPy's RawKernel looks it up at each call."""
        raw = self.functions[key] = self.function(*key[:2])
        found = self.plain[key] = raw.kernel
        return found

    def linear(self, module: Module, kernel: str) -> Callable:
        """``f(threads, args, shared, block)``: CuPy's own launch of a kernel over so many threads in a row.

        For the device that is current now. A Python integer among `args` is one of 64 bits, and so is what `counts`
        has for it, which costs the host less.
        """
        key = (module, kernel, self.device_number())
        return (self.plain.get(key) or self._ready(key)).linear_launch

    def function(self, module: Module, kernel: str) -> Any:
        """A compiled kernel; compilation is cached on disk by CuPy."""
        raw = self.cupy.RawModule(
            code=module.code, options=OPTIONS, name_expressions=module.group(kernel)
        )
        return raw.get_function(kernel)


def launcher_of(xp: Any) -> Launcher:
    """The launcher of a backend (made when first asked for)."""
    found = xp.__dict__.get("launcher")
    if found is None:
        found = xp.launcher = CupyLauncher(xp.xp)
    return found


# -- choosing launch sizes ---------------------------------------------------------------------------------------------


def blocks_for(count: int, block: int = BLOCK) -> int:
    """How many blocks give each of `count` items a thread."""
    return -(-count // block)


def pack_size(dtype: Any) -> int:
    """Elements of a `Pack` (`kernels/common.cuh`)."""
    return 16 // dtype.itemsize


def packs_for(count: int, dtype: Any) -> int:
    """How many blocks give each `Pack` of `count` elements a thread."""
    return blocks_for(-(-count // pack_size(dtype)))


def rows_launch(rows: int, width: int, each: int = 4) -> tuple[int, tuple[int, int]]:
    """(grid, block) for kernels in which a row of threads works on a row of `width` elements, `each` at a time.

    Short rows get a warp each, eight rows to a block; longer ones a block of up to 1024 threads, so that each thread
    has some elements of its own to add up before the threads combine.
    """
    if width <= 256:
        return _counted(-(-rows // 8)), (WARP, 8)
    threads = WARP
    while threads < MAX_BLOCK and threads * each < width:
        threads *= 2
    return _counted(rows), (threads, 1)


def _counted(blocks: int) -> int:
    """`blocks`, if a grid may have so many; RuntimeError otherwise: CuPy would pass on the last 32 bits of it."""
    if blocks > MOST_BLOCKS:
        raise RuntimeError(
            f"a kernel for so many rows needs {blocks} blocks, and a grid has at most {MOST_BLOCKS}: split the tensor"
        )
    return blocks


@lru_cache(4096)
def parts_launch(lines: int, parts: int) -> tuple[int, tuple[int, int]]:
    """(grid, block) for kernels that add up `parts` partial results of each line (`parts_sum`)."""
    rows = 1
    while rows < WARP and rows * 2 <= parts:
        rows *= 2
    return blocks_for(lines, WARP), (WARP, rows)


@lru_cache(4096)
def lines_launch(shape: tuple, dim: int, each: int = 4) -> tuple[int, tuple[int, int], tuple]:
    """(grid, block, sizes) for kernels over lines along a dimension; sizes are (outer, n, inner) as kernel arguments.

    With inner > 1 the kernel is the one for columns: a thread for each line (`Line` in `kernels/common.cuh`).
    """
    n, inner = shape[dim], math.prod(shape[dim + 1 :])
    outer = math.prod(shape) // (n * inner)
    sizes = (np.int64(outer), np.int64(n), np.int64(inner))
    if inner > 1:
        return blocks_for(outer * inner), (BLOCK, 1), sizes
    return *rows_launch(outer, n, each), sizes


def dense(xp: Any, array: Any) -> Any:
    """The array in row-major order without gaps; None stays None."""
    return array if array is None or array.flags.c_contiguous else xp.ascontiguousarray(array)


def alike(x: Any, *others: Any) -> bool:
    """Whether `x` has elements of a dtype that kernels take, and the other arrays (or None) have the same dtype."""
    return bool(
        x.dtype in FLOATS and x.size and all(a is None or a.dtype == x.dtype for a in others)
    )
