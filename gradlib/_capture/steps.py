"""`gradlib.capture`: when a step is written down, when its plan is replayed, and when it runs as it is."""

from __future__ import annotations

import copy
import functools
import gc
import statistics
import sys
import threading
import warnings
from collections.abc import Callable
from operator import is_
from time import perf_counter_ns
from typing import Any

from numpy import ndarray as _ndarray

from ..amp._casts import local as of_autocast
from ..cuda.capturing import capture as capture_on_cuda
from ..cuda.inspection import Finding
from ..devices.numpy import chains
from ..nn.modules import Module, _global_hooks
from ..nn.parameter import Parameter
from ..nn.utils import parametrize
from ..op import overlays
from ..tape import dtypes, pytree
from ..tape.attributes import INTERNAL, raw_attributes
from ..tape.device import default as default_device
from ..tape.device import device
from ..tape.modes import AUTOCAST, NO_GRAD, PROFILE, shared, state
from ..tape.storage import INFERENCE
from ..tape.switches import switches
from ..tape.tensor import Tensor
from . import casting, passes
from .follow import Follower
from .notes import Notes
from .parts import Parts
from .passes import Region
from .plan import Draft, Learned
from .recorder import Recorder
from .replay import MISSED, Plan
from .state import Opaque, StandIn, State
from .trial import gives_again

__all__ = ["Captured", "Finding", "capture", "explain"]

VARIANTS = 8  # of one step for one combination of shapes; then it runs as it is
PENDING = 4  # recordings at most that read different values, before two of them agree
MISSES = 32  # replays at most that are for nothing, beside two for each one that is for something
COMBINATIONS = 64  # of shapes and other arguments that one step has plans for
SHORT = 200_000  # ns: a step that takes less may be quicker than its replay
TRIED_AT, TRIES = 60, 10  # the replay with which that begins, and how many calls it takes
SKIPS = 1000  # calls of a step that is quicker, until it is looked at again
_TENSORS = (Tensor, Parameter)
_SIMPLE = (int, float, complex, bool, str, bytes, type(None), dtypes.dtype, device)


def capture(step: Callable | None = None, *, mode: str | None = None, **settings: Any) -> Any:
    """`step` as a plan that is replayed: the same bits, without the time that Python takes between kernels.

    On the CPU the first call for each combination of shapes, strides, dtypes and other arguments runs as usual. The
    second is written down while it runs; what the third does is compared with that. From then on a call replays the
    plan: the kernels of forward, backward and all else on raw arrays, in the same order and with the same numbers; what
    they make on the way lies in memory that is kept from replay to replay, and shared by what is not needed at the same
    time; optimizers step as they always do. Random numbers are drawn as without `capture`, ``.grad``, buffers, version
    counters and optimizers are what they would be. On CUDA it is `gradlib.cuda.capture`, with its `settings`.

    Before each replay all that the step's code can reach (attributes of modules, variables of outer functions, globals
    and builtins, classes, modes and settings that it asks for) is compared with what it was; after a change the step is
    written down anew, at most 8 times, then it runs as it is, with a warning. A step runs as it is, too, and `explain`
    tells why, wherever it does what a plan cannot repeat: it reads values by ``.numpy()`` or ``.tolist()``, or where
    memory lies, prints, changes lists or attributes that outlive it, calls functions of other libraries, catches
    exceptions (also by ``with contextlib.suppress(...)``), has hooks that do more than compute with tensors, or is
    called with a tensor that has attributes of its own, or is one that the step reaches by itself.
    Then the modules and functions that it calls are captured in its place, each by itself.

    Backward may be called on what the step returns, and arguments may require grad: passes through replays are written
    down, too, for up to 8 layouts of the gradients that arrive. A pass that is differentiated again, profiled or looked
    into by anomaly mode runs through the step's own nodes, made again from what the replay saved. Views that the step
    returns are tensors of their own then, not views of a base that nobody has.

    A number that the step reads (``loss.item()``, ``float(loss)``) and returns, and uses for nothing else, is read in
    each replay. Where it is used (``if tensor:``), a plan is for the values that it was written down with; a replay
    that finds another one is undone, and the step is written down for that one, too. So what comes before may set
    gradients and draw random numbers; after an optimizer's step, or a change of a buffer, such a step runs as it is.

    After some seventy replays a few calls of a short step run as they are, in turns with replays. If they are quicker,
    which they are where a few kernels work on small arrays, that is how the step runs from then on.

    What no code that it names reaches, such as a debugger or a thread, must not change its meaning.

    Args:
        step: a function of tensors (also in lists, tuples, dicts) and of other values.
        mode: "max" makes runs of elementwise ops one kernel each, which goes through memory once and keeps what they
            compute on the way in the cache. It makes the calls of NumPy's inner loops that eager makes: results have
            the same bits, too (0 ulp). `explain` tells what was put together. Needs numba (extra `fast`).
        settings: of `gradlib.cuda.capture`; on the CPU they have no effect.

    Returns:
        A `Captured`: call it like the step. Works as a decorator, too.

    Raises:
        ImportError: `mode` is "max" and numba is not installed.
        ValueError: `mode` is another word.

    Example:
        >>> model = gradlib.nn.Linear(3, 2)
        >>> optimizer = gradlib.optim.SGD(model.parameters(), lr=0.1)
        >>> @gradlib.capture
        ... def step(x, y):
        ...     optimizer.zero_grad()
        ...     loss = gradlib.nn.functional.mse_loss(model(x), y)
        ...     loss.backward()
        ...     optimizer.step()
        ...     return loss
        >>> for _ in range(5):
        ...     loss = step(gradlib.ones(4, 3), gradlib.zeros(4, 2))
        >>> gradlib.explain(step)
        []
    """
    if step is None:
        return functools.partial(capture, mode=mode, **settings)
    if not callable(step):
        raise TypeError(f"capture(): step must be a function, but got {type(step).__name__}")
    if mode not in (None, "max"):
        raise ValueError(f"capture(): mode must be None or 'max', but got {mode!r}")
    if mode == "max":
        if not chains.available():
            raise chains.Missing
        chains.kernel()  # what is in its way is said here
    return Captured(step, settings, mode == "max")


def explain(step: Any) -> list[Finding]:
    """Why calls of a captured step run as they are: what was in the way, and at which line; empty if nothing was.

    A module that was compiled is one, too. Of a step captured with mode="max" also what was fused: a finding for each
    kernel, its ops and their lines.

    Raises:
        TypeError: `step` was not made by `capture` or `compile`.

    Example:
        >>> step = gradlib.capture(lambda x: x if x.tolist() else -x)
        >>> for _ in range(4):
        ...     _ = step(gradlib.ones(2))
        >>> [finding.what for finding in gradlib.explain(step)]
        ['<lambda>']
    """
    if isinstance(step, Module):
        own = vars(step)
        step = own.get("_call") or own.get("forward", step)
    if not isinstance(step, Captured):
        raise TypeError(
            f"explain(): expected what gradlib.capture returned, but got {type(step).__name__}"
        )
    return [*step.found(), *step.fused()]


class _Entry:
    """What is known for one combination of arguments and modes.

    others: the arguments that are known by identity, which stays theirs.
    """

    def __init__(self, others: list) -> None:
        self.others = others
        self.calls = 0
        self.plans: list[Plan] = []
        self.before: list[Draft] = []  # of recordings before this one, each for other values
        self.candidate: tuple[Plan, Notes, Draft] | None = None  # to be confirmed by the next run
        self.twice = False  # the next run did not: the step is written down twice
        self.hits = self.misses = 0  # of plans that are for the values that they read
        self.reads_others = ""
        self.quicker = False  # the step itself, than its replay
        self.learned = Learned()
        self.given_up = False
        self.refused: Finding | None = None  # why there can be no plan, where one was demanded

    def missed(self, plan: Plan) -> bool:
        """Count a replay that read another value; whether there have been too many, and the plans are gone."""
        self.misses += 1
        self.reads_others = f"it reads another value too often: {plan.draft.guarded()}"
        if self.misses <= 2 * self.hits + MISSES:
            return False
        self.plans, self.given_up = [], True
        return True


class Captured(StandIn):
    """What :func:`capture` returns: call it like the step. It has the step's name and docstring.

    Args:
        settings: of CUDA graphs; None: there it runs as it is.
        demanded: the exception to raise where it cannot be replayed; None: it runs as it is there.

    Attributes:
        step: the function itself.
        findings: what is in the way of replaying, by (what, where); see `explain`.
    """

    def __init__(
        self,
        step: Callable,
        settings: dict[str, Any] | None,
        fuses: bool = False,
        demanded: type[Exception] | None = None,
    ):
        self.step, self.settings, self.fuses, self.demanded = step, settings, fuses, demanded
        self.findings: dict[tuple[str, str], Finding] = {}
        self._entries: dict[Any, _Entry] = {}
        self._last: Plan | None = None  # that was replayed
        self._lock = threading.Lock()
        self._on_cuda: Any = None
        self._skips = 0  # calls that run the step at once
        self.parts: Parts | None = None  # modules that are captured where the step is not
        functools.update_wrapper(self, step, updated=())

    def reset(self) -> None:
        """Forget all plans: the next calls run as usual, and are written down again."""
        self._entries.clear()
        self._last = None
        self._skips = 0
        self.parts = None
        self.findings.clear()
        if self._on_cuda is not None:
            self._on_cuda.reset()

    @property
    def replays(self) -> int:
        """How many plans there are."""
        return sum(len(entry.plans) for entry in self._entries.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._skips > 0:  # threads may count down at the same time
            self._skips -= 1
            return self.step(*args, **kwargs)
        bits = state.bits
        if recorded := bits & ~NO_GRAD == PROFILE and _takes_replays():
            bits &= ~PROFILE
        on: tuple | None = ()
        if bits & AUTOCAST:
            on, bits = casting.around(), bits & ~AUTOCAST
        if bits & ~NO_GRAD or on is None or _unusual(on):
            return self.step(*args, **kwargs)
        values: Any = args
        spec: Any = len(args)  # of which a hash costs less
        if kwargs or not all([v.__class__ is Tensor or v.__class__ in _SIMPLE for v in args]):
            values, spec = pytree.flatten((args, kwargs))
        tensors, key = [], [spec, bits, dtypes.get_default_dtype(), default_device.device]
        key += [overlays._off, switches.deterministic, of_autocast.now or of_autocast.note(), on]
        others, arrays = [], set()
        if len(values) != len(args) or not all(map(is_, values, args)):
            key.append(_kinds_of_keys(spec))
        for v in values:
            if isinstance(v, Tensor):
                array, view = v._array, v._view
                if v.__class__ not in _TENSORS or not hasattr(array, "flags"):
                    return self._as_it_is(args, kwargs, _OWN_CLASS)
                if not isinstance(array, _ndarray):
                    return self._elsewhere(args, kwargs)
                if v._rg:
                    try:
                        key.append((v._grad is None, v.is_leaf))
                    except RuntimeError:  # a view without a history: the step may not ask for it
                        return self._as_it_is(args, kwargs, _SPECIAL)
                elif v._grad is not None or (view and view.base._rg):
                    return self._as_it_is(args, kwargs, _SPECIAL)
                if v._ver is INFERENCE:
                    return self._as_it_is(args, kwargs, _SPECIAL)
                if (more := raw_attributes(v)) and not INTERNAL.issuperset(more):
                    return self._as_it_is(args, kwargs, _SPECIAL)
                if v.__class__ is not Tensor:
                    key.append(v.__class__)
                tensors.append(v)
                arrays.add(id(array))
                key.append((array.shape, array.strides, array.dtype, view is None))
            elif v.__class__ in _SIMPLE:
                key.append((v.__class__, repr(v)))
            else:
                others.append(v)
                key.append(id(v))
        if len(arrays) < len(tensors):  # some are one, or have one array
            key += [t is u for t in tensors for u in tensors]
            key += [t._array is u._array for t in tensors for u in tensors]
        entry = self._entries.get(key := tuple(key))
        if entry is None:
            if len(self._entries) == COMBINATIONS:
                return self._as_it_is(args, kwargs, _TOO_MANY)
            entry = self._entries[key] = _Entry(others)
        if entry.quicker:
            if all([e.quicker for e in self._entries.values() if e.plans]):
                self._skips = SKIPS
            return self.step(*args, **kwargs)
        for plan in entry.plans:
            if plan.fits(tensors):
                if plan is not self._last:
                    self._turn_to(plan)
                if recorded:
                    if plan.undo is not None or plan.region is not None or plan.casts:
                        break
                    return plan.recorded(tensors, self._name())
                if plan.tries:
                    return self._try(entry, plan, tensors, args, kwargs)
                if (found := plan(tensors)) is not MISSED:
                    if plan.undo is not None:
                        entry.hits += 1
                    return found
                if entry.missed(plan):
                    self._refuse(entry, plan.reached.kept, entry.reads_others, "")
        if recorded:
            return self.step(*args, **kwargs)
        entry.calls += 1
        if entry.refused is not None:
            raise self._refusal(entry.refused)
        if entry.given_up and self.parts is not None:
            return self.parts.run(self.step, args, kwargs)
        first = entry.calls == 1 and self.demanded is None
        if first or entry.given_up or sys.getprofile() is not None:
            return self.step(*args, **kwargs)
        if len(entry.plans) == VARIANTS:
            return self._too_many(entry, args, kwargs)
        if not self._lock.acquire(blocking=False):  # another thread is recording
            return self.step(*args, **kwargs)
        # Garbage collection calls what is no part of the step (callbacks, finalizers), and would look through all that
        # is noted on the way, most of which is gone when this is over.
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._record(entry, tensors, others, args, kwargs)
        finally:
            if collects:
                gc.enable()
            self._lock.release()

    def _try(self, entry: _Entry, plan: Plan, tensors: list, args: tuple, kwargs: dict) -> Any:
        """A replay, or the step itself for comparison: what a call adds to its kernels may be more than it spares."""
        left = plan.tries = max(plan.tries - 1, 0)  # threads may come here at the same time
        if left >= TRIES:
            return plan(tensors)
        plan.tries = 0
        began = perf_counter_ns()
        try:
            return self.step(*args, **kwargs) if left % 2 else self(*args, **kwargs)
        finally:
            plan.took[left % 2].append(perf_counter_ns() - began)
            own = plan.took[1]
            plan.tries = 0 if len(own) == 2 and min(own) > SHORT else left
            if not left and all(plan.took):
                replay, step = map(statistics.median, plan.took)
                if step < replay:
                    self._find(
                        f"it is quicker than its replay: {step / 1e3:.1f} us, not {replay / 1e3:.1f}",
                        "",
                    )
                    entry.quicker = True

    def _turn_to(self, plan: Plan) -> None:
        """Another plan than before is replayed: those that are not may keep only so much memory."""
        self._last = plan
        plans = [p for e in list(self._entries.values()) for p in e.plans if p is not plan]
        others = [p.forward for p in plans]
        if sum(len(f.memory) * f.layout.size for f in others) > passes.KEPT:
            for f in others:
                f.memory.clear()

    def found(self) -> list[Finding]:
        """What is in the way of replaying it, and its parts."""
        parts = () if self.parts is None else self.parts.captured()
        return [*self.findings.values(), *[f for part in parts for f in part.found()]]

    def fused(self) -> list[Finding]:
        """What was put together into one kernel, in all plans."""
        found = [f for e in self._entries.values() for p in e.plans for f in p.draft.fused]
        parts = () if self.parts is None else self.parts.captured()
        own = [Finding(*f.told(self._name())) for f in found]
        return list(dict.fromkeys([*own, *[f for part in parts for f in part.fused()]]))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method of a class it is the function itself: what is captured is the method of one object."""
        return self if instance is None else self.step.__get__(instance, owner)

    def __deepcopy__(self, memo: dict) -> Captured:
        """Of a method: that of the object's copy, captured; of a function, this one."""
        step = copy.deepcopy(self.step, memo)
        return self if step is self.step else self.like(step)

    def __reduce__(self) -> Any:
        if (owner := getattr(self.step, "__self__", None)) is not None:
            return getattr, (owner, self.__dict__["__name__"])
        return self.__dict__["__qualname__"]  # as functions are pickled: by name

    def _follow(self, entry: _Entry, tensors: list, args: tuple, kwargs: dict) -> Any:
        """Run the step, and use the plan of the run before if that did the same; `MISSED` where it does not fit."""
        assert entry.candidate is not None
        (plan, notes, draft), entry.candidate = entry.candidate, None
        if not plan.fits(tensors):
            entry.before.append(draft)  # with which a recording now has to agree
            return MISSED
        follower = Follower(plan.reached, tensors, Learned())
        try:
            result = follower.follow(self.step, args, kwargs)
        finally:
            follower.let_go()
        same = not follower.off and follower.notes.plain and notes.differ(follower.notes) is None
        if same and plan.reached.unchanged():
            self._use(entry, plan)
        else:  # two recordings, one after the other, tell whether that matters
            entry.twice = True
        return result

    def _use(self, entry: _Entry, plan: Plan) -> None:
        entry.plans.append(plan)
        if plan.undo is None:
            plan.tries = TRIED_AT + TRIES
        entry.learned = Learned()  # what it holds is needed no more

    def _record(self, entry: _Entry, tensors: list, others: list, args: tuple, kwargs: dict) -> Any:
        if entry.candidate is not None:
            result = self._follow(entry, tensors, args, kwargs)
            if result is not MISSED:
                return result
        try:
            reached = State(self.step, *others)
            given = State(None, args, kwargs)
        except Opaque as exc:
            self._refuse(entry, exc.found, str(exc), "")
            return self.step(*args, **kwargs)
        known = [r._array for r in reached.tensors.values()]
        known += [r._grad._array for r in reached.tensors.values() if r._grad is not None]
        if any([t._array is array for t in tensors for array in known]):
            entry.given_up = True
            self._find(_REACHED, "")
            return self.step(*args, **kwargs)
        reached.containers |= given.containers
        recorder = Recorder(reached, tensors, entry.learned, self.fuses)
        try:
            return self._written_down(entry, recorder, given, args, kwargs)
        finally:
            recorder.let_go()

    def _written_down(
        self, entry: _Entry, recorder: Recorder, given: State, args: tuple, kwargs: dict
    ) -> Any:
        reached = recorder.reached
        recorder.confirms = entry.calls > 1 and not (
            entry.before and all([d.confirmed for d in entry.before])
        )
        recorder.tried_as_plan = not (entry.before or entry.twice or self.fuses)
        imported = len(sys.modules)
        result = recorder.record(self.step, args, kwargs)
        returned = None
        if not recorder.off:
            returned = recorder.result(result)
        if not recorder.off and not reached.unchanged():
            recorder.refuse(f"it changes what outlives it: {reached.difference()}", False)
        if not recorder.off and not given.unchanged():
            recorder.refuse("it changes a list, a dict or an object among its arguments", False)
        plan = None
        if recorder.confirms and not recorder.off and returned is not None:
            pending, plan = copy.copy(recorder.draft), self._plan(entry, recorder, returned)
            recorder.confirmed = gives_again(plan, recorder)
            if not recorder.confirmed:
                recorder.draft = pending
                recorder.confirm()  # which tells the line
                recorder.refuse("its plan gives other numbers than the step", False)
        refused = recorder.refused or (("nothing was recorded", "") if returned is None else None)
        if entry.calls == 1 and refused is not None:  # what it does once may be something else
            refused = refused if refused[1] and imported == len(sys.modules) else None
        if refused is not None:
            self._refuse(entry, reached.kept, *refused)
        if refused is not None or returned is None or entry.calls == 1:
            return result
        draft = recorder.draft
        alike = [d for d in entry.before if d.guards == draft.guards and d.casts == draft.casts]
        before = next(iter(alike), None)
        draft.graph, draft.confirmed, draft.returned = recorder.graph, recorder.confirmed, returned
        if before is None and draft.confirmed and recorder.notes.plain and not entry.twice:
            pending = copy.copy(draft)  # lines of the plan may be put together
            plan = plan or self._plan(entry, recorder, returned)
            entry.candidate = plan, recorder.notes, pending
            return result
        if before is None:
            entry.before.append(draft)
            if len(entry.before) > PENDING:
                why = (
                    f"it reads another value each time: {draft.guarded()}"
                    if draft.guards
                    else _CAST
                )
                self._refuse(entry, reached.kept, why, "")
            return result
        where = before.agrees(draft)
        if where is None and not _same_graph(before.graph, recorder.graph):
            where = "the graph of what it returns"
        if where is None and not _same_return(before.returned, returned):
            where = "what it returns"
        if where is None:
            self._use(entry, self._plan(entry, recorder, returned))
            entry.before.remove(before)
            return result
        self._refuse(entry, reached.kept, f"it does something else each time: {where}", "")
        return result

    def _plan(self, entry: _Entry, recorder: Recorder, returned: tuple[str, list, Any]) -> Plan:
        region = None
        if recorder.graph is not None:
            region = Region(recorder.graph, self.fuses, functools.partial(self._end, entry))
        return Plan(recorder, *returned, region)

    def _end(self, entry: _Entry, why: str, where: str) -> None:
        """No more replays: backward through them cannot be written down."""
        entry.plans, entry.given_up = [], True
        self._find(why, where)

    def _split(self, found: list) -> None:
        """The step runs as it is from now on: what it can reach are parts that may be replayed."""
        if self.parts is None:
            self.parts = Parts(found, getattr(self.step, "__self__", self.step), self.like)

    def like(self, function: Callable) -> Captured:
        """`function` captured with the settings of this one."""
        return type(self)(function, self.settings, self.fuses, self.demanded)

    def _refuse(self, entry: _Entry, found: list, why: str, where: str) -> None:
        """There can be no plan: from now on it runs in parts, `found` among what it reaches, or not at all."""
        entry.given_up = True
        self._find(why, where)
        if self.demanded is not None:
            entry.plans, entry.refused = [], self.findings[why, where]
            raise self._refusal(entry.refused)
        self._split(found)

    def _refusal(self, found: Finding) -> Exception:
        assert self.demanded is not None
        at = f"\n  at {found.where}" if found.where else ""
        return self.demanded(f"{found.what} cannot be captured as one: {found.why}{at}")

    def _name(self) -> str:
        return getattr(self.step, "__name__", type(self.step).__name__)

    def _find(self, why: str, where: str) -> None:
        self.findings.setdefault((why, where), Finding(self._name(), why, where))

    def _as_it_is(self, args: tuple, kwargs: dict, why: str) -> Any:
        self._find(why, "")
        return self.step(*args, **kwargs)

    def _too_many(self, entry: _Entry, args: tuple, kwargs: dict) -> Any:
        reached = entry.plans[-1].reached
        why = f"it was recorded {VARIANTS} times, last because of {reached.difference()}"
        if entry.misses:
            why = f"it was recorded {VARIANTS} times; {entry.reads_others}"
        self._refuse(entry, reached.kept, why, "")
        name = getattr(self.step, "__name__", "the step")
        warnings.warn(
            f"gradlib.capture: {name} runs as it is from now on: {why}", UserWarning, stacklevel=3
        )
        return self.step(*args, **kwargs)

    def _elsewhere(self, args: tuple, kwargs: dict) -> Any:
        """On CUDA, the plan is a CUDA graph; on other devices there is none."""
        tensors = [v for v in pytree.flatten((args, kwargs))[0] if isinstance(v, Tensor)]
        if not any(t.is_cuda for t in tensors):
            return self._as_it_is(args, kwargs, "its arguments are neither on the CPU nor on CUDA")
        if self.settings is None:
            return self._as_it_is(args, kwargs, _COMPILED)
        if any(t.requires_grad for t in tensors):
            return self._as_it_is(args, kwargs, _REQUIRES)
        if self._on_cuda is None:
            self._on_cuda = capture_on_cuda(self.step, **self.settings)
        return self._on_cuda(*args, **kwargs)


_TOO_MANY = f"it is called with more than {COMBINATIONS} combinations of shapes and other arguments"
_CAST = "other parameters were cast before each time, in the block of autocast that is around it"
_COMPILED = "it runs on CUDA, where only what gradlib.capture is called on becomes a CUDA graph"
_REQUIRES = "a tensor among its arguments requires grad, which a CUDA graph does not record"
_OWN_CLASS = "a tensor among its arguments is of a class of its own"
_SPECIAL = (
    "a tensor among its arguments has a .grad, attributes of its own, or was made in inference mode, "
    "or it is a view of one that requires grad"
)
_REACHED = "a tensor among its arguments is one that the step reaches by itself, too"


def _same_return(a: tuple, b: tuple) -> bool:
    """Whether two recordings return the same variables, in the same places."""
    places = [
        [(kind, value if kind in ("again", "argument") else None) for kind, value in makers]
        for _, makers, _ in (a, b)
    ]
    return a[0] == b[0] and a[2] == b[2] and places[0] == places[1]


def _same_graph(a: Any, b: Any) -> bool:
    return a is b if a is None or b is None else a.same(b)


def _kinds_of_keys(spec: Any) -> tuple:
    """What kinds of keys the dicts among the arguments have: 1, 1.0 and True are equal keys."""
    own = ()
    if spec.type in pytree.DICTS:
        own = tuple([(k.__class__, repr(k)) for k in spec._keys() if k.__class__ in _NUMBERS])
    return own + tuple([n for c in spec._children if c._children for n in _kinds_of_keys(c)])


_NUMBERS = (int, float, complex, bool)


def _takes_replays() -> bool:
    """Whether the recorder of this thread, a profiler, wants to be told of what is replayed."""
    return getattr(state.recorder, "replayed", None) is not None


def _unusual(on: tuple) -> bool:
    """Whether something is on, beside flags, with which steps run as they are. on: what autocast does."""
    return bool(
        (state.interposers and not on)
        or state.function_modes
        or state.depth
        or state.transforms
        or state.capture is not None
        or shared.batches
        or shared.subclasses is not None
        or _global_hooks.any_call_hook()
        or parametrize._cache_enabled
    )
