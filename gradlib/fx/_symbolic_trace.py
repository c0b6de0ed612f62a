"""Tracer: runs a function or a module on Proxies, and keeps what it does as a `Graph`."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import math
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

import gradlib

from ..nn import Module, Parameter, Sequential
from ..operators import public
from ..tape import override
from ..utils import _pytree as pytree
from ._code import PyTreeCodeGen, PyTreeInfo
from ._wrapping import WRAPPED, Patcher, find_proxy, wrap
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, base_types, has_side_effect
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_tracing = 0  # how many traces run, one within the other
_proxyable: set[type] = set()


def is_fx_tracing() -> bool:
    """Whether a symbolic trace runs.

    Example:
        >>> is_fx_tracing()
        False
    """
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """What stands in `concrete_args` for a value that stays an argument; its one object is `PH`.

    Example:
        >>> PH
        PH
    """

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A `PH` whose further attributes the Node of its placeholder gets.

    Args:
        ph_key: one such attribute.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


class ProxyableClassMeta(type):
    """The metaclass of a class whose construction may be recorded: with a Proxy among its arguments it is.

    Example:
        >>> class Pair(metaclass=gradlib.fx.ProxyableClassMeta):
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> traced = gradlib.fx.symbolic_trace(lambda x: Pair(x, x).a)
        >>> [node.name for node in traced.graph.nodes]
        ['x', 'pair', 'getattr_1', 'output']
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable.add(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs) if _tracing else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


# -- the Tracer --------------------------------------------------------------------------------------------------


class Tracer(TracerBase):
    """Makes a `Graph` of a function or a Module by running it on Proxies.

    Subclasses override `is_leaf_module`, `create_arg`, `call_module`... to trace otherwise.

    Args:
        autowrap_modules: Python modules whose functions are recorded as they are.
        autowrap_functions: functions that are.
        param_shapes_constant: give the shapes of parameters as numbers.

    Example:
        >>> class Whole(gradlib.fx.Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return False
        >>> graph = Whole().trace(nn.Sequential(nn.ReLU()))
        >>> [node.op for node in graph.nodes]
        ['placeholder', 'call_function', 'output']
    """

    _keeps_wrapped = True  # what `wrap` names is recorded as it is

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self.tensor_attrs: dict[Any, str] = {}

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root has no attribute of: `prefix` and a number.

        Args:
            prefix: how it begins.
        """
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """What of a value can stand in the graph; parameters, buffers, tensors and modules become get_attr.

        A tensor that is not part of the root becomes an attribute of it.

        Args:
            a: an argument of a call.

        Raises:
            NameError: a Parameter that is not one of the root's.
        """
        named: Iterable[tuple[str, Any]] = ()
        if isinstance(a, Parameter):
            named = self.root.named_parameters()
        elif isinstance(a, gradlib.Tensor):
            named = self.root.named_buffers()
        elif isinstance(a, Module):
            named = self.root.named_modules()
        for name, value in named:
            if a is value:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, Parameter):
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple(self.create_arg(v) for v in a)
            return self.create_node("call_function", type(a), args, {})
        if isinstance(a, gradlib.Tensor) or type(a) in _proxyable:
            name = self.tensor_attrs.get(id(a))
            if name is None:
                prefix = (
                    "_tensor_constant"
                    if isinstance(a, gradlib.Tensor)
                    else f"_{type(a).__name__}_constant_"
                )
                name = self.tensor_attrs[id(a)] = self.get_fresh_qualname(prefix)
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are recorded as they are: those of gradlib's own modules, but for Sequential.

        Args:
            m: the module.
            module_qualified_name: its dotted name in the root.
        """
        return type(m).__module__.startswith("gradlib.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The dotted name of a module in the root.

        Args:
            mod: a module that is called.

        Raises:
            NameError: it is not in the root.
        """
        paths = self.submodule_paths or {m: n for n, m in self.root.named_modules()}
        if mod not in paths:
            raise NameError("module is not installed as a submodule")
        return paths[mod]

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What the call of a module gives: a Proxy for a leaf, else what its forward gives on Proxies.

        Args:
            m: the module.
            forward: its call.
            args: the arguments by position.
            kwargs: the same by name.
        """
        name = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(name, type(m))):
            calls = self.num_calls.get(name, 0)
            self.num_calls[name] = calls + 1
            key = f"{name}@{calls}" if calls else name
            self.module_stack[key] = (name, type(m))
            if self.is_leaf_module(m, name):
                result = self.create_proxy("call_module", name, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            self.module_stack.pop(key)
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What fetching an attribute of a module gives: a Proxy for a parameter, else the attribute.

        Args:
            attr: its name.
            attr_val: its value.
            parameter_proxy_cache: the Proxies that there are already, by dotted name.
        """
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, gradlib.Tensor):
            named = self.root.named_buffers()
        else:
            return attr_val
        for name, value in named:
            if value is not attr_val:
                continue
            if name not in parameter_proxy_cache:
                parameter_proxy_cache[name] = (
                    self.create_proxy(
                        "get_attr",
                        name,
                        (),
                        {},
                        proxy_factory_fn=lambda node: ParameterProxy(
                            self, node, str(node.target), attr_val
                        ),
                    )
                    if self.param_shapes_constant
                    else self.create_proxy("get_attr", name, (), {})
                )
            return parameter_proxy_cache[name]
        return attr_val

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The placeholders for the arguments of a function.

        Args:
            root_fn: the function.
            is_module: whether its first argument is the root.
            concrete_args: values of arguments that are no placeholders, see `symbolic_trace`.

        Returns:
            The function to call, and what to call it with.
        """
        analysed = inspect.unwrap(root_fn)
        code = analysed.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        if is_module and count == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        names = list(code.co_varnames[is_module:count])
        args: list[Any] = [self.root] if is_module else []
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        signature = inspect.signature(analysed)
        kinds = _annotations(analysed)
        args += [self._placeholder(n, concrete_args or {}, signature, kinds) for n in names]
        if code.co_kwonlyargcount or code.co_flags & _VARIADIC:
            rest = list(code.co_varnames[count:])
            for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
                if code.co_flags & flag:
                    args.append(self._placeholder(stars + rest.pop(0), {}, signature, {}))
            root_fn = _by_position(analysed, len(args))
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        self.graph._codegen = PyTreeCodeGen(PyTreeInfo(list(code.co_varnames[:count]), spec, None))

        def flat(*flat_args: Any) -> list[Any]:
            result = root_fn(*pytree.tree_unflatten(list(flat_args), spec))
            out, out_spec = pytree.tree_flatten(result)
            codegen: Any = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flat, leaves

    def _placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any],
        signature: inspect.Signature,
        kinds: dict[str, Any],
    ) -> Any:
        """A Proxy for an argument, or the structure of Proxies and constants that `concrete_args` says."""
        default: tuple[Any, ...] = ()
        kind = None
        if name[0] != "*":
            parameter = signature.parameters[name]
            if parameter.default is not parameter.empty:
                default = (parameter.default,)
            kind = kinds.get(name)
        if name not in concrete_args:
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        count = 0

        def replace(value: Any) -> Any:
            nonlocal count
            count += 1
            proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                if value is not PH:
                    for key, more in vars(value).items():
                        setattr(proxy.node, key, more)
                return proxy
            if value is None or (
                isinstance(value, base_types) and not isinstance(value, gradlib.Tensor)
            ):
                text = f"{name} has been specialized to have value {value} but got another value"
                if value is None:
                    self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
                else:
                    gradlib._assert(proxy == value, text)
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is "
                    "up to the user to make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            return value

        return pytree.tree_map(replace, concrete_args[name])

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """Run a module or a function on Proxies.

        Args:
            root: what is traced. `self.root` becomes the module, for a function a new one that holds constants.
            concrete_args: see `symbolic_trace`.

        Returns:
            The graph of what it does.

        Raises:
            TraceError: what it does depends on the values of its arguments.
        """
        if isinstance(root, Module):
            assert hasattr(type(root), self.traced_func_name), (
                f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
            )
            function: Any = getattr(type(root), self.traced_func_name)
        else:
            function = root
        assert isinstance(function, FunctionType), f"Expected FunctionType, got {type(function)}"
        is_module = isinstance(root, Module)
        with self._tracing(root if is_module else Module(), function.__globals__):  # type: ignore[arg-type]
            called, args = self.create_args_for_root(function, is_module, concrete_args)
            result = self.create_arg(called(*args))
            kind = _annotations(inspect.unwrap(function)).get("return")
            self.create_node("output", "output", (result,), {}, type_expr=kind)
        return self.graph

    @contextmanager
    def _tracing(self, root: Module, names: dict[str, Any]) -> Iterator[None]:
        """What runs inside, with these globals, goes into a new graph; modules in `root` are found by their names."""
        global _tracing
        self.root = root
        self.root_module_name = root._get_name()
        self.submodule_paths = {m: name for name, m in root.named_modules()}
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {
            id(value): f"{path}.{key}".lstrip(".")
            for path, module in root.named_modules()
            for key, value in vars(module).items()
            if isinstance(value, gradlib.Tensor)
        }
        cache: dict[str, Proxy] = {}
        plain_getattr, plain_call = Module.__getattr__, Module.__call__

        def module_getattr(module: Module, attr: str) -> Any:
            return self.getattr(attr, plain_getattr(module, attr), cache)

        def module_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            where = getattr(getattr(module, "forward", module), "__globals__", {})
            patcher.search(where, self._autowrap_function_ids)
            forward = functools.partial(plain_call, module)
            return self.call_module(module, forward, args, kwargs)

        _tracing += 1
        try:
            with override.for_now(), Patcher() as patcher:
                patcher.attribute(Module, "__getattr__", module_getattr)
                patcher.attribute(Module, "__call__", module_call)
                patcher.update(public.__dict__, gradlib.__dict__)  # what gradlib.nn calls
                for (_, name), space in list(WRAPPED.items()) if self._keeps_wrapped else ():
                    patcher.item(space, name)
                patcher.search(names, self._autowrap_function_ids)
                for searched in self._autowrap_search:
                    patcher.search(vars(searched), self._autowrap_function_ids)
                yield
        finally:
            _tracing -= 1
            self.submodule_paths = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = object.__new__(type(self))
        for key, value in self.__dict__.items():
            vars(made)[key] = (
                copy.copy(value) if key == "_autowrap_search" else copy.deepcopy(value, memo)
            )
        return made


def _annotations(function: Any) -> dict[str, Any]:
    """The annotations of a function; gradlib's own are strings, which are looked up, and Any where anything goes."""
    if not str(function.__module__).startswith("gradlib"):
        return inspect.get_annotations(function)
    space = {**vars(typing), **vars(gradlib), **function.__globals__}
    found = {}
    for name, text in inspect.get_annotations(function).items():
        try:
            kind = eval(text, space) if isinstance(text, str) else text
        except NameError:  # imported for type checkers alone
            continue
        if kind is not Any:
            found[name] = kind
    return found


def _by_position(function: FunctionType, count: int) -> FunctionType:
    """`function` with all of its parameters, also ``*args``, taken by position as they are."""
    code: CodeType = function.__code__.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=function.__code__.co_flags & ~_VARIADIC,
    )
    made = (function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    return FunctionType(code, *made)


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A module that does what `root` does, with the steps of it as a graph that can be read and changed.

    Args:
        root: a Module or a function. What it does may not depend on the values of its arguments.
        concrete_args: values of some of its arguments, by name, that tracing takes as given; where they are
            containers, `PH` in them stands for what remains an argument.

    Returns:
        A `GraphModule`, which shares the parameters of `root`.

    Raises:
        TraceError: what it does depends on the value of an argument.

    Example:
        >>> traced = gradlib.fx.symbolic_trace(lambda x, y: gradlib.relu(x) @ y)
        >>> print(traced.code.strip())
        def forward(self, x, y):
            relu = torch.relu(x);  x = None
            matmul = relu @ y;  relu = y = None
            return matmul
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__  # type: ignore[union-attr]
    return GraphModule(tracer.root, graph, name)


@has_side_effect
def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg
