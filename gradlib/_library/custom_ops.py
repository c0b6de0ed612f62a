"""`custom_op`, and the registering of functions for an op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gradlib

from ..ops._custom import REFUSED, OpOverload, find
from ..ops._custom import define as _define
from ..ops._schema import FunctionSchema, parse
from .infer_schema import infer_schema

__all__ = ["CustomOpDef", "custom_op"]

_Fn = Callable[..., Any]


def _dtype_of(name: str) -> Any:
    found = getattr(gradlib, name, None)
    return found if isinstance(found, gradlib.dtype) else None


def _schema(text: str) -> FunctionSchema:
    return parse(text, _dtype_of)


def _split_name(qualname: str) -> tuple[str, str]:
    namespace, _, name = qualname.partition("::")
    if not namespace or not name or "::" in name:
        raise ValueError(
            f"Expected `qualname` to be of the form `namespace::name`, but got {qualname}. The qualname passed to the "
            "torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return namespace, name


# -- registration by name ------------------------------------------------------------------------------------------


def _overload(op: Any) -> OpOverload:
    """The op of a name, a CustomOpDef or an overload."""
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverload):
        return op
    if not isinstance(op, str):
        raise ValueError(f"got unexpected type for op: {type(op)}")
    _split_name(op)
    found = find(op)
    if found is None:
        raise RuntimeError(f"Could not find the operator {op}. Please make sure you have already registered it with "
                           "torch.library.define, Library.define or torch.library.custom_op.")  # fmt: skip
    return found


def _decorator(register: Callable[[_Fn], Any], fn: _Fn | None) -> Any:
    """Register `fn`; without it a decorator that does."""

    def apply(function: _Fn) -> _Fn:
        register(function)
        return function

    return apply if fn is None else apply(fn)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: _Fn | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Give an op a function for some kinds of devices.

    Args:
        op: its name, or what `custom_op` gave.
        device_types: "cpu", "cuda", or a list of them; None or "default" for all.
        func: the function; without it a decorator.
        lib: accepted: what is registered stays.
    """
    kinds = ["default"] if device_types is None else device_types
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    overload = _overload(op)
    return _decorator(lambda fn: overload.kernels.update(dict.fromkeys(kinds, fn)), func)


def register_fake(op: Any, func: _Fn | None = None, /, *, lib: Any = None, **accepted: Any) -> Any:
    """Say what the results of an op look like, without computing them.

    Args:
        op: its name, or what `custom_op` gave.
        func: a function of the same arguments that gives empty tensors; without it a decorator. It runs for tensors
            without values, as of a meta device. The op may be defined later.
        lib: accepted: what is registered stays.
        accepted: further settings of PyTorch.
    """
    if REFUSED and isinstance(op, str) and find(op) is None:
        return _decorator(
            lambda fn: None, func
        )  # its library could not be loaded, which it said then
    overload = _overload(op)
    return _decorator(lambda fn: setattr(overload, "fake", fn), func)


def register_autograd(
    op: Any, backward: _Fn, /, *, setup_context: _Fn | None = None, lib: Any = None
) -> None:
    """Give an op a derivative.

    Args:
        op: its name, or what `custom_op` gave.
        backward: ``backward(ctx, *grads)`` gives a gradient, or None, for each argument.
        setup_context: ``setup_context(ctx, inputs, output)`` keeps in `ctx` what backward needs.
        lib: accepted: what is registered stays.

    Raises:
        RuntimeError: the op changes an argument.
    """
    overload = _overload(op)
    if overload._schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {overload} with schema {overload._schema}. "
            "Please create a functional operator and register an autograd formula for that."
        )
    overload.backward, overload.setup_context = backward, setup_context
    overload.registered()


def register_vmap(op: Any, func: _Fn | None = None, /, *, lib: Any = None) -> Any:
    """Say what an op does on a batch.

    Args:
        op: its name, or what `custom_op` gave.
        func: ``func(info, in_dims, *args, **kwargs)`` gives (result, out_dims); without it a decorator.
        lib: accepted: what is registered stays.
    """
    overload = _overload(op)

    def register(fn: _Fn) -> None:
        overload.vmap = fn
        overload.registered()

    return _decorator(register, func)


# -- custom_op -----------------------------------------------------------------------------------------------------


class CustomOpDef:
    """An op that `custom_op` made: it is called, and more is registered for it.

    Its name in `gradlib.ops` calls the same op.

    Example:
        >>> @gradlib.library.custom_op("mylib::triple", mutates_args=())
        ... def triple(x: gradlib.Tensor) -> gradlib.Tensor:
        ...     return x * 3
        >>> triple
        <CustomOpDef(mylib::triple)>
    """

    def __init__(self, namespace: str, name: str, schema: FunctionSchema, fn: _Fn) -> None:
        self._namespace, self._name, self._init_fn = namespace, name, fn
        self._opoverload = _define(schema, namespace)
        self._opoverload.refuses_backward = True

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: _Fn | None = None, /
    ) -> Any:
        """Give the op another function for some kinds of devices.

        Args:
            device_types: "cpu", "cuda", or a list of them; None for all.
            fn: the function; without it a decorator.
        """
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: _Fn, /) -> _Fn:
        """Say what the results look like, without computing them.

        Args:
            fn: a function of the same arguments that gives empty tensors in the shapes and dtypes of the results.
        """
        return register_fake(self, fn)

    def register_autograd(self, backward: _Fn, /, *, setup_context: _Fn | None = None) -> None:
        """Give the op a derivative.

        Args:
            backward: ``backward(ctx, *grads)`` gives a gradient, or None, for each argument.
            setup_context: ``setup_context(ctx, inputs, output)`` keeps in `ctx` what backward needs; with arguments
                by name alone ``setup_context(ctx, inputs, keyword_only_inputs, output)``.

        Raises:
            RuntimeError: the op changes an argument.
        """
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: _Fn | None = None) -> Any:
        """Say what the op does on a batch.

        Args:
            func: ``func(info, in_dims, *args, **kwargs)`` gives (result, out_dims), as of `Function.vmap`; without it
                a decorator. An op without one is called for each entry.
        """
        return register_vmap(self, func)

    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Any:
        """Switch the kernel of a kind of device off, so that the op's first function runs; or on again.

        Args:
            device_type: "cpu" or "cuda".
            enabled: whether it runs.

        Returns:
            A context manager that puts back what was, at its end.
        """
        return _Enabled(self._opoverload, device_type, enabled)


class _Enabled:
    def __init__(self, op: OpOverload, device_type: str, enabled: bool) -> None:
        self.op, self.before = op, set(op.disabled)
        (op.disabled.discard if enabled else op.disabled.add)(device_type)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.op.disabled = self.before


def custom_op(
    name: str,
    fn: _Fn | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an op of a function: a black box to derivatives and transforms, which are registered for it.

    Args:
        name: ``namespace::name``; the op is `gradlib.ops.namespace.name`, too.
        fn: the function; without it a decorator. Its results are new tensors.
        mutates_args: the names of the arguments that it changes, or "unknown" for all tensors.
        device_types: "cpu", "cuda", or a list: the devices that it is for; None for all.
        schema: the signature, as ``(Tensor x, int n) -> Tensor``; without it the annotations of `fn` say it.
        tags: accepted.

    Returns:
        A `CustomOpDef`.

    Raises:
        ValueError: the annotations of `fn` make no schema, or `schema` and `mutates_args` differ.

    Example:
        >>> @gradlib.library.custom_op("mylib::numpy_sin", mutates_args=())
        ... def numpy_sin(x: gradlib.Tensor) -> gradlib.Tensor:
        ...     return gradlib.from_numpy(numpy.sin(x.numpy()))
        >>> def keep(ctx, inputs, output):
        ...     ctx.save_for_backward(*inputs)
        >>> def backward(ctx, grad):
        ...     return grad * ctx.saved_tensors[0].cos()
        >>> numpy_sin.register_autograd(backward, setup_context=keep)
        >>> x = gradlib.zeros(2, requires_grad=True)
        >>> numpy_sin(x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """

    def make(fn: _Fn) -> CustomOpDef:
        namespace, op_name = _split_name(name)
        text = schema
        if text is None:
            text = infer_schema(fn, mutates_args=mutates_args)
        found = _schema(f"{namespace}::{op_name}{text}")
        if schema is not None and not isinstance(mutates_args, str):
            expected = {a.name for a in found.arguments if a.is_write}
            if expected != set(mutates_args):
                raise ValueError(
                    f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The "
                    f"schema suggests that the op mutates {expected}which is different from what was provided to us "
                    "in `mutates_args`. Please make these consistent."
                )
        if any(a.kwarg_only and a.kind == "Tensor" for a in found.arguments):
            raise NotImplementedError(
                "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. "
                f"Got: {found}"
            )
        made = CustomOpDef(namespace, op_name, found, fn)
        made.register_kernel(device_types)(fn)
        return made

    return make if fn is None else make(fn)
