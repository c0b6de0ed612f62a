"""Chains of calls: the bits of NumPy's own ufuncs, for all kinds of operands, whatever the sizes and threads."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.devices.numpy import chains, parallel
from gradlib.devices.numpy.chains import Call, Chain, Given, kernel, loop_of

P = kernel()
UFUNCS = sorted({f.__name__: f for f in vars(np).values() if type(f) is np.ufunc}.items())
UFUNCS = [(name, f) for name, f in UFUNCS if f.nout == 1 and f.signature is None]
FLOATS = "fd?"


def refused(*arrays):
    raise AssertionError("the kernel does not take these arrays")


def program(calls, arrays, kinds=None, constants=(), scratch=(), row=0, otherwise=refused):
    kinds = kinds or [P.DENSE] * len(arrays)
    given = [Given(a.dtype, k, a.size) for a, k in zip(arrays, kinds, strict=True)]
    return Chain(given, constants, scratch, calls, arrays[-1].size, row, otherwise)


def test_the_loops_of_all_ufuncs_are_found_and_give_their_bits():
    found = missing = 0
    for _, ufunc in UFUNCS:
        for written in dict.fromkeys(ufunc.types):
            kinds = written.replace("->", "")
            if any(k not in FLOATS for k in kinds):
                continue
            if loop_of(ufunc, kinds) is None:
                missing += 1
            else:
                found += 1
    assert missing == 0 and found > 100


def test_what_is_no_plain_loop_is_not_taken():
    assert loop_of(np.add, "OOO") is None and loop_of(np.matmul, "fff") is None
    assert loop_of(np.power, "lll") is None  # raises an exception for some numbers
    assert loop_of(np.add, "ffd") is None and loop_of(np.frompyfunc(abs, 1, 1), "ff") is None


@pytest.mark.parametrize("size", [1, 3, 511, 512, 513, 5000, 300_001])
@pytest.mark.parametrize("kind", ["f", "d"])
def test_a_chain_of_every_size(size, kind):
    x, y = np.random.default_rng(size).standard_normal((2, size)).astype(kind)
    out = np.empty_like(x)
    half = np.array(0.5, kind)
    mul, add, exp = (
        loop_of(np.multiply, kind * 3),
        loop_of(np.add, kind * 3),
        loop_of(np.exp, kind * 2),
    )
    calls = [
        Call(P.LOOP, mul, (0, 3, 4)),
        Call(P.LOOP, exp, (4, 5)),
        Call(P.LOOP, add, (5, 1, 4)),
        Call(P.LOOP, mul, (4, 4, 2)),
    ]
    chain = program(calls, [x, y, out], constants=[half], scratch=[x.dtype, x.dtype])
    chain(x, y, out)
    expected = np.exp(x * half) + y
    assert out.tobytes() == (expected * expected).tobytes()


@pytest.mark.parametrize("shape", [(5, 7), (3, 5000), (700, 3), (1, 9), (40, 1)])
def test_rows_and_columns_and_single_numbers(shape):
    rng = np.random.default_rng(0)
    whole, row, column = rng.random(shape), rng.random(shape[1:]), rng.random((shape[0], 1))
    one, same = np.array(0.75), np.broadcast_to(np.array(0.25), shape)
    out = np.empty(shape)
    add, mul = loop_of(np.add, "ddd"), loop_of(np.multiply, "ddd")
    calls = [
        Call(P.LOOP, add, (0, 1, 6)),
        Call(P.LOOP, mul, (6, 2, 7)),
        Call(P.LOOP, add, (7, 3, 6)),
        Call(P.LOOP, mul, (6, 4, 5)),
    ]
    kinds = [P.DENSE, P.ROW, P.COLUMN, P.ONE, P.REPEATED, P.DENSE]
    chain = program(
        calls, [whole, row, column, one, same, out], kinds, scratch=[whole.dtype] * 2, row=shape[1]
    )
    chain(whole, row, column, one, same, out)
    assert out.tobytes() == (((whole + row) * column + one) * same).tobytes()


@pytest.mark.parametrize("kind", ["f", "d", "B"])
def test_choices_and_conversions(kind):
    rng = np.random.default_rng(1)
    test, a, b = (
        rng.random(1300) > 0.5,
        rng.integers(0, 200, 1300).astype(kind),
        rng.integers(0, 200, 1300).astype(kind),
    )
    number = np.array(7, kind)
    for first, second in ((1, 2), (1, 4), (4, 2), (4, 4)):
        out = np.empty_like(a)
        program(
            [Call(P.WHERE, (a.itemsize, 0), (0, first, second, 3))],
            [test, a, b, out],
            constants=[number],
        )(test, a, b, out)
        values = {1: a, 2: b, 4: number}
        assert out.tobytes() == np.where(test, values[first], values[second]).tobytes()
    for what, to in (
        (P.TO_FLOAT, "f4"),
        (P.TO_DOUBLE, "f8"),
        (P.TO_INT, "i4"),
        (P.TO_LONG, "i8"),
        (P.COPY, "?"),
    ):
        out = np.empty(1300, to)
        program([Call(what, (1, 0), (0, 1))], [test, out])(test, out)
        assert out.tobytes() == test.astype(to).tobytes()


def test_arrays_that_are_not_as_told_are_left_to_another(monkeypatch):
    x, out = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    seen = []
    chain = program(
        [Call(P.LOOP, loop_of(np.negative, "dd"), (0, 1))],
        [x, out],
        otherwise=lambda *a: seen.append(a[0]),
    )
    for wrong in (
        x.astype("f4"),
        x.T,
        np.arange(5.0),
        np.arange(12.0).reshape(4, 3)[::2],
        np.float64(1),
        [1.0],
        None,
        x.astype("i8"),
        x.astype(">f8"),
    ):
        chain(wrong, out)
        assert seen.pop() is wrong and not out.any()
    same = program(
        [Call(P.LOOP, loop_of(np.negative, "dd"), (0, 1))],
        [x, out],
        [P.REPEATED, P.DENSE],
        otherwise=lambda *a: seen.append(1),
    )
    same(x, out)
    assert seen == [1] and not out.any()
    odd = np.frombuffer(bytearray(49), np.uint8)[1:].view(np.float64).reshape(2, 3)
    chain(odd, out)
    assert seen.pop() is odd and not odd.flags.aligned
    chain(x)
    assert seen.pop() is x and not out.any()
    chain(x, out)
    assert out.tobytes() == (-x).tobytes()


def test_several_threads_give_the_same_bits(monkeypatch):
    n = 1_000_003
    x = np.random.default_rng(0).standard_normal(n).astype("f")
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(parallel.threads, "count", lambda threads=threads: threads)
        out = np.empty_like(x)
        calls = [
            Call(P.LOOP, loop_of(np.tanh, "ff"), (0, 2)),
            Call(P.LOOP, loop_of(np.add, "fff"), (2, 0, 1)),
        ]
        program(calls, [x, out], scratch=[x.dtype])(x, out)
        found.append(out.tobytes())
    assert found == [(np.tanh(x) + x).tobytes()] * 3


def test_where_no_compiler_is(monkeypatch):
    monkeypatch.setattr(chains.util, "find_spec", lambda name: None)
    assert not chains.available()
