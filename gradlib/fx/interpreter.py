"""Interpreter: runs a graph Node by Node. Transformer: makes another graph that way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..nn import Module
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph Node by Node; subclasses override what is done with Nodes of one kind.

    Args:
        module: whose graph it is, and where parameters and modules are found.
        garbage_collect_values: let values go after their last use.
        graph: another graph to run instead of the module's own.

    Attributes:
        env: Node -> its value, while it is needed.

    Example:
        >>> class Sines(gradlib.fx.Interpreter):
        ...     def call_method(self, target, args, kwargs):
        ...         return super().call_method("sin" if target == "cos" else target, args, kwargs)
        >>> traced = gradlib.fx.symbolic_trace(lambda x: x.cos() + 1)
        >>> Sines(traced).run(gradlib.zeros(2))
        tensor([1., 1.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.graph: Graph = module.graph if graph is None else graph  # type: ignore[assignment]
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph.

        Args:
            args: the arguments of the graph, in order.
            initial_env: values of Nodes that are not run.
            enable_io_processing: take containers apart, and put them together, as the module does.

        Returns:
            What the graph returns.

        Raises:
            Exception: what a Node raised; the Node is added to the text.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    text = f"While executing {node.format_node()}"
                    text = f"{error.args[0]}\n\n{text}" if error.args else text
                    error.args = (text, *error.args[1:])
                raise
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on the arguments in a list, which is emptied.

        Args:
            args_list: the arguments of the graph, in order.
        """
        args = list(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def run_node(self, n: Node) -> Any:
        """The value of a Node, whose arguments have theirs.

        Args:
            n: the Node.
        """
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The next argument of the graph; without it the default.

        Args:
            target: the name of the argument.
            args: its default, if it has one.
            kwargs: nothing.

        Raises:
            RuntimeError: there is neither.
        """
        if isinstance(target, str) and target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(
            f"Expected positional argument for parameter {target}, but one was not passed in!"
        )

    def get_attr(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A parameter, buffer or module.

        Args:
            target: its dotted name.
            args: nothing.
            kwargs: nothing.
        """
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a function gives.

        Args:
            target: the function.
            args: its arguments.
            kwargs: the same by name.
        """
        assert callable(target)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a method gives.

        Args:
            target: its name.
            args: the object, and the arguments.
            kwargs: the arguments by name.
        """
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a module gives.

        Args:
            target: its dotted name.
            args: its arguments.
            kwargs: the same by name.
        """
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the graph returns.

        Args:
            target: "output".
            args: the value.
            kwargs: nothing.
        """
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What the module has under a dotted name.

        Args:
            target: the name.

        Raises:
            RuntimeError: there is nothing.
        """
        value: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(value, part):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(parts[:i])}; Full target: {target}"
                )
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a Node, with values in the place of Nodes.

        Args:
            n: the Node.
        """
        args, kwargs = self.map_nodes_to_values((n.args, n.kwargs), n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """`args` with values in the place of Nodes.

        Args:
            args: containers of Nodes and other values.
            n: whose arguments they are.

        Raises:
            RuntimeError: a Node has no value yet.
        """

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        # what runs gets lists and dicts that it may change
        return _plain(map_arg(args, value))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        values = [_plain(v) for v in value]
        return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
    if type(value).__name__ == "immutable_list":
        return [_plain(v) for v in value]
    if type(value).__name__ == "immutable_dict":
        return {k: _plain(v) for k, v in value.items()}
    return value


class Transformer(Interpreter):
    """Makes another graph of a graph: overridden methods say what becomes of Nodes of one kind, on Proxies.

    Args:
        module: the GraphModule whose graph is transformed.

    Example:
        >>> class Sines(gradlib.fx.Transformer):
        ...     def call_method(self, target, args, kwargs):
        ...         return super().call_method("sin" if target == "cos" else target, args, kwargs)
        >>> made = Sines(gradlib.fx.symbolic_trace(lambda x: x.cos() + 1)).transform()
        >>> made(gradlib.zeros(2))
        tensor([1., 1.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        """The same placeholder in the new graph.

        Args:
            target: the name of the argument.
            args: its default, if it has one.
            kwargs: nothing.
        """
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        """The same fetching in the new graph.

        Args:
            target: the dotted name.
            args: nothing.
            kwargs: nothing.
        """
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The same call in the new graph.

        Args:
            target: the dotted name of the module.
            args: its arguments, as Proxies.
            kwargs: the same by name.
        """
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The same call in the new graph.

        Args:
            target: the function.
            args: its arguments, as Proxies.
            kwargs: the same by name.
        """
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run the graph on Proxies, and give the module of the new graph.

        It shares the parameters of the old one.
        """
        self.extra_traceback = False
        result = super().run(enable_io_processing=False)
        if result is not None:

            def node_of(value: Any) -> Any:
                return value.node if isinstance(value, Proxy) else value

            made = self.new_graph.output(map_aggregate(result, node_of))
            made.type = self.graph.output_node().type
        assert isinstance(self.module, GraphModule)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)


class _TransformerTracer(Tracer):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True
