"""Every declared op gives on CUDA what it gives on the CPU: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from samples import flat, replaced, samples_of

import gradlib as gl
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.core.op import REGISTRY


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_op_agrees_with_cpu(name):
    # rows: DEV-12
    op = REGISTRY[name]
    for args in samples_of(op):
        tensors = flat(args)
        moved = [t.detach().cuda().requires_grad_(t.requires_grad) for t in tensors]
        here, there = op.call(*args), op.call(*replaced(args, moved))
        here = here if isinstance(here, tuple) else (here,)
        there = there if isinstance(there, tuple) else (there,)
        for a, b in zip(here, there, strict=True):
            assert b.is_cuda
            np.testing.assert_allclose(
                a.numpy(force=True), b.numpy(force=True), rtol=1e-9, atol=1e-9
            )
        pairs = [(a, b) for a, b in zip(here, there, strict=True) if a.requires_grad]
        if not pairs:
            continue
        leaves = [(t, m) for t, m in zip(tensors, moved, strict=True) if t.requires_grad]
        grads = gl.autograd.grad(
            [a for a, _ in pairs],
            [t for t, _ in leaves],
            [gl.ones_like(a) for a, _ in pairs],
            allow_unused=True,
        )
        cuda_grads = gl.autograd.grad(
            [b for _, b in pairs],
            [m for _, m in leaves],
            [gl.ones_like(b) for _, b in pairs],
            allow_unused=True,
        )
        for a, b in zip(grads, cuda_grads, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(
                    a.numpy(force=True), b.numpy(force=True), rtol=1e-9, atol=1e-9
                )


@pytest.mark.parametrize("name", [n for n in sorted(REGISTRY) if REGISTRY[n].differentiable])
def test_gradcheck(name):
    # rows: GC-19
    op = REGISTRY[name]
    for args in samples_of(op):
        moved = [t.detach().cuda().requires_grad_(t.requires_grad) for t in flat(args)]
        if not any(t.requires_grad for t in moved):
            continue

        def run(*new, args=args):
            return op.call(*replaced(args, list(new)))

        out = run(*moved)
        if any(o.requires_grad for o in (out if isinstance(out, tuple) else (out,))):
            assert gradcheck(run, tuple(moved), check_forward_ad=True)
            if all(t.numel() for t in moved):
                assert gradgradcheck(run, tuple(moved))
