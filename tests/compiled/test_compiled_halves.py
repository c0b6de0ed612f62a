"""Compiled kernels of half types: the bits that NumPy's way through float32 gives."""

from __future__ import annotations

import contextlib
import operator
from unittest import mock

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import half_bits, halves, overlays
from gradlib.nn import functional as F

pytestmark = pytest.mark.host
overlays.names()  # imports all modules
compiled = __import__("gradlib.devices.numpy.compiled.halves", fromlist=["halves"])
TYPES = pytest.mark.parametrize("dtype", list(compiled.WORDS), ids=str)
HALVES = pytest.mark.parametrize("dtype", [gl.float16, gl.bfloat16], ids=str)
WORDS = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
ENDS = np.arange(0, 1 << 32, 1 << 12, dtype=np.uint32)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520, 6e-8, 3e38, 1e-40], "f4")


def numbers(dtype, *shape, seed=0):
    draw = np.random.default_rng(seed)
    x = (draw.standard_normal(shape) * 10.0 ** draw.integers(-5, 5, shape)).astype("f4")
    x.reshape(-1)[::13] = np.resize(SPECIAL, x.reshape(-1)[::13].shape)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def equal_bits(a, b):
    """Equal, nan beside nan."""
    assert a.dtype == b.dtype and a.shape == b.shape
    if a.dtype == bool:
        assert (a == b).all()
        return
    kind = f"u{a.dtype.itemsize}"
    none = (np.isnan(a.astype("f4")), np.isnan(b.astype("f4")))
    assert (none[0] == none[1]).all()
    assert (a.view(kind) == b.view(kind))[~none[0]].all()


@TYPES
def test_conversions_give_the_bits_of_numpy(dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    wide = np.empty(every.size, "f4")
    half_bits.widening[dtype](every, wide)
    assert (wide.view("u4") == every.astype("f4").view("u4")).all()
    for words in (WORDS, *(ENDS + np.uint32(k) for k in (0, 1, 0xFFF, 0x7FF))):
        x, out = words.view("f4"), np.empty(words.size, dtype)
        half_bits.narrowing[dtype](x, out)
        with np.errstate(all="ignore"):
            assert (out.view("u2") == x.astype(dtype).view("u2")).all()


def test_processors_without_conversions_give_the_same_bits():
    dtype = np.dtype("f2")

    @compiled.jit()
    def widen(x, out):
        for i in range(x.size):
            out[i] = compiled._widen_bits(x[i])

    @compiled.jit()
    def narrow(x, out):
        for i in range(x.size):
            out[i] = compiled._narrow_bits(x[i])

    every, wide = np.arange(1 << 16, dtype=np.uint16), np.empty(1 << 16, "f4")
    widen(every.view("i2"), wide)
    assert (wide.view("u4") == every.view(dtype).astype("f4").view("u4")).all()
    for words in (WORDS, *(ENDS + np.uint32(k) for k in (0, 1, 0xFFF, 0x7FF))):
        out = np.empty(words.size, "i2")
        narrow(words.view("f4"), out)
        with np.errstate(all="ignore"):
            assert (out.view("u2") == words.view("f4").astype(dtype).view("u2")).all()


LAYOUTS = {
    "same": lambda a, b: (a, b),
    "transposed": lambda a, b: (a.T, b.T),
    "mixed": lambda a, b: (a, np.asfortranarray(b)),
    "row": lambda a, b: (a, b[3]),
    "row first": lambda a, b: (a[3], b),
    "column": lambda a, b: (a, b[:, 3:4]),
    "strided": lambda a, b: (a[::2, 1:-1], b[::2, 1:-1]),
    "number": lambda a, b: (a, b[0, 1]),
    "float32 number": lambda a, b: (np.array(0.3, "f4"), b),
    "float32": lambda a, b: (a, b.astype("f4")),
    "float32 transposed": lambda a, b: (a, np.asfortranarray(b.astype("f4"))),
    "float32 row": lambda a, b: (a, b[2].astype("f4")),
    "large": lambda a, b: (np.tile(a, (40, 1)), np.tile(b, (40, 1))),
    "large row": lambda a, b: (np.tile(a, (40, 1)), b[1]),
}


@TYPES
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic_is_that_of_float32_rounded_once(dtype, layout):
    a, b = LAYOUTS[layout](numbers(dtype, 70, 130), numbers(dtype, 70, 130, seed=1))
    with np.errstate(all="ignore"):
        wide = [np.asarray(x).astype("f4") for x in (a, b)]
        for ufunc in [u for u in compiled.LOOPS if u.nin == 2]:
            exact = ufunc(*wide)
            exact = exact if exact.dtype == bool else exact.astype(dtype)
            found = halves.through_float32(ufunc, a, b)
            equal_bits(found, exact)
            plain = ufunc(a, b)
            assert [s // found.itemsize for s in found.strides] == [
                s // plain.itemsize for s in plain.strides
            ]
            out = np.empty(exact.shape, exact.dtype)
            assert halves.through_float32(ufunc, a, b, out=out) is out
            equal_bits(out, exact)


@TYPES
def test_roots_and_results_in_the_place_of_an_operand(dtype):
    a, b = numbers(dtype, 300, 40), numbers(dtype, 300, 40, seed=1)
    with np.errstate(all="ignore"):
        equal_bits(halves.through_float32(np.sqrt, a), np.sqrt(a.astype("f4")).astype(dtype))
        exact = (a.astype("f4") - b.astype("f4")).astype(dtype)
    assert halves.through_float32(np.subtract, a, b, out=a) is a
    equal_bits(a, exact)


def test_what_is_compiled_declines_other_arguments():
    a = numbers(np.dtype("f2"), 100, 100)
    wide = a.astype("f8")
    for operands in (
        (a, 2.0),
        (a, wide),
        (a, a.astype(compiled.bfloat16.np)),
        (wide, wide),
        (a[0, 0], a[0, 1]),
    ):
        assert compiled.run(np.add, operands, None) is NotImplemented
    assert compiled.run(np.hypot, (a, a), None) is NotImplemented
    assert compiled.run(np.add, (a, a), np.empty(a.shape, "f4")) is NotImplemented
    assert (
        compiled.run(np.add, (a.reshape(-1)[1:], a.reshape(-1)[1:]), a.reshape(-1)[:-1])
        is NotImplemented
    )


@HALVES
def test_gradients_have_the_bits_that_numpy_gives(dtype):
    def found():
        gl.manual_seed(0)
        x, w = (gl.randn(300, 200).to(dtype).requires_grad_() for _ in range(2))
        y = (x * w + x / (w * w + 1)).relu() - w
        return [y.detach(), *gl.autograd.grad(y, (x, w), gl.randn(300, 200).to(dtype))]

    expected = []
    with mock.patch.object(halves, "compiled", None):
        expected = found()
    for a, b in zip(found(), expected, strict=True):
        assert gl.equal(a, b)


def test_formulas_that_are_one_ufunc():
    one = halves.single_ufunc
    assert one(lambda g, other: g * other.conjugate(), 2) is np.multiply
    assert one(lambda g, other: g / other.conjugate(), 2) is np.true_divide
    for other in (
        lambda g, x: x * g, lambda g, x: g * g, lambda g, x: g * x * x, lambda g, x: -g * x, lambda g, x: g * 2,
        lambda g, x: g, lambda g, x: g + x,
    ):  # fmt: skip
        assert one(other, 2) is None
    assert one(operator.neg, 1) is None and one(lambda g, x, y: g * x, 3) is None


@HALVES
def test_threads_give_the_bits_of_one(dtype):
    a, b = (gl.from_numpy(numbers("f4", 900, 700, seed=k)).to(dtype) for k in (0, 1))
    before, made = gl.get_num_threads(), []
    try:
        for n in (1, 2):
            gl.set_num_threads(n)
            made.append([
                a + b, a * b[0], a * 0.3, a < b, a.relu(), a.float(), a.float().to(dtype), a.nan_to_num().sum(),
                a.softmax(-1), F.layer_norm(a, (700,)),
            ])  # fmt: skip
    finally:
        gl.set_num_threads(before)
    for one, two in zip(*made, strict=True):
        equal_bits(one.numpy() if one.dtype is not gl.bfloat16 else one._array, two._array)


@HALVES
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(dtype, reduction):
    gl.manual_seed(1)
    x, classes = gl.randn(200, 50, dtype=dtype), gl.arange(200) * 7 % 50
    classes[::9] = -100
    for weight in (None, gl.linspace(0.5, 2, 50).to(dtype)):
        made = []
        for kind in (dtype, gl.float32):
            leaf = x.detach().to(kind).requires_grad_()
            w = None if weight is None else weight.to(kind)
            loss = F.cross_entropy(leaf, classes, w, reduction=reduction)
            loss.sum().backward()
            assert loss.dtype is kind and leaf.grad.dtype is kind
            made += [loss.detach().float(), leaf.grad.float()]
        unit = gl.finfo(dtype).eps
        gl.testing.assert_close(made[0], made[2], rtol=2 * unit, atol=1e-5)
        gl.testing.assert_close(made[1], made[3], rtol=2 * unit, atol=unit * 0.1)


def test_without_compiled_arithmetic_nothing_changes():
    x = gl.randn(200, 100).half()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(halves, "compiled", None))
        expected = x + x * x
    assert gl.equal(x + x * x, expected)
