"""Convolution, pooling and attention on a GPU, in sizes of layers, against the formulas in float64 on the CPU."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from overlay_checks import DTYPES, KINDS, close, values

import gradlib as gl
from gradlib.devices.cuda.kernels import CupyLauncher
from gradlib.op.write_device import forget_device_code
from gradlib.tape.arrays import backend_for

F = gl.nn.functional


@pytest.fixture(autouse=True)
def launched(request, monkeypatch):
    """The kernels that were launched; a simulated device gets kernels that run on the CPU."""
    found, launch = set(), CupyLauncher.launch

    def record(self, module, kernel, *args, **kwargs):
        found.add(kernel.partition("<")[0])
        launch(self, module, kernel, *args, **kwargs)

    monkeypatch.setattr(CupyLauncher, "launch", record)
    if request.config.getoption("--device", "real") != "real":
        from host_launcher import resolve

        kernels = sys.modules["tests.simulated_cuda"].kernels
        monkeypatch.setattr(kernels, "resolvers", [*kernels.resolvers, resolve])
        monkeypatch.setattr(backend_for("cuda"), "fuses", True)
        forget_device_code()
    yield found
    forget_device_code()


def compare(layer, arrays, kind: str, factor: float = 8) -> None:
    """Results and gradients of ``layer(*tensors)`` on the device, of `kind`, against float64 on the CPU."""
    rounded = [a.astype(KINDS[kind].np) for a in arrays]
    there = [gl.from_numpy(a).to("cuda").requires_grad_() for a in rounded]
    here = [gl.from_numpy(a.astype(np.float64)).requires_grad_() for a in rounded]
    out, exact = layer(*there), layer(*here)
    close(out.detach().cpu().double().numpy(), exact.detach().numpy(), kind, factor)
    g = values(tuple(exact.shape), 99).astype(KINDS[kind].np)
    out.backward(gl.from_numpy(g).to("cuda"))
    exact.backward(gl.from_numpy(g.astype(np.float64)))
    for a, b in zip(there, here, strict=True):
        assert a.grad is not None and b.grad is not None and a.grad.dtype is KINDS[kind]
        close(a.grad.cpu().double().numpy(), b.grad.numpy(), kind, factor)


# input, weight, stride, padding, dilation, groups
CONVOLUTIONS = [
    ((2, 9, 13, 15), (70, 9, 3, 3), 1, 1, 1, 1),
    ((2, 10, 15, 16), (12, 10, 3, 3), 2, 1, 1, 1),
    ((1, 3, 26, 25), (8, 3, 7, 7), 2, 3, 1, 1),
    ((2, 16, 9, 8), (32, 4, 3, 3), 1, 2, 2, 4),
    ((2, 24, 20, 21), (24, 1, 5, 5), 1, 2, 1, 24),
    ((2, 8, 201), (10, 8, 9), 3, 4, 1, 1),
    ((1, 3, 5, 6, 7), (4, 3, 3, 3, 3), 1, 1, 1, 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("kind", DTYPES)
def test_convolution(launched, kind, case):
    # rows: DEV-26
    shape, weight, stride, padding, dilation, groups = case
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(shape) - 3]
    arrays = [values(shape), values(weight, 1), values(weight[:1], 2)]
    compare(lambda x, w, b: convolve(x, w, b, stride, padding, dilation, groups), arrays, kind, 16)
    deep = {"conv_depthwise", "conv_depthwise_weight"}
    assert (deep if groups == shape[1] else {"conv_map", "conv_weight"}) <= launched


@pytest.mark.parametrize("kind", DTYPES)
def test_transposed_convolution(launched, kind):
    # rows: DEV-26
    arrays = [values((2, 20, 9, 11)), values((20, 6, 4, 4), 1), values((6,), 2)]
    compare(lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1), arrays, kind, 16)
    assert {"conv_map", "conv_weight"} <= launched


@pytest.mark.parametrize("kind", DTYPES)
def test_pooling(launched, kind):
    # rows: DEV-26
    x = np.random.default_rng(0).permutation(2 * 8 * 31 * 30).reshape(2, 8, 31, 30) / 64.0 - 100
    if kind in ("float32", "float64"):  # half types have equal values, and may choose among them
        compare(lambda x: F.max_pool2d(x, 3, 2, 1), [x], kind)
        compare(lambda x: F.max_pool2d(x, 2, return_indices=True)[0], [x], kind)
    compare(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [x], kind)
    compare(lambda x: F.avg_pool3d(x, 2), [x], kind)
    assert {"avg_pool", "avg_pool_grad"} <= launched


@pytest.mark.parametrize("kind", DTYPES)
def test_unfold_and_fold(launched, kind):
    # rows: DEV-26
    compare(
        lambda x: F.fold(F.unfold(x, 3, padding=1), (20, 21), 3, padding=1),
        [values((2, 4, 20, 21))],
        kind,
    )
    assert {"im2col", "col2im"} <= launched


@pytest.mark.parametrize("width", [48, 128])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", DTYPES)
def test_attention(launched, kind, causal, width):
    # rows: DEV-26
    if kind == "float64":
        width = min(width, 64)
    arrays = [values((1, 1, n, width), i) for i, n in enumerate((70, 100, 100))]
    compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), arrays, kind)
    assert {"attention", "attention_dq", "attention_dkv"} <= launched


@pytest.mark.parametrize("kind", DTYPES)
def test_attention_with_a_mask(launched, kind):
    # rows: DEV-26
    look = np.random.default_rng(0).random((2, 1, 1, 100)) < 0.8
    arrays = [values((2, 3, n, 32), i) for i, n in enumerate((70, 100, 100))]

    def layer(q, k, v):
        mask = gl.from_numpy(look).to(q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    compare(layer, arrays, kind)
    assert "attention" in launched
