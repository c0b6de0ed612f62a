"""Corners of the functional interface that PyTorch's catalogue leaves out: dtypes, empty inputs, errors."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from catalog_sample import (
    TOLERANCE,
    Difference,
    Sample,
    compare,
    convert,
    leaves,
    outcome,
    same_exception,
)

import gradlib

F64, F32, BF16, I64, U8 = torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8
PLAIN = SimpleNamespace(supports_gradgrad=True, supports_forward_ad=False, name="")


def draw(*shape, dtype=F64):
    return (torch.randn(shape, dtype=F64) * 2).to(dtype)


def same(name: str, *args, **kwargs) -> None:
    """Values, dtypes, requires_grad, gradients and second gradients, or the exception, are PyTorch's."""
    for t in leaves((args, kwargs), torch.Tensor):
        if t.is_floating_point() or t.is_complex():
            t.requires_grad_()
    memo: dict = {}
    mine, named = convert(args, memo), convert(kwargs, memo)
    theirs, failed = outcome(getattr(torch.nn.functional, name), args, kwargs)
    ours, our_failed = outcome(getattr(gradlib.nn.functional, name), mine, named)
    try:
        same_exception(failed, our_failed)
        if failed is not None:
            return
        a, b = list(leaves(theirs, torch.Tensor)), list(leaves(ours, gradlib.Tensor))
        assert len(a) == len(b)
        for k, (t, o) in enumerate(zip(a, b, strict=True)):
            compare(f"result {k}", t, o, TOLERANCE.get(t.dtype, 0))
            assert t.requires_grad == o.requires_grad
        check = Sample.__new__(Sample)
        check.info, check.rng = PLAIN, np.random.default_rng(0)
        check.tolerance = TOLERANCE.get(a[0].dtype, 1e-9)
        check.inputs = [t for t in leaves((args, kwargs), torch.Tensor) if t.requires_grad]
        check.our_inputs = [memo[id(t)] for t in check.inputs]
        check.gradients(a, b)
    except Difference as exc:
        shapes = [tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in args]
        raise AssertionError(f"{name}{shapes} {kwargs}: {exc}") from None


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


ACTIVATIONS = [
    ("relu", {}), ("relu6", {}), ("elu", {"alpha": 0.5}), ("selu", {}), ("celu", {"alpha": 2.0}), ("silu", {}),
    ("leaky_relu", {"negative_slope": 0.2}), ("gelu", {}), ("gelu", {"approximate": "tanh"}), ("mish", {}),
    ("softplus", {"beta": 2, "threshold": 1}), ("softsign", {}), ("tanhshrink", {}), ("hardtanh", {}),
    ("hardsigmoid", {}), ("hardswish", {}), ("hardshrink", {}), ("softshrink", {}), ("logsigmoid", {}), ("glu", {}),
    ("threshold", {"threshold": 0.1, "value": 2}), ("softmax", {"dim": -1}), ("log_softmax", {"dim": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kwargs"), ACTIVATIONS)
def test_activations(name, kwargs):
    dtypes = [F64, F32, BF16, I64, torch.int32, torch.bool, torch.complex128]
    if name == "silu":  # PyTorch has no gradient of complex numbers there
        dtypes.remove(torch.complex128)
    for dtype in dtypes:
        for shape in ((4, 6), (), (2, 3, 4)):
            same(name, draw(*shape, dtype=dtype), **kwargs)
        same(name, draw(6, 4, dtype=dtype).t(), **kwargs)
        same(name, draw(4, 8, dtype=dtype)[:, ::2], **kwargs)
    same(name, draw(0, 2), **kwargs)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [F64, BF16, I64, torch.complex128])
def test_convolutions(n, dtype):
    settings = [
        {}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": "same"}, {"groups": 2}, {"padding": -1},
        {"stride": 0}, {"groups": 3}, {"padding": "bad"},
    ]  # fmt: skip
    for lead, kwargs in itertools.product(((2,), ()), settings):
        groups = kwargs.get("groups", 1)
        weight = draw(4, 4 // groups, *(3,) * n, dtype=dtype)
        same(
            f"conv{n}d",
            draw(*lead, 4, *(6,) * n, dtype=dtype),
            weight,
            draw(4, dtype=dtype),
            **kwargs,
        )
    for kwargs in (
        {},
        {"stride": 2, "output_padding": 1},
        {"dilation": 2},
        {"groups": 2},
        {"output_padding": 1},
    ):
        groups = kwargs.get("groups", 1)
        weight = draw(4, 2, *(3,) * n, dtype=dtype)
        same(
            f"conv_transpose{n}d",
            draw(2, 4, *(4,) * n, dtype=dtype),
            weight,
            draw(2 * groups, dtype=dtype),
            **kwargs,
        )


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [F64, F32, I64, U8])
def test_poolings(n, dtype):
    settings = [
        {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 3, "ceil_mode": True},
        {"kernel_size": 0}, {"kernel_size": 3, "padding": 2}, {"kernel_size": 9}, {"kernel_size": 2, "padding": -1},
    ]  # fmt: skip
    for lead, kwargs in itertools.product(((2, 3), (3,), (0, 3), (2, 0)), settings):
        same(f"avg_pool{n}d", draw(*lead, *(7,) * n, dtype=dtype), **kwargs)
        same(f"max_pool{n}d", draw(*lead, *(7,) * n, dtype=dtype), return_indices=True, **kwargs)
    for size in (3, 1, (3,) * n, -1):
        if dtype is not I64:
            same(f"adaptive_avg_pool{n}d", draw(2, 3, *(7,) * n, dtype=dtype), size)
        same(f"adaptive_max_pool{n}d", draw(2, 3, *(7,) * n, dtype=dtype), size)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular", "bad"])
def test_padding(mode):
    shapes = ((2, 3, 5), (3, 5), (5,), (2, 3, 5, 5), (2, 3, 4, 4, 4), (0, 3, 5))
    pads = ((1, 2), (0, 0), (-1, 2), (1, 1, 1, 1), (2, 0, 0, 2, 1, 1), (1,), (5, 5), (-3, -3))
    for shape, pad in itertools.product(shapes, pads):
        same("pad", draw(*shape), pad, mode)
    same("pad", draw(2, 3), (1, 1), mode, 2.5)


@pytest.mark.parametrize(
    "mode",
    ["nearest", "linear", "area", "nearest-exact", "bilinear", "bicubic", "trilinear", "lanczos"],
)
def test_interpolation(mode):
    settings = [
        {"size": 7}, {"scale_factor": 2}, {"scale_factor": 0.6}, {"scale_factor": 1.5, "recompute_scale_factor": True},
        {"size": 7, "align_corners": True}, {"size": 3, "antialias": True}, {"size": 3, "scale_factor": 2}, {},
    ]  # fmt: skip
    for shape, kwargs in itertools.product(
        ((2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5), (3, 5)), settings
    ):
        for dtype in (F64, U8) if mode in ("nearest", "bilinear", "bicubic", "lanczos") else (F64,):
            same("interpolate", draw(*shape, dtype=dtype), mode=mode, **kwargs)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_classes(name, reduction):
    for shape, of in (
        ((3, 4), (3,)),
        ((4,), ()),
        ((2, 4, 3), (2, 3)),
        ((3, 4), (2,)),
        ((3, 4), ()),
        ((0, 4), (0,)),
    ):
        target = torch.randint(0, 4, of)
        for kwargs in ({}, {"ignore_index": 1}):
            same(name, draw(*shape), target, reduction=reduction, **kwargs)
        for wrong in (target + 7, target.to(torch.int32), target.to(torch.int8)):
            same(name, draw(*shape), wrong, reduction=reduction)
    if name == "cross_entropy":
        same(name, draw(3, 4), torch.randint(0, 4, (3,)), label_smoothing=0.1, reduction=reduction)
        same(
            name,
            draw(3, 4),
            draw(3, 4).softmax(1).detach(),
            label_smoothing=0.1,
            reduction=reduction,
        )


def test_looking_up():
    indices = [torch.tensor([0, 5, 2]), torch.tensor(3), torch.tensor([[1, 2], [0, 0]]), torch.tensor([0, 6]),
               torch.tensor([-1]), torch.tensor([1], dtype=torch.int32), torch.tensor([1], dtype=U8)]  # fmt: skip
    for index in indices:
        for kwargs in ({}, {"padding_idx": 0}, {"padding_idx": -1, "scale_grad_by_freq": True}):
            same("embedding", index, draw(6, 3), **kwargs)
        for mode in ("sum", "mean", "max"):
            offsets = torch.tensor([0, 2]) if index.dim() == 1 and len(index) > 1 else None
            same("embedding_bag", index, draw(6, 3), offsets, mode=mode)
            same(
                "embedding_bag",
                index,
                draw(6, 3),
                offsets,
                mode=mode,
                per_sample_weights=draw(*index.shape),
            )
