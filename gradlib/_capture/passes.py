"""Backward through a step that returned what it may be called on: passes are written down, too, and replayed.

The replay of such a step gives its results one node, `CompiledFunctionBackward`, which has what the step's own nodes
would have saved. The first two plain backward passes for each layout of the gradients that arrive run through the
step's nodes, made again (see graph.py), and are written down; from then on their lines are replayed on what was saved.
The node has an edge for each edge that leaves the step's graph, in the order in which backward comes to them, so that
gradients are added up as without it.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from itertools import chain
from typing import Any

from numpy import generic, ndarray

from ..tape.device import default
from ..tape.dtypes import get_default_dtype
from ..tape.engine import GraphTask, run
from ..tape.generator import default_generator
from ..tape.modes import ANOMALY, DIFFERENTIATED, NO_GRAD, RAW, shared, state
from ..tape.node import VariadicNode, deliver, edge, next_seq
from ..tape.saved import freed
from ..tape.source import user_frame
from ..tape.storage import Storage, share, version_of
from ..tape.switches import switches
from .check import first_difference
from .contexts import code_of
from .graph import Graph, Through, Unwritable
from .memory import Groups, Layout
from .plan import Draft, Learned, variables
from .recorder import Recorder
from .state import Opaque, State

KEPT = 1 << 26  # bytes of memory of plans beside the one that was replayed last
KEYS = 8  # layouts of arriving gradients that passes are written down for


class _Nothing:
    """What the recorder of a pass knows of what was there before: all is given to it."""

    def __init__(self) -> None:
        self.tensors: dict[int, Any] = {}
        self.functions: list[Any] = []


class PassRecorder(Recorder):
    """Runs one pass through the nodes of a step, and writes it down.

    Args:
        values: what the step saved. grads: the gradients that arrive, or None. reached: what the code of custom
            Functions can reach, if there are any.
    """

    def __init__(
        self, learned: Learned, fuses: bool, values: tuple, grads: tuple, reached: State | None
    ):
        super().__init__(reached or _Nothing(), [], learned, fuses)  # pyright: ignore[reportArgumentType]
        self.given = [self.draft.fresh() for _ in (*values, *grads)]
        self.all = (*values, *grads)
        for value, name in zip(self.all, self.given, strict=True):
            self._named(value, name)

    def _named(self, value: Any, name: str) -> None:
        if isinstance(value, (ndarray, generic)):
            self._name(value, name)
        elif isinstance(value, (tuple, list)):
            for i, part in enumerate(value):
                new = self.draft.fresh()
                self.emit(f"{new} = {name}[{i}]", (new,), (name,))
                self._named(part, new)

    def run(self, graph: Graph, nodes: list, grads: tuple) -> dict[Any, tuple[Any, str]]:
        """What arrives at each node that stands for an edge out of the graph, and its variable."""
        for node, how in zip(nodes, graph.nodes, strict=True):
            written, of = (node.fn, how.part) if how.part is not None else (node, how)
            for slot, at in of.raw:
                self.hidden[id(written), slot[2:]] = self.given[at]
        inbox: dict[Any, Any] = {}
        names = self.given[len(self.given) - len(grads) :]
        for (k, nr), grad, name in zip(graph.roots, grads, names, strict=True):
            if grad is not None:
                self._deliver(inbox, nodes[k], nr, (grad, name))
        found: dict[Any, Any] = {}
        there = run_in_pass(graph, nodes, grads)
        for node in reversed(nodes):
            grad = inbox.pop(node, None)
            self.spans += 1
            if grad is None and not (self.is_function(node) and node in there):
                continue
            for i, pair in self._run_node(node, grad):
                target, nr = node.edges()[i]
                if target.__class__ is Through:
                    found[target] = pair
                else:
                    self._deliver(inbox, target, nr, pair)
        return found

    def read(self, tensor: Any) -> None:
        """A value of a tensor goes to Python."""
        self.host_reads("backward of a custom Function", tensor)

    def over(self) -> None:
        """The pass has run: whether the code of custom Functions did what no line does."""
        if default_generator._pack() != self.draws:
            self.refuse("random numbers are drawn outside of what is recorded", False)
        if not self.reached.unchanged():
            self.refuse(f"it changes what outlives it: {self.reached.difference()}", False)

    def confirm(self) -> None:
        """Try the lines out."""
        drawn = self.drawn_from
        try:
            line = first_difference(self.draft, self.given, self.all, self.values, drawn)
        except Exception as exc:
            self.refuse(f"its lines cannot be run: {type(exc).__name__}: {exc}", False)
            return
        if line is not None:
            self.refuse(f"its lines give other numbers than the step: {line.what}", site=line.site)


def run_in_pass(graph: Graph, nodes: list, grads: tuple) -> set:
    """The nodes that a pass comes to, with a gradient or without: custom Functions run without one, too."""
    stack = [nodes[k] for (k, _), grad in zip(graph.roots, grads, strict=True) if grad is not None]
    found = set(stack)
    while stack:
        for target in stack.pop().targets():
            if target is not None and target not in found:
                found.add(target)
                stack.append(target)
    return found


class Pass:
    """What is known of passes for one layout of the gradients that arrive: a draft, and then its lines.

    gives: the numbers of what was saved whose memory the gradients may have.
    """

    def __init__(self) -> None:
        self.draft: Draft | None = None
        self.run: Callable[..., tuple] | None = None
        self.memory: list[tuple] = []
        self.layout: Any = None
        self.gives: frozenset[int] = frozenset()
        self.reached: State | None = None  # by the code of custom Functions
        self.given_up = False

    def make(self, draft: Draft, given: list[str], returns: str, count: int) -> None:
        """Compile a draft. count: of values that were saved."""
        if draft.fuses:
            draft.fuse(returns)
        self.run, _, self.layout = draft.compile(given, returns)
        groups = Groups(draft.lines, variables(returns))
        self.gives = frozenset(k for k, n in enumerate(given[:count]) if not groups.stays(n))
        self.draft = None


class Forward:
    """The lines of a step, compiled for the passes that are known: what these give does not lie in memory of the plan.

    passes: their keys.
    """

    def __init__(
        self, run: Any, numbers: list[int], layout: Layout, passes: frozenset = frozenset()
    ):
        self.run, self.numbers, self.layout, self.passes = run, numbers, layout, passes
        self.memory: list[tuple] = []  # of replays that are over

    def take(self) -> tuple:
        """Memory that no replay uses now: threads may replay a plan at the same time."""
        try:
            return self.memory.pop()
        except IndexError:
            return self.layout.arrays()

    def keep(self, memory: tuple) -> None:
        """It is used no more."""
        if len(self.memory) * self.layout.size < KEPT:
            self.memory.append(memory)


class CompiledFunctionBackward(VariadicNode):
    """The node of the results of a replayed step.

    values: what was saved. owners, versions: tensors (of results their Storage) that must not have been changed.
    beyond: the edges where the graph goes on. memory: a list of what values lie in; empty while a pass uses it, and if
    others may have it, too.
    joined: the step's own nodes hang on it; see `join`.
    """

    __slots__ = (
        "beyond", "forward", "joined", "memory", "n_out", "owners", "region", "values", "versions",
    )  # fmt: skip
    node_name = "CompiledFunctionBackward"
    values: Any
    memory: list

    def gradients(self, grads: tuple, traced: int) -> tuple:
        """The gradient for each edge that leaves the step."""
        values, owners = self.values, self.owners
        if values is None or owners is None:  # by another thread, perhaps
            freed(self)
        if self.joined:
            return grads
        return self.region.gradients(self, values, owners, grads, traced)

    def release(self) -> None:
        """Let go of what was saved; the memory that it lies in is for the next replay."""
        memory, self.memory, self.values, self.owners = self.memory, [], None, None
        if memory:
            self.forward.keep(memory.pop())


def join(nodes: list) -> bool:
    """Before gradients through replays are differentiated again: let the steps' own nodes be there.

    Args:
        nodes: of a pass.

    Returns:
        Whether there are more now.
    """
    alone = [n for n in nodes if n.__class__ is CompiledFunctionBackward and not n.joined]
    for node in alone:
        if node.values is None:
            freed(node)
        node.region.join(node)
    return bool(alone)


def _taken(how: Pass) -> tuple:
    """Memory that no pass uses now."""
    try:
        return how.memory.pop()
    except IndexError:
        return how.layout.arrays()


class Region:
    """Backward through the replays of one plan.

    Args:
        graph: the graph of the step's results.
        refuse: is told why passes cannot be written down.
    """

    def __init__(self, graph: Graph, fuses: bool, refuse: Callable[[str, str], None]):
        self.graph, self.fuses, self.refuse = graph, fuses, refuse
        self.passes: dict[tuple, Pass] = {}
        self.made = 0  # passes that are replayed
        self.learned = Learned()
        self.lock = threading.Lock()
        self.own = [(s.owner, s.at) for s in graph.tensors if s.itself]
        kinds = [n.kind._forward_cls for n in graph.nodes if n.context is not None]
        self.functions = [(f, code_of(f)) for f in dict.fromkeys(kinds)]
        shared.join = join

    def saved(self) -> list[str]:
        """The variables of what is saved that may lie in memory of the plan."""
        given = {k for p in self.passes.values() for k in p.gives}
        if not self.made:
            return []
        return [n for k, n in enumerate(self.graph.variables) if k not in given and n[0] == "t"]

    def ready(self) -> frozenset:
        """The keys of passes that are replayed."""
        return frozenset(key for key, p in self.passes.items() if p.run is not None)

    def node(
        self, tensors: Any, reached: dict, values: tuple, forward: Forward, memory: Any
    ) -> Any:
        """The node of the results of a replay; `results` completes it."""
        node: Any = object.__new__(CompiledFunctionBackward)
        frame = user_frame(sys._getframe(1))
        node.seq, node.extra, node.code, node.lasti = next_seq(), None, frame.f_code, frame.f_lasti
        node.region, node.values, node.forward, node.memory = self, values, forward, [memory]
        node.joined = False
        graph = self.graph
        node.n_out = len(graph.roots)
        found = [tensors[k] if kind == "argument" else reached[k] for kind, k in graph.targets]
        node.beyond = [edge(t) for t in found]
        node.edge_list = graph.edges(node.beyond, tensors)
        return node

    def results(self, node: Any, tensors: Any, reached: dict, made: list) -> None:
        """Note the versions that what the node uses has now. made: the tensors that the replay gives."""
        node.owners = owners = []
        node.versions = versions = []
        for kind, k in self.graph.owners:
            if kind == "result":
                owners.append(owner := share(made[k]))
                versions.append(owner.version)
            else:
                owners.append(owner := tensors[k] if kind == "argument" else reached[k])
                versions.append(version_of(owner))

    def gradients(self, node: Any, values: tuple, owners: list, grads: tuple, traced: int) -> tuple:
        """The gradients for the edges of a node."""
        usual = not state.bits & (~NO_GRAD if self.functions else ANOMALY)
        if traced == RAW and usual and self._current(node, values, owners):
            key = tuple([None if g is None else (g.__class__, g.strides, g.dtype) for g in grads])
            if self.functions:
                key = key, get_default_dtype(), default.device, switches.deterministic
            how = self.passes.get(key)
            if how is not None and how.given_up:
                return self._through(node, values, owners, grads, traced)
            if how is not None and how.reached is not None and not how.reached.unchanged():
                self.refuse(f"backward: {how.reached.difference()}", "")
                return self._through(node, values, owners, grads, traced)
            if how is not None and how.run is not None:
                kept, mine = node.memory, None
                try:
                    mine = kept.pop()
                except (
                    IndexError
                ):  # another thread runs a pass through it: nobody knows which is the last
                    node.memory = []
                memory = _taken(how)
                try:
                    found = how.run((*values, *grads), memory)
                except Exception:  # as eager mode raises it
                    return self._through(node, values, owners, grads, traced)
                if len(how.memory) * how.layout.size < KEPT:
                    how.memory.append(memory)
                if mine is not None and key in node.forward.passes:  # else gradients may lie in it
                    kept.append(mine)
                return found
            if sys.getprofile() is None and self.lock.acquire(blocking=False):
                try:
                    return self._write(node, values, owners, key, grads)
                finally:
                    self.lock.release()
        return self._through(node, values, owners, grads, traced)

    def _current(self, node: Any, values: tuple, owners: list) -> bool:
        """Whether what the node saved is as it was; if not, its own nodes say what is wrong."""
        if any([code_of(function) != code for function, code in self.functions]):
            return False
        for owner, version in zip(owners, node.versions, strict=True):
            if (owner.version if owner.__class__ is Storage else version_of(owner)) != version:
                return False
        return all([owners[k]._array is values[at] for k, at in self.own])

    def _again(
        self, node: Any, values: tuple, owners: list, whole: Any = None
    ) -> tuple[list, list]:
        node.memory = []  # tensors are made of it, which others may keep
        versions, targets = node.versions, node.beyond
        return self.graph.again(values, owners, versions, targets, node.seq, whole)

    def join(self, node: Any) -> None:
        """Let the graph of the step itself hang on its node: gradients are differentiated again."""
        nodes, _ = self._again(node, node.values, node.owners, node)
        node.edge_list = tuple([(nodes[k], nr) for k, nr in self.graph.roots])
        node.joined = True

    def _through(self, node: Any, values: tuple, owners: list, grads: tuple, traced: int) -> tuple:
        """The gradients as the step's own nodes give them."""
        nodes, outs = self._again(node, values, owners)
        task = GraphTask(True, traced == DIFFERENTIATED, False)
        task.traced = traced
        for (k, nr), grad in zip(self.graph.roots, grads, strict=True):
            if grad is not None:
                deliver(task.inbox, nodes[k], nr, grad)
        needed, state.needed = state.needed, None
        try:
            if self.functions:
                there = run_in_pass(self.graph, nodes, grads)
                nodes = [n for n in nodes if n in there]
            run(task, [*outs, *nodes], {}, set())
        finally:
            state.needed = needed
        return tuple([out.arrived for out in outs])

    def _write(self, node: Any, values: tuple, owners: list, key: tuple, grads: tuple) -> tuple:
        """The same, written down."""
        if len(self.passes) == KEYS and key not in self.passes:
            self.refuse(f"backward is called with more than {KEYS} layouts of gradients", "")
            return self._through(node, values, owners, grads, RAW)
        how, reached = self.passes.setdefault(key, Pass()), None
        if self.functions:
            try:
                reached = State(*chain.from_iterable([code for _, code in self.functions]))
            except Opaque as exc:
                self.refuse(f"backward: {exc}", "")
                how.given_up = True
                return self._through(node, values, owners, grads, RAW)
        nodes, outs = self._again(node, values, owners)
        recorder = PassRecorder(self.learned, self.fuses, values, grads, reached)
        needed, state.needed = state.needed, None
        collects = gc.isenabled()
        gc.disable()  # what it calls is no part of the pass
        try:
            found = recorder.run(self.graph, nodes, grads)
            if reached is not None:
                recorder.over()
        except Unwritable as exc:
            self.refuse(f"backward: {exc}", "")
            state.needed = needed
            return self._through(node, values, owners, grads, RAW)
        finally:
            state.needed = needed
            if collects:
                gc.enable()
        # the nodes are the same each time: only code of custom Functions may do something else
        last = how.draft is not None or not self.functions
        if not recorder.off and last:
            recorder.confirm()
        if recorder.refused is not None:
            self.refuse(*recorder.refused)
            how.given_up = True
        elif not last:
            how.draft = recorder.draft
        elif how.draft and (where := how.draft.agrees(recorder.draft)) is not None:
            self.refuse(f"backward does something else each time: {where}", "")
        else:
            names = [found[out][1] if out in found else "None" for out in outs]
            returns = f"({''.join(f'{n}, ' for n in names)})"
            how.make(recorder.draft, recorder.given, returns, len(values))
            how.reached = reached
            self.made += 1
        return tuple([found[out][0] if out in found else None for out in outs])
