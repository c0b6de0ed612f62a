"""The graph that results of a captured step hang on: how its nodes are made again, from what a replay saved.

A plan leaves nodes out. Where a step returns tensors that backward may be called on, its replay saves what the nodes
would have saved. From that the whole graph can be made at any time, which is what everything but a plain backward needs
(double backward, profiles, anomaly mode, errors of changed tensors).
"""

from __future__ import annotations

import weakref
from operator import attrgetter
from typing import Any, NamedTuple

from ..autograd.function import BackwardCFunction
from ..op.inplace import CopySlices
from ..tape.node import AccumulateGrad, VariadicNode, edge
from ..tape.saved import DIRECT, PACKED, Part
from ..tape.storage import Storage, share, version_of
from ..tape.tensor import Tensor
from . import contexts
from .contexts import Unwritable

new = object.__new__


class Through(VariadicNode):
    """An edge that leaves the graph of a step, where a pass through the step's own nodes ends.

    arrived: the gradient that came this way.
    """

    __slots__ = ("arrived",)
    node_name = "Through"
    arrived: Any

    def gradients(self, grads: tuple, traced: int) -> tuple:
        """Keep what arrived."""
        self.arrived = grads[0]
        return ()


class Later(VariadicNode):
    """An edge to a parameter that backward shall come to after it came to a cast of that."""

    __slots__ = ()
    node_name = "Later"

    def gradients(self, grads: tuple, traced: int) -> tuple:
        """The gradient as it is."""
        return grads


class SavedTensor(NamedTuple):
    """A tensor that nodes saved.

    at: where its array is in what a replay saves. owner: the number of the tensor of the program whose version it has,
    or -1; itself: it is that one. history: ("node", its number, output), ("target", number of where an edge of the
    step leads to), ("leaf", 0) or None.
    """

    at: int
    owner: int
    itself: bool
    history: tuple | None


class NodeAgain(NamedTuple):
    """How a node is made again.

    fixed: slots that are the same each time. raw: slots, and where their values are in what a replay saves. tensors:
    names of saved tensors, and which they are. results: (name, where its array is, number of its owner or -1, output,
    the node that wrote it through a view and what `Part` has beside it, or None). edges: ("node", number, output),
    ("out", number), ("nowhere",) or None. part: of `CopySlices`, the node of the op that wrote. context: of a custom
    Function.
    """

    kind: type
    fixed: tuple
    raw: tuple
    tensors: tuple
    results: tuple
    edges: tuple
    part: Any = None
    context: Any = None


class Graph:
    """The nodes between results of a step and what it was given.

    Attributes:
        variables: what a replay has to save.
        owners: whose versions count: ("argument", i), ("tensor", id) or ("result", i) for the i-th that it returns.
        targets: where edges that leave the graph lead to, as ("argument", i) or ("tensor", id).
        leaving: for each edge that leaves it, in the order in which backward comes to them, the number of its target.
        roots: (number of the node, output) for each result that hangs on it.
        newest: the number of its newest node in the recording.
        late: of those that leave it, the ones after which backward came to a cast of the same parameter, and the number
            of that among the arguments; in a replay it would come to the cast last.

    Args:
        recorder: of the step.
        first: the number of the first node that the step made.
        results: the tensors that the step made and returns, by their numbers.
        hanging: those of them that have a history.

    Raises:
        Unwritable: a node cannot be made again.
    """

    def __init__(self, recorder: Any, first: int, results: list[Any], hanging: list[Any]):
        self._recorder, self._first = recorder, first
        self.variables: list[str] = []
        self.owners: list[tuple] = []
        self.targets: list[tuple] = []
        self.leaving: list[int] = []
        self.roots: list[tuple[int, int]] = []
        self.late: dict[int, int] = {}
        self.nodes: list[NodeAgain] = []
        self.tensors: list[SavedTensor] = []
        self._known: dict[int, int] = {}  # of tensors, by id
        self._kept: list[Any] = []
        self._functions: set[type] = set()  # custom ones whose code was looked at
        given = [(("argument", i), t) for i, t in enumerate(recorder.arguments)]
        given += [(("tensor", id(t)), t) for t in recorder.reached.tensors.values()]
        self._owned = [*given, *((("result", i), t) for i, t in enumerate(results))]
        self._edges: dict[tuple, tuple | None] = {}  # that leave the graph
        owners: dict[tuple, Any] = {}
        for target, t in given:
            if t._rg and (found := edge(t))[0] is not None and owners.setdefault(found, t) is t:
                self._edges.setdefault(found, target)
            elif t._rg:
                self._edges[found] = None
        self._gradients = [t._grad for _, t in given if t._grad is not None]
        roots = [edge(t)[0] for t in hanging]
        if any([node.__class__ is AccumulateGrad for node in roots]):
            raise Unwritable("it is a leaf")
        nodes = self._reached(roots)
        self.newest = nodes[-1].seq if nodes else first
        self._numbers = {id(node): k for k, node in enumerate(nodes)}
        self._hold = nodes
        # backward comes to the newest node first; so do the edges
        described = [self._described(node) for node in reversed(nodes)]
        self.nodes = described[::-1]
        for t in hanging:
            node, nr = edge(t)
            self.roots.append((self._numbers[id(node)], nr))
        del (
            self._recorder,
            self._known,
            self._kept,
            self._functions,
            self._owned,
            self._edges,
            self._numbers,
        )
        del self._hold, self._gradients

    def same(self, other: Graph) -> bool:
        """Whether another recording of the step gave the same graph."""
        mine, others = [
            (g.variables, g.targets, g.owners, g.leaving, g.late, g.roots, g.tensors,
             [(n.kind, n.raw, n.tensors, n.edges, [r[:4] for r in n.results]) for n in g.nodes])
            for g in (self, other)
        ]  # fmt: skip
        pairs = zip(self.nodes, other.nodes, strict=False)
        return mine == others and all(
            [n.context is None or n.context.same(o.context) for n, o in pairs]
        )

    # -- how it is -------------------------------------------------------------------------------------------------

    def _reached(self, roots: list[Any]) -> list[Any]:
        """The nodes that the step made, oldest first."""
        found: dict[int, Any] = {}
        stack = list(roots)
        while stack:
            node = stack.pop()
            if id(node) in found:
                continue
            if node.__class__ is AccumulateGrad:
                self._check_leaf(node.variable)
                continue
            if node.seq < self._first:
                raise Unwritable("a result has a history from before the step")
            self._recorder.check_node(node)
            if node.extra is not None or _packs(node):
                raise Unwritable(f"{node.name()} has hooks, a retained gradient or packed values")
            if id(node) in self._recorder.released:
                raise Unwritable("backward was called already")
            found[id(node)] = node
            further = [*node.edges(), *map(edge, _saved_with_history(node))]
            stack += [t for t, nr in further if t is not None and (t, nr) not in self._edges]
        return sorted(found.values(), key=attrgetter("seq"))

    def _check_leaf(self, leaf: Any) -> None:
        """A leaf that the step made has a gradient that nobody sees."""
        before = (*self._recorder.arguments, *self._recorder.reached.tensors.values())
        if (
            any([t is leaf for t in before])
            or leaf._backward_hooks
            or leaf._post_accumulate_grad_hooks
        ):
            raise Unwritable("a result has a history from before the step")

    def _save(self, name: str | None, what: str) -> int:
        if name is None:
            raise Unwritable(f"{what} saved something of unknown origin")
        if name not in self.variables:
            self.variables.append(name)
        return self.variables.index(name)

    def _described(self, node: Any, edges: Any = None) -> NodeAgain:
        """edges: of the node of an op that writes to a view."""
        name = node.name()

        def own(output: Any) -> tuple[int, int]:
            at = self._save(self._recorder.name_of(output.array), name)
            return at, self._owner(output.storage)[0]

        if node.__class__ is CopySlices:
            fixed = (("base_layout", node.base_layout), ("replay", node.replay))
            edges = self._left(node)
            # the first of those of the op is that of the view, which counts only as being there
            first = None if node.fn.targets()[0] is None else ("nowhere",)
            part = self._described(node.fn, (first, *edges[1:]))
            return NodeAgain(CopySlices, (*_site(node), *fixed), (), (), (), edges, part)
        if self._recorder.is_function(node):
            if node._forward_cls not in self._functions:
                contexts.check_code(node)
                self._functions.add(node._forward_cls)
            context = contexts.describe(node, lambda t: self._tensor(t, name), own)
            return NodeAgain(type(node), _site(node), (), (), (), self._left(node), context=context)
        op = node.op
        fixed, raw, tensors, results = list(_site(node)), [], [], []
        for key in op.saved_tensors:
            value, version = getattr(node, f"s_{key}"), getattr(node, f"v_{key}")
            if version == DIRECT:
                fixed += [(f"s_{key}", value), (f"v_{key}", DIRECT)]
            else:
                tensors.append((key, self._tensor(value, name)))
        for key in op.saved_results:
            at = self._save(self._recorder.name_of(getattr(node, f"s_{key}")), name)
            kept = getattr(node, f"k_{key}")
            storage, nr = kept if type(kept) is tuple else (kept, 0)
            through = None
            if isinstance(nr, Part):
                number = self._numbers.get(id(nr.whole()))
                if number is None:
                    raise Unwritable(f"{name} wrote through a view whose base is not used")
                through, nr = (number, nr.shape, nr.dtype, nr.steps), 0
            results.append((key, at, self._owner(storage)[0], nr, through))
        for key in op.saved_hidden:
            raw.append((f"h_{key}", self._save(self._recorder.hidden[id(node), key], name)))
        for key in op.saved_attrs:
            text, ins = self._recorder.setting(op, key, getattr(node, f"a_{key}"))
            if not ins:
                continue
            if ins != (text,):  # a tuple of arrays
                inside, text = text, self._recorder.draft.fresh()
                self._recorder.emit(f"{text} = {inside}", (text,), ins)
            raw.append((f"a_{key}", self._save(text, name)))
        taken = {slot for slot, _ in raw}
        slots = [s for c in type(node).__mro__ for s in vars(c).get("__slots__", ())]
        for slot in slots:
            same = slot[:2] in ("n_", "a_") or (slot[0] == "b" and slot[1:].isdigit())
            if same and slot not in taken and hasattr(node, slot):
                fixed.append((slot, getattr(node, slot)))
        edges = self._left(node) if edges is None else edges
        return NodeAgain(
            type(node), tuple(fixed), tuple(raw), tuple(tensors), tuple(results), edges
        )

    def _left(self, node: Any) -> tuple:
        found: list[tuple | None] = []
        for target, nr in node.edges():
            if target is None:
                found.append(None)
            elif (target, nr) in self._edges:
                found.append(("out", len(self.leaving)))
                of: Any = self._edges[target, nr]
                seq, at = self._recorder.new_casts.get(of, (0, 0))
                if node.seq < seq:
                    self.late[len(self.leaving)] = at
                self.leaving.append(self._target((target, nr)))
            elif target.__class__ is AccumulateGrad:
                found.append(("nowhere",))
            else:
                found.append(("node", self._numbers[id(target)], nr))
        return tuple(found)

    def _target(self, pair: tuple) -> int:
        where = self._edges[pair]
        if where is None:
            raise Unwritable("two tensors that it is given have one history")
        if where not in self.targets:
            self.targets.append(where)
        return self.targets.index(where)

    def _tensor(self, t: Any, what: str) -> int:
        if id(t) not in self._known:
            at = self._save(self._recorder.tensor(t), what)
            owner, itself = self._owner(t._ver, t)
            history: tuple | None = None
            if t._rg and not itself:
                found = edge(t)
                if found in self._edges:
                    history = "target", self._target(found)
                elif found[0].__class__ is AccumulateGrad:
                    history = ("leaf", 0)
                else:
                    history = "node", self._numbers[id(found[0])], found[1]
            self._known[id(t)] = len(self.tensors)
            self._kept.append(t)
            self.tensors.append(SavedTensor(at, owner, itself, history))
        return self._known[id(t)]

    def _owner(self, counter: Any, t: Any = None) -> tuple[int, bool]:
        """The number of the tensor of the program that has this version counter, and whether `t` is that one."""
        for owner, other in self._owned:
            itself = other is t and owner[0] != "result"
            if itself or other is t or (counter.__class__ is Storage and other._ver is counter):
                if owner not in self.owners:
                    self.owners.append(owner)
                return self.owners.index(owner), itself
        if any(
            [
                g is t or g._ver is counter
                for g in self._gradients
                if counter.__class__ is Storage or g is t
            ]
        ):
            raise Unwritable("a .grad is saved, to which more may be added")
        return -1, False

    # -- made again ------------------------------------------------------------------------------------------------

    def edges(self, beyond: list, tensors: Any) -> tuple:
        """The edges that leave the graph; see `late`.

        beyond: the edge of each target. tensors: what the replay was called with.
        """
        found = [beyond[k] for k in self.leaving]
        for i, (k, at) in enumerate(self.late.items()):
            node: Any = new(Later)
            node.seq = tensors[at]._fn.seq - (i + 1) / (len(self.late) + 1)
            node.extra, node.edge_list = None, (found[k],)
            found[k] = node, 0
        return tuple(found)

    def again(
        self, values: tuple, owners: list, versions: list, targets: list, seq: int, whole: Any
    ) -> tuple[list, list]:
        """(the nodes, and a node for each edge that leaves the graph).

        Args:
            whole: the node that stands for the graph, if this is to hang on it: edges that leave the graph go on at its
                targets then, not at nodes of their own, and results that are saved have their history in it.
            values: what a replay saved.
            owners, versions: for each owner the tensor, or for a result its Storage, and its version at that time.
            targets: the edge of each target.
            seq: the number of the node that stands for the graph.
        """
        nodes: list[Any] = [new(n.kind) for n in self.nodes]
        outs: list[Any] = [] if whole is not None else [new(Through) for _ in self.leaving]
        beyond = whole.edge_list if whole is not None else [(o, 0) for o in outs]
        roots: dict[Any, Any] = {}
        if whole is not None:
            several = len(self.roots) > 1
            roots = {(nodes[k], nr): i + several for i, (k, nr) in enumerate(self.roots)}
        count = len(nodes) + len(outs) + 1
        for k, node in enumerate((*reversed(outs), *nodes)):  # behind all that came before it
            node.seq, node.extra = seq - 1 + (k + 1) / count, None
        for node in outs:
            node.edge_list, node.arrived = (), None
        storages = [t if t.__class__ is Storage else share(t) for t in owners]
        tensors = []
        for how in self.tensors:
            if how.itself:
                tensors.append((owners[how.owner], versions[how.owner]))
                continue
            t = Tensor._make(values[how.at])
            if how.owner >= 0:
                t._ver = storages[how.owner]
            if how.history is not None:
                kind, k = how.history[:2]
                t._rg = True
                if kind == "node":
                    t._fn, t._nr = nodes[k], how.history[2]
                    if (t._fn, t._nr) in roots:
                        t._fn, t._nr = whole, roots[t._fn, t._nr]
                elif kind == "target":
                    t._fn, t._nr = targets[k]
            tensors.append((t, versions[how.owner] if how.owner >= 0 else version_of(t)))
        made = _Made(values, tensors, storages, versions, nodes, beyond, roots, whole)
        for node, how in zip(nodes, self.nodes, strict=True):
            made.fill(node, how)
        for (node, nr), i in roots.items():
            _with_history(node, nr, whole, i)
        return nodes, outs


class _Made(NamedTuple):
    """What the nodes of a graph are made again of; see `Graph.again`."""

    values: tuple
    tensors: list[tuple[Any, int]]
    storages: list[Any]
    versions: list[int]
    nodes: list[Any]
    beyond: Any
    roots: dict[Any, Any]
    whole: Any

    def fill(self, node: Any, how: NodeAgain) -> None:
        """Give a node what it had."""
        for slot, value in how.fixed:
            setattr(node, slot, value)
        if how.context is not None:
            contexts.fill(
                node, how.context, self.values, self.tensors, self.storages, self.versions
            )
        for slot, at in how.raw:
            setattr(node, slot, self.values[at])
        for key, k in how.tensors:
            t, version = self.tensors[k]
            setattr(node, f"s_{key}", t)
            setattr(node, f"v_{key}", version)
        for key, at, owner, nr, through in how.results:
            storage = Storage() if owner < 0 else self.storages[owner]
            setattr(node, f"s_{key}", self.values[at])
            setattr(node, f"v_{key}", 0 if owner < 0 else self.versions[owner])
            kept: Any = (storage, nr) if nr else storage
            if through is not None:
                part, base = new(Part), self.nodes[through[0]]
                part.nr = self.roots.get((base, 0), 0)
                part.whole = weakref.ref(self.whole if (base, 0) in self.roots else base)
                _, part.shape, part.dtype, part.steps = through
                kept = storage, part
            setattr(node, f"k_{key}", kept)
        edges = []
        for e in how.edges:
            if e is None:
                edges.append((None, 0))
            elif e[0] == "node":
                edges.append((self.nodes[e[1]], e[2]))
            else:
                edges.append(self.beyond[e[1]] if e[0] == "out" else (_nowhere(), 0))
        if how.part is not None:
            part: Any = new(how.part.kind)
            node.fn, part.seq, part.extra = part, node.seq, None
            self.fill(part, how.part)
        if isinstance(node, VariadicNode):
            node.edge_list = tuple(edges)
        else:
            for i, (target, nr) in enumerate(edges):
                setattr(node, f"e{i}", target)
                setattr(node, f"i{i}", nr)


class OfWhole(Part):
    """History of a saved result that is one of a whole graph: all its gradients are added up where that begins."""

    __slots__ = ("own",)

    def give_history(self, out: Any) -> None:
        """As a result of the node that stands for the graph, if that is still there."""
        whole = self.whole()
        out._rg = True
        out._fn, out._nr = (self.own[0](), self.own[1]) if whole is None else (whole, self.nr)


def _with_history(node: Any, nr: int, whole: Any, number: int) -> None:
    """Let the results that `node` saved of its output `nr` have their history in `whole`."""
    if isinstance(node, BackwardCFunction):
        contexts.hang(node, nr, whole, number)
    for key in () if node.op is None else node.op.saved_results:
        kept = getattr(node, f"k_{key}")
        storage, have = kept if type(kept) is tuple else (kept, 0)
        if have == nr:
            part = new(OfWhole)
            part.whole, part.nr, part.own = weakref.ref(whole), number, (weakref.ref(node), nr)
            setattr(node, f"k_{key}", (storage, part))


def _site(node: Any) -> tuple:
    return () if node.site is None else (("code", node.code), ("lasti", node.lasti))


def _saved_with_history(node: Any) -> list[Any]:
    """The tensors that a node saved, not as numbers, and that require grad."""
    if isinstance(node, BackwardCFunction):
        return [t for t in contexts.tensors_of(node) if t._rg]
    node = node.fn if node.__class__ is CopySlices else node
    names = () if node.op is None else node.op.saved_tensors
    kept = [getattr(node, f"s_{name}") for name in names if getattr(node, f"v_{name}") >= 0]
    return [t for t in kept if t._rg]


def _packs(node: Any) -> bool:
    """Whether saved-tensor hooks have packed something that a node saved."""
    node = node.fn if node.__class__ is CopySlices else node
    if node.op is None:
        return False
    return any(
        [
            getattr(node, f"v_{n}") == PACKED
            for n in (*node.op.saved_tensors, *node.op.saved_results)
        ]
    )


def _nowhere() -> Any:
    node: Any = new(Through)
    node.seq, node.extra, node.edge_list, node.arrived = 0, None, (), None
    return node
