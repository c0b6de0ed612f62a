"""Chains of elementwise calls as one: what each computes on its way stays in the cache, or need not be memory at all.

    chain = Chain([Given(np.dtype("f4"), DENSE, 100), ...], scratch, calls, 100, 0, otherwise)
    chain(x, out)

A chain is run by the compiled kernel of `programs.py`, which calls the inner loops of NumPy's ufuncs. `loop_of` finds
those: their addresses are part of the object that a ufunc is, in the layout of NumPy's public header. It is used
where it says what the ufunc itself says, and only for loops whose results were compared with those of the ufunc, bit
by bit.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Container, Sequence
from functools import cache
from importlib import util
from typing import Any, NamedTuple

import numpy as np

from . import parallel
from .sums import ADD, RUN, ones

BLOCK = (
    1 << 15
)  # bytes of a block of all that a chain works on, which is to stay in the nearest cache
LEAST, MOST = 1 << 9, 1 << 13  # elements of a block
WINDOW, ALONG = (
    1 << 16,
    1 << 10,
)  # elements of what is summed at a time: 64 rows of at most RUN; of its blocks
PIECE = 1 << 17  # elements that a thread takes at a time
_KINDS = "?bBhHiIlLqQefdFD"  # of elements whose loops need nothing of the interpreter


def sums(elements: int, row: int) -> bool:
    """Whether a chain can add up what it makes: in the order in which `sums.add_up` does."""
    return not row and elements >= parallel.SHARED and math.gcd(elements, RUN) >= 32


class Given(NamedTuple):
    """An array that a chain is called with; `kind` says how its elements lie to those of the result."""

    dtype: np.dtype
    kind: int
    elements: int


class Call(NamedTuple):
    """A call of a chain: what it does (see `programs`), and the numbers of its operands, the result last.

    Operands are counted: arrays given, constants, then what the chain makes.
    """

    what: int
    loop: tuple[int, int]
    operands: tuple[int, ...]


def available() -> bool:
    """Whether there is a compiler for chains, and they can be made with this interpreter."""
    fits = (
        sys.implementation.name == "cpython"
        and sys.maxsize > 1 << 32
        and object.__basicsize__ == 16
    )
    return fits and util.find_spec("numba") is not None


def works() -> bool:
    """Whether the compiler that is there can be imported: it may be for another NumPy."""
    try:
        return kernel() is not None
    except ImportError:
        return False


class Missing(ImportError):
    """mode="max" without the package that it needs."""

    def __init__(self) -> None:
        super().__init__(
            "mode='max' runs chains of elementwise ops as one kernel, which numba compiles: pip install 'gradlib[fast]'"
        )


@cache
def kernel() -> Any:
    """The module of the compiled kernel: it takes a second to come from numba's cache, some to be compiled."""
    if not available():
        raise Missing
    from . import programs

    return programs


class Chain:
    """A program that can be called.

    Args:
        given: the arrays that it is called with.
        constants: arrays without dimensions.
        scratch: the dtypes of what it makes on its way.
        calls: in their order.
        total, row: elements of the results, and of their rows where operands are repeated for rows or along them (0: no
            operand is).
        single: which of `scratch` are one number, made of single numbers by loops.
        otherwise: is called in its place with arrays that are not as `given` says.
    """

    def __init__(
        self,
        given: Sequence[Given],
        constants: Sequence[np.ndarray],
        scratch: Sequence[np.dtype],
        calls: Sequence[Call],
        total: int,
        row: int,
        otherwise: Callable,
        single: Container[int] = (),
    ):
        programs = kernel()
        self.given, self.constants, self.otherwise = list(given), list(constants), otherwise
        widest = max([d.itemsize for d in (*scratch, *[g.dtype for g in given])], default=8)
        long = BLOCK // (widest * (len(scratch) + len(given)))
        long = min(max(long, LEAST), MOST)
        calls, scratch = list(calls), list(scratch)
        self.windows = [g.dtype for g in self.given if g.kind == programs.WINDOW]
        if self.windows:
            long = ALONG
        if row and row <= long:
            long = long // row * row
            calls, scratch = self._spread(programs, calls, scratch)
        self.blocks = (
            -(-total // long) if not row or row <= long else total // row * -(-row // long)
        )
        self.piece = max(1, PIECE * self.blocks // max(total, 1))
        slots, at = [], 0
        for g in self.given:
            slots += [g.kind, g.dtype.itemsize, 0, g.elements, id(g.dtype)]
        for c in self.constants:
            slots += [programs.CONSTANT, c.itemsize, c.ctypes.data, 1, 0]
        for k, d in enumerate(scratch):
            kind = programs.SINGLE if k in single else programs.SCRATCH
            slots += [kind, d.itemsize, at, 0, 0]
            at += -(-d.itemsize * min(long, total) // 64) * 64 + 64
        words = [len(slots) // programs.SLOT, len(self.given), len(calls), total, long, row, at]
        words.append(id(np.ndarray))
        words += slots
        for call in calls:
            words += [call.what, *call.loop, len(call.operands), *call.operands]
            words += [0] * (programs.CALL - 4 - len(call.operands))
        self.program = np.array(words, np.int64)
        self.address = self.program.ctypes.data
        self.run = programs.run
        self.large = total >= parallel.SHARED and self.blocks > 1

    def _spread(self, programs: Any, calls: list, scratch: list) -> tuple[list, list]:
        """Several short rows are one block: operands that are repeated are written out for a block first."""
        count = len(self.given) + len(self.constants) + len(scratch)
        scratch, before, places = list(scratch), [], {}
        used = {i for c in calls for i in c.operands}
        for i, g in enumerate(self.given):
            if i in used and g.kind in (programs.ROW, programs.COLUMN):
                places[i] = count + len(places)
                scratch.append(g.dtype)
                what = programs.ROWS if g.kind == programs.ROW else programs.COLUMNS
                before.append(Call(what, (g.dtype.itemsize, 0), (i, places[i])))
        after = [c._replace(operands=tuple([places.get(i, i) for i in c.operands])) for c in calls]
        return before + after, scratch

    def __call__(self, *arrays: np.ndarray) -> Any:
        """Run it; what it returns are the sums, as `sums.add_up` gives them, of what lies in windows."""
        if self.windows:
            return self._adding_up(arrays)
        if self.large and parallel.width() > 1:
            self._on_threads(arrays)
        elif self.run(self.address, id(arrays), 0, -1):
            self.otherwise(*arrays)

    def _adding_up(self, arrays: tuple) -> Any:
        """Piece by piece: what is summed lies in a window that stays in the cache."""
        total, step = int(self.program[3]), WINDOW // ALONG
        row = math.gcd(total, RUN)
        one = [ones(row, d) for d in self.windows]
        parts = [np.empty(total // row, d) for d in self.windows]

        def part(k: int) -> None:
            windows = [np.empty(WINDOW, d) for d in self.windows]
            some = (*arrays, *windows)
            if self.run(self.address, id(some), k * step, min((k + 1) * step, self.blocks)):
                raise RuntimeError(_CHANGED)
            i, j = k * WINDOW, min((k + 1) * WINDOW, total)
            for window, vector, out in zip(windows, one, parts, strict=True):
                np.dot(window[: j - i].reshape(-1, row), vector, out[i // row : j // row])

        some = (*arrays, *[np.empty(WINDOW, d) for d in self.windows])
        if self.run(self.address, id(some), 0, 0):  # no block: only whether the arrays fit
            return self.otherwise(*arrays)
        parallel.run(-(-total // WINDOW), part)
        return tuple(map(ADD, parts))

    def _on_threads(self, arrays: tuple) -> None:
        address, run, piece = self.address, self.run, self.piece

        def part(k: int) -> None:
            if run(address, id(arrays), k * piece, min((k + 1) * piece, self.blocks)):
                raise RuntimeError(_CHANGED)

        if run(address, id(arrays), 0, 0):  # no block: only whether the arrays fit
            self.otherwise(*arrays)
        else:
            parallel.run(-(-self.blocks // piece), part)


_CHANGED = "an array changed its layout while a fused kernel ran on it"


# -- the loops of ufuncs -----------------------------------------------------------------------------------------------


class _Ufunc(ctypes.Structure):
    """The first fields of a ufunc."""

    _fields_ = (
        ("head", ctypes.c_char * object.__basicsize__), ("nin", ctypes.c_int), ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int), ("identity", ctypes.c_int), ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)), ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int),
        ("name", ctypes.c_void_p), ("types", ctypes.c_void_p),
    )  # fmt: skip


@cache
def loop_of(ufunc: np.ufunc, kinds: str) -> tuple[int, int] | None:
    """(address, data) of the loop of a ufunc for operands and a result of these kinds; None where it has none."""
    if (
        type(ufunc) is not np.ufunc
        or ufunc.signature is not None
        or ufunc.nout != 1
        or ufunc.nin > 3
    ):
        return None
    if any([k not in _KINDS for k in kinds]):
        return None
    if ufunc is np.power and np.dtype(kinds[0]).kind in "iu":
        return None  # raises an exception for some
    loop = listed(ufunc, kinds)
    return loop if loop is not None and _same_bits(ufunc, kinds, loop) else None


def listed(ufunc: np.ufunc, kinds: str) -> tuple[int, int] | None:
    """(address, data) of the loop that the object of a ufunc names for these kinds; None where it names none."""
    written = f"{kinds[:-1]}->{kinds[-1]}"
    if written not in ufunc.types:
        return None
    found = _Ufunc.from_address(id(ufunc))
    own = found.nin, found.nout, found.nargs, found.ntypes
    if own != (ufunc.nin, 1, ufunc.nargs, len(ufunc.types)) or not found.types:
        return None
    codes = ctypes.string_at(found.types, ufunc.nargs * ufunc.ntypes)
    if [
        _written(codes[i : i + ufunc.nargs]) for i in range(0, len(codes), ufunc.nargs)
    ] != ufunc.types:
        return None
    k = ufunc.types.index(written)
    address, data = found.functions[k], found.data[k] if found.data else 0
    return (address, data or 0) if address else None


def _written(codes: bytes) -> str:
    kinds = "".join([np.dtype(_BY_NUMBER[c]).char if c in _BY_NUMBER else "O" for c in codes])
    return f"{kinds[:-1]}->{kinds[-1]}"


_BY_NUMBER = {np.dtype(k).num: k for k in "?bBhHiIlLqQefdgFDGOSUVMm"}


def _same_bits(ufunc: np.ufunc, kinds: str, loop: tuple[int, int]) -> bool:
    """Whether the loop gives what the ufunc gives."""
    programs = kernel()
    some = np.random.Generator(np.random.PCG64(len(kinds)))
    n = 203
    given = []
    for k in kinds[:-1]:
        d = np.dtype(k)
        x = some.standard_normal(n) * np.repeat([1.0, 30.0, 1e-6, 100.0, 1.0, 0.3, 1000.0], 29)
        if d.kind == "f":
            x[::17], x[5], x[9], x[50], x[77] = 0.0, np.inf, -np.inf, np.nan, -0.0
        with np.errstate(all="ignore"):
            given.append((np.abs(x) if d.kind == "u" else x).astype(d))
    out = np.empty(n, kinds[-1])
    calls = [Call(programs.LOOP, loop, tuple(range(ufunc.nin + 1)))]
    layout = [Given(a.dtype, programs.DENSE, n) for a in (*given, out)]
    fits: list = []
    chain = Chain(layout, (), (), calls, n, 0, lambda *arrays: fits.append(False))
    with np.errstate(all="ignore"):
        chain(*given, out)
        expected = ufunc(*given)
    return not fits and expected.dtype == out.dtype and expected.tobytes() == out.tobytes()
