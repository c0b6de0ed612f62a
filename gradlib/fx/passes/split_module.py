"""A traced module split into several, which a new module calls one after the other."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg

__all__ = ["split_module"]


@dataclass
class _Part:
    """One of the new modules while it is made."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)  # names of the parts whose results it takes

    @property
    def submod_name(self) -> str:
        return "submod_" + "".join(c if c.isalnum() else "_" for c in self.name)


_OUTER = ("placeholder", "get_attr", "output")


def _parts(
    graph: Graph, split_callback: Callable[[Node], Any]
) -> tuple[dict[str, _Part], dict[Node, _Part]]:
    """The parts by name, and the part of each Node; what goes in and out of each."""
    parts: dict[str, _Part] = {}
    of: dict[Node, _Part] = {}
    for node in graph.nodes:
        if node.op not in _OUTER:
            name = str(split_callback(node))
            of[node] = parts.setdefault(name, _Part(name))
            of[node].nodes.append(node)
    for node in graph.nodes:
        there = of.get(node)
        if node.op in ("placeholder", "get_attr"):
            continue
        for used in node.all_input_nodes:
            origin = of.get(used)
            if origin is there:
                continue
            if origin is not None:
                origin.outputs.setdefault(used)
            if there is not None:
                there.inputs.setdefault(used)
                if origin is not None:
                    there.needs.add(origin.name)
    return parts, of


def _in_order(parts: dict[str, _Part]) -> list[_Part]:
    """The parts so that each comes after those that it needs."""
    done: dict[str, _Part] = {}
    while len(done) < len(parts):
        ready = [p for p in parts.values() if p.name not in done and p.needs <= done.keys()]
        if not ready:
            raise RuntimeError("cycle exists between partitions!")
        done[ready[0].name] = ready[0]
    return list(done.values())


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
) -> GraphModule:
    """A module that calls one module (``submod_...``) for each group of steps of a traced one.

    Args:
        m: the traced module.
        root_m: where parameters and modules are found.
        split_callback: says for each Node to which group it belongs: anything that ``str`` gives a name of.
        qualname_map: gets the new dotted name -> the old one of each called module.
        keep_original_order: accepted: groups stand in the order of their first steps as far as their needs allow.
        keep_original_node_name: accepted: Nodes keep their names.
        keep_original_input_name: accepted, too.

    Returns:
        The new module; the parameters are shared.

    Raises:
        RuntimeError: two groups need results of each other.

    Example:
        >>> traced = gradlib.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
        >>> parts = split_module(traced, traced, lambda node: node.target)
        >>> [name for name, _ in parts.named_children()]
        ['submod_0', 'submod_1']
    """
    parts, _ = _parts(m.graph, split_callback)
    base, found = Graph(), {}  # Node of m -> Node of the new graph
    attributes: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            found[node] = base.node_copy(node, lambda n: found[n])
            if node.op == "get_attr":
                attributes[str(node.target)] = _fetch(root_m, str(node.target))
    for part in _in_order(parts):
        inner, inside = Graph(), {}
        for used in part.inputs:
            inside[used] = inner.placeholder(used.name, used.type)
            inside[used].meta = dict(used.meta)
        targets: dict[str, Any] = {}
        for node in part.nodes:
            inside[node] = inner.node_copy(node, lambda n: inside[n])  # noqa: B023
            if node.op == "call_module":
                name = str(node.target)
                flat = name.replace(".", "_")
                targets[flat] = _fetch(root_m, name)
                inside[node].target = flat
                if qualname_map is not None:
                    qualname_map[f"{part.submod_name}.{flat}"] = name
        results = tuple(inside[n] for n in part.outputs)
        inner.output(results[0] if len(results) == 1 else results)
        attributes[part.submod_name] = GraphModule(targets, inner, part.submod_name)
        call = base.call_module(part.submod_name, tuple(found[n] for n in part.inputs))
        for i, node in enumerate(part.outputs):
            found[node] = (
                call if len(results) == 1 else base.call_function(operator.getitem, (call, i))
            )
    last = m.graph.output_node()
    base.output(map_arg(last.args[0], lambda n: found[n])).meta = dict(last.meta)
    made = GraphModule(attributes, base, type(m).__name__)
    made.train(m.training)
    return made


def _fetch(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part)
    return module
