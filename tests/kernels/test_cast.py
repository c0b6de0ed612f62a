"""kernels/cast.cu against NumPy's own conversions, bit for bit."""

from __future__ import annotations

from itertools import permutations

import ml_dtypes
import numpy as np
import pytest
from overlay_checks import numpy

from gradlib.devices.cuda.fused.cast import FLOATING, cast_all
from gradlib.op.overlays import on

BF16 = np.dtype(ml_dtypes.bfloat16)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 65504.0, 65520.0, 3.4e38, 1 + 2**-8, 1 + 3 * 2**-8,
                    2**-24, 3 * 2**-25, 6e-8], np.float32)  # fmt: skip


def numbers(shape, dtype, seed=0):
    found = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 300, np.float32)
    flat = found.reshape(-1)
    flat[: len(SPECIAL)] = SPECIAL[: flat.size]
    with np.errstate(all="ignore"):
        return found.astype(dtype)


def agree(found, x, dtype):
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    got = numpy(found)
    assert got.dtype == dtype and got.shape == x.shape
    np.testing.assert_array_equal(np.isnan(got.astype("f4")), np.isnan(want.astype("f4")))
    keep = ~np.isnan(want.astype("f4"))
    assert got[keep].tobytes() == want[keep].tobytes()


@pytest.mark.parametrize(("source", "target"), [*permutations(FLOATING, 2)], ids=str)
def test_one_array(device, source, target):
    # rows: DEV-26
    cast = on("cuda").forwards["cast"]
    for shape in ((), (1,), (7,), (33, 40), (0, 3), (2, 3, 517)):
        x = numbers(shape, source)
        agree(cast(device, device.put(x), dtype=target, self_dtype=source), x, target)
    moved = device.put(numbers((65,), source))  # not aligned
    agree(cast(device, moved[1:], dtype=target, self_dtype=source), numpy(moved)[1:], target)


def test_what_it_leaves_to_the_formula(device):
    # rows: DEV-26
    cast = on("cuda").forwards["cast"]
    f2, f4, f8 = (np.dtype(t) for t in ("f2", "f4", "f8"))
    for x, target in ((np.ones(3, f8), f4), (np.ones(3, f4), f8), (np.ones((3, 4), f4).T, f2)):
        assert cast(device, device.put(x), dtype=target, self_dtype=x.dtype) is NotImplemented


@pytest.mark.parametrize("target", [np.dtype("f2"), BF16], ids=str)
def test_many_arrays_in_few_launches(device, target):
    # rows: DEV-26
    shapes = [(), (3,), (64, 65), (0, 2), (5000,)] * 11
    arrays = [numbers(shape, "f4", i) for i, shape in enumerate(shapes)]
    columns = np.asfortranarray(numbers((8, 5), "f4", 99))
    given = [device.put(a) for a in arrays]
    before = len(device.launcher.launched)
    turned = device.put(columns.T.copy()).T
    gaps = device.put(numbers((6, 8), "f4"))[:, ::2]
    found = cast_all(device, [*given, turned, gaps, device.put(np.ones(3))], target)
    assert len(device.launcher.launched) - before == 1  # 44 have elements, and `turned`
    for x, made in zip(arrays, found):
        agree(made, x, target)
    agree(found[-3], columns, target)
    assert found[-3].strides == (2, 16)
    assert found[-2] is None and found[-1] is None
