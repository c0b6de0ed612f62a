"""Replacing of one group of steps by another wherever it is found in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gradlib

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr
from .node import Node

__all__ = [
    "InternalMatch",
    "Match",
    "ReplacedPatterns",
    "replace_pattern",
    "replace_pattern_with_filters",
]


class Match(NamedTuple):
    """A place at which a pattern was found: what `replace_pattern` gives.

    `anchor` is the Node of the graph that ends it, `nodes_map` says which Node of the graph each of the pattern is.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place at which a pattern was replaced: what `replace_pattern_with_filters` gives.

    Attributes:
        anchor: the Node of the graph that ended the pattern.
        nodes_map: Node of the pattern -> Node of the graph.
        replacements: the Nodes that came.
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


@dataclass
class InternalMatch:
    """A place at which a pattern was found, as filters see it.

    Attributes:
        anchors: the Nodes of the graph that end it.
        nodes_map: Node of the pattern -> Node of the graph.
        placeholder_nodes: what stands in the graph for each argument of the pattern.
        returning_nodes: the Nodes of the graph for what the pattern returns.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)


def _graph_of(program: Any) -> Graph:
    if isinstance(program, Graph):
        return program
    return (program if isinstance(program, GraphModule) else symbolic_trace(program)).graph


class _Matcher:
    """Finds a pattern in a graph: from what it returns, upwards."""

    def __init__(self, pattern: Graph, ignore_literals: bool) -> None:
        self.ignore_literals = ignore_literals
        self.inputs = pattern.find_nodes(op="placeholder")
        self.returned = pattern.output_node().all_input_nodes
        # those that nothing else of the pattern uses
        self.anchors = [n for n in self.returned if len(n.users) == 1]

    def find(self, graph: Graph) -> Iterator[InternalMatch]:
        """The matches, in order; each Node of the graph is part of one at most."""
        taken: set[Node] = set()
        for found in self._from(graph, 0, {}):
            inside = {n for p, n in found.items() if p.op != "placeholder"}
            if taken & inside or not self._is_closed(found, inside):
                continue
            taken |= inside
            yield InternalMatch(
                anchors=[found[a] for a in self.anchors],
                nodes_map=found,
                placeholder_nodes=[found.get(p) for p in self.inputs],
                returning_nodes=[found[p] for p in self.returned],
            )

    def _from(self, graph: Graph, index: int, found: dict[Node, Any]) -> Iterator[dict[Node, Any]]:
        """The ways to give the anchors from `index` on a Node each."""
        if index == len(self.anchors):
            yield found
            return
        for node in graph.nodes:
            tried = dict(found)
            if node.op not in ("placeholder", "output") and self._match(
                self.anchors[index], node, tried
            ):
                yield from self._from(graph, index + 1, tried)

    def _is_closed(self, found: dict[Node, Any], inside: set[Node]) -> bool:
        """Whether nothing outside needs an inner value, or lies between the first and the last step."""
        returned = {found[p] for p in self.returned}
        if any(u not in inside for n in inside - returned for u in n.users):
            return False
        below: set[Node] = set()
        waiting = [u for n in inside for u in n.users if u not in inside]
        while waiting:
            node = waiting.pop()
            if node in inside:
                return False
            if node not in below:
                below.add(node)
                waiting.extend(node.users)
        return True

    def _match(self, wanted: Any, node: Any, found: dict[Node, Any]) -> bool:
        """Whether a value of the graph is what the pattern wants; `found` then says what each Node is."""
        if isinstance(wanted, Node):
            if wanted in found:
                known = found[wanted]
                return known is node if isinstance(node, Node) else _same(known, node)
            if wanted.op == "placeholder":
                found[wanted] = node
                return True
            if not isinstance(node, Node) or not self._same_step(wanted, node):
                return False
            if any(node is n for p, n in found.items() if p.op != "placeholder"):
                return False
            found[wanted] = node
            return (
                list(wanted.kwargs) == list(node.kwargs)
                and self._all_match(wanted.args, node.args, found)
                and self._all_match(
                    tuple(wanted.kwargs.values()), tuple(node.kwargs.values()), found
                )
            )
        if isinstance(wanted, list | tuple) and isinstance(node, list | tuple):
            return self._all_match(wanted, node, found)
        if isinstance(node, Node):
            return False
        return self.ignore_literals or _same(wanted, node)

    def _all_match(self, wanted: Any, values: Any, found: dict[Node, Any]) -> bool:
        return len(wanted) == len(values) and all(
            self._match(w, v, found) for w, v in zip(wanted, values, strict=True)
        )

    @staticmethod
    def _same_step(wanted: Node, node: Node) -> bool:
        if wanted.op != node.op:
            return False
        if wanted.op != "get_attr":
            return wanted.target == node.target
        values = []
        for n in (wanted, node):  # tensors, whatever their values
            value: Any = n.graph.owning_module
            for part in str(n.target).split("."):
                value = getattr(value, part)
            values.append(value)
        return type(values[0]) is type(values[1]) and isinstance(values[0], gradlib.Tensor)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace a group of steps wherever it is in a graph.

    A match does not overlap with another one, and nothing outside uses a value inside it but what it returns.

    Args:
        gm: the GraphModule that is changed.
        pattern: a function, GraphModule or Graph whose steps are looked for. Its arguments stand for any value.
        replacement: the same for what comes in their place; it has as many arguments.

    Returns:
        The places at which it was found.

    Example:
        >>> traced = gradlib.fx.symbolic_trace(lambda x: gradlib.relu(x) + gradlib.relu(-x))
        >>> found = gradlib.fx.replace_pattern(traced, lambda a: gradlib.relu(a), lambda a: a.clamp(min=0))
        >>> len(found), traced(gradlib.tensor([-2.0, 3.0]))
        (2, tensor([2., 3.]))
    """
    done = _replace(gm, pattern, replacement, [], False, None)
    return [Match(anchor=d.anchor, nodes_map=d.nodes_map) for d in done]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` where filters agree.

    Args:
        gm: the GraphModule that is changed.
        pattern: what is looked for.
        replacement: what comes in its place.
        match_filters: functions of a match, the graph and the graph of the pattern; all must say yes.
        ignore_literals: let numbers and other constants differ.
        replacement_callback: makes the graph that comes in the place of a match, instead of `replacement`.
        node_name_match: not supported.

    Returns:
        The places at which it was replaced.

    Raises:
        NotImplementedError: `node_name_match` is given.
    """
    if node_name_match:
        raise NotImplementedError(
            "replace_pattern_with_filters: node_name_match is not supported; write a filter that looks at "
            "match.anchors[0].name"
        )
    return _replace(
        gm, pattern, replacement, match_filters or [], ignore_literals, replacement_callback
    )


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    filters: list[Callable[[InternalMatch, Graph, Graph], bool]],
    ignore_literals: bool,
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None,
) -> list[ReplacedPatterns]:
    graph, wanted = gm.graph, _graph_of(pattern)
    common = None if callback is not None else _graph_of(replacement)
    matches = [
        m
        for m in _Matcher(wanted, ignore_literals).find(graph)
        if all(f(m, graph, wanted) for f in filters)
    ]
    now: dict[Node, Node] = {}  # a Node that was replaced -> what came
    done = []
    for match in matches:
        new = callback(match, graph, wanted) if callback is not None else common
        assert new is not None
        match.nodes_map = {p: now.get(n, n) if p.op == "placeholder" and isinstance(n, Node) else n
                           for p, n in match.nodes_map.items()}  # fmt: skip
        given = [match.nodes_map.get(p) for p in wanted.find_nodes(op="placeholder")]
        inputs = new.find_nodes(op="placeholder")
        assert len(given) == len(inputs), (
            f"Placeholder count mismatch: {len(given)} vs {len(inputs)}"
        )
        values: dict[Node, Any] = dict(zip(inputs, given, strict=True))
        users = {u for n in match.returning_nodes for u in n.users}
        with graph.inserting_before(_first(graph, users, match.returning_nodes)):
            made = graph.graph_copy(new, values)
        results = [made] if isinstance(made, Node) else list(made)
        assert len(results) == len(match.returning_nodes), (
            f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}"
        )
        came = [v for p, v in values.items() if p.op != "placeholder"]
        for old, result in zip(match.returning_nodes, results, strict=True):
            old.replace_all_uses_with(result)
            now[old] = result
        for node in reversed(wanted.nodes):
            if node.op not in ("placeholder", "output"):
                graph.erase_node(match.nodes_map[node])
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, came))
    gm.recompile()
    if isinstance(replacement, Module):
        _bring_attributes(gm, replacement)
    return done


def _first(graph: Graph, users: set[Node], returned: list[Node]) -> Node:
    """Where the replacement goes: before the first user; without any after the last step."""
    if users:
        return next(n for n in graph.nodes if n in users)
    return max(returned, key=list(graph.nodes).index).next


def _bring_attributes(gm: GraphModule, replacement: Module) -> None:
    """Give `gm` what its new Nodes fetch from the module of the replacement."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        for owner in (gm, replacement):
            value: Any = owner
            for part in target.split("."):
                value = getattr(value, part, None)
            if value is not None:
                if owner is replacement:
                    _assign_attr(value, gm, target)
                break
        else:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
    gm.graph.lint()
