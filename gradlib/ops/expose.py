"""Exposure: from a declared op or a composite function to public functions, methods, in-place and operator forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.inplace import inplace
from ..core.modes import OBSERVE, is_grad_enabled, state
from ..core.tensor import Tensor

PUBLIC: dict[str, Callable] = {}  # gradlib.<name>


def function(name: str | None = None, *aliases: str, method: bool | str = False) -> Callable:
    """Publish a function as ``gradlib.<name>`` (and aliases), and as Tensor methods of the same names if `method`."""

    def publish(fn: Callable) -> Callable:
        for key in (name or fn.__name__, *aliases):
            PUBLIC[key] = fn
            if method:
                setattr(Tensor, key, fn)
        return fn

    return publish


def method(*names: str) -> Callable:
    """Publish a function as Tensor methods only."""

    def publish(fn: Callable) -> Callable:
        for key in names or (fn.__name__,):
            setattr(Tensor, key, fn)
        return fn

    return publish


def prop(*names: str) -> Callable:
    """Publish a function of a tensor as properties of Tensor."""

    def publish(fn: Callable) -> Callable:
        for key in names or (fn.__name__,):
            setattr(Tensor, key, property(fn))
        return fn

    return publish


def write_out(out: Tensor | None, result: Any) -> Any:
    """Copy `result` into the tensor(s) given as ``out=``, resized if need be; returns them.

    Raises RuntimeError when `out` requires grad or its dtype cannot hold the result.
    """
    if out is None:
        return result
    if isinstance(result, tuple):
        for o, r in zip(out, result, strict=True):
            write_out(o, r)
        return type(result)(*out) if hasattr(result, "_fields") else tuple(out)
    if (out._rg or result._rg) and is_grad_enabled():
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    if result.dtype.category > out.dtype.category:
        raise RuntimeError(
            f"result type {result.dtype.tensor_type.removesuffix('Tensor')} can't be cast to the desired output type "
            f"{out.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if state.bits & OBSERVE:
        state.saved_observer.before_write(out)
    if out.shape != result.shape:
        out.resize_(result.shape)
    out._array[...] = result._array
    from ..core.storage import bump

    bump(out)
    return out


def inplace_method(op, name: str, *, convert: Callable | None = None) -> None:
    """Publish ``Tensor.<name>_``: the op written into its first argument."""
    n, attrs = len(op.tensors), op.attrs

    def call(self, *args, **kwargs):
        if convert is not None:
            args = convert(*args, **kwargs)
        return inplace(op, self, tuple(args[: n - 1]), tuple(args[n - 1 :]))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"In-place version of ``{op.name}``."
    if not attrs and n == 1:

        def unary(self):
            return inplace(op, self)

        unary.__name__ = unary.__qualname__ = name
        unary.__doc__ = call.__doc__
        setattr(Tensor, name, unary)
        return
    setattr(Tensor, name, call)
