"""Convolutions on CUDA by NVIDIA's cuDNN, where it is installed (the extras `cudnn12` and `cudnn13`).

A convolution, the gradient of its input and that of its weight are one call each. Like `gemm` this calls the library by
ctypes: a handle for each thread and device, set to the current stream, and for each kind of call, shapes, layout and
type a plan, which holds the descriptors and the algorithm. The library's heuristics choose the algorithm; it is never
asked to try some, which would run them. So a call does nothing but launch, and may be captured.

What the library does not have it says (its statuses from 3000 on); that is remembered, nothing was computed, and the
caller gets NotImplemented: another way of the table in `fused/paths.py` is taken.

- Half types are added up in float32; float32 is rounded to TF32 only where `precision` allows it.
- After ``use_deterministic_algorithms(True)``, or with ``backends.cudnn.deterministic``, only algorithms that the
  library calls deterministic are taken.
- ``backends.cudnn.enabled = False`` turns this off, and so does ``GRADLIB_CUDNN=0`` in the environment; a path there
  names the library.

The numbers below are those of the headers of cuDNN 9; ``python -m tests.cupy_on_cpu.cudnn_header`` compares them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...operators.nn.windows import out_sizes
from ...tape.layout import suggested
from ...tape.switches import switches
from . import precision
from .kernels import BF2, F2, F4, F8

FLOAT, DOUBLE, HALF, BFLOAT16 = 0, 1, 2, 9  # cudnnDataType_t
NCHW, NHWC = 0, 1  # cudnnTensorFormat_t
CROSS_CORRELATION = 1  # cudnnConvolutionMode_t
DEFAULT_MATH, TENSOR_OP_MATH, ALLOW_CONVERSION, FMA_MATH = 0, 1, 2, 3  # cudnnMathType_t
DETERMINISTIC = 1  # cudnnDeterminism_t
# where kinds of cudnnStatus_t begin; what is below them is about the library itself
BAD_PARAM, NOT_SUPPORTED, INTERNAL_ERROR = 2000, 3000, 4000

TYPES = {F2: (HALF, FLOAT), BF2: (BFLOAT16, FLOAT), F4: (FLOAT, FLOAT), F8: (DOUBLE, DOUBLE)}
"""What the library calls dtypes, and what it is to compute them in."""
FORWARD, DATA, FILTER = "Forward", "BackwardData", "BackwardFilter"
OPERANDS = {FORWARD: "xwy", DATA: "wyx", FILTER: "xyw"}
"""The kinds of calls, and which of x (input), w (weight) and y (output) they read, read and write."""
OLDEST = 90000  # version
LARGEST = (1 << 31) - 1  # elements of an array, all of whose strides are then ints
WORKSPACE = 1 << 30  # bytes that an algorithm may take
ALIGNED = 16  # bytes at which arrays have to begin: what the fastest kernels read at once
RESULTS = 16  # algorithms that are asked for
PLANS = 1024
OFF = "GRADLIB_CUDNN"
_NAMES = ("libcudnn.so.9",) if sys.platform != "win32" else ("cudnn64_9.dll",)
_NUMBERS = {FLOAT: (ctypes.c_float * 2)(1, 0), DOUBLE: (ctypes.c_double * 2)(1, 0)}


# -- the library -----------------------------------------------------------------------------------------------------


def _candidates() -> Iterator[tuple[str, int]]:
    """Where the library may be, and how it is loaded: there already, NVIDIA's wheels, the system."""
    wanted = os.environ.get(OFF, "")
    if wanted == "0":
        return
    if os.sep in wanted:
        yield wanted, ctypes.DEFAULT_MODE
        return
    for name in _NAMES if hasattr(os, "RTLD_NOLOAD") else ():
        yield name, ctypes.DEFAULT_MODE | os.RTLD_NOLOAD  # that of another library of the program
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ModuleNotFoundError:
        spec = None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for name in _NAMES:
            yield str(Path(folder, "bin" if name.endswith(".dll") else "lib", name)), 0
    for name in _NAMES:
        yield name, ctypes.DEFAULT_MODE


@functools.cache
def library() -> Any:
    """cuDNN, or None if it is switched off, cannot be found, or is older than its version 9."""
    for name, mode in _candidates():
        try:
            lib = _declared(ctypes.CDLL(name, mode))
        except (OSError, AttributeError):
            continue
        return lib if lib.cudnnGetVersion() >= OLDEST else None
    return None


def version() -> int | None:
    """The version as the library says it, 92801 for 9.28.1; None without one."""
    lib = library()
    return None if lib is None else int(lib.cudnnGetVersion())


class Result(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t, and those of the gradients: an algorithm that the heuristics name."""

    _fields_ = [
        ("algorithm", ctypes.c_int), ("status", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int), ("math", ctypes.c_int), ("reserved", ctypes.c_int * 3),
    ]  # fmt: skip


def signatures() -> dict[str, tuple]:
    """The functions used here and the types of their arguments."""
    p, i, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    found: dict[str, tuple] = {
        "cudnnGetVersion": (),
        "cudnnGetErrorString": (i,),
        "cudnnGetLastErrorString": (p, size),
        "cudnnSetStream": (p, p),
        "cudnnSetTensorNdDescriptor": (p, i, i, p, p),
        "cudnnSetFilterNdDescriptor": (p, i, i, i, p),
        "cudnnSetConvolutionNdDescriptor": (p, i, p, p, p, i, i),
        "cudnnSetConvolutionGroupCount": (p, i),
        "cudnnSetConvolutionMathType": (p, i),
    }
    for kind in ("", "TensorDescriptor", "FilterDescriptor", "ConvolutionDescriptor"):
        found[f"cudnnCreate{kind}"] = found[f"cudnnDestroy{kind}"] = (p,)
    for kind in OPERANDS:
        found[f"cudnnGetConvolution{kind}Algorithm_v7"] = (p, p, p, p, p, i, p, p)
        found[f"cudnnGetConvolution{kind}WorkspaceSize"] = (p, p, p, p, p, i, p)
        found[f"cudnnConvolution{kind}"] = (p, p, p, p, p, p, p, i, p, size, p, p, p)
    return found


def _declared(lib: Any) -> Any:
    """The library, with the types of arguments: ctypes would pass addresses as ints of 32 bits."""
    for name, types in signatures().items():
        getattr(lib, name).argtypes = types
    lib.cudnnGetVersion.restype = ctypes.c_size_t
    lib.cudnnGetErrorString.restype = ctypes.c_char_p
    return lib


class Unusable(RuntimeError):
    """The library is there, but cannot work: no driver that it likes, or parts of it are missing."""


def check(lib: Any, status: int, what: str) -> None:
    """Raise what the library says of a status that is not success, in PyTorch's words."""
    if not status:
        return
    text = ctypes.create_string_buffer(1024)
    lib.cudnnGetLastErrorString(text, len(text))
    said = f" ({text.value.decode(errors='replace').strip()})" if text.value.strip() else ""
    raise (Unusable if status < BAD_PARAM else RuntimeError)(
        f"cuDNN error: {lib.cudnnGetErrorString(status).decode()}: {what} failed with status {status}{said}. "
        f"{OFF}=0 in the environment, or backends.cudnn.enabled = False, does without cuDNN."
    )


class _Owned:
    """A handle (no kind) or a descriptor of the library, which is given back with the object."""

    def __init__(self, lib: Any, kind: str = ""):
        self.lib, self.kind, self.value = lib, kind, ctypes.c_void_p()
        self.process = os.getpid()
        name = f"cudnnCreate{kind}"
        check(lib, getattr(lib, name)(ctypes.byref(self.value)), name)

    def set(self, name: str, *arguments: Any) -> None:
        """Call one of the library's functions for it; tuples are arrays of ints."""
        given = [(ctypes.c_int * len(a))(*a) if a.__class__ is tuple else a for a in arguments]
        check(self.lib, getattr(self.lib, name)(self.value, *given), f"{name}{arguments}")

    def __del__(self) -> None:
        # at the end of the process, and in one that was forked, there is no driver to give it back to
        if self.value and self.process == os.getpid() and not sys.is_finalizing():
            getattr(self.lib, f"cudnnDestroy{self.kind}")(self.value)


# -- plans -----------------------------------------------------------------------------------------------------------


class Shapes(NamedTuple):
    """A convolution as the library takes it: two or three dimensions of space.

    x: (images, channels, *space). w: (outputs, channels / groups, *kernel). y: (images, outputs, *out).
    """

    x: tuple
    w: tuple
    y: tuple
    stride: tuple
    padding: tuple
    dilation: tuple
    groups: int


@functools.lru_cache(1024)
def shapes(
    x: tuple, w: tuple, y: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Shapes | None:
    """A convolution of one to three dimensions as `Shapes`; None if the library cannot count or does not have it.

    It wants outputs to be as long as a convolution makes them, which those of a transposed one need not be.
    """
    if not 3 <= len(x) <= 5 or 0 in (*x, *w, *y) or max(*map(math.prod, (x, w, y))) > LARGEST:
        return None
    if max(*padding, *stride, *dilation) > LARGEST:
        return None
    if tuple(out_sizes(x[2:], w[2:], stride, padding, dilation)) != y[2:]:
        return None
    if len(x) == 3:  # one row of an image
        x, w, y = ((*s[:2], 1, s[2]) for s in (x, w, y))
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
    return Shapes(x, w, y, stride, padding, dilation, groups)


class Problem(NamedTuple):
    """A call as far as the library's choice of an algorithm depends on it."""

    kind: str
    shapes: Shapes
    dtype: np.dtype
    last: bool  # channels last
    exact: bool  # float32 that is not to be rounded to TF32
    repeatable: bool
    device: int

    def __str__(self) -> str:
        s = self.shapes
        return (
            f"cudnnConvolution{self.kind} of {self.dtype}, input {list(s.x)}, weight {list(s.w)}, output {list(s.y)}, "
            f"stride {s.stride}, padding {s.padding}, dilation {s.dilation}, groups {s.groups}"
            f"{', channels last' * self.last}"
        )


def _strides(shape: tuple, last: bool) -> tuple:
    """Of a dense array, in elements, for dimensions in the order (images, channels, *space)."""
    order = (*range(1, len(shape)),) if not last else (*range(2, len(shape)), 1)
    strides, step = [0] * len(shape), 1
    for d in reversed((0, *order)):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


class Plan:
    """How the library computes a problem: descriptors, and the algorithm that it chose if it `works`."""

    def __init__(self, lib: Any, handle: Any, problem: Problem):
        self._describe(lib, problem)
        chosen = self._choose(lib, handle)
        self.works = chosen is not None
        if chosen is not None:
            self.algorithm, self.size = chosen
            self.call = self._call(lib, _NUMBERS[TYPES[problem.dtype][1]])

    def _describe(self, lib: Any, problem: Problem) -> None:
        self.problem, s = problem, problem.shapes
        data, compute = TYPES[problem.dtype]
        self.described = {name: _Owned(lib, "TensorDescriptor") for name in "xy"}
        for name, shape in (("x", s.x), ("y", s.y)):
            strides = _strides(shape, problem.last)
            self.described[name].set("cudnnSetTensorNdDescriptor", data, len(shape), shape, strides)
        self.described["w"] = weight = _Owned(lib, "FilterDescriptor")
        form = NHWC if problem.last else NCHW  # the sizes are in the same order in both
        weight.set("cudnnSetFilterNdDescriptor", data, form, len(s.w), s.w)
        self.how = _Owned(lib, "ConvolutionDescriptor")
        self.how.set(
            "cudnnSetConvolutionNdDescriptor", len(s.stride), s.padding, s.stride, s.dilation, CROSS_CORRELATION,
            compute,
        )  # fmt: skip
        self.how.set("cudnnSetConvolutionGroupCount", s.groups)
        self.how.set("cudnnSetConvolutionMathType", self._math())

    def _math(self) -> int:
        """What the library may do to the operands: nothing; round float32 to TF32; use tensor cores for half types."""
        if self.problem.exact:
            return FMA_MATH
        return TENSOR_OP_MATH if self.problem.dtype.itemsize == 2 else DEFAULT_MATH

    def _operands(self) -> list[Any]:
        return [self.described[name].value for name in OPERANDS[self.problem.kind]]

    def _choose(self, lib: Any, handle: Any) -> tuple[int, int] | None:
        """(algorithm, bytes of its workspace): the first of the library's that may be taken; None without one."""
        problem, (a, b, c), how = self.problem, self._operands(), self.how.value
        results, count = (Result * RESULTS)(), ctypes.c_int()
        ask = getattr(lib, f"cudnnGetConvolution{problem.kind}Algorithm_v7")
        status = ask(handle, a, b, how, c, RESULTS, ctypes.byref(count), results)
        if BAD_PARAM <= status < INTERNAL_ERROR:
            return None
        check(lib, status, f"the choice of an algorithm for {problem}")
        measure = getattr(lib, f"cudnnGetConvolution{problem.kind}WorkspaceSize")
        for result in results[: count.value]:
            # the latter rounds float32 to half types
            if result.status or result.math == ALLOW_CONVERSION:
                continue
            if problem.repeatable and result.determinism != DETERMINISTIC:
                continue
            # the algorithm goes with a kind of multiplication; what must be exact stays so, whatever goes with it
            math_type = FMA_MATH if problem.exact else result.math
            self.how.set("cudnnSetConvolutionMathType", math_type)
            size = ctypes.c_size_t()
            status = measure(handle, a, b, how, c, result.algorithm, ctypes.byref(size))
            if not status and size.value <= WORKSPACE:
                return result.algorithm, size.value
        return None

    def _call(self, lib: Any, numbers: Any) -> Callable[..., int]:
        """``f(handle, first, second, workspace, result)``: addresses, but for the handle; returns a status.

        What stays the same from one call to the next is made into C's types once, as in `gemm.Gemm.call`.
        """
        run, how = getattr(lib, f"cudnnConvolution{self.problem.kind}"), self.how.value
        (a, b, c), algorithm = self._operands(), ctypes.c_int(self.algorithm)
        one = ctypes.c_void_p(ctypes.addressof(numbers))
        zero = ctypes.c_void_p(ctypes.addressof(numbers) + ctypes.sizeof(numbers) // 2)
        size = ctypes.c_size_t(self.size)

        def call(handle: Any, p: int, q: int, workspace: int, r: int) -> int:
            return run(handle, one, a, p, b, q, how, algorithm, workspace, size, zero, c, r)

        return call


# -- calls -----------------------------------------------------------------------------------------------------------


class Convolutions:
    """Convolutions on the arrays of an array library.

    cupy: the library. lib: cuDNN; by default the one found on this machine.
    """

    def __init__(self, cupy: Any, lib: Any = None):
        self.cupy = cupy
        self.device, self.stream = cupy.cuda.runtime.getDevice, cupy.cuda.get_current_stream
        self.lib: Any = library() if lib is None else lib
        self.local = threading.local()  # handles: device -> _Owned
        self.plans: dict[Problem, Plan] = {}

    def handle(self) -> Any:
        """This thread's handle for the current device, set to its current stream."""
        device = self.device()
        try:
            found = self.local.handles[device]
        except (AttributeError, KeyError):
            found = _Owned(self.lib)
            self.local.__dict__.setdefault("handles", {})[device] = found
        status = self.lib.cudnnSetStream(found.value, self.stream().ptr)
        if status:
            check(self.lib, status, "cudnnSetStream")
        return found.value

    def run(self, kind: str, given: Shapes, first: Any, second: Any) -> Any:
        """(memory, whether its channels are last), the result of a call of that kind; or NotImplemented.

        kind: FORWARD of input and weight, DATA of weight and gradient, FILTER of input and gradient. The memory is
        dense; with channels last they are its last dimension. They are where those of an operand are, if the library
        has that.
        """
        if self.lib is None:
            return NotImplemented
        dtype = first.dtype
        exact = dtype == F4 and not precision.convolutions_take_tf32()
        repeatable = switches.deterministic or switches.cudnn_deterministic
        last = dtype != F8 and bool(suggested(first) or suggested(second))  # none in float64
        for layout in (True, False) if last else (False,):
            problem = Problem(kind, given, dtype, layout, exact, repeatable, self.device())
            try:
                handle = self.handle()
                plan = self.plans.get(problem)
                if plan is None:
                    if len(self.plans) >= PLANS:
                        self.plans.clear()
                    plan = self.plans[problem] = Plan(self.lib, handle, problem)
            except Unusable as error:  # nothing was computed yet: go on without
                warnings.warn(f"Convolutions do without cuDNN. {error}", stacklevel=2)
                self.lib = None
                return NotImplemented
            if plan.works:
                out = self._launch(plan, handle, first, second)
                if out is not NotImplemented:
                    return out, layout
        return NotImplemented

    def _launch(self, plan: Plan, handle: Any, first: Any, second: Any) -> Any:
        cupy, problem = self.cupy, plan.problem
        p, q = (self._laid(a, problem.last) for a in (first, second))
        # the library's two dimensions are one here: that of the arrays counts
        shape = getattr(problem.shapes, OPERANDS[problem.kind][2])
        if first.ndim == 3:
            shape = shape[0], shape[1], shape[3]
        if problem.last:
            shape = (shape[0], *shape[2:], shape[1])
        out = cupy.empty(shape, problem.dtype)
        memory = cupy.cuda.alloc(plan.size) if plan.size else None
        status = plan.call(
            handle, p.data.ptr, q.data.ptr, memory.ptr if memory else 0, out.data.ptr
        )
        if NOT_SUPPORTED <= status < INTERNAL_ERROR:
            plan.works = False
            return NotImplemented
        if status:
            check(self.lib, status, str(problem))
        return out

    def _laid(self, array: Any, last: bool) -> Any:
        """The memory of an array, dense in the wanted layout, beginning where kernels may read several elements."""
        if last:
            array = array.transpose(0, *range(2, array.ndim), 1)
        if not array.flags.c_contiguous:
            return self.cupy.ascontiguousarray(array)
        return array if not array.data.ptr % ALIGNED else array.copy()
