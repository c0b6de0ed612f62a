"""Proxy: stands for a value while a function is traced, and makes a `Node` of everything that is done with it."""

from __future__ import annotations

import collections
import copy
import dis
import enum
import operator
import sys
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any

import gradlib

from ..tape import override
from ..tape.source import is_library
from ._code import magic_methods, reflectable_magic_methods
from ._names import call_name, is_method
from .graph import Graph
from .node import Argument, Node, Target, base_types, map_aggregate, map_arg

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
    "assert_fn",
]


class TraceError(ValueError):
    """A function cannot be traced: what it does depends on the value of a Proxy.

    Example:
        >>> try:
        ...     gradlib.fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
        ... except gradlib.fx.proxy.TraceError as error:
        ...     print(error)
        symbolically traced variables cannot be used as inputs to control flow
    """


class Scope:
    """The module in which a Node is made.

    Attributes:
        module_path: its dotted name, "" for the root.
        module_type: its class, None for the root.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Let a `Scope` be another one within ``with``.

    Args:
        scope: what is changed, and put back.
        current_scope: what it is meanwhile.
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._before = scope, copy.copy(scope)
        vars(scope).update(vars(current_scope))

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exc: object) -> None:
        vars(self._scope).update(vars(self._before))


def assert_fn(x: Any) -> None:
    """What an ``assert`` of the program is in a graph: AssertionError unless `x` is true.

    Example:
        >>> assert_fn(1 < 2)
    """
    assert x, "Assertion failed"


class TracerBase:
    """What all Tracers do: make Nodes, and Proxies for them.

    Attributes:
        record_stack_traces: keep with each Node where the program made it.
        check_mutable_operations: accepted; nothing is checked.
        trace_asserts: make a Node of an ``assert`` of a Proxy.
        proxy_buffer_attributes: give a Proxy for a buffer, as for a parameter.
        traced_func_name: the method of a module that is traced.
    """

    graph: Graph
    scope: Scope
    module_stack: collections.OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Put a Node into the graph; overridden by who wants to check or to change what is recorded.

        Args:
            kind: the `op` of the Node.
            target: what it calls.
            args: its arguments, as `create_arg` gave them.
            kwargs: the same by name.
            name: a name for its result.
            type_expr: an annotation for its result.
        """
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces:
            frames = [f for f in traceback.extract_stack() if not is_library(f.filename)]
            inside = [i for i, f in enumerate(frames) if f.name == "forward"]
            if inside:
                node.stack_trace = "".join(traceback.format_list(frames[inside[0] :])).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """The Proxy for a Node; overridden by who has a class of its own.

        Args:
            node: what the Proxy stands for.
        """
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A Node of these arguments, as a Proxy.

        Args:
            kind: the `op` of the Node.
            target: what it calls.
            args: the arguments, with Proxies, parameters and tensors.
            kwargs: the same by name.
            name: a name for its result.
            type_expr: an annotation for its result.
            proxy_factory_fn: makes the Proxy, instead of `proxy`.
        """
        node = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """What of a value can stand in a graph: Nodes for Proxies, containers of what can.

        Args:
            a: an argument of a call.

        Raises:
            NotImplementedError: there is no way to write it into a graph.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            values = [self.create_arg(v) for v in a]
            if isinstance(a, gradlib.Size):
                return a if values == list(a) else tuple(values)
            return type(a)(*values) if hasattr(a, "_fields") else type(a)(values)
        if isinstance(a, list):
            return [self.create_arg(v) for v in a]
        if isinstance(a, dict):
            for key in a:
                if not isinstance(key, str):
                    map_arg(self.create_arg(key), _refuse_key)
            return {k: self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice | range):
            return type(a)(*(self.create_arg(v) for v in (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            values = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum, type)):
            return a
        if hasattr(a, "_fx_name") or is_method(a) is not None:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a Proxy: TraceError, unless overridden.

        Args:
            obj: the Proxy that ``if``, ``while`` or ``assert`` asks.
        """
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What going through a Proxy gives: TraceError, unless overridden.

        Args:
            obj: the Proxy of the ``for`` or of ``*args``.
        """
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """What ``keys()`` of a Proxy gives; ``**proxy`` asks for it, too.

        Args:
            obj: the Proxy.
        """
        return Attribute(obj, "keys")()


def _refuse_key(node: Node) -> Any:
    raise RuntimeError(
        f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}"
    )


class GraphAppendingTracer(TracerBase):
    """The Tracer of a Proxy that is made for a Node alone: it adds to the Node's graph.

    Args:
        graph: that graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


def _next_instruction(frame: FrameType) -> tuple[dis.Instruction, list[dis.Instruction], int]:
    """The instruction that a frame is at, all of them, and its place among them."""
    found = list(dis.get_instructions(frame.f_code))
    at = bisect_left(found, frame.f_lasti, key=lambda i: i.offset)
    return found[at], found, at


class Proxy:
    """Stands for the result of a Node: what is done with it becomes Nodes after that.

    Functions of gradlib, methods, attributes and operators are recorded. Its value is not known, so it cannot decide
    an ``if``, and one cannot go through it, but for unpacking: ``a, b = proxy``.

    Args:
        node: what it stands for.
        tracer: who records; without it Nodes are added to the graph of `node`.

    Example:
        >>> graph = gradlib.fx.Graph()
        >>> x = gradlib.fx.Proxy(graph.placeholder("x"))
        >>> result = graph.output((gradlib.relu(x) + 1).node)
        >>> gradlib.fx.GraphModule({}, graph)(gradlib.tensor([-1.0, 1.0]))
        tensor([1., 2.])
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        if not override.armed:  # as they are inside of a trace
            override.arm()  # public functions ask their arguments from now on
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        # no Node yet: most attributes are methods that are called next
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__.update(d)

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = object.__new__(type(self))
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        instruction, _, _ = _next_instruction(sys._getframe(1))
        if instruction.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instruction.argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            instruction, following, at = _next_instruction(sys._getframe(1))
            if instruction.opname == "TO_BOOL":  # from Python 3.13 on
                at += 1
                instruction = following[at]
            if "POP_JUMP" in instruction.opname and instruction.opname.endswith("IF_TRUE"):
                first = following[at + 1]
                if first.opname == "LOAD_ASSERTION_ERROR":
                    self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                    return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """The keys of a dict, as a Proxy.

        A Tracer may say otherwise, by its method `keys`.
        """
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def note(value: Any) -> None:
            if isinstance(value, Proxy):
                tracers.setdefault(value.tracer)

        map_aggregate((args, kwargs), note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        return record(next(iter(tracers)), orig_method, args, kwargs)


def record(tracer: TracerBase, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A Proxy for the call of a public function, or of a method of Tensor.

    Args:
        tracer: who records.
        function: what is called.
        args: its arguments.
        kwargs: the same by name.
    """
    method = is_method(function)
    if method is not None:
        return tracer.create_proxy("call_method", method, args, kwargs)
    name = tracer.graph._target_to_str(call_name(function))
    return tracer.create_proxy("call_function", function, args, kwargs, name=name)


class Attribute(Proxy):
    """An attribute of a Proxy. It becomes a Node when it is used; a call of it becomes a call_method.

    Args:
        root: the Proxy whose attribute it is.
        attr: its name.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The Node of the attribute, made when it is first asked for.

        Its target is ``getattr``.
        """
        if self._node is None:
            args = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, args, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A Proxy for a parameter that knows the parameter's shape: see `Tracer`, `param_shapes_constant`.

    Args:
        tracer: who records.
        node: the Node that fetches the parameter.
        name: its dotted name.
        param: the parameter itself.
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: gradlib.Tensor) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> gradlib.Size:
        """The shape of the parameter.

        A fact, not a Proxy.
        """
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions of the parameter.

        A fact, not a Proxy.
        """
        return self.param.ndim

    def size(self) -> gradlib.Size:
        """The shape of the parameter.

        A fact, not a Proxy.
        """
        return self.param.size()

    def dim(self) -> int:
        """The number of dimensions of the parameter.

        A fact, not a Proxy.
        """
        return self.param.dim()

    def numel(self) -> int:
        """The number of elements of the parameter.

        A fact, not a Proxy.
        """
        return self.param.numel()

    def nelement(self) -> int:
        """The number of elements of the parameter.

        A fact, not a Proxy.
        """
        return self.param.nelement()


def _operator(name: str) -> Callable[..., Proxy]:
    target = getattr(operator, name)

    def apply(*args: Any, **kwargs: Any) -> Proxy:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    apply.__name__ = f"__{name.strip('_')}__"
    return apply


def _reflected(name: str) -> Callable[..., Proxy]:
    target = getattr(operator, name)

    def apply(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    apply.__name__ = f"__r{name.strip('_')}__"
    return apply


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
