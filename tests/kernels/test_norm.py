"""kernels/norm.cu against the formulas."""

from __future__ import annotations

import pytest
from overlay_checks import STORED, check_forward, check_vjp, tensor, values

SHAPES = [((6,), (6,)), ((1, 1), (1,)), ((5, 31), (31,)), ((3, 2, 33), (33,)), ((2, 3, 4), (3, 4)),
          ((9, 1025), (1025,)), ((300, 5), (5,)), ((3, 8), (8,)), ((2, 1032), (1032,)), ((2, 12), (12,)),
          ((1, 20000), (20000,))]  # fmt: skip


def three(shape, inner, kind, weight=True, bias=True, stored=None):
    """stored: the kind of weight and bias."""
    stored = stored or kind
    return (
        tensor(values(shape), kind),
        tensor(values(inner, 1, 0.5, 1.5), stored) if weight else None,
        tensor(values(inner, 2), stored) if bias else None,
    )


@pytest.mark.parametrize(("kind", "stored"), STORED)
def test_layer_norm(device, kind, stored):
    # rows: DEV-26
    for shape, inner in SHAPES:
        for weight, bias in ((True, True), (True, False), (False, False)):
            args = (*three(shape, inner, kind, weight, bias, stored), inner, 1e-3)
            check_forward(device, "native_layer_norm", args, kind, factor=3)
            check_vjp(device, "native_layer_norm", args, kind, factor=6)


@pytest.mark.parametrize(("kind", "stored"), STORED)
def test_rms_norm(device, kind, stored):
    # rows: DEV-26
    for shape, inner in SHAPES:
        for weight in (True, False):
            x, w, _ = three(shape, inner, kind, weight, stored=stored)
            check_forward(device, "fused_rms_norm", (x, w, inner, 1e-3), kind, factor=3)
            check_vjp(device, "fused_rms_norm", (x, w, inner, 1e-3), kind, factor=6)


@pytest.mark.parametrize(("kind", "stored"), STORED)
def test_group_norm(device, kind, stored):
    # rows: DEV-26
    for shape, groups in [
        ((2, 4, 3), 2),
        ((3, 6), 3),
        ((2, 4, 5, 7), 1),
        ((1, 4, 600), 4),
        ((70, 2, 1), 1),
    ]:
        for weight, bias in ((True, True), (False, False)):
            args = (*three(shape, (shape[1],), kind, weight, bias, stored), groups, 1e-3)
            check_forward(device, "native_group_norm", args, kind, factor=3)
            check_vjp(device, "native_group_norm", args, kind, factor=6)


def test_only_what_is_needed(device):
    # rows: DEV-26
    args = (*three((4, 6), (6,), "float64"), (6,), 1e-5)
    for needs in (
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (True, False, True),
    ):
        check_vjp(device, "native_layer_norm", args, needs=needs)


def test_strided_empty_and_mixed_arguments(device):
    # rows: DEV-26
    x, w, b = three((6, 8), (8,), "float64")
    check_forward(device, "native_layer_norm", (tensor(values((8, 6))).t(), w, b, (8,), 1e-5))
    check_vjp(device, "native_layer_norm", (tensor(values((8, 6))).t(), w, b, (8,), 1e-5))
    check_forward(device, "native_layer_norm", (x[:0], w, b, (8,), 1e-5), runs=False)
    check_forward(device, "native_layer_norm", (x.float(), w, b, (8,), 1e-5), runs=False)
