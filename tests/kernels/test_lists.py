"""Kernels for lists of tensors (`kernels/lists.cuh`) against the formulas on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nvrtc import compile_for
from overlay_checks import DTYPES, KINDS, close, values

import gradlib as gl
from gradlib import _foreach
from gradlib.devices.cuda.fused import lists
from gradlib.devices.cuda.fused.generate import trace
from gradlib.devices.cuda.kernels import OPTIONS

SHAPES = [(3, 5), (1,), (1025,), (), (33, 31), (0, 4), (5000,)]  # one is cut in pieces
# the formulas are those of single arrays, which test_pointwise.py compares one by one
COMPILED = ("exp", "sigmoid", "trunc")
ALONE = {"round"}  # its op has a setting more: runs tensor by tensor


def arrays(device, kind, seed, low=0.1, high=0.9):
    """Arrays on the device, and their exact values in float64."""
    made = [
        np.asarray(values(s, seed + i, low, high)).astype(KINDS[kind].np)
        for i, s in enumerate(SHAPES)
    ]
    return [device.asarray(a) for a in made], [a.astype(np.float64) for a in made]


def cases():
    """(function, values in place of the list arguments after the first: "list", numbers)"""
    for base in COMPILED:
        yield base, ()
    for base in ("mul", "clamp_min"):
        yield from ((base, ("list",)), (base, ([0.5] * len(SHAPES),)))
    yield "div", ("list",)
    yield "pow", ([0.5] * len(SHAPES),)
    yield "add", ("list", [0.25] * len(SHAPES))
    yield "sub", ([0.5 + i for i in range(len(SHAPES))], [2.0] * len(SHAPES))
    for base in ("addcmul", "addcdiv"):
        yield base, ("list", "list", [0.5 + i for i in range(len(SHAPES))])
    yield "lerp", ("list", [0.25] * len(SHAPES))
    yield "lerp", ("list", "list")


def on_cpu(base, xs, others):
    xs, *others = [
        [gl.from_numpy(np.array(v)) for v in o] if hasattr(o[0], "shape") else o
        for o in (xs, *others)
    ]
    function = getattr(gl, f"_foreach_{base}")
    if base in ("add", "sub") and len(others) == 2:
        return function(xs, others[0], alpha=others[1][0])
    return function(xs, *others)


CASES = [(*case, "float32") for case in cases()] + [("add", ("list",), kind) for kind in DTYPES]


@pytest.mark.parametrize(("base", "others", "kind"), CASES)
@pytest.mark.parametrize("writes", [False, True], ids=["new", "in place"])
def test_a_kernel_for_lists_is_the_function_of_each(device, base, others, kind, writes):
    # rows: DEV-26
    xs, exact = arrays(device, kind, 0)
    drawn = [
        arrays(device, kind, 50 * (k + 1)) if o == "list" else (o, o) for k, o in enumerate(others)
    ]
    names = ("x", "alpha", "beta", "gamma")
    given: dict[str, Any] = dict(zip(names, [xs, *[d[0] for d in drawn]]))
    made = lists.each(device, base, _foreach._formula(base), given, xs if writes else None)
    assert len(device.launcher.launched) == 1
    expected = on_cpu(base, exact, [d[1] for d in drawn])
    for found, want in zip(made, expected, strict=True):
        assert found.dtype == KINDS[kind].np
        close(found, want.numpy(), kind, 8)
    assert not writes or all(a is b for a, b in zip(made, xs))


@pytest.mark.parametrize("base", [*_foreach.UNARY, *_foreach.BINARY, "addcmul", "addcdiv", "lerp"])
def test_every_function_has_a_formula(base):
    # rows: DEV-26
    count = 1 if base in _foreach.UNARY else 2 if base in _foreach.BINARY else 3
    names = ["x", "y", "z", "w"][: count + base.startswith("addc")]
    formula = _foreach._formula(base)
    traced = trace(np.dtype("f4"), names, lambda F, symbols: [formula(F, *symbols.values())])
    assert (traced is None) == (base in ALONE)


def test_more_tensors_than_a_table_holds(device):
    # rows: DEV-26
    xs = [device.asarray(np.arange(i % 5 + 1.0)) for i in range(lists.TENSORS * 2 + 5)]
    numbers = [float(i) for i in range(len(xs))]
    made = lists.each(device, "mul", _foreach._formula("mul"), {"x": xs, "y": numbers})
    assert len(device.launcher.launched) == 3
    for i, (found, x) in enumerate(zip(made, xs)):
        close(found, np.asarray(x) * i, "float64")


def test_what_does_not_fit_is_left_alone(device):
    # rows: DEV-26
    x, y = device.asarray(np.ones(3)), device.asarray(np.ones(3, np.float32))
    add = _foreach._formula("add")
    for given in (
        {"x": [x], "y": [y]},
        {"x": [x], "y": [device.asarray(np.ones(1))]},
        {"x": [device.asarray(np.ones((4, 6)))[:, ::2]], "y": [2.0]},
        {"x": [x], "y": [2j]},
        {"x": [device.asarray(np.arange(3))], "y": [2.0]},
    ):
        assert lists.each(device, "add", add, given) is NotImplemented
    assert not device.launcher.launched


def test_memory_that_is_shared_keeps_its_order(device):
    # rows: DEV-26
    pointer = device.launcher.pointer
    whole = device.asarray(np.arange(8.0))
    a, b = whole[:4], whole[4:]
    assert lists._apart(pointer, [a, b], [[a, b]])  # each beside itself
    assert not lists._apart(pointer, [a, b], [[b, a]])  # the second reads what the first wrote
    assert not lists._apart(pointer, [a, a], [])
    assert not lists._apart(pointer, [whole[:5], b], [])
    assert not lists._apart(pointer, [a], [[whole[2:6]]])


@pytest.mark.parametrize("base", ["exp", "addcmul", "lerp"])
def test_it_compiles(device, base):
    # rows: DEV-26
    xs = [device.asarray(np.ones(3, np.float32))]
    count = {"exp": 1, "addcmul": 4, "lerp": 3}[base]
    given = dict(zip("xabc", [xs, *[xs] * (count - 1)]))
    lists.each(device, "compiled_" + base, _foreach._formula(base), given)
    module = next(m for k, m in lists._made.items() if k[0] == "compiled_" + base)
    assert module is not None
    needs = compile_for("sm_90", module.code, module.kernels, OPTIONS)
    assert all(need.registers * 256 <= 1 << 16 and not need.spilled for need in needs.values())
