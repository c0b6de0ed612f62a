"""What the texts of samples/ are made of: tensors drawn from a seed, and small functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradlib as gl
from gradlib import nn, optim

from . import programs


def put(x: gl.Tensor, key: Any, value: Any) -> gl.Tensor:
    """`x` with `value` written at `key`."""
    out = x.clone()
    out[key] = value
    return out


def through(x: gl.Tensor, change: Any) -> gl.Tensor:
    """A copy of `x`, after ``change(copy)``."""
    out = x.clone()
    change(out)
    return out


def sym(a: gl.Tensor) -> gl.Tensor:
    """The Hermitian part, so that a derivative sees both triangles."""
    return (a + a.mH) / 2


def square(x: gl.Tensor) -> gl.Tensor:
    """A function for those that take one."""
    return x.sin() * x


class Draw:
    """The makers of tensors: always the same ones for a seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng([seed, 20])

    def _float(self, array: np.ndarray) -> gl.Tensor:
        return gl.tensor(array.tolist(), dtype=gl.float64).reshape(array.shape)

    def x(self, *shape: int, lo: float = -2.0, hi: float = 2.0) -> gl.Tensor:
        """Numbers of [lo, hi), none of them near 0."""
        array = self.rng.uniform(lo, hi, shape)
        return self._float(np.where(np.abs(array) < 0.05, array + 0.1, array))

    def p(self, *shape: int) -> gl.Tensor:
        return self.x(*shape, lo=0.2, hi=2.0)

    def u(self, *shape: int) -> gl.Tensor:
        return self.x(*shape, lo=0.1, hi=0.9)

    def d(self, *shape: int) -> gl.Tensor:
        """Numbers that lie well apart."""
        size = math.prod(shape)
        return self._float((self.rng.permutation(size) * 0.37 - size * 0.17 + 0.01).reshape(shape))

    def z(self, *shape: int) -> gl.Tensor:
        return gl.complex(self.x(*shape), self.x(*shape))

    def pd(self, *shape: int) -> gl.Tensor:
        """Positive-definite matrices."""
        a = self.x(*shape)
        return (a @ a.mT + gl.eye(shape[-1], dtype=gl.float64)).detach()

    def i(self, high: int, *shape: int, lo: int = 0) -> gl.Tensor:
        return gl.tensor(self.rng.integers(lo, high, shape).tolist(), dtype=gl.int64).reshape(shape)

    def perm(self, size: int, count: int | None = None) -> gl.Tensor:
        return gl.tensor(self.rng.permutation(size)[:count].tolist(), dtype=gl.int64)

    def c(self, t: gl.Tensor) -> gl.Tensor:
        """`t` as an argument that has no derivative (a target, a weight of classes)."""
        t.__dict__["constant"] = True
        return t

    def m(self, *shape: int) -> gl.Tensor:
        return gl.tensor((self.rng.uniform(size=shape) > 0.5).tolist(), dtype=gl.bool).reshape(
            shape
        )

    def signs(self, *shape: int) -> gl.Tensor:
        return self._float(self.rng.choice([-1.0, 1.0], shape))

    def space(self) -> dict[str, Any]:
        """The names of the texts."""
        makers = {
            n: getattr(self, n)
            for n in ("x", "p", "u", "d", "z", "pd", "i", "perm", "m", "c", "signs")
        }
        return SPACE | makers


class _Slices:
    def __getitem__(self, key: Any) -> Any:
        return key


_PLAIN = "float64 float32 int64 bool complex128 tensor ones zeros arange".split()
SPACE: dict[str, Any] = {
    "gl": gl, "torch": gl, "nn": nn, "F": nn.functional, "linalg": gl.linalg, "fft": gl.fft, "special": gl.special,
    "optim": optim, "func": gl.func, "autograd": gl.autograd, "P": programs, "steps": programs.steps, "square": square,
    "put": put, "through": through, "sym": sym, "S": _Slices(), "inf": math.inf,
    "A": lambda *args, **kwargs: (args, kwargs),
} | {name: getattr(gl, name) for name in _PLAIN}  # fmt: skip
