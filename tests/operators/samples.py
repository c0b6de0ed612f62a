"""Sample inputs of every declared op: those of its declaration, or for elementwise ops drawn from its domain."""

from __future__ import annotations

import numpy as np

import gradlib as gl
from gradlib.op.declare import REGISTRY, Op


class Maker:
    """``t(3, 4)``: a leaf tensor with reproducible values in the op's domain (or in [low, high))."""

    def __init__(
        self,
        dtype=gl.float64,
        domain=(-2.0, 2.0),
        strided: bool = False,
        requires_grad: bool = True,
    ):
        self.dtype, self.domain, self.strided, self.requires_grad = (
            dtype,
            domain,
            strided,
            requires_grad,
        )
        self.rng = np.random.default_rng(7)

    def __call__(self, *shape, low=None, high=None, dtype=None, requires_grad=None):
        low = self.domain[0] if low is None else low
        high = self.domain[1] if high is None else high
        kind = dtype or self.dtype
        if kind.is_floating_point or kind.is_complex:
            array = self.rng.uniform(low, high, shape)
            if kind.is_complex:
                array = array + 1j * self.rng.uniform(-1, 1, shape)
        else:
            array = self.rng.integers(int(low), max(int(high), int(low) + 1), shape)
        array = np.asarray(array).astype(kind.np)
        if self.strided and array.ndim:  # the same values in every second place of a larger buffer
            wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
            wide[..., ::2] = array
            array = wide[..., ::2]
        wants = self.requires_grad if requires_grad is None else requires_grad
        out = gl.Tensor._make(array).to(gl.get_default_device())
        return out.requires_grad_(wants and (kind.is_floating_point or kind.is_complex))


def samples_of(op: Op, **options) -> list[tuple]:
    """Argument tuples for ``op.call``, on the default device."""
    with gl.device("cpu"):  # they are drawn there
        samples = _drawn(op, Maker(domain=op.domain, **options))
    device = gl.get_default_device()
    return samples if device.type == "cpu" else [on_device(op, args, device) for args in samples]


def _drawn(op: Op, t: Maker) -> list[tuple]:
    if op.samples is not None:
        return list(op.samples(t))
    if not op.elementwise:
        return []
    if len(op.tensors) == 1:
        return [(t(3, 4),), (t(),), (t(0, 2),)]
    if len(op.tensors) == 2:
        return [(t(3, 4), t(3, 4)), (t(3, 1), t(4)), (t(), t(2, 0))]
    return [tuple(t(2, 3) for _ in op.tensors)]


HOST_TABLES = {
    "take_along",
    "add_along",
    "pad_circular",
    "pad_lines",
}  # ops that take the places of a geometry as NumPy arrays


def on_device(op: Op, args: tuple, device: gl.device) -> tuple:
    """`args` with its tensors, and the arrays among its attributes (indices), on `device`."""

    def move(a):
        if isinstance(a, np.ndarray):
            return gl.Tensor._make(a).to(device)._array
        if isinstance(a, (tuple, list)) and not hasattr(a, "_fields"):
            return type(a)(map(move, a))
        return a

    tensors = [_copy(t, device).requires_grad_(t.requires_grad) for t in flat(args)]
    new = replaced(args, tensors)
    return new if op.name in HOST_TABLES else tuple(map(move, new))


def _copy(t: gl.Tensor, device: gl.device) -> gl.Tensor:
    """A copy on `device`, with gaps where `t` has some."""
    if t.is_contiguous():
        return t.detach().to(device)
    wide = gl.zeros(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype, device=device)
    return wide[..., ::2].copy_(t.detach()).detach()


def flat(args) -> list[gl.Tensor]:
    """The tensors among arguments, lists of tensors included."""
    found: list[gl.Tensor] = []
    for a in args:
        if isinstance(a, gl.Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found += [x for x in a if isinstance(x, gl.Tensor)]
    return found


def replaced(args, new: list):
    """`args` with its tensors replaced, in order, by those in `new`."""
    queue = iter(new)

    def put(a):
        if isinstance(a, gl.Tensor):
            return next(queue)
        if isinstance(a, (list, tuple)) and any(isinstance(x, gl.Tensor) for x in a):
            return [put(x) for x in a]
        return a

    return tuple(put(a) for a in args)


def ops(**wanted) -> list[Op]:
    """Declared ops with the given attributes."""
    return [op for op in REGISTRY.values() if all(getattr(op, k) == v for k, v in wanted.items())]
