"""Graph: the steps of a traced function, in order."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ._code import (
    CodeGen,
    PythonCode,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from ._code import PyTreeCodeGen as _PyTreeCodeGen
from ._code import PyTreeInfo as _PyTreeInfo
from ._graph_parts import InsertPoint, NodeList, has, lint
from ._names import Namespace, snake_case
from ._names import Namespace as _Namespace
from .node import OPS, Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = [
    "CodeGen",
    "Graph",
    "PythonCode",
    "_Namespace",
    "_PyTreeCodeGen",
    "_PyTreeInfo",
    "inplace_methods",
    "magic_methods",
    "reflectable_magic_methods",
]


class Graph:
    """The steps of a function, as `Node` objects in the order in which they run.

    A `GraphModule` makes a module of it.

    Args:
        owning_module: the GraphModule that it belongs to.
        tracer_cls: the class of the Tracer that makes it.
        tracer_extras: further arguments of that Tracer, by name.

    Example:
        >>> graph = gradlib.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(gradlib.relu, (x,))
        >>> result = graph.output(y)
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
            return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> GraphModule | None:
        """The GraphModule that it belongs to, or None.

        A GraphModule sets it.
        """
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: GraphModule | None) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> NodeList:
        """The Nodes in order: something to go through, to count, and to give to ``reversed``.

        It shows the graph as it is, also while that changes.
        """
        return NodeList(self)

    def output_node(self) -> Node:
        """The Node that returns; there must be one, and it is the last.

        Example:
            >>> gradlib.fx.symbolic_trace(lambda x: x).graph.output_node().op
            'output'
        """
        node = next(iter(reversed(self.nodes)))
        assert node.op == "output", f"Expected the last node to be an output, got {node.op}"
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """The Nodes of one kind, in order.

        Args:
            op: their `op`.
            target: their `target`; without it all.
            sort: accepted: they are always in order.

        Example:
            >>> graph = gradlib.fx.symbolic_trace(lambda x: x.relu()).graph
            >>> graph.find_nodes(op="call_method", target="relu")
            [relu]
        """
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # -- new Nodes -----------------------------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Make a Node, and put it where the insert point is: at the end, unless `inserting_before` says otherwise.

        Args:
            op: what it is, see `Node`.
            target: what it calls or fetches.
            args: its arguments by position, with Nodes of this graph.
            kwargs: the same by name.
            name: the name of its result; a number is added if it is taken.
            type_expr: an annotation for its result.
        """
        assert op in OPS and op != "root", f"op '{op}' is not one of {OPS[:-1]}"
        free = self._graph_namespace.create_name(name or self._target_to_str(target))
        node = Node(self, free, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate_name_with_obj(free, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else target.__name__
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return snake_case(name)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an argument of the function.

        Args:
            name: its name; ``*args`` and ``**kwargs`` are possible, too.
            type_expr: its annotation.
            default_value: its default; without it there is none.
        """
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add the fetching of a parameter, buffer or module.

        Args:
            qualified_name: its dotted name in the module that the graph belongs to. A warning if it is not there.
            type_expr: an annotation for it.
        """
        owner = self.owning_module
        if owner is not None and not has(owner, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add the call of a module.

        Args:
            module_name: its dotted name in the module that the graph belongs to. A warning if it is not there.
            args: its arguments by position.
            kwargs: the same by name.
            type_expr: an annotation for the result.
        """
        owner = self.owning_module
        if owner is not None and not has(owner, module_name):
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add the call of a method.

        Args:
            method_name: its name.
            args: the object whose method it is, and the arguments.
            kwargs: the arguments by name.
            type_expr: an annotation for the result.
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Add the call of a function.

        Args:
            the_function: the function itself.
            args: its arguments by position.
            kwargs: the same by name.
            type_expr: an annotation for the result.
            name: the name of the result.
        """
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the return of `result`, which ends the graph.

        Args:
            result: a Node, or containers of Nodes and other values.
            type_expr: the annotation of what the function returns.
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """Add a copy of a Node of another graph (or of this one).

        Args:
            node: what is copied, with its `meta`.
            arg_transform: gives for each Node among its arguments the one of this graph.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Add copies of all Nodes of another graph but its output.

        Args:
            g: the other graph.
            val_map: Nodes of `g` -> Nodes of this graph that stand for them; gets all others.
            return_output_node: give the output Node of `g`, too.

        Returns:
            What `g` returns, in Nodes of this graph (None without an output); with `return_output_node` a tuple of
            it and the output Node of `g`.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen = copy.copy(self._codegen)
        result = made.graph_copy(self, {}, return_output_node=True)
        if result is not None:
            values, before = result
            made.output(values, before.type).meta = copy.copy(before.meta)
        return made

    # -- changes -------------------------------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Take a Node out.

        Args:
            to_erase: a Node of this graph that nobody uses.

        Raises:
            RuntimeError: it has users, or belongs to another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._set((), {})

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Let new Nodes go before `n`: within ``with``, or from now on.

        Args:
            n: a Node of this graph; without it they go to the beginning.

        Example:
            >>> traced = gradlib.fx.symbolic_trace(lambda x: x + 1)
            >>> x, add, _ = traced.graph.nodes
            >>> with traced.graph.inserting_before(add):
            ...     add.args = (traced.graph.call_method("relu", (x,)), 1)
            >>> _ = traced.recompile()
            >>> traced(gradlib.tensor([-5.0, 1.0]))
            tensor([1., 2.])
        """
        if n is None:
            return self.inserting_after(self._root)
        assert n.graph is self, "Node to insert before is not in graph."
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Let new Nodes go right after `n`: within ``with``, or from now on.

        Args:
            n: a Node of this graph; without it they go to the end.
        """
        if n is None:
            return self.inserting_before(self._root)
        assert n.graph is self, "Node to insert after is not in graph."
        return InsertPoint(self, n.append)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase the Nodes whose results nobody uses.

        Args:
            is_impure_node: says of a Node whether it must stay; without it `Node.is_impure` does.

        Returns:
            Whether anything was erased.

        Example:
            >>> graph = gradlib.fx.Graph()
            >>> x = graph.placeholder("x")
            >>> unused = graph.call_method("relu", (x,))
            >>> result = graph.output(x)
            >>> graph.eliminate_dead_code(), len(graph.nodes)
            (True, 2)
        """
        self.lint()
        before = self._len
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
        return self._len != before

    def lint(self) -> None:
        """Check that Nodes belong to this graph, come before those who use them, and fetch what is there.

        Raises:
            RuntimeError: one does not; the text names it.
        """
        lint(self)

    # -- texts and code ------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [node.format_node([], None) for node in self.nodes]
        return "\n    ".join(["graph():", *(line for line in lines if line)])

    def print_tabular(self) -> None:
        """Print the Nodes as a table.

        Its columns are their opcode, name, target, args and kwargs.
        """
        head = ("opcode", "name", "target", "args", "kwargs")
        rows = [
            [str(v) for v in (n.op, n.name, n.target, n.args, dict(n.kwargs))] for n in self.nodes
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        for row in (head, ["-" * w for w in widths], *rows):
            print("  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip())

    def python_code(
        self, root_module: str, *, verbose: bool = False, **accepted: Any
    ) -> PythonCode:
        """The graph as the source of a Python function.

        Args:
            root_module: the name under which the function finds the module, usually "self".
            verbose: with comments that say where the steps come from, and shapes where `meta` has them.
            accepted: further settings of PyTorch about how it looks.

        Example:
            >>> code = gradlib.fx.symbolic_trace(lambda x: x + 1).graph.python_code("self")
            >>> print(code.src.strip())
            def forward(self, x):
                add = x + 1;  x = None
                return add
        """
        # the names of Nodes may be taken by globals: those of the code are chosen anew
        namespace = Namespace()
        names = {node: namespace.create_name(node.name, node) for node in self.nodes}
        changed = {node: node.name for node, name in names.items() if name != node.name}
        for node in changed:
            node.name = names[node]
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose
            )
        finally:
            for node, name in changed.items():
                node.name = name

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of the graph, given those of the function.

        They differ where the function takes containers apart.
        """
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the function returns, given what the graph does.

        It differs where the function puts a container together.
        """
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Change how the graph becomes a function.

        Args:
            codegen: what writes the function.
        """
        self._codegen = codegen

    def on_generate_code(
        self,
        make_transformer: Callable[
            [Callable[[list[str]], list[str]] | None], Callable[[list[str]], list[str]]
        ],
    ) -> contextlib.AbstractContextManager[None]:
        """Let a function change the lines of the body whenever code is generated.

        Args:
            make_transformer: gets the function that does so already (or None), and gives the new one, of a list
                of strings.

        Returns:
            A context manager that undoes it at its end.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return undo()
