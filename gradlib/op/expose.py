"""Exposure: from a declared op or a composite function to public functions, methods, in-place and operator forms."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..tape import errors, override
from ..tape.arrays import backend_of
from ..tape.device import stored
from ..tape.lazy import is_lazy, raw_values, store
from ..tape.memory import repeats_itself
from ..tape.modes import FORWARD_AD, OBSERVE, is_grad_enabled, shared, state
from ..tape.source import user_level
from ..tape.sparse import is_sparse
from ..tape.storage import bump
from ..tape.strided import Layout, overlap
from ..tape.tensor import Tensor
from .describe import in_place_text
from .inplace import check_cast, inplace, refuse_inference
from .tangents import any_tangent

PUBLIC: dict[str, Callable] = {}  # gradlib.<name>


def function(name: str | None = None, *aliases: str, method: bool | str = False) -> Callable:
    """Publish a function as ``gradlib.<name>`` (and aliases), and as Tensor methods of the same names if `method`."""

    def publish(fn: Callable) -> Callable:
        _explain(fn, name or fn.__name__)
        for key in (name or fn.__name__, *aliases):
            PUBLIC[key] = refusing(fn, key)
            if method:
                setattr(Tensor, key, fn)
        return fn

    return publish


def _explain(fn: Callable, name: str) -> None:
    """Complete the docstring of an in-place form that says no more than what it is one of."""
    text = fn.__doc__
    if name[-1] == "_" and text and "\n" not in text and text.startswith("In-place version of ``"):
        fn.__doc__ = in_place_text(name[:-1], text)


# what takes about as long as a call of Python's: these look at their argument themselves, or do not look
_QUICK = {
    "reshape", "transpose", "squeeze", "unsqueeze", "split", "cat", "concat", "concatenate", "stack", "linear"
}  # fmt: skip
_TENSORS = {
    "input", "self", "condition", "x", "y", "a", "A", "B", "LU_data", "mat", "sorted_sequence", "x1", "input1", "theta",
    "anchor", "L",
}  # fmt: skip


def overridable(namespace: dict[str, Any]) -> None:
    """Let the public functions of a namespace be overridden, also by objects that they do not know: see `override`."""
    asked = override.IGNORED | override.FACTORIES | _QUICK
    for name, value in list(namespace.items()):
        if name[0] != "_" and name not in asked and isinstance(value, FunctionType):
            value = namespace[name] = _asking(value)
        if name[0] != "_" and isinstance(value, FunctionType):
            _place(value, namespace["__name__"], name)
    override.overridable(namespace)


def _place(fn: FunctionType, module: str, name: str) -> None:
    """Say where `fn` is, unless it is where it says: pickles hold the module and name of a function."""
    home = sys.modules.get(fn.__module__)
    if getattr(home, fn.__qualname__, None) is not fn:
        fn.__module__, fn.__qualname__ = module, name


@functools.cache
def _asking(fn: FunctionType) -> FunctionType:
    """`fn`, called again where it failed for an argument that overrides it; functions that see to it themselves."""
    if hasattr(fn, "asks"):
        return fn

    @functools.wraps(fn)
    def checked(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except (AttributeError, TypeError, ValueError):
            return override.again(checked, *args, **kwargs)

    checked.__dict__["asks"] = checked.__dict__["guards"] = fn
    return checked  # pyright: ignore[reportReturnType]


def refusing(fn: Callable, name: str) -> Callable:
    """`fn`, with PyTorch's TypeError for a first argument that is no tensor where it would give AttributeError."""
    code = getattr(getattr(fn, "without_vmap", fn), "__code__", None)
    if (
        code is None
        or name in _QUICK
        or not code.co_argcount
        or code.co_varnames[0] not in _TENSORS
        or hasattr(fn, "asks")
        or not fn.__module__.startswith("gradlib.operators")
    ):
        return fn
    first = code.co_varnames[0]

    @functools.wraps(fn)
    def checked(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except MemoryError as exc:
            raise (errors.allocation(exc) or exc) from None
        except (AttributeError, TypeError) as exc:
            if override.met(checked, args, kwargs):
                return checked(*args, **kwargs)
            value = args[0] if args else kwargs.get(first)
            if isinstance(exc, TypeError) or isinstance(value, Tensor) or hasattr(value, "_array"):
                raise
            raise need_tensor(
                name, value, "input" if first in ("self", "x", "a") else first
            ) from None

    checked.__dict__["asks"] = True
    return checked


def method(*names: str) -> Callable:
    """Publish a function as Tensor methods only."""

    def publish(fn: Callable) -> Callable:
        _explain(fn, names[0] if names else fn.__name__)
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


def write_out(out: Any, result: Any, row_major: bool = False) -> Any:
    """Copy `result` into the tensor(s) given as ``out=``; returns them.

    What is resized is laid out as `result`, or row by row.

    Raises RuntimeError when `out` requires grad or its dtype cannot hold the result.
    """
    if out is None:
        return result
    if isinstance(result, tuple):
        if isinstance(out, Tensor):
            raise TypeError(
                f"{type(result).__name__}(): argument 'out' must be tuple of Tensors, not Tensor"
            )
        for o, r in zip(out, result, strict=True):
            write_out(o, r)
        return named_out(type(result))(*out) if hasattr(result, "_fields") else tuple(out)
    if out._rg or result._rg:
        refuse_recording(_public_name(), out, result)
    if state.bits & FORWARD_AD and any_tangent((out, result)):
        raise NotImplementedError(
            "Trying to use forward AD with a function that does not support it because it is an out= function"
        )
    refuse_inference(out)
    check_cast(result.dtype, out.dtype)
    if is_sparse(out) or is_sparse(result):
        return _write_sparse(out, result)
    if repeats_itself(out._array) and out.shape == result.shape:
        raise RuntimeError(errors.OVERLAP)
    if state.bits & OBSERVE and state.saved_observer is not None:
        state.saved_observer.before_write(out)
    if out.shape != result.shape:
        resize_out(out, result.shape)
        if not row_major and Layout.of(result._array).order:  # dense, but not row by row
            out.as_strided_(result.shape, result.stride(), out.storage_offset())
    if shared.active and state.capture is not None:  # which sees ops
        return out.copy_(result)
    store(out, raw_values(result))
    bump(out)
    return out


def _write_sparse(out: Tensor, result: Tensor) -> Tensor:
    if out.layout is not result.layout:
        raise RuntimeError(
            f"{_public_name()}(): the result is of layout {result.layout}, but out= is of {out.layout}: make that "
            "of the same layout, or use .to_dense() on the result"
        )
    array = result._array
    out._array.assign(array if out.dtype is result.dtype else array.astype(out._array.dtype))
    bump(out)
    return out


def refuse_recording(name: str, out: Tensor | None, *arguments: Any) -> None:
    """RuntimeError if `out` is given, and it or an argument requires grad where that is recorded."""
    if out is None or not is_grad_enabled():
        return
    if any(isinstance(t, Tensor) and t._rg for t in (out, *arguments)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )


def _public_name() -> str:
    """The name of the function that the program called: the outermost one of the library that runs."""
    frame, name = sys._getframe(1), "out"
    while frame is not None and frame.f_globals.get("__name__", "gradlib.").startswith("gradlib."):
        code, seen = frame.f_code.co_name, frame.f_locals
        if code == "call":  # one function made for several ops
            name = getattr(seen.get("op"), "public", None) or seen.get("name", name)
        elif code not in ("checked", "_first_call"):  # around any function
            name = code
        frame = frame.f_back
    return name


@functools.cache
def named_out(kind: type) -> type:
    """The type of named results that were written to ``out=``: `kind` under PyTorch's name for it."""
    names = {"__slots__": (), "__module__": kind.__module__}
    return type(kind.__name__ + "_out", (kind,), names)


def resize_out(out: Tensor, shape: tuple) -> None:
    """Give the tensor of ``out=`` the shape of the result; a warning if it was not empty."""
    if out._array.size:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=user_level(),
        )
    out.resize_(shape)


def refuse_overlap(out: Tensor | tuple | None, *inputs: Tensor) -> None:
    """RuntimeError if a tensor of ``out=`` shares memory with an input, for ops that read while they write."""
    if out is None:
        return
    for o in out if isinstance(out, (tuple, list)) else (out,):
        if repeats_itself(o._array):
            raise RuntimeError(errors.OVERLAP)
        may_share = backend_of(o._array).may_share_memory
        for x in inputs:
            a, b = stored(o._array), stored(x._array)
            if a is b or may_share(a, b):
                raise RuntimeError(errors.PARTIAL_OVERLAP)


def apart(out: Tensor | None, *operands: Any) -> Tensor | None:
    """`out` of an elementwise op; RuntimeError if it shares memory with an operand otherwise than each at its place."""
    if isinstance(out, Tensor):
        for x in operands:
            if (
                x is out
                or not isinstance(x, Tensor)
                or is_lazy(x)
                or is_sparse(out)
                or is_sparse(x)
            ):
                continue  # of a lazy one the values are taken first; a sparse one is never written to in parts
            if overlap(x._array, out._array) == "partly":
                raise RuntimeError(errors.PARTIAL_OVERLAP)
    return out


EXPECTED = "Expected out tensor to have dtype {want}, but got {got} instead"
FOUND = "Found dtype {Got} but expected {Want}"
SCALAR_TYPE = "expected scalar type {Want} but found {Got}"


def write_same(out: Any, result: Any, text: str = EXPECTED, row_major: bool = False) -> Any:
    """`write_out` of an op whose ``out=`` tensors must have the dtypes of its results.

    text: what to say otherwise, of `want` and `got` (as "double") or `Want` and `Got` (as "Double").
    """
    if out is not None and isinstance(out, Tensor) is isinstance(result, Tensor):
        pairs = zip(out, result, strict=True) if isinstance(result, tuple) else ((out, result),)
        for o, r in pairs:
            if o.dtype is not r.dtype:
                names = [d.scalar_type for d in (r.dtype, o.dtype)]
                raise RuntimeError(
                    text.format(want=c_type(r), got=c_type(o), Want=names[0], Got=names[1])
                )
    return write_out(out, result, row_major)


def c_type(tensor: Tensor) -> str:
    """The dtype of a tensor as error messages about kernels name it."""
    return errors.C_TYPES.get(tensor.dtype.name, tensor.dtype.name)


def need_tensor(name: str, value: Any, argument: str = "input", position: int = 1) -> TypeError:
    """The error for an argument that should be a tensor."""
    return TypeError(
        f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {errors.type_name(value)}"
    )


def legacy(name: str, arguments: tuple, factors: dict[str, Any]) -> tuple[list, list]:
    """Tensors and factors of an old form of a call, where factors come before the tensors they belong to.

    ``addmm(beta, input, alpha, mat1, mat2)``: the first number is the first factor. factors: defaults by name.
    """
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    given = [a for a in arguments if not isinstance(a, Tensor)]
    if len(given) > len(factors) or not all(isinstance(a, (int, float, complex)) for a in given):
        kinds = ", ".join(type(a).__name__ for a in arguments)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({kinds}), but expected the tensors first, "
            f"and {' and '.join(factors)} by keyword"
        )
    warnings.warn(
        f"This overload of {name} is deprecated: pass {' and '.join(factors)} by keyword.",
        UserWarning,
        stacklevel=user_level(),
    )
    return tensors, given + list(factors.values())[len(given) :]


def out_writer(op) -> Callable:
    """The function that writes results of an elementwise op into the tensor given as ``out=``."""
    if op.exact_out:
        return functools.partial(write_same, text=op.exact_out)
    if not op.bool_out:
        return write_out

    def write_bool(out, result):
        if out.dtype is not result.dtype:
            raise RuntimeError(f"{op.bool_out} does not support non-boolean outputs.")
        return write_out(out, result)

    return write_bool


_OPERANDS = (Tensor, int, float, complex, np.number, np.bool_)


def in_place_operator(name: str, write: Callable) -> None:
    """Make ``Tensor.<name>`` of ``write(self, other)``: operands of other kinds give NotImplemented."""

    def operator(self, other):
        return write(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    operator.__name__ = operator.__qualname__ = name
    setattr(Tensor, name, operator)


def op_operator(name: str, op) -> None:
    """The same for an op of two tensors."""

    def operator(self, other):
        return inplace(op, self, (other,)) if isinstance(other, _OPERANDS) else NotImplemented

    operator.__name__ = operator.__qualname__ = name
    setattr(Tensor, name, operator)


def inplace_method(op, name: str, *, convert: Callable | None = None) -> None:
    """Publish ``Tensor.<name>_``: the op written into its first argument."""
    n, attrs = len(op.tensors), op.attrs

    def call(self, *args, **kwargs):
        if convert is not None:
            args = convert(*args, **kwargs)
        return inplace(op, self, tuple(args[: n - 1]), tuple(args[n - 1 :]))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = in_place_text(name[:-1])
    if not attrs and n == 1:

        def unary(self):
            return inplace(op, self)

        unary.__name__ = unary.__qualname__ = name
        unary.__doc__ = call.__doc__
        setattr(Tensor, name, unary)
        return
    setattr(Tensor, name, call)
