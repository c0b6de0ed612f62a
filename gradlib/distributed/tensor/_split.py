"""How an op is split over the ranks: its dimensions get labels, and a label may be cut.

A rule (`_rules`, `_rules_shape`) gives each dimension of the tensors that go in and come out a label, as einsum does:
in ``matmul`` they are ``mk,kn->mn``. Along each dimension of the mesh the ranks then have one of three ways to share
the work:

- one label is cut: tensors that have it are sharded there, the others replicated. A result without the label is a sum
  (`Partial`), where the rule says that it is one.
- some tensors are terms of sums, and the result is one, too: linear ops alone.
- nothing is shared: all is replicated.

The cheapest is taken, by the bytes that have to be moved. A replicated tensor of which each rank uses a part gets the
sum of the gradients of the ranks (`Used`); so the gradient of a sharded tensor is sharded, and all others are
replicated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._layout import Layout, part, sharding_order
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

Label = Any  # whatever is equal and hashable; None is a dimension that is never cut
REPLICATE = Replicate()


class Arg:
    """A DTensor among the arguments of an op, as a rule sees it."""

    def __init__(self, layout: Layout, dtype: Any, needs_grad: bool) -> None:
        self.layout, self.dtype, self.needs_grad = layout, dtype, needs_grad
        self.labels: tuple[Label, ...] = (None,) * len(layout.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.layout.shape)

    def dim(self, dim: int) -> int:
        """A dimension, counted from the start."""
        if not -max(self.ndim, 1) <= dim < max(self.ndim, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(self.ndim, 1)}, "
                f"{max(self.ndim, 1) - 1}], but got {dim})"
            )
        return dim % self.ndim if self.ndim else 0


class Split:
    """What a rule says of an op.

    Args:
        outputs: for each tensor that comes out its labels and the shape of the whole.
        sums: labels over which the op sums; cut, they make the result Partial.
        reduce: by what, if not by a sum.
        linear: for each way in which a Partial may go through, the tensors that go in which are then Partial.
        added: tensors that go in that are added to the result: a part of it where that is a sum.
        fixed: labels that are not cut.
        even: labels that are cut only into a number of parts that divides what stands here.
        local: ``local(args, kwargs, cut)`` gives the arguments for this rank's part; `cut` is a `Cut`.
        calls: what is called with them, if not the op itself.
    """

    def __init__(
        self,
        *outputs: tuple[Sequence[Label], Sequence[int]],
        sums: Iterable[Label] = (),
        reduce: str = "sum",
        linear: Iterable[Iterable[Arg]] = (),
        added: Iterable[Arg] = (),
        fixed: Iterable[Label] = (),
        even: dict[Label, int] | None = None,
        local: Callable[..., tuple] | None = None,
        calls: Callable[..., Any] | None = None,
    ) -> None:
        self.outputs = [(tuple(labels), tuple(shape)) for labels, shape in outputs]
        self.sums, self.fixed, self.even = set(sums), {*fixed, None}, even or {}
        self.reduce, self.linear, self.added = reduce, [set(way) for way in linear], list(added)
        self.local, self.calls = local, calls


class Cut:
    """Which labels are cut by which dimensions of the mesh, and what part of them this rank has."""

    def __init__(self, mesh: Any, lengths: dict[Label, int]) -> None:
        self.mesh, self.lengths = mesh, lengths
        self.by: dict[Label, list[tuple[int, Placement]]] = {}

    def part(self, label: Label) -> tuple[int, int]:
        """From where to where this rank's part of a label goes; all of it if it is not cut."""
        begin, end = 0, self.lengths[label]
        ways = self.by.get(label, [])
        for k in sharding_order(tuple([placement for _, placement in ways])):
            i = ways[k][0]
            low, high = part(end - begin, self.mesh.size(i), self.mesh.get_local_rank(i))
            begin, end = begin + low, begin + high
        return begin, end

    def length(self, label: Label, otherwise: int) -> int:
        """The length of this rank's part of a label; `otherwise` for what is no label of a tensor that went in."""
        if label not in self.lengths:
            return otherwise
        begin, end = self.part(label)
        return end - begin


class Choice:
    """How the tensors of an op are placed along one dimension of the mesh."""

    def __init__(self, inputs: list[Placement], outputs: list[Placement], label: Label = None):
        self.inputs, self.outputs, self.label = inputs, outputs, label

    @property
    def shared(self) -> bool:
        """Whether each rank does a part of the work."""
        return self.label is not None or any(p.is_partial() for p in self.outputs)


def choose(args: list[Arg], split: Split, mesh: Any, in_place: bool) -> tuple[list[Choice], Cut]:
    """The cheapest way for each dimension of the mesh.

    Args:
        args: the tensors that go in.
        split: what the rule says.
        mesh: that of the tensors.
        in_place: the first tensor that goes in is also what comes out: it stays placed as it is.

    Raises:
        RuntimeError: no way is left for an op in place.
    """
    lengths = {k: n for arg in args for k, n in zip(arg.labels, arg.shape) if k is not None}
    cut, found = Cut(mesh, lengths), []
    for i in range(mesh.ndim):
        ways = list(_ways(args, split, i, mesh, cut))
        if in_place:
            here = args[0].layout.placements[i]
            ways = [w for w in ways if w.inputs[0] == here and w.outputs[0] == here]
        if not ways:
            raise RuntimeError(
                f"in-place operations that require placement changes are not supported: the DTensor is placed as "
                f"{args[0].layout.placements}; redistribute it first, or use the op that is not in place"
            )
        way = min(ways, key=lambda way: _cost(args, way, i, mesh.size(i)))
        found.append(way)
        if way.label is not None:
            placement = next(p for p in (*way.inputs, *way.outputs) if p.is_shard())
            cut.by.setdefault(way.label, []).append((i, placement))
    return found, cut


def _ways(args: list[Arg], split: Split, i: int, mesh: Any, cut: Cut) -> Iterable[Choice]:
    """The ways to share the work along mesh dimension `i` that some tensor suggests by how it is placed, and none."""
    seen = set()
    for arg in args:
        placement = arg.layout.placements[i]
        if not isinstance(placement, Shard):
            continue
        label = arg.labels[placement.dim]
        key = label, getattr(placement, "split_factor", None)
        if label in split.fixed or key in seen:
            continue
        seen.add(key)
        times = mesh.size(i) * math.prod(mesh.size(j) for j, _ in cut.by.get(label, []))
        if label in split.even and split.even[label] % times:
            continue
        way = _by_label(args, split, label, placement)
        if way is not None:
            yield way
    here = [arg.layout.placements[i] for arg in args]
    kind = next((p for p in here if isinstance(p, Partial)), None)
    if kind is not None and (kind.reduce_op in ("sum", "avg") or kind.reduce_op == split.reduce):
        for linear in split.linear:
            inputs: list[Placement] = [kind if arg in linear else REPLICATE for arg in args]
            yield Choice(inputs, [kind] * len(split.outputs))
    yield Choice([REPLICATE] * len(args), [REPLICATE] * len(split.outputs))


def _by_label(args: list[Arg], split: Split, label: Label, like: Shard) -> Choice | None:
    def at(labels: tuple[Label, ...]) -> Placement:
        dim = labels.index(label)
        if isinstance(like, _StridedShard):
            return _StridedShard(dim, split_factor=like.split_factor)
        return Shard(dim)

    summed = label in split.sums
    term = Partial(split.reduce)
    inputs = [
        at(arg.labels) if label in arg.labels
        else term if summed and arg in split.added
        else REPLICATE
        for arg in args
    ]  # fmt: skip
    if summed:
        return Choice(inputs, [term] * len(split.outputs), label)
    if not all(label in labels for labels, _ in split.outputs):
        return None
    return Choice(inputs, [at(labels) for labels, _ in split.outputs], label)


def _cost(args: list[Arg], way: Choice, i: int, n: int) -> float:
    """Bytes that a rank sends, about; a copy counts a little, so that nothing is cut without need."""
    total = 0.0
    for arg, new in zip(args, way.inputs):
        old, size = arg.layout.placements[i], math.prod(arg.shape) * arg.dtype.itemsize
        if old == new:
            continue
        if old.is_replicate():
            total += 1e-3 * size
        elif old.is_partial():
            total += size * (1 if new.is_shard() else 2)
        else:
            total += size / n if new.is_shard() else size
    return total
