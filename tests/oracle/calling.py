"""One call on gradlib and on PyTorch: results, their types and dtypes, requires_grad, and exceptions with their text.

The files in calls/ hold expressions, one a line, with these names: `torch` (either library), `L` (its linalg), `np`,
`inf`, `nan`; `R(*shape)` is a tensor that is always the same for a shape; `grad(f, *tensors)` are the results of f and
the gradients of its tensors, `jvp(f, *tensors)` the results and tangents, `node(results)` the names of their nodes.
"""

from __future__ import annotations

import math
import warnings
import zlib
from typing import Any

import ml_dtypes
import numpy as np
import torch

import gradlib

TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "bfloat16": 2e-2, "float16": 4e-3}


def values(shape: tuple, kind: str, low: float, high: float, seed: int | None) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(repr((shape,)).encode()) if seed is None else seed)
    array = rng.uniform(low, high, shape)
    if kind.startswith("complex"):
        array = array + 1j * rng.uniform(-1, 1, shape)
    if kind.startswith(("float", "bfloat", "complex")):
        return array
    return np.floor((abs(array) if kind.startswith("u") else array) * 3)


def maker(lib: Any):
    """`R` of the expressions, for one of the libraries."""

    def R(
        *shape, dt="float64", rg=False, seed=None, low=-2.0, high=2.0, T=False, pd=False, herm=False, sing=False
    ):  # fmt: skip
        """dt: dtype; rg: requires_grad; T: transposed memory; pd: positive-definite; herm: Hermitian; sing: singular.

        Other numbers than those of the shape come from `seed`; they lie between `low` and `high`.
        """
        array = values(shape, dt, low, high, seed)
        if pd:
            array = array @ np.swapaxes(array, -1, -2).conj() + np.eye(shape[-1])
        if herm:
            array = array + np.swapaxes(array, -1, -2).conj()
        if sing and array.size:
            array[..., -1, :] = 0
        if T:
            array = np.swapaxes(array, -1, -2)
        tensor = lib.tensor(array.tolist(), dtype=getattr(lib, dt)).reshape(array.shape)
        tensor = tensor.mT if T else tensor
        return tensor.requires_grad_() if rg else tensor

    return R


def space(lib: Any) -> dict[str, Any]:
    """The names of the expressions, for one of the libraries."""

    def waves(tensor):
        array = np.cos(np.arange(tensor.numel()) + 1.0).reshape(tuple(tensor.shape))
        return lib.tensor(array.tolist(), dtype=tensor.dtype).reshape(tensor.shape)

    def several(results):
        return list(results) if isinstance(results, (tuple, list)) else [results]

    def grad(f, *tensors):
        results = several(f(*tensors))
        made = [r for r in results if r.requires_grad]
        inputs = [t for t in tensors if t.requires_grad]
        found = lib.autograd.grad(made, inputs, [waves(m) for m in made], allow_unused=True)
        return results + [lib.zeros(()) if g is None else g for g in found]

    return {
        "torch": lib, "L": lib.linalg, "R": maker(lib), "np": np, "inf": math.inf, "nan": math.nan, "grad": grad,
        "jvp": lambda f, *tensors: lib.func.jvp(f, tensors, tuple(waves(t) for t in tensors)),
        "node": lambda results: [type(r.grad_fn).__name__ for r in several(results)],
    }  # fmt: skip


def outcome(lib: Any, code: str) -> Any:
    """The result, or the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(code, space(lib))
        except Exception as exc:
            return exc


def flat(value: Any) -> list:
    if isinstance(value, (tuple, list)):
        return [v for item in value for v in flat(item)]
    return [value]


def numbers(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    if str(tensor.dtype).endswith("bfloat16"):
        tensor = tensor.float()
    array = np.asarray(tensor.numpy(force=True))
    return array.astype(np.float64) if array.dtype == ml_dtypes.bfloat16 else array


def same(code: str) -> None:
    """`code` gives the same results on both libraries, or the same exception."""
    theirs, ours = outcome(torch, code), outcome(gradlib, code)
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert isinstance(theirs, Exception), f"gradlib raises {ours!r}"
        assert isinstance(ours, Exception), f"only PyTorch raises {theirs!r}"
        assert type(theirs).__name__ == type(ours).__name__ or isinstance(ours, type(theirs)), repr(
            (theirs, ours)
        )
        assert str(ours).splitlines()[0] == str(theirs).splitlines()[0]
        return
    if isinstance(theirs, tuple):
        assert type(ours).__name__ == type(theirs).__name__
    a, b = flat(theirs), flat(ours)
    assert len(a) == len(b)
    for t, o in zip(a, b, strict=True):
        if not isinstance(t, torch.Tensor):
            assert t == o
            continue
        name = str(t.dtype).removeprefix("torch.")
        assert str(o.dtype) == str(t.dtype) and tuple(o.shape) == tuple(t.shape)
        assert o.requires_grad == t.requires_grad
        wanted, got = numbers(t), numbers(o)
        size = np.nanmax(np.abs(np.where(np.isfinite(wanted), wanted, 0)), initial=1.0)
        close = TOLERANCE.get(name, 3e-4)
        np.testing.assert_allclose(got, wanted, rtol=close, atol=close * size)
