"""Node: one step of a `Graph`, and what its arguments are made of."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gradlib

from ..tape.errors import type_name as _type_of
from ._names import qualified_name, type_name
from .immutable_collections import immutable_dict, immutable_list
from .operator_schemas import normalize_function, normalize_module

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any  # Nodes, numbers, strings, dtypes..., and tuples, lists, dicts and slices of them
base_types = (
    str, int, float, bool, complex, gradlib.dtype, gradlib.Tensor, gradlib.device, gradlib.memory_format,
    gradlib.layout,
)  # fmt: skip

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_side_effectful_functions: set[Callable[..., Any]] = {
    operator.setitem,
    gradlib._assert,
    gradlib._assert_async,
}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of `fn` in a graph although nobody uses their results; may be used as a decorator.

    Args:
        fn: a function that does something besides giving a result.

    Returns:
        `fn` itself.

    Example:
        >>> has_side_effect(print) is print
        True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """What `fn` gives for each value in nested tuples, lists, dicts and slices, in the same structure.

    Args:
        a: the structure; dict keys stay.
        fn: a function of each value that is no such container.

    Returns:
        The structure; its lists and dicts cannot be changed.

    Example:
        >>> map_aggregate((1, [2, {"a": 3}]), lambda v: v * 2)
        (2, [4, {'a': 6}])
    """
    if isinstance(a, tuple):
        values = [map_aggregate(v, fn) for v in a]
        return type(a)(*values) if hasattr(a, "_fields") else tuple(values)
    if isinstance(a, list):
        return immutable_list([map_aggregate(v, fn) for v in a])
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(v, fn) for v in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """`map_aggregate` with `fn` of the Nodes alone; other values stay.

    Args:
        a: the arguments of a Node, or a part of them.
        fn: gives what stands in the place of a Node.

    Example:
        >>> map_arg([1, "a"], lambda node: None)
        [1, 'a']
    """
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """An argument as graphs print it: Nodes with a per cent sign."""
    if isinstance(arg, Node):
        return f"%{arg}"
    if isinstance(arg, list | tuple):
        shown = [_format_arg(v) for v in arg[: int(min(len(arg), max_list_len))]]
        rest = f", ...[total_len={len(arg)}]" if len(arg) > max_list_len else ""
        if isinstance(arg, list):
            return f"[{', '.join(shown)}{rest}]"
        return f"({', '.join(shown)}{',' if len(arg) == 1 else ''}{rest})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return str(arg)


class Node:
    """One step of a `Graph`; made by the graph's own methods, such as `Graph.call_function`.

    What `target` is depends on `op`: ``placeholder``: the name of an argument of forward (`args` holds its default, if
    any); ``get_attr``: the dotted name of a parameter, buffer or module; ``call_function``: a function;
    ``call_method``: the name of a method, of the first of `args`; ``call_module``: the dotted name of a module;
    ``output``: "output", and ``args[0]`` is what forward returns.

    Attributes:
        name: the variable of its result, different from that of any other Node of the graph.
        users: the Nodes that use it, as the keys of a dict.
        meta: a dict for whatever passes want to keep with it.
        type: an annotation for its result, or None.

    Raises:
        ValueError: `target` is no function (of call_function) or no string (otherwise).

    Example:
        >>> traced = gradlib.fx.symbolic_trace(lambda x: x.relu() + 1)
        >>> [(node.op, node.name) for node in traced.graph.nodes]
        [('placeholder', 'x'), ('call_method', 'relu'), ('call_function', 'add'), ('output', 'output')]
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        assert op in OPS, f"op '{op}' is not in {OPS}"
        wants = "Callable" if op == "call_function" else "str"
        if not (callable(target) if wants == "Callable" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {_type_of(target)} but a {wants} "
                "is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = immutable_dict()
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._set(args, kwargs)

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Node) -> bool:
        """Whether it comes before another Node of its graph."""
        node = self._next
        while node is not other and node.op != "root":
            node = node._next
        return node is other

    def _set(self, args: Any, kwargs: Any) -> None:
        """Take arguments, and tell the Nodes among the old and the new ones."""
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), use), map_arg(dict(kwargs), use)

    # -- the list of the graph -----------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The Node after this one.

        After the last comes the root of the list, whose `op` is "root".
        """
        return self._next

    @property
    def prev(self) -> Node:
        """The Node before this one.

        Before the first comes the root of the list, whose `op` is "root".
        """
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Move `x`, of the same graph, to the place before this Node.

        Args:
            x: a Node. If it is this one, nothing happens.
        """
        assert self.graph is x.graph, "Attempting to move a Node into a different Graph"
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Move `x`, of the same graph, to the place after this Node.

        Args:
            x: a Node. If it is this one, nothing happens.
        """
        if x is not self:
            self._next.prepend(x)

    # -- arguments -----------------------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments, a tuple that may be replaced.

        Assigning to it keeps `users` of the Nodes concerned up to date.
        """
        return self._args

    @args.setter
    def args(self, values: tuple[Argument, ...]) -> None:
        self._set(values, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name, a dict that may be replaced.

        Assigning to it keeps `users` of the Nodes concerned up to date.
        """
        return self._kwargs

    @kwargs.setter
    def kwargs(self, values: dict[str, Argument]) -> None:
        self._set(self._args, values)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The Nodes among the arguments, each once.

        Those of `args` come before those of `kwargs`.
        """
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument.

        Args:
            idx: its place.
            arg: the new value.
        """
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put a positional argument before that at `idx`.

        Args:
            idx: between 0 and the number of arguments.
            arg: the new value.
        """
        assert 0 <= idx <= len(self.args), "insert_args index must be between 0 and len(self.args)"
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set one argument by name.

        Args:
            key: the name.
            arg: the new value.
        """
        self.kwargs = {**self.kwargs, key: arg}

    # -- uses ----------------------------------------------------------------------------------------------------

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let those who use this Node use another one.

        Args:
            replace_with: the other Node, of the same graph.
            delete_user_cb: says of a user whether it takes part; without it all do.
            propagate_meta: also copy `meta`, to a Node that has none.

        Returns:
            The Nodes that were changed.

        Raises:
            AssertionError: `propagate_meta`, and `replace_with` has meta already.
        """
        if propagate_meta:
            assert not replace_with.meta, (
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has "
                ".meta keys"
            )
            replace_with.meta.update(self.meta)
        chosen = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        for user in chosen:
            user.replace_input_with(self, replace_with)
        return chosen

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put one Node in the place of another everywhere among the arguments.

        Args:
            old_input: the Node that goes.
            new_input: the Node that comes.
        """

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it must stay although nobody uses its result.

        Inputs and outputs, what `has_side_effect` names, modules with a true attribute `_is_impure`, and whatever
        writes into a tensor: functions and methods whose names end in an underscore, ``out=``, ``inplace=True``.

        Args:
            impure_random: accepted; random functions may go, as in PyTorch.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            module = self.graph.owning_module
            assert module is not None, "self.graph.owning_module not set for purity check"
            target = module.get_submodule(str(self.target))
            return bool(getattr(target, "_is_impure", False) or getattr(target, "inplace", False))
        if self.op not in ("call_function", "call_method"):
            return False
        name = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "")
        writes = (
            name.endswith("_")
            and not name.endswith("__")
            and name not in ("and_", "or_", "not_", "is_")
        )
        in_place_operator = (
            getattr(self.target, "__module__", "") == "_operator" and name in _IN_PLACE
        )
        return (
            self.target in _side_effectful_functions
            or writes
            or in_place_operator
            or name in ("__setitem__", "backward")
            or self.kwargs.get("inplace") is True
            or self.kwargs.get("out") is not None
            or bool(getattr(self.target, "_is_mutable", False))
        )

    # -- texts ---------------------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the program made it, innermost last.

        It is there if the Tracer had `record_stack_traces`.
        """
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        if isinstance(target, str):
            return target
        prefix = {"builtins": "builtins", "_operator": "operator"}.get(
            getattr(target, "__module__", None) or ""
        )
        return f"{prefix}.{target.__name__}" if prefix else qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The line of this Node in ``print(graph)``.

        Args:
            placeholder_names: a list to which the text of a placeholder is added (then None is returned).
            maybe_return_typename: a list whose entry becomes the type that an output is annotated with.
            include_tensor_metadata: accepted; the line stays the same.

        Example:
            >>> traced = gradlib.fx.symbolic_trace(lambda x: x + 1)
            >>> print(list(traced.graph.nodes)[1].format_node())
            %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})
        """
        kind = f"{type_name(self.type)} " if self.type is not None else ""
        if self.op == "output":
            if kind and maybe_return_typename:
                maybe_return_typename[0] = f" -> {kind[:-1]}"
            return f"return {self.args[0]}"
        start = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target="
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(
                    f"{self.target}: {kind[:-1]}" if kind else str(self.target)
                )
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{start}{self.target}]{default}"
        start += f"{self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return start
        return f"{start}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def normalized_arguments(
        self,
        root: Any,
        arg_types: Any = None,
        kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """(args, kwargs) as the signature of the target has them, defaults filled in; None where there is none.

        See `gradlib.fx.operator_schemas`, which does it.

        Args:
            root: the module in which the targets of call_module are found.
            arg_types: accepted: gradlib's functions have one signature each.
            kwarg_types: accepted, too.
            normalize_to_only_use_kwargs: give all by name.
        """
        if self.op == "call_function":
            target: Any = self.target
            return normalize_function(
                target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return normalize_module(
                root, str(self.target), self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None


# operator.iadd and its like
_IN_PLACE = frozenset(
    "iadd iand ifloordiv ilshift imod imul imatmul ior ipow irshift isub itruediv ixor setitem delitem".split()
)
