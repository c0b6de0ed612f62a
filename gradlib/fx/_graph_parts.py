"""Parts of `Graph`: its list of Nodes, its insert point, and its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..nn import Module, Parameter
from .node import OPS, Node

if TYPE_CHECKING:
    from .graph import Graph


class InsertPoint:
    """Where new Nodes go; put back at the end of a ``with``."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.graph._insert = self.before


class NodeList:
    """The Nodes of a graph, in order or, with ``reversed``, backwards. The graph may change meanwhile."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self.graph, self.backwards = graph, backwards

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Any]:
        root = self.graph._root
        node = root
        while True:
            node = node._prev if self.backwards else node._next
            while node._erased:  # it still says where it was
                node = node._prev if self.backwards else node._next
            if node is root:
                return
            yield node

    def __reversed__(self) -> Iterator[Any]:
        return iter(NodeList(self.graph, not self.backwards))


def lint(graph: Graph) -> None:
    """See `Graph.lint`."""
    seen: dict[Node, None] = {}
    names: set[str] = set()
    for node in graph.nodes:
        if node.op not in OPS[:-1]:
            raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        for used in node.all_input_nodes:
            if used.graph is not graph:
                raise RuntimeError(
                    f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an "
                    "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` "
                    f"on node_copy() to remap values\n{graph}"
                )
            if used not in seen:
                raise RuntimeError(
                    f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                    f"Nodes in the graph are topologically ordered\n{graph}"
                )
        seen[node] = None
        if node.name in names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        names.add(node.name)
    if graph.owning_module is not None:
        for node in seen:
            if node.op in ("get_attr", "call_module"):
                _check_target(node, graph.owning_module)


def _check_target(node: Node, value: Any) -> None:
    parts = str(node.target).split(".")
    for i, part in enumerate(parts):
        value, where = getattr(value, part, None), ".".join(parts[:i])
        if value is None:
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {where}"
            )
        if node.op == "call_module" and not isinstance(value, Module):
            raise RuntimeError(
                f"Node {node} target {node.target} {part} of {where} does not reference an nn.Module"
            )


def has(module: Any, name: str) -> bool:
    """Whether a module, parameter or buffer is found under a dotted name."""
    path, _, last = name.rpartition(".")
    try:
        found = module.get_submodule(path)
        value = getattr(found, last)
    except AttributeError:
        return False
    return isinstance(value, Module | Parameter) or last in found._buffers
