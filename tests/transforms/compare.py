"""Comparing results, and what a check says if it has nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import gradlib as gl


class Inapplicable(Exception):
    """The check has nothing to test in this case."""


def array(t: gl.Tensor) -> np.ndarray:
    t = t.detach().resolve_conj().resolve_neg()
    if t.dtype in (gl.bfloat16, gl.float16):
        t = t.to(gl.float64)
    return np.asarray(t.numpy())


def same(
    got: Sequence,
    wanted: Sequence,
    what: str,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    dtypes: bool = True,
) -> None:
    """AssertionError unless both hold the same tensors; None counts as zeros."""
    assert len(got) == len(wanted), f"{what}: {len(got)} results instead of {len(wanted)}"
    for g, w in zip(got, wanted, strict=True):
        if g is None or w is None:
            other = g if w is None else w
            assert other is None or not array(other).any(), f"{what}: a result is missing"
            continue
        assert g.shape == w.shape, f"{what}: shape {tuple(g.shape)} instead of {tuple(w.shape)}"
        if dtypes:
            assert g.dtype is w.dtype, f"{what}: {g.dtype} instead of {w.dtype}"
        a, b = array(g), array(w)
        close = np.isclose(a, b, rtol=rtol, atol=atol * max(1.0, _size(b)), equal_nan=True)
        if not close.all():
            at = tuple(int(k) for k in np.argwhere(~close)[0])
            raise AssertionError(f"{what}: {a[at]} instead of {b[at]} at {at}")


def _size(a: np.ndarray) -> float:
    if a.dtype.kind not in "fc" or not a.size:
        return 1.0
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size else 1.0


def is_float(t: gl.Tensor) -> bool:
    """Whether derivatives by `t` are taken."""
    return (t.is_floating_point() or t.is_complex()) and "constant" not in t.__dict__


def waves(t: gl.Tensor, seed: int = 0) -> gl.Tensor:
    """Fixed numbers in the shape and dtype of `t`."""
    rng = np.random.default_rng([seed, 5])
    a = rng.normal(size=tuple(t.shape))
    if t.is_complex():
        a = a + 1j * rng.normal(size=tuple(t.shape))
    return gl.tensor(np.asarray(a).tolist(), dtype=t.dtype).reshape(t.shape)


def inner(a: gl.Tensor, b: gl.Tensor) -> float:
    """Re <a, b>."""
    x, y = array(a), array(b)
    return float(np.real(np.sum(np.conj(x) * y)))


class Function:
    """A case as a function of its floating tensors alone, whose results are floating tensors."""

    def __init__(self, case: Callable, tensors: Sequence[gl.Tensor]):
        self.case, self.tensors = case, list(tensors)
        self.places = [k for k, t in enumerate(tensors) if is_float(t)]
        self.inputs = [self.tensors[k].detach() for k in self.places]
        if not self.inputs:
            raise Inapplicable("no floating argument")
        leaves = self.leaves()
        out = case(*self.put(leaves))
        self.kept = [k for k, o in enumerate(out) if o.requires_grad]
        if not self.kept:
            if not any(is_float(o) for o in out):
                raise Inapplicable("no floating result")
            raise AssertionError("no result requires grad")
        self.example = [out[k].detach() for k in self.kept]

    def leaves(self) -> list[gl.Tensor]:
        return [t.clone().requires_grad_() for t in self.inputs]

    def put(self, new: Sequence[gl.Tensor]) -> list[gl.Tensor]:
        full = list(self.tensors)
        for k, t in zip(self.places, new, strict=True):
            full[k] = t
        return full

    def __call__(self, *new: gl.Tensor) -> tuple[gl.Tensor, ...]:
        out = self.case(*self.put(new))
        return tuple(out[k] for k in self.kept)

    def cotangents(self) -> list[gl.Tensor]:
        return [waves(o, 11 + k) for k, o in enumerate(self.example)]

    def gradients(self, new: Sequence[gl.Tensor], seeds: Sequence[gl.Tensor], **options) -> tuple:
        return gl.autograd.grad(self(*new), new, seeds, allow_unused=True, **options)
