"""Ops of a program's own: with a schema, kernels for devices, derivatives and batching rules, a name in `gradlib.ops`.

    @gradlib.library.custom_op("mylib::double", mutates_args=())
    def double(x: gradlib.Tensor) -> gradlib.Tensor:
        return gradlib.from_numpy(x.numpy() * 2)

    double.register_autograd(lambda ctx, grad: grad * 2)
    gradlib.ops.mylib.double(gradlib.ones(2))

A derivative is recorded as one Node, as of a `gradlib.autograd.Function`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._library.custom_ops import (
    CustomOpDef,
    _decorator,
    _overload,
    _schema,
    _split_name,
    custom_op,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
)
from ._library.infer_schema import infer_schema
from ._library.opcheck import OpCheckError, opcheck
from ._refused import refuse
from .ops._custom import OpOverload
from .ops._custom import define as _define

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]

__getattr__ = refuse(
    __name__,
    more="_scoped_library",
    why="Write the op as a gradlib.library.custom_op, or as a gradlib.autograd.Function.",
)

_Fn = Callable[..., Any]
impl_abstract = register_fake

# -- Library ---------------------------------------------------------------------------------------------------------

_KEYS = {  # PyTorch's dispatch keys -> where a kernel is kept
    "": "composite",
    "CompositeImplicitAutograd": "composite",
    "CompositeExplicitAutograd": "default",
    "CPU": "cpu",
    "CUDA": "cuda",
    "Autograd": "autograd",
    "AutogradCPU": "autograd",
    "AutogradCUDA": "autograd",
    "AutocastCPU": "autocast:cpu",
    "AutocastCUDA": "autocast:cuda",
    "AutocastXPU": "autocast:xpu",
}


def fallthrough_kernel() -> None:
    """A kernel that stands for none; it can be registered, and is never called.

    Raises:
        NotImplementedError: when it is called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Ops of one namespace, defined and implemented by their names.

    Args:
        ns: the namespace.
        kind: "DEF", "FRAGMENT" or "IMPL".
        dispatch_key: that of `impl`, where none is given.

    Raises:
        ValueError: `kind` is none of the three.

    Example:
        >>> lib = gradlib.library.Library("mylib", "FRAGMENT")
        >>> lib.define("add_one(Tensor x) -> Tensor")
        'add_one'
        >>> lib.impl("add_one", lambda x: x + 1, "CPU")
        >>> gradlib.ops.mylib.add_one(gradlib.zeros(2))
        tensor([1., 1.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError("Unsupported kind: ", kind)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Add an op.

        Args:
            schema: its signature, ``name(Tensor x, int n=1) -> Tensor``.
            alias_analysis: accepted.
            tags: accepted.

        Returns:
            Its name.

        Raises:
            RuntimeError: `schema` cannot be read, or there is such an op.
        """
        found = _schema(f"{self.ns}::{schema.removeprefix(f'{self.ns}::')}")
        _define(found, self.ns)
        return found.name.rpartition("::")[2] + (
            f".{found.overload_name}" if found.overload_name else ""
        )

    def impl(
        self,
        op_name: Any,
        fn: _Fn,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        **accepted: Any,
    ) -> None:
        """Give an op a function.

        Args:
            op_name: its name, or an overload.
            fn: the function.
            dispatch_key: "CPU", "CUDA", "Meta", "Autograd", "CompositeExplicitAutograd", or nothing for one that is
                made of other ops and differentiated through them.
            with_keyset: must be False.
            accepted: further settings of PyTorch.

        Raises:
            TypeError: `fn` is no function.
            NotImplementedError: there is no such dispatch key in gradlib.
        """
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        if fn is fallthrough_kernel:
            return
        key = str(dispatch_key or self.dispatch_key).removeprefix("DispatchKey.")
        overload = (
            op_name
            if isinstance(op_name, OpOverload)
            else _overload(f"{self.ns}::{op_name.removeprefix(f'{self.ns}::')}")
        )
        if key == "Meta":
            overload.fake = fn
        elif key in _KEYS and not with_keyset:
            overload.kernels[_KEYS[key]] = fn
        else:
            raise NotImplementedError(
                f"Library.impl: gradlib has no dispatch key {key!r}{' with_keyset' if with_keyset else ''}. It has: "
                f"{', '.join(filter(None, (*_KEYS, 'Meta')))}"
            )

    def _register_fake(self, op_name: str, fn: _Fn, _stacklevel: int = 1, **accepted: Any) -> None:
        register_fake(f"{self.ns}::{op_name.removeprefix(f'{self.ns}::')}", fn)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Add an op.

    Args:
        qualname: ``namespace::name``.
        schema: its signature without the name, ``(Tensor x) -> Tensor``.
        lib: accepted: what is defined stays.
        tags: accepted.

    Raises:
        ValueError: `qualname` or `schema` is no string.
    """
    for what, value in (("qualname", qualname), ("schema", schema)):
        if not isinstance(value, str):
            raise ValueError(
                f"define({what}, ...): expected {what} to be instance of str, got {type(value)}"
            )
    namespace, name = _split_name(qualname)
    _define(_schema(f"{namespace}::{name}{schema}"), namespace)


def impl(
    qualname: Any, types: str | Sequence[str], func: _Fn | None = None, *, lib: Any = None
) -> Any:
    """Give an op a function for some kinds of devices.

    Args:
        qualname: its name.
        types: "cpu", "cuda", "default" for all, PyTorch's dispatch keys, or a list of them.
        func: the function; without it a decorator.
        lib: accepted: what is registered stays.
    """
    if isinstance(qualname, Library):  # the old form: a Library, a name, a key
        library, name, key = qualname, types, func

        def old(fn: _Fn) -> _Fn:
            library.impl(name, fn, key if isinstance(key, str) else "")
            return fn

        return old
    overload = _overload(qualname)

    def register(fn: _Fn) -> None:
        for kind in [types] if isinstance(types, str) else types:
            if kind == "Meta":
                overload.fake = fn
            else:
                overload.kernels[_KEYS.get(kind, kind)] = fn

    return _decorator(register, func)


def get_ctx() -> Any:
    """Refused: sizes are never symbols, so that a fake function needs none made.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "gradlib.library.get_ctx: sizes are numbers; a fake function cannot say that one depends on values"
    )
