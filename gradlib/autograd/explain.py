"""Answers to two questions about a recorded graph: why has a tensor no gradient, and what is kept in memory?

Both only walk the graph: the source line of each node, which they show, is always recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..tape import saved, source
from ..tape.device import stored as _stored
from ..tape.memory import kept
from ..tape.node import AccumulateGrad, Node, edge
from ..tape.tensor import Tensor

__all__ = ["SavedBytes", "explain", "saved_report"]


def nodes_from(root: Node) -> Iterator[tuple[Node, Node | None]]:
    """Every node reached from `root` with the node it was first reached from, nearest first."""
    seen = {root}
    queue: list[tuple[Node, Node | None]] = [(root, None)]
    for node, user in queue:  # the queue grows while it is walked
        yield node, user
        for target in node.targets():
            if target is not None and target not in seen:
                seen.add(target)
                queue.append((target, node))


def explain(output: Tensor, tensor: Tensor) -> str:
    """Why ``output.backward()`` gives `tensor` a gradient, or why it does not, in words and source lines.

    Args:
        output: the tensor to differentiate, usually a loss.
        tensor: the tensor whose gradient is asked for, usually a parameter.

    Returns:
        The path of operations from `output` to `tensor` if there is one; else the first reason found why there is none:
        `requires_grad` is off, nothing was recorded, `tensor` was detached (and where), or `output` does not use it.

    Example:
        >>> w = gradlib.ones(2, requires_grad=True)
        >>> loss = (w.detach() * gradlib.ones(2, requires_grad=True)).sum()
        >>> print(gradlib.autograd.explain(loss, w))  # doctest: +ELLIPSIS
        no gradient: MulBackward0 uses the memory of this tensor, but detached from its graph by detach() at ...
          used at ...
    """
    if not tensor.requires_grad:
        return "no gradient: this tensor has requires_grad=False. Set requires_grad_() before it is used."
    if not output.requires_grad:
        return (
            "no gradient: the output does not require grad: nothing was recorded on the way to it. It was computed "
            "under no_grad or inference_mode, from detached tensors, or by an operation without a derivative."
        )
    root = edge(output)[0]
    assert root is not None
    return explain_from(root, tensor)


def explain_from(root: Node, tensor: Tensor) -> str:
    """What `explain` says of a tensor that requires grad, by the node that made the output."""
    goal = edge(tensor)[0]
    users = dict(nodes_from(root))
    if goal in users:
        return _path(users, goal, tensor)
    for node in users:
        for name in saved.saved_names(node):
            cut = _cut(node, name, tensor)
            if cut is not None:
                return cut
    return (
        "no gradient: no recorded operation leads from the output to this tensor. It was not used, it was used under "
        f"no_grad, or only a copy outside the graph was. The output was made at {source.describe(root.site)}"
    )


def _path(users: dict, goal: Node, tensor: Tensor) -> str:
    """The operations from the output to the tensor, the output's first."""
    steps, node = [], goal
    while node is not None:
        steps.append(node)
        node = users[node]
    lines = ["gradient: it flows to this tensor through"]
    lines += [
        f"  {step.name()}  {source.describe(step.site)}"
        for step in reversed(steps)
        if step.site is not None
    ]
    if tensor.is_leaf:
        lines.append("  and is accumulated in .grad")
    elif not tensor.retains_grad:
        lines.append(
            "  but .grad stays None: this is not a leaf. Call retain_grad() on it, or use autograd.grad."
        )
    return "\n".join(lines)


def _cut(node: Node, name: str, tensor: Tensor) -> str | None:
    """Whether `node` saved an alias of `tensor` that is cut off from its graph."""
    value = getattr(node, "s_" + name, None)
    if not isinstance(value, Tensor) or value.requires_grad or value is tensor:
        return None
    if not np.may_share_memory(_stored(value._array), _stored(tensor._array)):
        return None
    where = value._detached
    by = f"detach() at {source.describe(where)}" if isinstance(where, tuple) else ".data or no_grad"
    return (
        f"no gradient: {node.name()} uses the memory of this tensor, but detached from its graph by {by}\n"
        f"  used at {source.describe(node.site)}"
    )


class SavedBytes(NamedTuple):
    """What one source line keeps for backward: an entry of `saved_report`.

    Attributes:
        line: "file:line, in function".
        bytes: how much is kept.
        tensors: in how many tensors.
        nodes: the names of the nodes that keep them.

    Example:
        >>> [row] = gradlib.autograd.saved_report(x.exp().sum())
        >>> row.bytes, row.nodes
        (48, ('ExpBackward0',))
    """

    line: str
    bytes: int
    tensors: int
    nodes: tuple[str, ...]


def saved_report(output: Tensor) -> list[SavedBytes]:
    """What the graph of `output` keeps in memory for backward, by source line, the largest first.

    A buffer saved by several operations counts once, for the first that saved it; leaves (parameters, inputs) do not
    count, since they live anyway. So the figures are what offloading or checkpointing that line would free.

    Returns:
        A list of SavedBytes, each with `line` ("file:line, in function"), `bytes`, `tensors` and `nodes`.

    Example:
        >>> w = gradlib.ones(1000, requires_grad=True)
        >>> (row,) = gradlib.autograd.saved_report(w.exp().sum())
        >>> row.bytes, row.nodes
        (4000, ('ExpBackward0',))
    """
    root = edge(output)[0]
    if root is None:
        return []
    seen: set[int] = set()
    rows: dict[str, list] = {}
    for node in sorted((n for n, _ in nodes_from(root)), key=lambda n: n.seq):
        if isinstance(node, AccumulateGrad):
            continue
        for array in kept(node):
            base = array if array.base is None or not hasattr(array.base, "strides") else array.base
            if id(base) in seen:
                continue
            seen.add(id(base))
            line = source.describe(node.site).split("\n", 1)[0]
            row = rows.setdefault(line, [0, 0, []])
            row[0] += array.nbytes
            row[1] += 1
            if node.name() not in row[2]:
                row[2].append(node.name())
    found = [SavedBytes(line, n, count, tuple(names)) for line, (n, count, names) in rows.items()]
    return sorted(found, key=lambda row: -row.bytes)
