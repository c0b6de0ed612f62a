"""The functional interface gives PyTorch's values, gradients and second gradients."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib as gl
import gradlib.nn.functional

sys.path.insert(0, str(Path(__file__).parent))
from nn_cases import CASES

CALLS = {name: (fn, arrays, double) for name, fn, arrays, double in CASES}


def outputs(out) -> list:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def run(lib, fn, arrays, dtype, double: bool):
    """Values, gradients and second gradients of a call, as NumPy arrays."""
    inputs = []
    for a in arrays:
        if a.dtype.kind == "f":
            inputs.append(lib.tensor(a.tolist(), dtype=dtype).requires_grad_())
        else:
            inputs.append(lib.tensor(a.tolist()))
    leaves = [x for x in inputs if x.requires_grad]
    outs = outputs(fn(lib, *inputs))
    live = [o for o in outs if o.requires_grad]
    weights = [
        lib.tensor(np.cos(np.arange(o.numel())).reshape(o.shape).tolist(), dtype=dtype)
        for o in live
    ]
    grads = lib.autograd.grad(live, leaves, weights, create_graph=double, allow_unused=True)
    grads = [lib.zeros_like(x) if g is None else g for g, x in zip(grads, leaves, strict=True)]
    second = []
    if double:
        again = [g for g in grads if g.requires_grad]
        if again:
            weights = [
                lib.tensor(np.sin(np.arange(g.numel()) + 1).reshape(g.shape).tolist(), dtype=dtype)
                for g in again
            ]
            second = lib.autograd.grad(again, leaves, weights, allow_unused=True)
            second = [
                lib.zeros_like(x) if g is None else g for g, x in zip(second, leaves, strict=True)
            ]
        else:
            second = [lib.zeros_like(x) for x in leaves]
    return [[t.detach() for t in group] for group in (outs, grads, second)]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_equals_pytorch(name, kind):
    fn, arrays, double = CALLS[name]
    double = double and kind == "float64"
    rtol, atol = (1e-9, 1e-11) if kind == "float64" else (2e-4, 2e-5)
    if name.startswith("hardsigmoid"):  # PyTorch computes with 1/6 in single precision
        rtol = 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = run(gl, fn, arrays, getattr(gl, kind), double)
        theirs = run(torch, fn, arrays, getattr(torch, kind), double)
    for what, a, b in zip(("values", "gradients", "second gradients"), ours, theirs, strict=True):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert str(x.dtype).split(".")[-1] == str(y.dtype).split(".")[-1], what
            assert tuple(x.shape) == tuple(y.shape), what
            np.testing.assert_allclose(
                x.numpy(), y.numpy(), rtol=rtol, atol=atol, err_msg=what, equal_nan=True
            )
