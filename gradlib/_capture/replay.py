"""A plan that is replayed: what has to be as it was, the run, and what the step returns."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from time import perf_counter_ns
from typing import Any

from numpy import may_share_memory

from ..op.interpret import kernel_error
from ..operators.index.keys import index_error
from ..tape import pytree
from ..tape.attributes import raw_attributes
from ..tape.modes import state
from ..tape.node import leaf_edge, next_seq
from ..tape.recording import LABEL
from ..tape.source import describe
from ..tape.tensor import Tensor
from .casting import Asked
from .hooks import HOOKS
from .memory import Layout
from .passes import Forward, Region
from .plan import variables
from .reads import Missed, Undo
from .recorder import HANGING, Recorder, recorded_gradients

MISSED = object()
_array_of, _requires_of, _extra_of = attrgetter("_array"), attrgetter("_rg"), attrgetter("extra")
_ONE = pytree.flatten(0)[1]


class Plan:
    """A plan that may be replayed, and what has to be as it was."""

    def __init__(
        self, recorder: Recorder, texts: str, makers: list, spec: Any, region: Region | None = None
    ):
        draft, self.reached = recorder.draft, recorder.reached
        self.region, self.made = region, texts
        if region is not None:
            texts = f"{texts}, ({''.join(f'{n}, ' for n in region.graph.variables)})"
        if draft.fuses:
            draft.fuse(texts)
        self.casts = Asked(recorder) if recorder.casts else None
        self.given = [f"A{i}" for i in range(len(recorder.arguments))], texts
        self.forward = Forward(*draft.compile(*self.given))
        self.run_recorded: tuple[Callable, list[int], Layout] | None = None
        self.draft, self.makers, self.spec = draft, makers, spec
        self.tries = 0  # replays until it is known whether the step itself is quicker
        self.took: tuple[list[int], list[int]] = [], []  # ns of replays, and of the step
        self.undo: Undo | None = None  # what to take back if it reads other values
        if draft.guards:
            self.undo = Undo(list(self.reached.tensors.values()), recorder.cleared)
        self.single = len(makers) == 1 and makers[0][0] == "fresh" and spec == _ONE
        self.single = self.single and region is None
        self.roots = list(self.reached.tensors.values())
        self.arrays = [t._array for t in self.roots]
        self.places = _places(self.arrays)
        self.requires = [t._rg for t in self.roots]
        # in-place ops refuse some overlaps, which a plan does not
        writes = any([w is t for w in recorder.writes for t in recorder.arguments])
        given = recorder.arguments[: recorder.called_with]
        self.overlaps = _overlaps(given) if writes else None
        self.gradients = recorder.gradients if recorder.reads_gradients else None
        leaves = list(recorder.leaves.values())
        own = [raw_attributes(t) for t in self.roots]
        hooks = [raw_attributes(leaf).get(name) for leaf in leaves for name in HOOKS]
        self.attributes = own + [d for d in hooks if d is not None]
        self.lengths = [len(d) for d in self.attributes]
        self.ends: list[Any] = [
            leaf_edge(leaf)[0] for leaf in leaves
        ]  # theirs as long as they live
        # results of all replays share their node, as long as nobody puts something on it
        nodes = [how[1] for kind, how in makers if kind == "fresh"]
        spent = [node for node in nodes if node is not None and node is not HANGING]
        self.ends += spent
        # nodes of results that backward has used up, and whether a pass comes to them before what else hangs
        newest = 0 if region is None else region.graph.newest
        self.spent = [(node, node.seq > newest) for node in spent if region is not None]

    def fits(self, tensors: list) -> bool:
        """Whether all that the plan leaves out would be the same again, called with these tensors."""
        reached = self.reached.tensors
        if reached and not reached.keys().isdisjoint(map(id, tensors)):
            return False  # which the step could notice
        if self.overlaps is not None and self.overlaps != _overlaps(tensors):
            return False
        arrays = list(map(_array_of, self.roots))
        if not all(map(is_, arrays, self.arrays)):
            for new, old in zip(arrays, self.arrays, strict=True):
                if new.__class__ is not old.__class__ or new.strides != old.strides:
                    return False
                if new.shape != old.shape or new.dtype is not old.dtype:
                    return False
            if _places(arrays) != self.places:
                return False
            self.arrays = arrays
        if list(map(_requires_of, self.roots)) != self.requires:
            return False
        if self.gradients is not None:
            if self.gradients != recorded_gradients(self.reached):
                return False
            if any([t._grad is x for t in self.reached.tensors.values() for x in tensors]):
                return False
        if list(map(len, self.attributes)) != self.lengths or any(map(_extra_of, self.ends)):
            return False  # hooks, perhaps
        if self.casts is not None and not self.casts.fit(tensors):
            return False
        return self.reached.unchanged()

    def __call__(self, tensors: Any) -> Any:
        """What the step returns, or `MISSED`."""
        forward = self.forward
        if self.region is not None and len(forward.passes) < self.region.made:
            forward = self._compiled_anew()
        memory = forward.take()
        if self.casts is not None:
            tensors = self.casts.beside(tensors)
        before = None if self.undo is None else self.undo.begin()
        try:
            results = forward.run(tensors, memory)
        except Exception as exc:
            raise self._as_op_says(exc, forward.run, forward.numbers) from None
        except Missed:
            forward.keep(memory)
            Undo.back(before)
            if self.casts is not None:
                self.casts.back(tensors)
            return MISSED
        if self.region is not None:
            return self._hung(self.region, results, tensors, forward, memory)
        forward.keep(memory)
        return self._result(results, tensors)

    def _compiled_anew(self) -> Forward:
        """Now that passes are known: what is saved for them may lie in memory of the plan."""
        region: Any = self.region
        ready, results = region.ready(), variables(self.made)
        kept = [n for n in region.saved() if n not in results]
        self.forward = Forward(*self.draft.compile(*self.given, kept=kept), ready)
        return self.forward

    def _hung(
        self, region: Region, results: tuple, tensors: Any, forward: Forward, memory: Any
    ) -> Any:
        """The results of a step, which hang on a node."""
        reached = self.reached.tensors
        node = region.node(tensors, reached, results[1], forward, memory)
        for used, newer in self.spent:
            used.seq = next_seq() if newer else node.seq - 0.5
        made: list[Any] = []
        found = self._result(results[0], tensors, node, made)
        region.results(node, tensors, reached, made)
        return found

    def recorded(self, tensors: Any, name: str) -> Any:
        """A replay while a profiler is on, which is told of each op and node."""
        if self.run_recorded is None:
            self.run_recorded = self.draft.compile(*self.given, recorded=True)
        run, numbers, _ = self.run_recorded
        memory = self.forward.take()
        recorder = state.recorder
        token = recorder.enter(f"replay of {name}", None, (), (), -1, LABEL)
        try:
            results = run(tensors, memory, perf_counter_ns, recorder.replayed)
        except Exception as exc:
            raise self._as_op_says(exc, run, numbers) from None
        finally:
            recorder.exit(token, None)
        self.forward.keep(memory)
        return self._result(results, tensors)

    def _result(self, results: tuple, tensors: Any, hung: Any = None, made: Any = None) -> Any:
        """What the step returns. hung: the node of results that backward may be called on; made: is filled with all."""
        if self.single:
            return _fresh(results, self.makers[0][1])
        leaves: list[Any] = []
        for kind, value in self.makers:
            if kind == "fresh":
                leaves.append(_fresh(results, value, hung))
                if made is not None:
                    made.append(leaves[-1])
            elif kind == "gradient":
                leaves.append(value._grad)
            elif kind == "argument":
                leaves.append(tensors[value])
            elif kind == "read":
                leaves.append(results[value])
            else:
                leaves.append(leaves[value] if kind == "again" else value)
        return pytree.unflatten(leaves, self.spec)

    def _as_op_says(self, exc: Exception, run: Any, numbers: list[int]) -> Exception:
        """The exception of a kernel as the op raises it, with the line of the program."""
        trace = exc.__traceback__
        while trace is not None and trace.tb_frame.f_code is not run.__code__:
            trace = trace.tb_next
        if trace is None or trace.tb_lineno > len(numbers) or numbers[trace.tb_lineno - 1] < 0:
            return exc
        line = self.draft.lines[numbers[trace.tb_lineno - 1]]
        if not line.effect:
            exc = kernel_error(exc, _Named(line.what), (), ())
            exc = index_error(exc) if isinstance(exc, (IndexError, ValueError)) else exc
        exc.add_note(f"in {line.what or 'a captured step'}, recorded at {describe(line.site)}")
        return exc


def _places(arrays: list) -> list[int]:
    """Which arrays are one: for each, where it comes first."""
    first: dict[int, int] = {}
    return [first.setdefault(id(a), i) for i, a in enumerate(arrays)]


def _overlaps(tensors: list) -> list[int | None]:
    """How far apart those tensors lie that may share memory."""
    arrays = [t._array for t in tensors]
    return [
        a.ctypes.data - b.ctypes.data if may_share_memory(a, b) else None
        for i, a in enumerate(arrays)
        for b in arrays[:i]
    ]


class _Named:
    """What `kernel_error` asks of an op, if its name is all that is known."""

    check, elementwise, tensors, attrs = None, False, (), ()

    def __init__(self, public: str):
        self.public = public


def _fresh(results: tuple, how: tuple, hung: Any = None) -> Tensor:
    at, node, nr, version = how
    out = Tensor._make(results[at])
    if node is HANGING:
        node = hung
        nr = nr + 1 if hung.n_out > 1 else 0
    if node is not None:
        out._rg, out._fn, out._nr = True, node, nr
    if version:
        out._ver = version
    return out
