"""Compiled kernels beside the formulas in float64."""

from __future__ import annotations

import numpy as np

import gradlib as gl
from gradlib.op.overlays import off


def drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> gl.Tensor:
    return gl.from_numpy(np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32))


def with_gradients(f, *tensors: gl.Tensor) -> list[np.ndarray]:
    """The result of f and the gradients of its tensors, for a fixed gradient of the result."""
    leaves: list = [t.detach().requires_grad_() for t in tensors]
    result = f(*leaves)
    weights = np.cos(np.arange(result.numel(), dtype=np.float64)).reshape(result.shape)
    result.backward(gl.from_numpy(weights).to(result.dtype))
    return [result.detach().numpy(), *[leaf.grad.numpy() for leaf in leaves]]


def close(f, *tensors: gl.Tensor, eps: float = 1e-6) -> None:
    """The compiled kernels are as near to the formulas in float64 as the formulas in float32 may be."""
    found = with_gradients(f, *tensors)
    with off():
        exact = with_gradients(f, *[t.double() for t in tensors])
    for a, b in zip(found, exact, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=eps * max(1.0, float(np.abs(b).max())))
