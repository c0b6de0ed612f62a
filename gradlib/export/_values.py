"""Proxies that know the values of an example, and the Tracer that makes them.

A program is run on one example, or on two that differ in the sizes that vary. What is the same in both is a number that
the program may use as it likes, checked when the graph runs; what differs stays a Proxy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import gradlib

from .._dynamo.exc import UserError
from ..fx import Node, Proxy, Tracer
from ..fx.interpreter import _plain
from ..fx.node import Argument, Target, has_side_effect, map_arg
from ..fx.proxy import Attribute, record
from ..nn import Module, RNNBase
from ..overrides import TorchFunctionMode
from ..tape import override
from ..tape.modes import OBSERVE, Interposer, set_flag, state
from ..utils import _pytree as pytree

# What of a tensor does not depend on its values. Sizes among them may depend on sizes.
_FACTS = frozenset(
    (
        "shape size dim ndim ndimension numel nelement stride storage_offset dtype device layout itemsize element_size "
        "requires_grad is_leaf is_cuda is_cpu is_floating_point is_complex is_signed is_contiguous is_sparse "
        "is_quantized is_nested is_meta is_mps is_xpu is_conj is_neg is_inference names grad_fn type get_device"
    ).split()
)
_FIXED = _FACTS - {
    "shape",
    "size",
    "numel",
    "nelement",
    "stride",
    "storage_offset",
    "is_contiguous",
}


@has_side_effect
def check_same(value: Any, expected: Any) -> None:
    """RuntimeError unless `value` is what it was in the example: the program went its way by it."""
    if isinstance(value, tuple):
        same = value == tuple(expected)
    elif isinstance(value, float):
        same = value == expected or (value != value and expected != expected)
    else:
        same = type(value) is type(expected) and value == expected
    if not same:
        raise RuntimeError(
            f"a value of the exported program was {expected} in the example, and is {value} now: the graph is not that "
            "of these arguments"
        )


def _has_tensor(value: Any) -> bool:
    return any(isinstance(v, gradlib.Tensor) for v in pytree.tree_leaves(value))


def _same(values: list[Any]) -> bool:
    first = values[0]
    return all(type(v) is type(first) and bool(v == first) for v in values[1:])


class ValueProxy(Proxy):
    """A Proxy that knows its values in the examples; `isinstance` takes it for what they are."""

    tracer: ValueTracer

    @property
    def _values(self) -> list[Any]:
        return self.tracer.values[self.node]

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self._values[0])

    def __getattr__(self, k: str) -> Any:
        if k.startswith("_"):
            raise AttributeError(k)
        if callable(getattr(self._values[0], k)):
            return Attribute(self, k)
        return self.tracer.create_proxy("call_function", getattr, (self, k), {})

    def __bool__(self) -> bool:
        tensor = isinstance(self._values[0], gradlib.Tensor)
        if tensor and not self.tracer.depends_on_values(self.node):  # but for sizes: a mask, say
            return bool(self.tracer.create_proxy("call_method", "item", (self,), {}))
        raise UserError(self._undecided("a branch of the program"))

    def __int__(self) -> int:
        raise UserError(self._undecided("a number of the program"))

    __index__ = __float__ = __int__  # type: ignore[assignment]

    def _undecided(self, what: str) -> str:
        if isinstance(self._values[0], gradlib.Tensor):
            return (
                f"export: the values of a tensor ({self.node.name}) decide {what}; write it with torch.where, or leave "
                "it out of the exported program"
            )
        return (
            f"export: a size that varies ({self.node.name}: {' or '.join(map(str, self._values))}) decides {what}; "
            "make the dimension static in dynamic_shapes, or leave it out of the exported program"
        )

    def __len__(self) -> int:
        lengths = [len(v) for v in self._values]
        if not _same(lengths):
            raise UserError(self._undecided("how often a loop runs"))
        return lengths[0]

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])  # type: ignore[index]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})


def _in_place(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def apply(self: ValueProxy, other: Any) -> Any:
        if not isinstance(self._values[0], gradlib.Tensor):
            return NotImplemented  # numbers do not change
        return self.tracer.create_proxy("call_function", target, (self, other), {})

    return apply


for _name in "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split():
    setattr(ValueProxy, f"__{_name}__", _in_place(_name))


class _Dynamic(Interposer):
    """Notes whether an op ran whose result has a size that depends on values."""

    seen = False

    def call(self, op: Any, args: tuple, attrs: tuple, proceed: Callable[..., Any]) -> Any:
        self.seen = self.seen or bool(op.dynamic)
        return proceed()

    def call_inplace(
        self, op: Any, tensor: Any, others: tuple, attrs: tuple, proceed: Callable[..., Any]
    ) -> Any:
        return proceed()


class _Recorder(TorchFunctionMode):
    """Functions of tensors are recorded, also where no Proxy is among their arguments: nothing is computed for ever."""

    def __init__(self, tracer: ValueTracer) -> None:
        self.tracer = tracer

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if type(func).__name__ == "method-wrapper":  # a property of a real tensor
            return func(*args, **kwargs)
        return record(self.tracer, func, args, kwargs)


class ValueTracer(Tracer):
    """Traces a function of leaves, given one or two examples of them."""

    proxy_buffer_attributes = True
    _keeps_wrapped = False  # its values are known, so that one can trace through anything

    def __init__(
        self, examples: list[list[Any]], expansions: dict[Any, Callable[..., Any]]
    ) -> None:
        super().__init__()
        self.examples, self.expansions = examples, expansions
        self.values: dict[Node, list[Any]] = {}
        self._dynamic = _Dynamic()
        self._quiet = False  # whether a value is computed: modules then give their own attributes
        self._grad, self._outer = gradlib.is_grad_enabled(), state.interposers

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return isinstance(m, RNNBase)  # their steps are one kernel

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        return attr_val if self._quiet else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(
        self, m: Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return (
            forward(*args, **kwargs)
            if self._quiet
            else super().call_module(m, forward, args, kwargs)
        )

    def proxy(self, node: Node) -> Proxy:
        return ValueProxy(node, self)

    def create_arg(self, a: Any) -> Argument:
        if isinstance(a, Proxy):
            return a.node
        return super().create_arg(a)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """A ValueProxy for a Node, or its value where that is the same whatever the arguments are."""
        if kind == "call_function" and target in self.expansions:
            return self.expansions[target](*args, **kwargs)
        if gradlib.is_grad_enabled() is not self._grad or state.interposers != self._outer:
            raise NotImplementedError(
                "export: a part of the program runs within torch.no_grad, torch.enable_grad or torch.autocast, which "
                "graphs do not keep; put it around the exported program"
            )
        node = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        self.values[node] = [self._run(node, i) for i in range(len(self.examples))]
        return self._shown(node)

    def _placeholder_of(self, name: str, values: list[Any]) -> Any:
        """An argument of the graph with its values; its example itself if it is no tensor."""
        node = self.create_node("placeholder", name, (), {})
        self.values[node] = values
        return ValueProxy(node, self) if isinstance(values[0], gradlib.Tensor) else values[0]

    def _run(self, node: Node, i: int) -> Any:
        """The value of a Node in an example; the module itself is left as it is."""
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: self._value(n, i))
        args = tuple(_plain(a) for a in args)
        kwargs = {k: _plain(v) for k, v in kwargs.items()}
        quiet, self._quiet = self._quiet, True
        if node.target is operator.getitem and any(
            isinstance(v, gradlib.Tensor) and v.dtype is gradlib.bool_
            for v in pytree.tree_leaves(args[1])
        ):
            self._dynamic.seen = True  # a mask
        had = set_flag(OBSERVE, True)
        state.interposers = (*state.interposers, self._dynamic)
        try:
            with override.Off(override.ALL), gradlib.no_grad():
                if node.op == "call_function":
                    return node.target(*args, **kwargs)  # type: ignore[operator]
                if node.op == "call_method":
                    return getattr(args[0], str(node.target))(*args[1:], **kwargs)
                found: Any = self.root
                for part in str(node.target).split("."):
                    found = getattr(found, part)
                if node.op == "call_module":
                    return type(found).forward(found, *args, **kwargs)
                return found.detach().clone() if isinstance(found, gradlib.Tensor) else found
        finally:
            state.interposers = state.interposers[:-1]
            set_flag(OBSERVE, had)
            self._quiet = quiet

    def _value(self, node: Node, i: int) -> Any:
        if node not in self.values:  # a tensor that create_arg made a Node of
            self.values[node] = [self._run(node, k) for k in range(len(self.examples))]
        return self.values[node][i]

    def _shown(self, node: Node) -> Any:
        """What the program sees of a Node."""
        values = self.values[node]
        if _has_tensor(values[0]):
            return ValueProxy(node, self)
        name = node.args[1] if node.target is getattr else node.target
        name = name if isinstance(name, str) else getattr(name, "__name__", "")
        if isinstance(values[0], tuple | list) and not _same(values):  # sizes of which some vary
            return tuple(
                self.create_proxy(
                    "call_function", operator.getitem, (ValueProxy(node, self), i), {}
                )
                for i in range(len(values[0]))
            )
        if not _same(values):
            return ValueProxy(node, self)
        of_tensors = [n for n in node.all_input_nodes if _has_tensor(self.values[n][0])]
        number = name not in _FACTS and values[0] is not None
        if number and any(self.depends_on_values(n) for n in of_tensors):
            raise UserError(
                f"export: {node._pretty_print_target(node.target)} takes a number out of a tensor, and graphs keep "
                "tensors alone; leave it out of the exported program"
            )
        varies = len(values) > 1 or self._dynamic.seen
        if varies and name not in _FIXED and values[0] is not None and node.op != "get_attr":
            self.create_node("call_function", check_same, (node, values[0]), {})
        return values[0]

    def depends_on_values(self, node: Node) -> bool:
        """Whether a value depends on more of the arguments than sizes and other facts."""
        seen, waiting = set(), [node]
        while waiting:
            one = waiting.pop()
            if one.op == "placeholder":
                return True
            name = one.args[1] if one.target is getattr else one.target
            if one not in seen and name not in _FACTS:
                seen.add(one)
                waiting += one.all_input_nodes
        return False

    def run(self, program: Callable[..., Any], root: Module, names: list[str]) -> Any:
        """Trace ``program(*leaves)``; gives the structure of its result, whose leaves the graph returns.

        program: runs `root`, whose parameters and buffers become get_attr.
        names: those of the placeholders.
        """
        plain_setattr = Module.__setattr__

        def module_setattr(module: Module, name: str, value: Any) -> None:
            if type(value) is ValueProxy:
                _check_written(name, value.node)
            else:
                plain_setattr(module, name, value)

        random = gradlib.get_rng_state()
        Module.__setattr__ = module_setattr  # type: ignore[method-assign]
        try:
            with self._tracing(root, getattr(type(root).forward, "__globals__", {})):
                values = zip(*self.examples, strict=True)
                args = [
                    self._placeholder_of(n, list(v)) for n, v in zip(names, values, strict=True)
                ]
                with _Recorder(self):
                    leaves, spec = pytree.tree_flatten(program(*args))
                self.create_node("output", "output", (self.create_arg(leaves),), {})
        finally:
            Module.__setattr__ = plain_setattr  # type: ignore[method-assign]
            gradlib.set_rng_state(random)
        return spec


def _check_written(name: str, node: Node) -> None:
    """NotImplementedError unless a Node is a buffer after it was written to, as of ``self.count += 1``."""
    from_buffer = (
        node.all_input_nodes[:1] if getattr(node.target, "__module__", "") == "_operator" else []
    )
    if not from_buffer or str(from_buffer[0].target).rpartition(".")[2] != name:
        raise NotImplementedError(
            f"export: the program assigns a tensor to the attribute {name!r} of a module; write into a buffer in place "
            "(copy_) instead"
        )
