"""Ops that programs define (see `gradlib.library`): where they are found, and what a call of one does."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..autograd.function import Function
from ..autograd.grad_mode import no_grad
from ..op.expose import PUBLIC
from ..tape import override
from ..tape.modes import AUTOCAST, is_grad_enabled, state
from ..tape.pytree import flatten, unflatten
from ..tape.storage import bump
from ..tape.tensor import Tensor
from ._schema import FunctionSchema

REGISTRY: dict[tuple[str, str], OpOverloadPacket] = {}  # (namespace, name) -> op
REFUSED: list[
    str
] = []  # compiled libraries that programs asked for: their ops are named, and not there
_below = threading.local()


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """Calls of ops skip the kernels that were registered for autograd."""
    before = getattr(_below, "on", False)
    _below.on = True
    try:
        yield
    finally:
        _below.on = before


class OpOverload:
    """One op of a program, with the functions that were registered for it.

    It is called like a function; `gradlib.library` registers kernels, derivatives and batching rules.
    """

    def __init__(self, packet: OpOverloadPacket, schema: FunctionSchema):
        namespace, name = packet.namespace, packet.name
        self.namespace = self._namespace = namespace
        self._schema, self._opname = schema, name
        self._overloadname = schema.overload_name or "default"
        self.overloadpacket, self._overloadpacket = packet, packet
        self.tags: list[Any] = []
        self.__name__ = f"{name}.{self._overloadname}"
        self.__qualname__, self.__module__ = self.__name__, f"torch._ops.{namespace}"
        self._fx_name = f"torch.ops.{namespace}.{self.__name__}"
        self._is_mutable = schema.is_mutable
        self.kernels: dict[
            str, Callable[..., Any]
        ] = {}  # by device type, "default", "composite", "autograd" or "autocast:<device type>"
        self.disabled: set[str] = set()
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.refuses_backward = (
            False  # made by custom_op: a backward without a formula is an error, no warning
        )
        self._function: Any = None

    def name(self) -> str:
        """The name with its namespace, for example ``mylib::scale``."""
        overload = f".{self._schema.overload_name}" if self._schema.overload_name else ""
        return f"{self.namespace}::{self._opname}{overload}"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        off = state.overrides_off
        found = () if off else override.overloaded(flatten((args, kwargs))[0])
        if found or (state.function_modes and off < override.ALL):
            return override.ask(self, found, args, kwargs)
        args, kwargs = self._schema.bind(args, kwargs)
        if state.bits & AUTOCAST:
            kind = self._device_type(args, kwargs)
            cast = self.kernels.get("autocast:" + kind)
            if cast is not None and any(i.on and kind in i.on for i in state.interposers):
                return cast(*args, **kwargs)
        if "autograd" in self.kernels and not getattr(_below, "on", False):
            return self.kernels["autograd"](*args, **kwargs)
        if "composite" in self.kernels and not self._on_device(args, kwargs):
            return self.kernels["composite"](*args, **kwargs)
        if self._schema.is_mutable:
            return self._write(args, kwargs)
        return self._apply(args, kwargs)

    # -- kernels -------------------------------------------------------------------------------------------------

    def _device_type(self, args: tuple, kwargs: dict[str, Any]) -> str:
        for value in flatten((args, kwargs))[0]:
            if isinstance(value, Tensor):
                return value.device.type
        for a, value in zip(self._schema.arguments, (*args, *kwargs.values()), strict=True):
            if a.kind == "Device" and value is not None:
                return str(value).partition(":")[0]
        return "cpu"

    def _on_device(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        return self._device_type(args, kwargs) in self.kernels

    def kernel(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run the kernel for the device of the arguments, and check what it gives."""
        kind = self._device_type(args, kwargs)
        found = self.kernels.get(kind) if kind not in self.disabled else None
        if found is None:
            found = self.fake if kind == "meta" else self.kernels.get("default")
        if found is None:
            raise NotImplementedError(
                f"Could not run '{self.name()}' with arguments from the '{kind.upper()}' backend: no kernel is "
                "registered for it. Register one with torch.library.register_kernel."
            )
        result = found(*args, **kwargs)
        if self.refuses_backward:  # made by custom_op, which promises fresh results
            self._check_fresh(args, kwargs, result)
        return result

    def _check_fresh(self, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        seen = {_memory(t) for t in flatten((args, kwargs))[0] if isinstance(t, Tensor)}
        for made in flatten(result)[0]:
            if not isinstance(made, Tensor) or not made.numel():
                continue
            if _memory(made) in seen:
                raise RuntimeError(
                    f"{self.name()} (with implementation in {_module_of(self.kernels)}): The output of this custom "
                    "operator (1) must not also be an input to this custom operator and (2) may not alias any inputs "
                    "to this custom operator or other returns. The most common way to trigger this error is if we "
                    "have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the "
                    "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                    "return y."
                )
            seen.add(_memory(made))

    def _write(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an op that changes arguments, whose versions then show it."""
        values = (*args, *kwargs.values())
        written = [
            t
            for a, value in zip(self._schema.arguments, values, strict=True)
            if a.is_write
            for t in (value if isinstance(value, list | tuple) else (value,))
            if isinstance(t, Tensor)
        ]
        if is_grad_enabled() and any(t.requires_grad for t in written):
            raise RuntimeError(
                f"{self.name()} changes an argument that requires grad, and has no derivative for that. Call it under "
                "torch.no_grad(), or on detach() of the argument."
            )
        before = [t._version for t in written]
        with no_grad():
            result = self.kernel(args, kwargs)
        for t, version in zip(written, before, strict=True):
            if t._version == version:
                bump(t)
        return result

    # -- derivatives ---------------------------------------------------------------------------------------------

    def _apply(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run the kernel as a custom Function, for its derivative and its batching rule."""
        leaves, tree = flatten(args)
        call = _Call(self, tree, kwargs)
        if self.backward is None and not self.refuses_backward and state.batch is None:
            result = self.kernel(args, kwargs)  # what it does is recorded as it is
            needs = is_grad_enabled() and any(
                isinstance(t, Tensor) and t.requires_grad for t in flatten((args, kwargs))[0]
            )
            lost = [t for t in flatten(result)[0] if isinstance(t, Tensor) and not t.requires_grad]
            if not needs or not any(t.is_floating_point() or t.is_complex() for t in lost):
                return result
            call.ready = result
        if self._function is None:
            self._function = _make_function(self)
        out = self._function.apply(*leaves, call)
        return unflatten(list(out) if isinstance(out, tuple) else [out], call.out_tree)

    def registered(self) -> None:
        """Forget the Function: something it is made of was registered."""
        self._function = None

    # -- questions of programs -----------------------------------------------------------------------------------

    def has_kernel_for_dispatch_key(self, key: str) -> bool:
        """Whether a kernel is registered for a key: "CPU", "CUDA", "Meta", "Autograd"."""
        wanted = str(key).rpartition(".")[2].lower()
        if wanted == "meta":
            return self.fake is not None
        return wanted in self.kernels or (wanted == "autograd" and self.backward is not None)


class _Call:
    """What a call of an op needs besides its tensors, on the way through its Function."""

    def __init__(self, op: OpOverload, tree: Any, kwargs: dict[str, Any]) -> None:
        self.op, self.tree, self.kwargs = op, tree, kwargs
        self.out_tree: Any = None
        self.ready: Any = None  # the result, if it is known already

    def run(self, leaves: Sequence[Any]) -> Any:
        result = self.ready
        if result is None:
            result = self.op.kernel(unflatten(list(leaves), self.tree), self.kwargs)
        made, self.out_tree = flatten(result)
        return tuple(made)


def _make_function(op: OpOverload) -> Any:
    """The custom Function of an op: its arguments are the leaves of the op's, and a `_Call`."""

    def forward(*args: Any) -> Any:
        return args[-1].run(args[:-1])

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        call: _Call = inputs[-1]
        ctx._call, ctx._needs = call, ctx.needs_input_grad
        if op.backward is None or op.setup_context is None:
            return
        ctx.needs_input_grad = unflatten(list(ctx._needs[:-1]), call.tree)
        given = {
            "inputs": unflatten(list(inputs[:-1]), call.tree),
            "output": unflatten(list(output), call.out_tree),
        }
        if call.kwargs:
            given["keyword_only_inputs"] = call.kwargs
        op.setup_context(ctx=ctx, **given)

    def backward(ctx: Any, *grads: Any) -> Any:
        call: _Call = ctx._call
        if op.backward is None:
            if op.refuses_backward:
                raise RuntimeError(
                    f"Trying to backward through {op} but no autograd formula was registered. Please use "
                    "register_autograd to add one."
                )
            warnings.warn(
                f"{op.name()}: an autograd kernel was not registered to the Autograd key(s) but we are trying to "
                "backprop through it. This may lead to silently incorrect behavior. Please use "
                "torch.library.register_autograd to add one.",
                UserWarning,
                stacklevel=2,
            )
            return (None,) * len(ctx._needs)
        ctx.needs_input_grad = unflatten(list(ctx._needs[:-1]), call.tree)
        given = unflatten(list(grads), call.out_tree)
        result = op.backward(ctx, *(given if isinstance(given, tuple) else (given,)))
        result = result if isinstance(result, tuple) else (result,)
        return (*_gradients(op, result, call), None)

    body: dict[str, Any] = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "vmap": staticmethod(_batched(op)),
    }
    return type(
        f"GeneratedBackwardFor_{op.namespace}_{op._opname}_{op._overloadname}", (Function,), body
    )


def _gradients(op: OpOverload, result: tuple, call: _Call) -> list[Any]:
    """One gradient for each leaf of the arguments, of what a formula gives for each argument."""
    args = unflatten(list(range(call.tree.num_leaves)), call.tree)
    if len(result) != len(args):
        raise RuntimeError(
            f"Expected the return from backward to be of the same structure as the inputs. Got: {len(result)} values "
            f"for the {len(args)} arguments of {op.name()}"
        )
    grads: list[Any] = []
    for arg, grad in zip(args, result, strict=True):
        count = len(flatten(arg)[0])
        if isinstance(arg, list | tuple | dict):
            grads += list(grad) if grad is not None else [None] * count
        else:
            grads.append(grad)
    return grads


def _batched(op: OpOverload) -> Callable[..., Any]:
    """The batching rule of an op's Function: the registered one, or a loop over entries."""

    def rule(info: Any, in_dims: tuple, *leaves: Any) -> Any:
        call: _Call = leaves[-1]
        args, dims = (
            unflatten(list(leaves[:-1]), call.tree),
            unflatten(list(in_dims[:-1]), call.tree),
        )
        if op.vmap is not None:
            result, out_dims = op.vmap(info, dims, *args, **call.kwargs)
            made, call.out_tree = flatten(result)
            return tuple(made), tuple(flatten(out_dims)[0]) if isinstance(
                out_dims, tuple | list
            ) else ((out_dims,) * len(made))
        entries = []
        for i in range(info.batch_size):
            entry = [
                v.select(d, i) if d is not None else v
                for v, d in zip(leaves[:-1], in_dims[:-1], strict=True)
            ]
            result = op(*unflatten(entry, call.tree), **call.kwargs)
            made, call.out_tree = flatten(result)
            entries.append(made)
        return tuple(PUBLIC["stack"](list(values)) for values in zip(*entries, strict=True)), (
            0,
        ) * len(entries[0])

    return rule


def _memory(tensor: Tensor) -> Any:
    return tensor.untyped_storage().data_ptr()


def _module_of(kernels: dict[str, Callable[..., Any]]) -> str:
    return next((k.__module__ for k in kernels.values()), "an unknown module")


class OpOverloadPacket:
    """An op with all its overloads: ``torch.ops.mylib.scale``. Calling it calls the overload that fits."""

    def __init__(self, namespace: str, name: str):
        self.namespace, self.name = namespace, name
        self.__name__ = name
        self.__module__ = f"torch._ops.{namespace}"
        self._qualified_op_name = f"{namespace}::{name}"
        self._fx_name = f"torch.ops.{namespace}.{name}"
        self._by_name: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._by_name)

    def __getattr__(self, name: str) -> OpOverload:
        found = self.__dict__.get("_by_name", {}).get(name)
        if found is None:
            raise AttributeError(
                f"The underlying op of '{self.__dict__.get('namespace')}.{self.__dict__.get('name')}' has no overload "
                f"name '{name}'"
            )
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        found = () if state.overrides_off else override.overloaded(flatten((args, kwargs))[0])
        if found:
            return override.ask(self, found, args, kwargs)
        *others, last = self._by_name.values()
        for op in others:
            try:
                op._schema.bind(args, kwargs)
            except RuntimeError:
                continue
            return op(*args, **kwargs)
        return last(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.name}')>"


class OpNamespace:
    """The ops of a namespace: ``torch.ops.mylib``."""

    def __init__(self, name: str):
        self.name = name
        self.__name__ = f"torch.ops.{name}"

    def __getattr__(self, name: str) -> OpOverloadPacket:
        found = REGISTRY.get((self.__dict__.get("name", ""), name))
        if found is None:
            raise AttributeError(
                f"'_OpNamespace' '{self.__dict__.get('name')}' object has no attribute '{name}'"
            )
        return found

    def __dir__(self) -> list[str]:
        return [name for namespace, name in REGISTRY if namespace == self.name]


def define(schema: FunctionSchema, namespace: str) -> OpOverload:
    """Add an op to the registry.

    Raises:
        RuntimeError: there is one of that name.
    """
    name = schema.name.rpartition("::")[2]
    packet = REGISTRY.get((namespace, name))
    if packet is None:
        packet = OpOverloadPacket(namespace, name)
    op = OpOverload(packet, schema)
    if op._overloadname in packet._by_name:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times. Each "
            "overload's schema should only be registered with a single call to def()."
        )
    packet._by_name[op._overloadname] = op
    REGISTRY[namespace, name] = packet
    return op


def find(qualname: str) -> OpOverload | None:
    """The op of a name like ``ns::name`` or ``ns::name.overload``."""
    namespace, _, name = qualname.partition("::")
    name, _, overload = name.partition(".")
    packet = REGISTRY.get((namespace, name))
    return None if packet is None else packet._by_name.get(overload or "default")
