"""What all parts of the recorder use: names of arrays, lines, and the end of a recording that cannot be completed."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..operators.nn.batch_norm import Statistics
from ..tape import modes, recording
from ..tape.generator import default_generator
from ..tape.modes import OBSERVE, PROFILE, state
from ..tape.node import peek_seq
from ..tape.source import describe, user_frame
from ..tape.storage import INFERENCE, Storage, version_of
from ..tape.tensor import Tensor
from .check import first_difference
from .memory import Made
from .notes import Notes
from .plan import Draft, Learned, Line
from .state import State
from .watch import Blind, Watch

ndarray = np.ndarray


def _is_private(array: Any) -> bool:
    """Whether nobody but this array has its memory."""
    base = array.base
    return base is None or (
        base.__class__ is ndarray and base.base is None and sys.getrefcount(base) <= 3
    )


def laid_alike(array: Any) -> Any:
    """A copy with the strides of `array`, also along dimensions of one element, which copies may change."""
    out = array.copy("K")
    steps = zip(array.shape, array.strides, out.strides, strict=True)
    if out.strides == array.strides or any([n > 1 and a != b for n, a, b in steps]):
        return out
    return as_strided(out, strides=array.strides)


def root_of(array: Any) -> Any:
    """Who has the memory of an array."""
    while isinstance(array, ndarray) and array.base is not None:
        array = array.base
    return array


class Writer:
    """Writes a `Draft`; `refused` says why there is none.

    Args:
        reached: what was there before the step.
        arguments: the tensors that the step is called with.
        learned: what recordings before this one found out.
        fuses: runs of elementwise lines are to become one.
    """

    def __init__(self, reached: State, arguments: list[Any], learned: Learned, fuses: bool = False):
        self.reached, self.arguments = reached, [*arguments]
        self.draft = Draft(learned, fuses)
        self.notes = Notes(reached, arguments)  # to be compared with those of another run
        self.refused: tuple[str, str] | None = None  # why, where
        self.names: dict[int, str] = {}  # of arrays, by id
        self.kept: list[Any] = []  # so that ids stay theirs
        self.hidden: dict[tuple[int, str], str] = {}  # (node, name) -> variable
        self.roots: dict[int, tuple[str, Any]] = {}  # id of a tensor from before -> its variable
        self.loaded: set[str] = set()
        self.drawn: set[str] = set()  # variables that functions gave which are no ops
        # tensors that no op made, by the ids of their arrays
        self.created_here: dict[int, Any] = {}
        self.released: set[int] = set()  # nodes whose graph backward has used up
        self.leaves: dict[int, Any] = {}
        self.first_seq = peek_seq()  # nodes with smaller numbers are from before the step
        self.sums: set[str] = set()  # variables of sums on their way to one node
        self._boxes: list[tuple[str, list]] = []  # lists that the kernel of the current op fills
        self.graph: Any = None  # of results that backward may be called on
        self.reads_gradients = False  # whether Python asks for a .grad
        self.gradients: list[bool] = []  # of the tensors that are reached: whether they had one
        self.depth = 0  # inside kernels and what is recorded as a whole
        self.spans = 0  # ops and nodes so far
        # of lines that are written now: where in the program, and of which node what
        self.writing: tuple[Any, str, str] | None = None
        self.lasting = ""  # what it did first that cannot be undone, see `Reads`
        # whether the draft is tried out as soon as it has to be, and whether it was
        self.confirms = self.confirmed = False
        self.tried_as_plan = False  # whether the plan itself may be, where nothing lasts
        self.values: dict[str, Any] = {}  # arrays by variable
        self.watch: Any = Watch(self)
        self.unwatched = False  # inside an op that runs nothing of the program
        for i, t in enumerate(arguments):
            self._name(t._array, f"a{i}")
        self.versions = {id(t): [t, version_of(t)] for t in (*reached.tensors.values(), *arguments)}
        self.writes: list[Any] = []  # tensors that recorded lines write to, each time
        self.seen: dict[
            int, tuple[Any, int, int]
        ] = {}  # tensors made here: (tensor, version, writes before)
        self.draws = self.drawn_from = default_generator._pack()
        before = [t._grad for t in reached.tensors.values() if t._grad is not None]
        self.kept += (owners := [root_of(g._array) for g in before])
        self._before = {id(o) for o in owners}  # whose memory gradients from before have
        self._roots: set[int] = set()

    @property
    def off(self) -> bool:
        return self.refused is not None

    def refuse(self, why: str, here: bool = True, site: Any = None) -> None:
        """There will be no plan; the step goes on as usual."""
        if self.refused is None:
            if site is None and here:
                frame = user_frame(sys._getframe(1))
                site = frame.f_code, frame.f_lasti
            self.refused = why, describe(site) if site is not None else ""

    def let_go(self) -> None:
        """It is over: all arrays of the step go with the recorder, at once and not with garbage."""
        self.watch = Blind()

    class _Quiet:
        """A block in which nothing is written down: its ops run as without a recorder."""

        def __init__(self, recorder: Any):
            self.recorder = recorder

        def __enter__(self) -> None:
            self.before = state.bits, state.recorder
            self.capture = state.capture  # None when the recording is over
            self.recorder.depth += 1
            self.recorder.watch.stop()
            self.recorder.step_aside()
            state.recorder = recording.group(self.recorder.other_recorders())

        def __exit__(self, *exc: object) -> None:
            self.recorder.depth -= 1
            bits, state.recorder = self.before
            state.capture = self.capture
            modes.set_bits(bits)
            recorder = self.recorder
            if not (recorder.depth or recorder.unwatched) and self.capture is not None:
                recorder.watch.start()

    def other_recorders(self) -> tuple:
        """Recorders that the step itself has added."""
        return tuple([r for r in recording.recorders() if r is not self])

    def is_alone(self) -> bool:
        """Whether nothing else watches what the step does; if not, what follows runs in the usual way."""
        if not (self._modes_of_its_own() or state.function_modes or self.other_recorders()):
            return True
        self.refuse("it watches ops by a mode of its own")
        return False

    @staticmethod
    def _modes_of_its_own() -> list:
        """What sees or changes ops, beside autocast, which is above what is written down."""
        return [i for i in state.interposers if not i.lets_be and i.on is None]

    def step_aside(self) -> None:
        """What follows runs as without this recorder: gradients on raw arrays, as in eager mode.

        It stays the recorder of the thread, with nothing to do: the end of a block may bring the flags back.
        """
        gone = 0 if any([i.on is None for i in state.interposers]) else OBSERVE
        gone |= 0 if self.other_recorders() else PROFILE
        modes.set_bits(state.bits & ~gone)
        state.capture = None

    def quiet(self) -> _Quiet:
        return self._Quiet(self)

    def is_made_here(self, array: Any) -> bool:
        """Whether nobody but the step can have the memory of an array."""
        if not self._roots:
            known = [t._array for t in (*self.reached.tensors.values(), *self.arguments)]
            self._roots = {id(root_of(a)) for a in known} | self._before
        return id(root_of(array)) not in self._roots

    # -- names -------------------------------------------------------------------------------------------------------

    def _name(self, value: Any, name: str) -> str:
        self.names[id(value)] = name
        self.values[name] = value
        self.draft.laid_out(name, value)
        self.kept.append(value)
        return name

    def confirm(self) -> None:
        """Try the lines out; see check.py. From now on the step may do what cannot be repeated."""
        if self.off or not self.confirms:
            return
        self.confirms = False
        self.check_writes()
        if self.off:
            return
        with self.quiet():
            try:
                given = [f"A{i}" for i in range(len(self.arguments))]
                line = first_difference(
                    self.draft, given, self.arguments, self.values, self.drawn_from
                )
            except Exception as exc:
                self.refuse(f"its lines cannot be run: {type(exc).__name__}: {exc}", False)
                return
        self.confirmed = line is None
        if line is not None:
            self.refuse(f"its lines give other numbers than the step: {line.what}", site=line.site)

    def check_writes(self) -> None:
        """Every change of memory must be one that was written down."""
        for t, version in self.versions.values():
            if version_of(t) - version != self._written(t, 0):
                self.refuse(
                    f"a tensor of shape {tuple(t.shape)} is changed in a way that is not recorded",
                    False,
                )
                return
        for t, version, start in self.seen.values():
            if t._ver is INFERENCE or version_of(t) - version != self._written(t, start):
                self.refuse(
                    "a tensor that the step made is changed in a way that is not recorded", False
                )
                return

    def _written(self, t: Any, start: int) -> int:
        counter = t._ver
        some = counter.__class__ is Storage
        return sum([w is t or (some and w._ver is counter) for w in self.writes[start:]])

    def emit(
        self,
        text: str,
        outs: tuple,
        ins: tuple,
        what: str = "",
        effect: bool = False,
        made: Made | None = None,
        undone: bool = False,
        again: bool = False,
    ) -> None:
        """One more line. undone: of one with an effect, whether that can be undone; again: or comes to nothing."""
        if effect and not (undone or again):
            self.confirm()
            self.lasting = self.lasting or what or text
        node = ""
        if self.writing is None or (what and self.writing[1]):
            frame = user_frame(sys._getframe(1))
            site = frame.f_code, frame.f_lasti
        else:
            site, of, node = self.writing
            what = what or of
        line = Line(text, outs, ins, site, what, effect, self.spans, node, made, again=again)
        self.draft.lines.append(line)

    def name_of(self, array: Any) -> str | None:
        """The variable of an array that a line gave, or of an argument or root; None if nobody knows it."""
        name = self.names.get(id(array))
        if name is not None and name[0] == "r" and name not in self.loaded:
            self._load(name)
        return name

    def _load(self, name: str) -> None:
        tensor = next(t for n, t in self.roots.values() if n == name)
        self.emit(f"{name} = {self.draft.constant(tensor)}._array", (name,), ())
        self.loaded.add(name)

    def tensor(self, t: Any) -> str | None:
        """The variable of the array of a tensor; None, and an end of the recording, for one of unknown origin."""
        array = t._array
        if array.__class__ is not ndarray:
            self.refuse("a tensor that is not an ordinary one of the CPU is used")
            return None
        name = self.name_of(array)
        if name is None:
            reached = self.reached.tensors
            owner = t if id(t) in reached else self._detached_from(array)
            name = None if owner is None else self.root(owner)
        if name is None:
            name = self._gradient(t) or self._made_of_numbers(array)
        if name is None:
            self.refuse("a tensor is used that came about in a way that is not recorded")
        elif not self._noticed(t, name):
            return None
        return name

    def _noticed(self, t: Any, name: str) -> bool:
        """See to it that all changes of a tensor that no op gave are written down; False if there is one already."""
        if name not in self.drawn or id(t) in self.seen:
            return True
        if t._ver is INFERENCE or version_of(t):
            self.refuse("a tensor that the step made is changed in a way that is not recorded")
            return False
        self.kept.append(t)
        self.seen[id(t)] = t, 0, len(self.writes)
        return True

    def _detached_from(self, array: Any) -> Any:
        """The tensor that was there before and has this array: of ``w.detach()``, w."""
        return next((t for t in self.reached.tensors.values() if t._array is array), None)

    def root(self, t: Any) -> str:
        """The variable of a tensor that was there before the step."""
        if id(t) not in self.roots:
            self.roots[id(t)] = f"r{len(self.roots)}", t
        name = self.roots[id(t)][0]
        self._name(t._array, name)
        if name not in self.loaded:
            self._load(name)
        return name

    def _gradient(self, t: Any) -> str | None:
        """The .grad that a backward of this step left: read from its leaf when it is used."""
        leaf = next((x for x in self.leaves.values() if x._grad is t), None)
        if leaf is None:
            return None
        self.confirm()
        name = self.draft.fresh()
        self.emit(f"{name} = {self.draft.constant(leaf)}._grad._array", (name,), ())
        return name

    def _made_of_numbers(self, array: Any) -> str | None:
        """The array of a tensor that is made of numbers: the same each time, which the next run confirms."""
        t = self.created_here.get(id(array))
        if (
            t is None
            or t._array is not array
            or array.__class__ is not ndarray
            or not _is_private(array)
        ):
            return None
        if t._ver is INFERENCE or version_of(t):
            return None
        name = self.draft.fresh()
        with self.quiet():
            kept = laid_alike(array)
        text = f"{self.draft.constant(kept)}.copy('K')"
        if kept.copy("K").strides != array.strides:
            text = f"{self.draft.constant(laid_alike)}({self.draft.constant(kept)})"
        self.emit(
            f"{name} = {text}",
            (name,),
            (),
            "a tensor made in the step",
        )
        return self._name(array, name)

    def _name_of_any(self, array: Any) -> str | None:
        """The variable of an array used outside of ops, perhaps of a tensor from before or made of numbers."""
        name = self.name_of(array)
        if name is None and (owner := self._detached_from(array)) is not None:
            name = self.root(owner)
        return self._made_of_numbers(array) if name is None else name

    def setting(self, op: Any, name: str, value: Any) -> tuple[str, tuple[str, ...]] | None:
        """`expr` of an attribute of an op."""
        if name not in op.tables:
            return self.expr(value)
        constant = self.draft.constant(value)
        return constant, (constant,)

    def expr(self, value: Any) -> tuple[str, tuple[str, ...]] | None:
        """The text of an attribute, and the variables in it; None if it cannot be written."""
        if isinstance(value, ndarray):
            name = self.name_of(value)
            return None if name is None else (name, (name,))
        if isinstance(value, Tensor):
            return None
        # to be filled by the kernel; on the CPU that is all that they do with Statistics
        if value.__class__ in (list, Statistics) and not value:
            name = self.draft.fresh()
            self.emit(f"{name} = []", (name,), ())
            self._boxes.append((name, value))
            return name, (name,)
        if isinstance(value, (tuple, list)) and any(
            [isinstance(v, (ndarray, tuple, list)) for v in value]
        ):
            parts = [p for v in value if (p := self.expr(v)) is not None]
            if len(parts) < len(value):
                return None
            inner = "".join(f"{p[0]}, " for p in parts)
            text = f"[{inner}]" if isinstance(value, list) else f"({inner})"
            return text, tuple(n for p in parts for n in p[1])
        name = self.draft.constant(value)
        return name, (name,)
