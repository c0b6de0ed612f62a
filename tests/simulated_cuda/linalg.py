"""``cupy.linalg``: what cuSOLVER cannot solve gives nan, or raises under ``cupyx.errstate(linalg="raise")``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import api
from .array import ndarray
from .functions import einsum, matmul, tensordot
from .launch import compute, refuse_library
from .machine import machine
from .memory import current_queue

_config = threading.local()


@contextlib.contextmanager
def errstate(*, linalg: str = "ignore") -> Iterator[None]:
    """``cupyx.errstate``, of which CuPy has implemented linalg alone: "ignore" or "raise"."""
    if linalg not in ("ignore", "raise"):
        raise NotImplementedError
    before, _config.linalg = getattr(_config, "linalg", "ignore"), linalg
    try:
        yield
    finally:
        _config.linalg = before


def _check(*arrays: Any, square: bool = False, half: bool = False) -> None:
    """half: whether float16 is taken; bfloat16 is, and computed in float64, like every type that CuPy does not know."""
    for a in arrays:
        if not isinstance(a, ndarray):
            raise np.linalg.LinAlgError("cupy.linalg only supports cupy.ndarray")
        if a.dtype == np.float16 and not half:
            raise TypeError("float16 is unsupported in linalg")
        if a.ndim < 2:
            raise np.linalg.LinAlgError(
                f"{a.ndim}-dimensional array given. Array must be at least two-dimensional"
            )
        if square and a.shape[-1] != a.shape[-2]:
            raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")


def _checked(run: Callable, arrays: tuple, label: str) -> Any:
    """Submit ``run(info, *hosts)``, which puts what went wrong into `info`; to look at it means to wait."""
    info: list[Exception] = []

    def clean_run(*hosts):
        info.clear()  # a run on zeros found the shapes
        return run(info, *hosts)

    result = compute(clean_run, arrays, label=label)
    if getattr(_config, "linalg", "ignore") == "raise":
        machine.synchronize(current_queue())
        if info:
            raise np.linalg.LinAlgError(
                f"Error reported by {label} in cuSOLVER. devInfo = {info[0]}."
            )
    return result


def _each(fn, info: list, arrays: tuple):
    """`fn` on stacked matrices; a matrix that NumPy refuses gives NaN."""
    try:
        return fn(*arrays)
    except np.linalg.LinAlgError as exc:
        info.append(exc)
        batch = arrays[0].shape[:-2]
        first = fn(
            *(np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape) for a in arrays)
        )
        many = isinstance(first, tuple)
        outs = [np.full_like(o, np.nan) for o in (first if many else (first,))]
        for i in np.ndindex(*batch):
            try:
                got = fn(*(a[i] for a in arrays))
            except np.linalg.LinAlgError:
                continue
            for o, g in zip(outs, got if many else (got,), strict=True):
                o[i] = g
        return type(first)(*outs) if hasattr(first, "_fields") else tuple(outs) if many else outs[0]


def _kinds(name: str, result: Any, given: np.dtype) -> Any:
    """The result of NumPy's function of that name in the types of CuPy."""
    if isinstance(result, tuple):
        made = [_kinds(name, r, given) for r in result]
        return type(result)(*made) if hasattr(result, "_fields") else tuple(made)
    if name in ("eig", "eigvals"):
        return result.astype(np.result_type(result, np.complex64))
    return result.astype(given) if given == np.float16 else result


def _solver(name: str, n_arrays: int = 1, square: bool = True):
    numpy_fn, half = getattr(np.linalg, name), name in ("eigh", "eigvalsh")

    def fn(a, *rest, **kwargs):
        given = a.dtype
        a = a.astype(np.float32) if given == np.float16 else a
        return _kinds(name, numpy_fn(a, *rest, **kwargs), given)

    def call(*args, **kwargs):
        signature = api.FUNCTIONS["linalg." + name]
        assert signature is not None
        signature.bind(*args, **kwargs)
        arrays, rest = args[:n_arrays], args[n_arrays:]
        _check(*arrays[:1], square=square, half=half)
        refuse_library("cusolver")

        def run(info, *hosts):
            return _each(lambda *hs: fn(*hs, *rest, **kwargs), info, hosts)

        return _checked(run, arrays, name)

    call.__name__ = name
    return call


def solve(a, b):
    _check(a, square=True)
    if not isinstance(b, ndarray):
        raise np.linalg.LinAlgError("cupy.linalg only supports cupy.ndarray")
    if b.ndim > 1 and a.shape[:-1] != b.shape[:-1]:
        raise ValueError(
            "a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b"
        )
    refuse_library("cusolver")

    def run(info, x, y):
        try:
            return np.linalg.solve(x, y)
        except np.linalg.LinAlgError as exc:
            info.append(exc)
            eye = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
            return np.full_like(np.linalg.solve(eye, y), np.nan)

    return _checked(run, (a, b), "solve")


def lstsq(a, b, rcond=None):
    _check(a)
    if a.ndim != 2:
        raise np.linalg.LinAlgError(
            f"{a.ndim}-dimensional array given. Array must be two-dimensional"
        )
    refuse_library("cusolver")
    return compute(
        lambda x, y: tuple(np.asarray(o) for o in np.linalg.lstsq(x, y, rcond)),
        (a, b),
        label="lstsq",
    )


def norm(x, ord=None, axis=None, keepdims=False):
    if not isinstance(x, ndarray):
        raise np.linalg.LinAlgError("cupy.linalg only supports cupy.ndarray")
    kind = np.float64 if x.dtype == api.BFLOAT16 else x.dtype
    return compute(
        lambda h: np.asarray(np.linalg.norm(h.astype(kind), ord, axis, keepdims)),
        (x,),
        label="norm",
    )


def matrix_power(M, n):
    _check(M, square=True, half=True)
    refuse_library("cublas")
    return compute(
        lambda h: np.linalg.matrix_power(h, n).astype(h.dtype), (M,), label="matrix_power"
    )


def cross(x1, x2, /, *, axis=-1):
    return compute(lambda a, b: np.linalg.cross(a, b, axis=axis), (x1, x2), label="cross")


def matrix_transpose(a):
    return a.swapaxes(-1, -2)


NAMESPACE: dict[str, Any] = {
    name: _solver(name) for name in "cholesky inv det slogdet eig eigh eigvals eigvalsh".split()
}
NAMESPACE |= {name: _solver(name, square=False) for name in "qr svd pinv cond matrix_rank".split()}
NAMESPACE |= {
    "solve": solve, "lstsq": lstsq, "norm": norm, "matrix_power": matrix_power, "cross": cross, "matmul": matmul,
    "matrix_transpose": matrix_transpose, "LinAlgError": np.linalg.LinAlgError,
}  # fmt: skip
__all__ = ["NAMESPACE", "einsum", "tensordot"]
