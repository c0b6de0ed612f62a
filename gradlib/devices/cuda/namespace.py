"""The CUDA backend: CuPy's functions under NumPy's names. CuPy is imported here, on first use of a CUDA device.

What CuPy lacks is made from what it has: `CupyBackend` overrides its names, `_gaps` holds the ufunc methods. Nothing
here waits for the device, except what returns values to the host.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import warnings
from types import ModuleType
from typing import Any

import numpy as np

from ...op import overlays, write_device
from ...tape import arrays
from ...tape.device import on_cuda
from ...tape.modes import shared
from ..numpy import scan
from ..numpy.namespace import backend as numpy_backend
from . import epilogues, gemm, generators
from .allocation import Allocator, maker
from .gaps import (
    WIDENED,
    CheckedLinalg,
    Linalg,
    Logical,
    Ufunc,
    add_at,
    as_bits,
    chosen,
    is_bfloat16,
    rounded,
    widened,
)
from .lanes import Streams

TABLES = 4096  # constant arrays that are kept in device memory
FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
    "method. What a child does on the CPU works, as that of a DataLoader's workers: move tensors to the device in the "
    "parent."
)
_backend: Any = None
_asked = (
    False  # whether the driver has named devices: from then on it works in no child that is forked
)


def _imported(name: str) -> Any:
    """CuPy, or another library of its package; not by import statements: type checkers take `cupy` for this module.

    A warning is no missing device, nor a fault of the program, also where warnings are errors (``python -W error``).
    """
    if name in sys.modules:
        return importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        return importlib.import_module(name)


def why_not() -> str | None:
    """What is missing for CUDA, as a sentence that says what to do; None if CUDA can be used."""
    global _asked
    if isinstance(_backend, _Forked):
        return FORKED
    if importlib.util.find_spec("cupy") is None:
        return (
            "CUDA is not available: CuPy is not installed. Install it with pip install 'gradlib[cuda12]' "
            "(or gradlib[cuda13]), or use device='cpu'."
        )
    try:
        cupy = _imported("cupy")
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as exc:
        return f"CUDA is not available: CuPy is installed but cannot use a CUDA device ({exc}). Use device='cpu'."
    _asked = _asked or count > 0
    return None if count else "CUDA is not available: no CUDA device was found. Use device='cpu'."


def get_backend():
    """The backend; RuntimeError that says what is missing."""
    global _backend
    if _backend is None:
        reason = why_not()
        if reason is not None:
            raise RuntimeError(reason)
        _backend = CupyBackend()
        shared.cuda = Streams(_backend.xp.cuda)
        shared.cuda.array = _backend.xp.ndarray
        generators.register()
    return _backend


class _Forked:
    """Stands for the backend in a child that was forked after the driver was asked: it does not work there."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(FORKED)


def _after_fork() -> None:
    global _backend
    if _backend is not None or _asked:
        forked = _Forked()
        if _backend is not None:
            arrays.replace(_backend, forked)
            write_device.forget_device_code()
        _backend, shared.cuda = forked, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Elsewhere:
    """The functions of a namespace (the backend's, or one inside it), called with another device current."""

    def __init__(self, namespace: Any, device: Any):
        self.namespace, self.device = namespace, device

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.namespace, name)
        if isinstance(value, (ModuleType, Linalg, CheckedLinalg)):
            return _Elsewhere(value, self.device)

        def on_device(*args: Any, **kwargs: Any) -> Any:
            with self.device:
                return value(*args, **kwargs)

        makes = callable(value) and (name == "empty" or not isinstance(value, type))
        return on_device if makes else value


class CupyBackend:
    """CuPy as the namespace of kernels."""

    name = "cupy"
    fuses = True
    waits = True
    cached = (
        1 << 62
    )  # elements that kernels of several passes take at a time: a device gains nothing by pieces

    def __init__(self) -> None:
        self.xp = _imported("cupy")
        self.current_device = self.xp.cuda.runtime.getDevice
        self.current_stream = self.xp.cuda.get_current_stream
        self.tables: dict[tuple, Any] = {}
        self.numbers: dict[tuple, Any] = {}  # (device, stream, dtype, number) -> array
        self.seen: set[tuple] = set()  # keys of numbers that were made once
        # the streams of `numbers` by pointer, kept so that no other stream gets that pointer
        self.number_streams: dict[int, Any] = {}
        self.empty = maker(self.xp.ndarray)  # takes shape and dtype, as `empty` of NumPy does
        self.linalg = Linalg(self.xp)
        self.checked_linalg = CheckedLinalg(self.linalg, _imported("cupyx").errstate)
        self.gemm = gemm.Gemm(self.xp)
        self.epilogues = epilogues.Epilogues(self.gemm)
        pool = self.xp.get_default_memory_pool()
        self.allocator = Allocator(self.xp.cuda, pool)
        if (
            self.xp.cuda.get_allocator() == pool.malloc
        ):  # not if the program has chosen one of its own
            self.xp.cuda.set_allocator(self.allocator.take)

    @functools.cached_property
    def cudnn(self) -> Any:
        """Convolutions by cuDNN, which is looked for when the first of them asks; None without it."""
        found = importlib.import_module(".cudnn", __package__)
        return None if found.library() is None else found.Convolutions(self.xp)

    @property
    def overlays(self) -> Any:
        """The kernels in place of formulas; None where none can be launched."""
        return overlays.on("cuda") if self.fuses else None

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.xp, name)
        if name in WIDENED:
            value = widened(value)
        elif isinstance(value, self.xp.ufunc):
            kind = Logical if name.startswith("logical_") else Ufunc
            value = kind(self, value, name)
        self.__dict__[name] = value
        return value

    def on(self, index: int | None) -> Any:
        """This namespace with the functions making their arrays on the device of that index."""
        runtime = self.xp.cuda.runtime
        if index is None or index == runtime.getDevice():
            return self
        if index >= runtime.getDeviceCount():
            raise RuntimeError(
                f"CUDA error: invalid device ordinal {index}; this machine has {runtime.getDeviceCount()} device(s)"
            )
        return _Elsewhere(self, self.xp.cuda.Device(index))

    def call(self, fn, *args):
        """``fn(*args)``, with the device of this namespace current (see `on`)."""
        return fn(*args)

    def in_pieces(self, kernel, *arrays):
        """``kernel(xp, *arrays)``: a device gains nothing by pieces."""
        return kernel(self, *arrays)

    def to_host(self, array):
        """A raw array as a NumPy array; waits for the device."""
        return array.get()

    def device_of(self, array):
        return on_cuda(array.device.id)

    def number(self, value, dtype):
        """A Python number as a 0-dim array; without a copy from the host, which a stream capture refuses.

        Nobody writes to it: a number that comes again on a stream is kept for that stream, where everything comes
        after it was made, so that not every use means another kernel.
        """
        if dtype.kind == "V" and value.__class__ is int:
            value = float(value)  # bfloat16 takes no integers of more than 64 bits
        stream = self.current_stream()
        # by its text: 0.0, which is equal to -0.0, a nan, and complex numbers, which may have these as parts
        known = (
            value if value and value == value and not isinstance(value, complex) else repr(value)
        )
        key = self.current_device(), stream.ptr, dtype.num, known
        found = self.numbers.get(key)
        if found is not None:
            return found
        try:
            made = self.xp.full((), value, dtype)
        except OverflowError:  # an unsigned number of more than 63 bits, or one that does not fit
            made = self.xp.full((), numpy_backend.number(value, dtype)[()], dtype)
        if key not in self.seen:
            if len(self.seen) < TABLES:
                self.seen.add(key)
        elif not stream.is_capturing() and not self._is_foreign(stream):
            # what a capture makes belongs to the graph; a foreign stream may be destroyed by its owner
            self.numbers[key] = made
            self.number_streams[stream.ptr] = stream
        return made

    def _is_foreign(self, stream) -> bool:
        """Whether another library made the stream (`Stream.from_external`, or the older ExternalStream)."""
        return (
            isinstance(stream, self.xp.cuda.ExternalStream)
            or getattr(stream, "_foreign_stream_ref", None) is not None
        )

    def to_backend(self, array, device=None):
        """A raw array of any backend on the device of that index, or on the current one."""
        xp = self.xp
        index = device.index if device is not None and device.index is not None else None
        if not isinstance(array, xp.ndarray):
            with xp.cuda.Device(index):
                return xp.asarray(array)
        if index is None or array.device.id == index:
            return array
        return self._across(array, index)

    def _across(self, array, index: int):
        """A copy on another device: the streams current on the two devices wait for each other."""
        streams = shared.cuda
        here, there = streams.current(array.device.id), streams.current(index)
        with array.device:
            array = self.xp.ascontiguousarray(array).reshape(array.shape)
        there.wait(here.record())
        with self.xp.cuda.Device(index):
            out = array.copy()
        here.wait(there.record())
        return out

    def wide(self, array):
        """`array` in the dtype that sums are kept in: float32 for half types, itself otherwise."""
        return (
            array.astype("f4") if array.dtype.itemsize == 2 and array.dtype.kind in "fV" else array
        )

    def as_strided(self, array, shape, strides, offset_bytes: int = 0):
        """A view of the memory of `array` with byte strides, starting `offset_bytes` after its first element."""
        memory = array.data + offset_bytes if offset_bytes else array.data
        return self.xp.ndarray(shape, array.dtype, memptr=memory, strides=strides)

    def empty_like_layout(self, array):
        """An uninitialised array with the shape and the order of strides of `array`, dense."""
        return self.xp.empty_like(array, order="K")

    def ascontiguousarray(self, array, dtype=None):
        """Row-major; unlike CuPy's, a 0-dim array stays 0-dim."""
        shape = array.shape
        out = self.xp.ascontiguousarray(array, dtype)
        return out if out.shape == shape else out.reshape(shape)

    def asarray(self, array, dtype=None):
        """An array here; Python numbers are filled in by a kernel, not copied from the host."""
        if isinstance(array, (bool, int, float, complex)):
            return self.xp.full((), array, dtype)
        return self.xp.asarray(array, dtype)

    def array(self, array, dtype=None, copy=True, order="K"):
        """A new array; like NumPy's the layout is kept unless `order` says otherwise."""
        if isinstance(array, self.xp.ndarray):
            return array.astype(array.dtype if dtype is None else dtype, order=order or "K")
        return self.xp.array(array, dtype, order=order)

    # -- bfloat16: CuPy has no loop for it in these, and would give float32, or an error ------------------------------

    def where(self, condition, x=None, y=None):
        """NumPy's where."""
        if is_bfloat16(x) or is_bfloat16(y):
            return chosen(self.xp, condition, x, y)
        return self.xp.where(condition, x, y)

    def tril(self, array, k=0):
        """NumPy's tril."""
        return as_bits(self.xp.tril, array, k)

    def triu(self, array, k=0):
        """NumPy's triu."""
        return as_bits(self.xp.triu, array, k)

    def clip(self, array, low=None, high=None, out=None):
        """NumPy's clip, which lets `low` and `high` be None."""
        if not is_bfloat16(array):
            return self.xp.clip(array, low, high, out)
        low, high = (array.dtype.type(b) if isinstance(b, (int, float)) else b for b in (low, high))
        if low is not None:
            array = self.xp.maximum(array, low, out=None if high is not None else out)
        return array if high is None else self.xp.minimum(array, high, out=out)

    def round(self, array, decimals=0, out=None):
        """NumPy's round."""
        if decimals or not is_bfloat16(array):
            return rounded(self.xp.round(array, decimals, out), array.dtype)
        return self.xp.rint(array, out=out)

    # -- sorting: CuPy knows only stable sorts, and no bfloat16 --------------------------------------------------------

    def argsort(self, array, axis=-1, kind=None):
        return self.xp.argsort(_sortable(array), axis)

    def argpartition(self, array, kth, axis=-1, kind=None):
        return self.xp.argpartition(_sortable(array), kth, axis)

    def sort(self, array, axis=-1, kind=None):
        return self.xp.sort(_sortable(array), axis).astype(array.dtype, copy=False)

    # -- products ------------------------------------------------------------------------------------------------------

    def matmul(self, a, b):
        """NumPy's matmul, by cuBLAS itself where it can be; see `gemm`.

        CuPy 14 has no batched product of bfloat16 (cupy#10317): without cuBLAS that goes through float32.
        """
        if self.gemm.takes(a, b):
            return self.gemm.matmul(a, b)
        if a.dtype.kind == "V" == b.dtype.kind and (a.ndim > 2 or b.ndim > 2):
            return self.xp.matmul(a.astype("f4"), b.astype("f4")).astype(a.dtype)
        return self.xp.matmul(a, b)

    def convolution_product(self, a, b, wide=False):
        """A product of matrices inside a convolution: as exact as ``backends.cudnn.allow_tf32`` says.

        wide: half types give float32, as the sums are.
        """
        if self.gemm.takes(a, b):
            return self.gemm.matmul(a, b, convolution=True, wide=wide)
        if wide and a.dtype.itemsize == 2:
            a, b = a.astype("f4"), b.astype("f4")
        return self.matmul(a, b)

    def dot(self, a, b, out=None):
        """NumPy's dot of arrays of at most two dimensions."""
        result = self.matmul(a, b)
        if out is None:
            return result
        out[...] = result
        return out

    def may(self, condition) -> bool:
        """Whether any element holds, or could: looking would mean waiting for the device."""
        return True

    def surely(self, condition) -> bool:
        """Whether any element is known to hold: looking would mean waiting for the device."""
        return False

    def table(self, array, dtype=None):
        """A constant NumPy array on the current device; the copy is kept: made once, and not during captures."""
        if isinstance(array, self.xp.ndarray):
            return array if dtype is None else array.astype(dtype, copy=False)
        array = np.asarray(array, dtype)
        key = (
            self.xp.cuda.runtime.getDevice(), array.dtype.num, array.shape, array.tobytes()
        )  # fmt: skip
        found = self.tables.get(key)
        if found is None:
            # waited for: whatever stream uses it later comes after
            found = self.xp.asarray(array, blocking=True)
            if len(self.tables) < TABLES:
                self.tables[key] = found
        return found

    # -- adding to positions that may repeat ---------------------------------------------------------------------------

    def add_at(self, out, key, values) -> None:
        """``out[key] += values`` where entries that `key` names several times are added every time."""
        add_at(self, out, key, values)

    def sum_at(self, shape, positions, values):
        """Zeros of `shape` with each of `values` added at its flat position."""
        out = self.xp.zeros(shape, values.dtype)
        add_at(self, out.reshape(-1), positions.reshape(-1), values.reshape(-1))
        return out

    def add_flat(self, out, positions, values) -> None:
        """The same for integer positions in the contiguous array `out`, read as flat."""
        add_at(self, out.reshape(-1), positions.reshape(-1), values.reshape(-1))

    # -- sums --------------------------------------------------------------------------------------------------------

    def add_up(self, array, dim: tuple, keepdim: bool = False):
        """The sum over `dim` (() for all dimensions)."""
        return self.add.reduce(array, dim or None, None, None, keepdim)

    def sum_of_squares(self, flat):
        """The sum of the squares of a vector."""
        return self.dot(flat, flat)

    def accumulate(self, ufunc: str, array, dim: int, into=None):
        """The ufunc's ``accumulate`` along `dim`, into the array `into` if there is one.

        Of many single-precision numbers the running value is kept in double precision.
        """
        n, step = array.shape[dim], getattr(self, ufunc)
        few = ufunc in scan.EXTREMA or (n <= scan.FEW and ufunc != "multiply")
        wider = None if few else scan.WIDER.get(array.dtype)
        if wider is None:
            out = step.accumulate(array, dim)
        else:
            out = step.accumulate(array.astype(wider), dim).astype(array.dtype)
        if into is None:
            return out
        into[...] = out
        return into

    # -- functions of NumPy that CuPy lacks ----------------------------------------------------------------------------

    def vecdot(self, a, b):
        """The sum over the last axis of conj(a) * b."""
        return (a.conj() * b).sum(-1)

    def repeat(self, array, repeats, axis=None):
        """NumPy's repeat; counts for each element may be an array (their sum is then read, which waits)."""
        if not isinstance(repeats, self.xp.ndarray):
            return self.xp.repeat(array, repeats, axis)
        return self.xp.repeat(array, [int(n) for n in repeats.get().reshape(-1)], axis)


def _sortable(array):
    """`array` in a dtype that CuPy sorts, in the same order."""
    return array.astype("f4") if array.dtype.kind == "V" else array
