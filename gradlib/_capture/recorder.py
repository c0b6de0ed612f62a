"""The recorder: what a step computes, written down while the step runs as it always does.

It is asked for the result of each op where that comes down to one kernel on arrays, below batches (`vmap`), tangents
and casts, which are made of such ops. The engine, optimizers, and the few functions that work on raw arrays outside of
ops tell it what they do. All arrays that are used must come from a line before, from an argument, or from a tensor that
was there before; an array of another origin, a value that Python reads, or anything that no line can say ends the
recording: the step is then run as it is, always.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..amp._casts import local
from ..optim.optimizer import Optimizer
from ..tape import modes, pytree, recording
from ..tape.attributes import INTERNAL, raw_attributes
from ..tape.device import default, device
from ..tape.dtypes import dtype, get_default_dtype
from ..tape.generator import default_generator
from ..tape.modes import (
    AUTOCAST,
    FORWARD_AD,
    NO_GRAD,
    OBSERVE,
    PROFILE,
    SAVED_HOOKS,
    VMAP,
    state,
)
from ..tape.node import edge
from ..tape.storage import INFERENCE, Storage, version_of
from ..tape.switches import switches
from ..tape.tensor import Tensor
from .backward import Backward
from .casting import around
from .graph import Graph, Unwritable
from .hooks import hooks_on
from .notes import READ
from .ops import Ops
from .reads import Read, Reads
from .state import State

ndarray = np.ndarray
_READS = "its value is read, and Python may go another way with another one"
_PLAIN = OBSERVE | PROFILE | NO_GRAD  # flags with which an optimizer steps as without
HANGING = object()  # the node of a result that backward may be called on
# flags with which an op may run more than itself
_RUNS_MORE = FORWARD_AD | VMAP | SAVED_HOOKS | AUTOCAST
_UNWATCHED = "unwatched"  # what `Recorder.enter` gives where it stopped the watch


def drawn_again(replay: Any, function: Callable, *args: Any) -> Any:
    """``function(*args)``, which draws what the first call with that `replay` drew."""
    replay.restart()
    replay.before_draw(default_generator)
    return function(*args)


def recorded_gradients(reached: State) -> list[bool]:
    """Which tensors have a .grad."""
    return [t._grad is not None for t in reached.tensors.values()]


def _history(t: Any) -> Any:
    """The node that made a tensor, or a view, the last time that it was asked for."""
    return t._fn if t._view is None or t._fn is not None else t._view.fn


def _settings() -> tuple:
    return (
        get_default_dtype(),
        default.device,
        switches.deterministic,
        state.bits & ~(OBSERVE | PROFILE),
        around(),
        local.note(),
        local.nesting,
    )


class Recorder(Ops, Backward, Reads):
    """Writes a `Draft` while a step runs; `refused` says why there is none."""

    # -- on and off --------------------------------------------------------------------------------------------------

    def record(self, step: Callable, args: tuple, kwargs: dict) -> Any:
        """Run the step, which is written down."""
        self.step = step
        for i in range(len(self.arguments)):
            self.emit(f"a{i} = A{i}._array", (f"a{i}",), ())
        self.settings = settings = _settings()
        memory = [
            (t, t._array, t._rg, raw_attributes(t).keys() - INTERNAL, hooks_on(t))
            for t in (*self.reached.tensors.values(), *self.arguments)
        ]
        draws = [(g, g._pack()) for g in self.reached.generators if g is not default_generator]
        self.gradients = recorded_gradients(self.reached)
        histories = [(t, _history(t)) for t, *_ in memory]
        self.watch.look_at(self.reached.functions)
        result = self.run(args, kwargs)
        if _settings() != settings:
            self.refuse("it changes a setting (a mode, the default dtype or device)", False)
        if any([t._array is not array or t._rg is not rg for t, array, rg, *_ in memory]):
            self.refuse("it gives a tensor other memory, or changes what requires grad", False)
        if any([_history(t) is not node for t, node in histories]):
            self.refuse("it gives a tensor from before another history", False)
        if any([raw_attributes(t).keys() - INTERNAL != names for t, _, _, names, _ in memory]):
            self.refuse("it puts an attribute on a tensor that outlives it", False)
        if any([hooks_on(t) != hooks for t, *_, hooks in memory]):
            self.refuse("it puts a hook on a tensor that outlives it", False)
        if any([g._pack() != before for g, before in draws]):
            self.refuse("random numbers of a Generator of its own are drawn", False)
        if not (self.tried_as_plan and self.notes.plain and not self.casts):
            self.confirm()
        if self.refused is None:
            self.check_writes()
        if self.refused is None and default_generator._pack() != self.draws:
            self.refuse("random numbers are drawn outside of what is recorded", False)
        return result

    def run(self, args: tuple, kwargs: dict) -> Any:
        """Run the step as it always runs: what it does comes here. No garbage is collected, see `Captured`."""
        self.started = sys._getframe().f_code
        state.capture = self
        modes.set_bits(state.bits | OBSERVE)
        recording.add(self)
        self.watch.start()
        try:
            return self.step(*args, **kwargs)
        finally:
            self.watch.stop()
            recording.remove(self)
            self.ends.clear()
            modes.set_bits(state.bits & ~OBSERVE)
            state.capture = None

    # -- what is no op -----------------------------------------------------------------------------------------------

    def raw(self, function: Callable, args: tuple) -> Any:
        """A function on raw arrays that plans call again; see `modes.unrecorded`."""
        if self.off or self.depth or not self.is_alone():
            return function(*args)
        self.spans += 1
        self.notes.note("raw", function, args)
        texts, ins = [], []
        for a in args:
            if isinstance(a, Tensor):
                if id(a) not in self.reached.tensors:
                    self.refuse(f"{function.__name__} changes a tensor that the step made")
                    break
                found: Any = (self.draft.constant(a), ())
            elif isinstance(a, (ndarray, np.generic)):
                name = self._name_of_any(a)
                found = None if name is None else (name, (name,))
            else:
                found = (self.draft.constant(a), ())
            if found is None:
                self.refuse(f"{function.__name__} is called with an array of unknown origin")
                break
            texts.append(found[0])
            ins += found[1]
        if default_generator._pack() != self.draws:
            self.refuse("random numbers are drawn outside of what is recorded")
        own = not any(
            [isinstance(a, Tensor) for a in args]
        )  # whether it changes nothing from before
        if not own:
            self.confirm()
        again = state.replay  # where a draw begins with the state of another one
        self.notes.plain = self.notes.plain and again is None
        known = again is not None and default_generator in again.seen
        with self.quiet():
            result = self._whole(function, args)
        self.draws = default_generator._pack()
        if again is not None and default_generator in again.seen and not known and not self.off:
            texts.insert(0, self.draft.constant(function))
            texts.insert(0, self._replay(again))
            ins.append(texts[0])
            function = drawn_again
        if self.off:
            return result
        out = self.draft.fresh()
        self.emit(f"{out} = {self.draft.constant(function)}({', '.join(texts)})", (out,), tuple(ins),
                  function.__name__, True, undone=own, again=own)  # fmt: skip
        if result is not None:
            self._name(result, out)
            self.notes.made([result])
            self.drawn.add(out)
        return result

    def _replay(self, replay: Any) -> str:
        """The variable of what makes the entries of a batch draw the same random numbers."""
        name = self.names.get(id(replay))
        if name is None:
            if replay.outer is not None:
                self.refuse("each entry of a batch in a batch draws the same random numbers")
            name = self.draft.fresh()
            self.emit(f"{name} = {self.draft.constant(type(replay))}(None)", (name,), ())
            self.names[id(replay)] = name
            self.kept.append(replay)
        return name

    def _whole(self, function: Callable, args: tuple) -> Any:
        """Call something that is recorded as one; what it writes is accounted for."""
        before = [(entry, version_of(entry[0])) for entry in self.versions.values()]
        shared = []  # tensors made here, of memory from before
        if any(
            [isinstance(a, (Tensor, Optimizer)) for a in (*args, getattr(function, "__self__", 0))]
        ):
            views = [(k, s) for k, s in self.seen.items() if s[0]._ver.__class__ is Storage]
            shared = [(k, s, version_of(s[0])) for k, s in views]
        try:
            return function(*args)
        finally:
            for entry, version in before:
                entry[1] += version_of(entry[0]) - version
            for k, (t, first, start), version in shared:
                self.seen[k] = t, first + version_of(t) - version, start

    def whole(self, name: str, function: Callable, args: tuple) -> Any:
        """A method of an optimizer: plans call it as it is."""
        if self.off or self.depth or not self.is_alone():
            with self.quiet():
                return function(*args)
        self.notes.note("whole", name, function, args)
        plain = _PLAIN | AUTOCAST if around() == self.around else _PLAIN
        if tuple(_settings()[:3]) != self.settings[:3] or state.bits & ~plain:
            self.refuse(f"{name} is called inside a mode, which is not there when a plan calls it")
        self.spans += 1
        if len(args) == 4 and (args[2] or args[3]):  # see optimizer._step_alone
            self.refuse(f"{name} is called with a closure")
        text = f"{self.draft.constant(function)}({', '.join(map(self.draft.constant, args))})"
        resets = name.endswith(".zero_grad") and args == (True,)
        if resets:  # to None, as gradients that are undone; nothing else
            self.cleared.append(function.__self__)
        self.emit(text, (), (), name, True, undone=resets)
        if resets:
            leaves = [p for group in function.__self__.param_groups for p in group["params"]]
            self.draft.lines[-1] = self.draft.lines[-1]._replace(clears=tuple(leaves))
        with self.quiet():
            result = self._whole(function, args)
        self.loaded.clear()
        if any([self.names.get(id(t._array)) != n for n, t in self.roots.values()]):
            self.refuse(f"{name} gives tensors other memory")
        if result is not None:
            self.refuse(f"{name} returns something")
        return result

    def set_grad(self, tensor: Any, value: Any) -> None:
        """``tensor.grad = value``."""
        if self.off or self.depth:
            return
        self.notes.note("set_grad", tensor, value)
        if value is None and id(tensor) in self.reached.tensors:
            text = f"{self.draft.constant(tensor)}._grad = None"
            self.emit(text, (), (), "", True, undone=True)
            self.draft.lines[-1] = self.draft.lines[-1]._replace(clears=(tensor,))
        elif value is not None or tensor._grad is not None:
            self.refuse("a .grad is set")

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> Any:
        """Of `recording.Recorder`: what is no op is of interest; an op runs nothing of the program, as a rule."""
        if scope == recording.OP and not self.depth:
            if op is not None:
                # writes may warn, whose names end so
                if self.refused is None and not state.bits & _RUNS_MORE and name[-1] != "_":
                    self.watch.stop()
                    self.unwatched = True
                    return _UNWATCHED
            elif sys._getframe(2).f_code is recording.function_span.__code__:
                self.notes.plain = False  # a custom Function, whose ops are recorded
            elif name != "item":
                self.refuse(f"{name} is no op")
            elif not self.off:
                self.watch.stop()
                self.read(args[0])
                return _UNWATCHED
        return None

    def exit(self, token: Any, result: Any) -> None:
        if token is _UNWATCHED:
            self.unwatched = False
            self.watch.start()

    def host_reads(self, name: str, tensor: Any) -> None:
        if not self.depth:
            self.refuse(f"{name}: {_READS}")

    def created(self, tensor: Any) -> None:
        if not self.depth and not self.off:
            self.notes.created(tensor)
            self.created_here[id(tensor._array)] = tensor
            self.kept.append(tensor)
            if tensor._ver is not INFERENCE:  # of which no plan is made
                self.seen.setdefault(id(tensor), (tensor, version_of(tensor), len(self.writes)))

    # -- the end -----------------------------------------------------------------------------------------------------

    def result(self, value: Any) -> tuple[str, list, Any] | None:
        """(text of what the plan returns, how each leaf is made of it, spec) of what the step returned."""
        if self._hands_out(value):
            self.refuse("the step returns a list or dict that outlives it", False)
            return None
        leaves, spec = pytree.flatten(self.placed(value))
        self.notes.result([READ if isinstance(leaf, Read) else leaf for leaf in leaves], spec)
        texts, makers, known = [], [], {}
        made: list[Any] = []  # tensors of the step
        hanging: list[Any] = []  # those that backward may be called on
        for leaf in leaves:
            if isinstance(leaf, Read):
                makers.append(("read", len(texts)))
                texts.append(leaf.name)
            elif not isinstance(leaf, Tensor):
                if not isinstance(
                    leaf, (int, float, complex, bool, str, bytes, type(None), dtype, device)
                ):
                    self.refuse(f"the step returns a {type(leaf).__name__}", False)
                    return None
                makers.append(("constant", leaf))
                self.draft.constant(leaf)
            elif id(leaf) in known:
                makers.append(("again", known[id(leaf)]))
            elif (
                i := next((i for i, t in enumerate(self.arguments) if t is leaf), None)
            ) is not None:
                makers.append(("argument", i))
            elif id(leaf) in self.reached.tensors:
                makers.append(("constant", leaf))
                self.draft.constant(leaf)
            elif (
                owner := next((x for x in self.leaves.values() if x._grad is leaf), None)
            ) is not None:
                makers.append(("gradient", owner))
                self.draft.constant(owner)
            else:
                known[id(leaf)] = len(makers)
                if (name := self._returned(leaf)) is None:
                    return None
                node, nr = edge(leaf)
                version = 0 if leaf._ver is INFERENCE else version_of(leaf)
                if self._hangs(leaf):
                    node, nr = HANGING, len(hanging)
                    hanging.append(leaf)
                makers.append(("fresh", (len(texts), node, nr, version)))
                made.append(leaf)
                texts.append(name)
        if not self._apart(made):
            self.refuse("the step returns two tensors on the same memory", False)
        elif hanging:
            try:
                self.graph = Graph(self, self.first_seq, made, hanging)
                if self.casts_come_late():
                    raise Unwritable("a parameter has hooks, and some are cast")
            except Unwritable as exc:
                self.refuse(
                    f"the step returns a tensor that backward may be called on: {exc}", False
                )
        return f"({''.join(f'{t}, ' for t in texts)})", makers, spec

    def _hangs(self, t: Any) -> bool:
        """Whether backward may be called on a result."""
        return t._rg and id(edge(t)[0]) not in self.released

    @staticmethod
    def _apart(tensors: list[Any]) -> bool:
        """Whether no two share memory, so that a write to one is none to another."""
        arrays = [t._array for t in tensors]
        pairs = ((a, b) for i, a in enumerate(arrays) for b in arrays[:i])
        return not any(np.may_share_memory(a, b) for a, b in pairs)

    def _hands_out(self, value: Any) -> bool:
        if isinstance(value, dict):
            return id(value) in self.reached.containers or any(map(self._hands_out, value.values()))
        if isinstance(value, (list, tuple)):
            own = isinstance(value, list) and id(value) in self.reached.containers
            return own or any(map(self._hands_out, value))
        return False

    def _returned(self, t: Any) -> str | None:
        name = self.name_of(t._array)
        if name is not None and not self._noticed(t, name):
            return None
        if name is None and (name := self._made_of_numbers(t._array)) is None:
            self.refuse(
                "the step returns a tensor that came about in a way that is not recorded", False
            )
            return None
        others = [r._array for r in (*self.reached.tensors.values(), *self.arguments)]
        others += [r._grad._array for r in self.reached.tensors.values() if r._grad is not None]
        shares = any(np.may_share_memory(t._array, o) for o in others)
        if (
            shares
            or (t._view is not None and not self._hangs(t))
            or type(t) is not Tensor
            or raw_attributes(t).keys() - {"_detached", "_accumulator"}
        ):
            self.refuse(
                "the step returns a view, or a tensor that shares memory with one that lives on",
                False,
            )
        else:
            return name
        return None
