"""Random programs of 5 to 40 ops: values, gradients, second gradients and tangents agree with PyTorch.

A program is a list of steps drawn from a seed; the same list runs on either framework. Steps are smooth on the values
that occur, so that both compute the same number; views and in-place writes are among them.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib as gl

UNARY = ["sin", "cos", "tanh", "exp", "sigmoid", "square", "neg", "atan", "asinh"]
COMPLEX_UNARY = ["sin", "cos", "tanh", "square", "neg", "sgn"]
BINARY = ["add", "sub", "mul"]
VIEWS = ["t", "slice", "select", "unsqueeze", "expand", "reshape", "flip"]


class Program:
    """Steps over a growing list of tensors, chosen by a seeded generator while running once on PyTorch's shapes."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.complex = bool(self.rng.integers(4) == 0)
        self.length = int(self.rng.integers(5, 41))
        self.seed = seed

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.seed + 10_000)
        shapes = [(3, 4), (4,), (3, 1)]
        arrays = [rng.uniform(-1, 1, s) for s in shapes]
        return [a + 1j * rng.uniform(-1, 1, a.shape) for a in arrays] if self.complex else arrays

    def run(self, lib, leaves: list) -> list:
        rng = np.random.default_rng(self.seed + 20_000)
        values = list(leaves)
        for _ in range(self.length):
            x = values[int(rng.integers(len(values)))]
            kind = int(rng.integers(10))
            if kind < 3:
                names = COMPLEX_UNARY if self.complex else UNARY
                new = getattr(lib, names[int(rng.integers(len(names)))])(x * 0.5)
            elif kind < 6:
                y = values[int(rng.integers(len(values)))]
                name = BINARY[int(rng.integers(len(BINARY)))]
                new = getattr(lib, name)(x, y) if _broadcast(x, y) else x * 0.7
            elif kind < 8:
                new = self.view(lib, x, VIEWS[int(rng.integers(len(VIEWS)))], rng)
            elif kind == 8:
                new = self.write(lib, x, rng)
            else:
                parts = lib.chunk(x, 2, 0) if x.dim() and x.shape[0] > 1 else (x,)
                new = lib.cat([p * (i + 0.5) for i, p in enumerate(parts)], 0) if x.dim() else x + 1
            if new.numel() <= 200:
                values.append(new * 0.9 if kind % 2 else new)
        return [v for v in values[len(leaves) :] if v.requires_grad][-3:]

    def view(self, lib, x, name: str, rng):
        if x.dim() == 0:
            return x.unsqueeze(0)
        n = x.shape[0]
        if name == "t":
            return x.t() if x.dim() == 2 else x.transpose(0, -1)
        if name == "slice":
            return x[: max(1, n - 1)]
        if name == "select":
            return x[int(rng.integers(n))]
        if name == "unsqueeze":
            return x.unsqueeze(0)
        if name == "expand":
            return x.unsqueeze(0).expand(2, *x.shape)
        return x.reshape(-1) if name == "reshape" else lib.flip(x, (0,))

    def write(self, lib, x, rng):
        """An in-place write through a view of a fresh copy, read back through base and view."""
        base = x * 1.5
        if base.dim() == 0:
            return base.mul_(0.5)
        part = base[: max(1, base.shape[0] // 2)]
        if rng.integers(2):
            part.mul_(part.detach() * 0.1 + 1)
        else:
            part.add_(x[: part.shape[0]] * 0.3)
        return base + base * 0.1


def _broadcast(x, y) -> bool:
    return all(
        a == b or 1 in (a, b) for a, b in zip(reversed(x.shape), reversed(y.shape), strict=False)
    )


def numbers(value) -> np.ndarray:
    value = value.detach()
    return np.asarray(
        value.resolve_conj().numpy() if hasattr(value, "resolve_conj") else value.numpy()
    )


def agree(mine, theirs, what: str):
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        assert (a is None) == (b is None), f"{what} {k}"
        if a is not None:
            x, y = numbers(a), numbers(b)
            assert x.shape == y.shape
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10, err_msg=f"{what} {k}")


def derivatives(lib, program: Program):
    """Outputs, gradients and second gradients."""
    leaves = [
        lib.tensor(a.tolist(), dtype=lib.complex128 if program.complex else lib.float64)
        for a in program.inputs()
    ]
    for leaf in leaves:
        leaf.requires_grad_()
    outs = program.run(lib, leaves)
    if not outs:
        return [], [], []
    loss = sum((o * o.conj()).real.sum() if program.complex else (o * o).sum() for o in outs)
    grads = lib.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    second = sum(
        (g * g.conj()).real.sum() if program.complex else (g * g).sum()
        for g in grads
        if g is not None
    )
    if not getattr(second, "requires_grad", False):
        return outs, grads, []
    return outs, grads, lib.autograd.grad(second, leaves, allow_unused=True)


def tangents(lib, program: Program):
    """Forward-mode tangents of the outputs, the leaves' tangents being their own values reversed."""
    fwd = lib.autograd.forward_ad
    kind = lib.complex128 if program.complex else lib.float64
    with fwd.dual_level():
        duals = []
        for a in program.inputs():
            tangent = lib.tensor(np.ascontiguousarray(a[::-1]).tolist(), dtype=kind)
            duals.append(
                fwd.make_dual(lib.tensor(a.tolist(), dtype=kind).requires_grad_(), tangent)
            )
        return [fwd.unpack_dual(o).tangent for o in program.run(lib, duals)]


@pytest.mark.parametrize("seed", range(100))
def test_program_agrees_with_pytorch(seed):
    program = Program(seed)
    mine, theirs = derivatives(gl, program), derivatives(torch, program)
    for what, a, b in zip(("output", "gradient", "second gradient"), mine, theirs, strict=True):
        agree(a, b, what)


@pytest.mark.parametrize("seed", range(100))
def test_tangents_agree_with_pytorch(seed):
    program = Program(seed)
    agree(tangents(gl, program), tangents(torch, program), "tangent")
