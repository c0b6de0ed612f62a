"""The one compiled kernel that runs chains of elementwise calls, compiled by numba (extra `fast`).

A chain is a program: a list of calls of NumPy's own inner loops, the functions that NumPy itself runs when a ufunc is
called. The kernel goes through the arrays in blocks that stay in the cache, and makes all calls of the program for
one block before it goes on to the next: what the chain computes on its way is never written to memory. The loops are
those that eager runs, so each element gets the same bits. See `chains.py` for how programs are made.

It works on addresses: that of the program, and that of a tuple of arrays, whose data it finds by itself; that costs
less than to hand over arrays. Before it starts it checks the dtype, the size and the layout of each.

Words of a program (64 bits each): HEADER, then SLOT words for each slot, then CALL words for each call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

HEADER = 8  # slots, arrays, calls, elements, elements of a block, elements of a row (0: one row), bytes of scratch,
# address of the type of arrays
SLOT = 5  # kind, bytes of an element, address or offset, elements, address of the dtype
CALL = 8  # what, address of the loop, its data, number of arguments, slots
# Kinds of slots. Those of arrays given: an element for each of the result; one; one for each of a row; one for each
# row; a view that repeats one; the part of a dense one that the blocks of one call of the kernel make. The others: a
# number; what a block makes on its way; one number that a block makes.
DENSE, ONE, ROW, COLUMN, REPEATED, WINDOW, CONSTANT, SCRATCH, SINGLE = range(9)
LOOP, WHERE, ROWS, COLUMNS, TO_FLOAT, TO_DOUBLE, TO_INT, TO_LONG, COPY = range(9)  # what calls do
PROGRAM, PRODUCT = range(2)  # what steps of a sequence do
TYPE, DATA, DIMENSIONS, SHAPE, STRIDES, DESCR, FLAGS = (
    8,
    16,
    24,
    32,
    40,
    56,
    64,
)  # bytes from the begin of an array
CONTIGUOUS, ALIGNED = 0x1, 0x100  # flags
LENGTH, ITEMS = 16, 24  # and of a tuple

_intrinsic: Any = intrinsic  # the functions that it makes take no context


@_intrinsic
def _word(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), generate


@_intrinsic
def _half_word(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))
        return builder.sext(found, ir.IntType(64))

    return types.int64(types.int64), generate


@_intrinsic
def _set_word(context: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@_intrinsic
def _call(context: Any, loop: Any, args: Any, count: Any, steps: Any, data: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        address = ir.IntType(64)
        function = ir.FunctionType(ir.VoidType(), [address] * 4).as_pointer()
        builder.call(builder.inttoptr(given[0], function), given[1:])
        return context.get_dummy_value()

    word = types.int64
    return types.void(word, word, word, word, word), generate


def _choose(kind: Any) -> Any:
    """``where`` for elements of one size, whose bits are copied."""

    @njit(nogil=True, inline="never")
    def choose(n, test, a, b, out, test_step, a_step, b_step):
        tests = carray(_pointer(test), (n,), np.uint8)
        to = carray(_pointer(out), (n,), kind)
        one, two = carray(_pointer(a), (n,), kind), carray(_pointer(b), (n,), kind)
        if test_step == 0:
            for i in range(n):
                to[i] = one[i if a_step else 0] if tests[0] else two[i if b_step else 0]
        elif a_step and b_step:
            for i in range(n):
                to[i] = one[i] if tests[i] else two[i]
        elif b_step:
            first = one[0]
            for i in range(n):
                to[i] = first if tests[i] else two[i]
        elif a_step:
            other = two[0]
            for i in range(n):
                to[i] = one[i] if tests[i] else other
        else:
            first, other = one[0], two[0]
            for i in range(n):
                to[i] = first if tests[i] else other

    return choose


def _convert(kind: Any) -> Any:
    """Truth values as numbers."""

    @njit(nogil=True, inline="never")
    def convert(n, given, out, step):
        tests, to = carray(_pointer(given), (n,), np.uint8), carray(_pointer(out), (n,), kind)
        for i in range(n):
            to[i] = tests[i if step else 0] != 0

    return convert


_choose_1, _choose_4, _choose_8 = _choose(np.uint8), _choose(np.uint32), _choose(np.uint64)
_to_float, _to_double = _convert(np.float32), _convert(np.float64)
_to_int, _to_long = _convert(np.int32), _convert(np.int64)


@njit(nogil=True, inline="never")
def _copy(size, given, out, count):
    """`count` elements of `size` bytes, once each."""
    source, to = (
        carray(_pointer(given), (size * count,), np.uint8),
        carray(_pointer(out), (size * count,), np.uint8),
    )
    for i in range(size * count):
        to[i] = source[i]


@njit(nogil=True, inline="never")
def _fill(size, given, out, count):
    """One element `count` times."""
    if size == 4:
        four = carray(_pointer(out), (count,), np.uint32)
        four[:] = carray(_pointer(given), (1,), np.uint32)[0]
    elif size == 8:
        eight = carray(_pointer(out), (count,), np.uint64)
        eight[:] = carray(_pointer(given), (1,), np.uint64)[0]
    else:
        for k in range(count):
            _copy(size, given, out + k * size, 1)


@njit("int64(int64, int64, int64, int64)", nogil=True, cache=True, error_model="numpy")
def _blocks(program, starts, first, last):
    """Blocks `first` up to `last` (-1: all) of a program. `starts`: the addresses of the arrays that it is given."""
    slots, given, calls = _word(program), _word(program + 8), _word(program + 16)
    total, long, row = _word(program + 24), _word(program + 32), _word(program + 40)
    table = program + 8 * HEADER
    code = table + 8 * SLOT * slots
    memory = np.empty(_word(program + 48) + 64 + 24 * slots + 96 + 8, np.uint8)
    begin = (memory.ctypes.data + 63) // 64 * 64
    # of each slot: where it begins, where the block's part is, the step; then what a loop is called with
    places = (begin + _word(program + 48) + 7) // 8 * 8
    for s in range(slots):
        at = table + 8 * SLOT * s
        kind, start = _word(at), _word(at + 16)
        if s < given:
            start = _word(starts + 8 * s)
        elif kind in (SCRATCH, SINGLE):
            start += begin
        _set_word(places + 24 * s, start)
        _set_word(places + 24 * s + 8, start)
        size = _word(at + 8)
        _set_word(
            places + 24 * s + 16, 0 if kind in (ONE, CONSTANT, COLUMN, REPEATED, SINGLE) else size
        )
    pieces = (total + long - 1) // long
    each = 0  # blocks of one row
    if row > long:
        each = (row + long - 1) // long
        pieces = total // row * each
    if last < 0:
        last = pieces
    args = places + 24 * slots
    steps, count = args + 40, args + 80
    for block in range(first, last):
        if each:
            line = block // each
            within = (block - line * each) * long
            start = line * row + within
            n = min(long, row - within)
        else:
            start = block * long
            n = min(long, total - start)
            line = start // row if row else 0
            within = 0
        for s in range(given):
            at = table + 8 * SLOT * s
            kind, size = _word(at), _word(at + 8)
            shift = 0
            if kind == DENSE:
                shift = start * size
            elif kind == WINDOW:
                shift = (start - first * long) * size
            elif kind == ROW:
                shift = within * size
            elif kind == COLUMN:
                shift = line * size
            _set_word(places + 24 * s + 8, _word(places + 24 * s) + shift)
        for k in range(calls):
            at = code + 8 * CALL * k
            what, number = _word(at), _word(at + 24)
            for j in range(number):
                place = places + 24 * _word(at + 32 + 8 * j)
                _set_word(args + 8 * j, _word(place + 8))
                _set_word(steps + 8 * j, _word(place + 16))
            if what == LOOP:
                _set_word(count, n if _word(steps + 8 * (number - 1)) else 1)
                _call(_word(at + 8), args, count, steps, _word(at + 16))
                continue
            a, b, c, d = _word(args), _word(args + 8), _word(args + 16), _word(args + 24)
            size = _word(at + 8)
            if what == WHERE:
                x, y, z = _word(steps), _word(steps + 8), _word(steps + 16)
                if size == 4:
                    _choose_4(n, a, b, c, d, x, y, z)
                elif size == 8:
                    _choose_8(n, a, b, c, d, x, y, z)
                else:
                    _choose_1(n, a, b, c, d, x, y, z)
            elif what == ROWS:
                if block == first:
                    for i in range(n // row):
                        _copy(size, a, b + i * row * size, row)
            elif what == COLUMNS:
                for i in range(n // row):
                    _fill(size, a + i * size, b + i * row * size, row)
            elif what == COPY:
                if _word(steps):
                    _copy(size, a, b, n)
                else:
                    _fill(size, a, b, n)
            elif what == TO_FLOAT:
                _to_float(n, a, b, _word(steps))
            elif what == TO_DOUBLE:
                _to_double(n, a, b, _word(steps))
            elif what == TO_INT:
                _to_int(n, a, b, _word(steps))
            else:
                _to_long(n, a, b, _word(steps))
    return memory.size  # so that it lives until here


@njit("int64(int64, int64, int64)", nogil=True, cache=True, error_model="numpy")
def _fits(array, kind_of, at):
    """Whether an array is as the words of a slot want it; kind_of: the address of the type of arrays."""
    kind = _word(at)
    if _word(array + TYPE) != kind_of or _word(array + DESCR) != _word(at + 32):
        return 0
    flags = _half_word(array + FLAGS)
    if not flags & ALIGNED or (kind != REPEATED and not flags & CONTIGUOUS):
        return 0
    size, shape, strides = 1, _word(array + SHAPE), _word(array + STRIDES)
    for d in range(_half_word(array + DIMENSIONS)):
        size *= _word(shape + 8 * d)
        if kind == REPEATED and _word(strides + 8 * d):
            return 0
    return 1 if size == _word(at + 24) else 0


@njit("int64(int64, int64, int64, int64)", nogil=True, cache=True, error_model="numpy")
def run(program, arrays, first, last):
    """Blocks `first` up to `last` (-1: all) of a program on the arrays of a tuple.

    Returns:
        0; or 1, and nothing was done, if an array is not as the program wants it.
    """
    given = _word(program + 8)
    if _word(arrays + LENGTH) != given:
        return 1
    starts = np.empty(given + 1, np.int64)
    for s in range(given):
        array = _word(arrays + ITEMS + 8 * s)
        if not _fits(array, _word(program + 56), program + 8 * HEADER + 8 * SLOT * s):
            return 1
        starts[s] = _word(array + DATA)
    _blocks(program, starts.ctypes.data, first, last)
    return 0 if starts.size else 1  # so that they live until here


@njit("int64(int64, int64)", nogil=True, cache=True, error_model="numpy")
def run_all(program, arrays):
    """A sequence of programs and products on the arrays of a tuple. Returns 0, or 1 as `run` does.

    Words: slots, arrays, steps, bytes of scratch, address of the type of arrays; the slots, as those of programs; the
    steps: what, words of it, then for a program its address and for each of its arrays a slot, for a product the
    address of the loop, its data, its sizes, its strides and three slots.
    """
    slots, given, count = _word(program), _word(program + 8), _word(program + 16)
    if _word(arrays + LENGTH) != given:
        return 1
    places = np.empty(2 * slots + 4, np.int64)  # of slots; and those of one step
    memory = np.empty(_word(program + 24) + 64, np.uint8)
    begin = (memory.ctypes.data + 63) // 64 * 64
    table = program + 8 * HEADER
    for s in range(slots):
        at = table + 8 * SLOT * s
        start = _word(at + 16)
        if s < given:
            array = _word(arrays + ITEMS + 8 * s)
            if not _fits(array, _word(program + 32), at):
                return 1
            start = _word(array + DATA)
        elif _word(at) == SCRATCH:
            start += begin
        places[s] = start
    own = places.ctypes.data + 8 * slots
    at = table + 8 * SLOT * slots
    for _ in range(count):
        what, long = _word(at), _word(at + 8)
        if what == PROGRAM:
            for k in range(long - 3):
                _set_word(own + 8 * k, places[_word(at + 24 + 8 * k)])
            _blocks(_word(at + 16), own, 0, -1)
        else:
            for k in range(3):
                _set_word(own + 8 * k, places[_word(at + 136 + 8 * k)])
            _call(_word(at + 16), own, at + 32, at + 64, _word(at + 24))
        at += 8 * long
    return 0 if memory.size + places.size else 1  # so that both live until here
