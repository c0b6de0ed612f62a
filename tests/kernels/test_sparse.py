"""kernels/sparse.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, arrays, close, in_double, numpy, overlays, tensor, values

import gradlib as gl
from gradlib.op.declare import REGISTRY
from gradlib.operators.sparse import base
from gradlib.tape.sparse import COO, Pattern


def pattern_of(rows: int, cols: int, count: int, coalesced: bool, seed: int = 0) -> Pattern:
    """Some places, a few of them in one row; in order, each once, or as they come, with repetitions."""
    draw = np.random.default_rng(seed)
    places = draw.integers(0, [[rows], [cols]], (2, count))
    places[0, : count // 2] = rows // 2
    if coalesced:
        places = np.unique(places, axis=1)
    return Pattern(COO, (rows, cols), places, coalesced)


SIZES = [
    (1, 1, 1, 1),
    (4, 6, 9, 1),
    (3, 40, 70, 5),
    (40, 3, 60, 33),
    (5, 7, 600, 2),
    (9, 9, 30, 100),
]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("coalesced", [True, False], ids=["in order", "as they come"])
def test_products(device, kind, coalesced):
    for rows, cols, count, width in SIZES:
        pattern = pattern_of(rows, cols, count, coalesced)
        v, other = tensor(values((pattern.count,)), kind), tensor(values((cols, width), 1), kind)
        check(device, "sparse_mm", (v, other, pattern), kind)
        self, g = tensor(values((rows, width), 2), kind), tensor(values((cols, width), 3), kind)
        check(device, "sparse_dots", (self, g, pattern), kind)


def on_device(device, pattern: Pattern) -> Pattern:
    """The pattern with its places on the pretended device, of which arrays of NumPy know nothing."""
    return pattern.kept("pretended", lambda: base.moved(pattern, device.put))


def check(device, name: str, args: tuple, kind: str) -> None:
    """`check_forward`, where the pattern goes to the device with the values."""
    *tensors, pattern = args
    op = REGISTRY[name]
    run = overlays.forward_of(op)
    found = run(device, *device.put(arrays(tuple(tensors))), pattern=on_device(device, pattern))
    again = run(device, *device.put(arrays(tuple(tensors))), pattern=on_device(device, pattern))
    exact = op.forward(
        gl.tape.arrays.backend_for("cpu"), *arrays(in_double(tuple(tensors))), pattern=pattern
    )
    assert found.dtype == tensors[0]._array.dtype and (numpy(found) == numpy(again)).all()
    close(found, exact, kind, factor=4)


def test_the_transposed_matrix_of_a_gradient_has_the_same_values(device):
    pattern = pattern_of(6, 5, 20, True)
    turned = base._transposed(pattern)
    v, g = tensor(values((pattern.count,))), tensor(values((6, 3), 1))
    check(device, "sparse_mm", (v, g, turned), "float64")
    check(device, "sparse_mm", (v, g, turned), "float64")  # with what was kept


def test_operands_that_do_not_lie_row_by_row(device):
    pattern = pattern_of(6, 5, 20, True)
    v, other = values((pattern.count,)), values((3, 5), 1)
    op, run = REGISTRY["sparse_mm"], overlays.forward_of(REGISTRY["sparse_mm"])
    found = run(device, device.put(v), device.put(other).T, pattern=on_device(device, pattern))
    close(
        found, op.forward(gl.tape.arrays.backend_for("cpu"), v, other.T, pattern=pattern), "float64"
    )


def test_what_the_formula_does(device):
    """Complex numbers, and nothing at all."""
    pattern = pattern_of(6, 5, 20, True)
    run = overlays.forward_of(REGISTRY["sparse_mm"])
    given = {"pattern": on_device(device, pattern)}
    v, other = values((pattern.count,)) + 1j, values((5, 3)) + 1j
    assert run(device, device.put(v), device.put(other), **given) is NotImplemented
    assert run(device, device.put(v.real), device.put(other.real[:, :0]), **given) is NotImplemented
    run = overlays.forward_of(REGISTRY["sparse_dots"])
    assert run(device, device.put(other), device.put(other), **given) is NotImplemented
