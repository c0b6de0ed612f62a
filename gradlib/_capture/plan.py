"""A plan: what a step computed, as the lines of one straight function on raw arrays.

Each line calls the kernel, the gradient formula or the function of the library that the step itself called, on the
arrays that it was called on. So a plan gives the bits that the step gives: it leaves out Tensors, nodes and what Python
does between, and nothing else.
"""

from __future__ import annotations

import linecache
import re
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..tape.accumulation import accumulate, take
from ..tape.modes import RAW
from ..tape.source import GENERATED, describe
from ..tape.storage import bump
from .fusion import fuse
from .memory import OUT, Groups, Layout, Made
from .runs import Layout as ArrayLayout
from .state import same
from .together import Together
from .totals import Total


class Line(NamedTuple):
    """A piece of code: what it computes and from what.

    effect: it does more than give its results. span: the number of the op or node, which may have several lines.
    node: the name of the node of a backward pass that it is of; "" in forward. made: its result, where that is known to
    be a new array. leaf: the variable of the leaf that takes the result over as its gradient; fitting: if it is new, as
    it is. again: its effect is on memory of the plan alone. clears: leaves that have no gradient after it.
    """

    text: str
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    site: Any
    what: str
    effect: bool = False
    span: int = 0
    node: str = ""
    made: Made | None = None
    leaf: str = ""
    fitting: bool = False
    again: bool = False
    clears: tuple[Any, ...] = ()


class Learned:
    """What a recording finds out about kernels, and the next ones of the step need not.

    Attributes:
        ufuncs: calls that write the same bits into an array.
        templates: kernels as their calls; see inline.py.
        numbers: as arrays without dimensions.
    """

    def __init__(self) -> None:
        self.ufuncs: set[tuple] = set()
        self.templates: dict[tuple, Any] = {}
        self.numbers: dict[tuple, np.ndarray] = {}


class Draft:
    """The lines and constants of a plan while it is written.

    fuses: runs of elementwise lines are to become one; see fusion.py.
    """

    def __init__(self, learned: Learned, fuses: bool = False) -> None:
        self.lines: list[Line] = []
        self.names: dict[str, Any] = dict(FUNCTIONS)
        self.constants: list[Any] = []
        self.guards: list[bytes] = []  # values that it is for, see `Reads`
        self.learned = learned
        self.fuses = fuses
        self.layouts: dict[str, Any] = {}  # of arrays, by variable, where lines are to be fused
        self.sums: dict[str, Total] = {}  # variables that are made of the sum of an array
        self.fused: list[Together] = []  # what `fuse` put together
        self.graph: Any = None  # of results that backward may be called on
        self.casts: list[Any] = []  # of parameters, see `casting`
        self.confirmed = False  # whether its lines were tried out
        self.returned: Any = None  # see `Recorder.result`
        self._by_id: dict[int, str] = {}
        self._count = 0

    def constant(self, value: Any) -> str:
        """The name of a value that is the same in each run."""
        name = self._by_id.get(id(value))
        if name is None:
            name = self._by_id[id(value)] = f"c{len(self.constants)}"
            self.constants.append(value)
            self.names[name] = value
        return name

    def number(self, value: int | float, kind: np.dtype) -> np.ndarray:
        """A number as an array without dimensions; one for equal numbers."""
        key = repr(value), value.__class__, kind
        numbers = self.learned.numbers
        if key not in numbers:
            with np.errstate(all="ignore"):
                numbers[key] = np.array(value, kind)
        return numbers[key]

    def fresh(self) -> str:
        """The name of a new variable."""
        self._count += 1
        return f"t{self._count}"

    def mark(self) -> tuple[int, int]:
        """Where variables and constants are, for `back_to`."""
        return self._count, len(self.constants)

    def back_to(self, count: int, constants: int) -> None:
        """Forget the variables and constants since `mark`."""
        for k in range(count + 1, self._count + 1):
            self.layouts.pop(f"t{k}", None)
        self._count = count
        for k in range(constants, len(self.constants)):
            del self._by_id[id(self.constants[k])], self.names[f"c{k}"]
        del self.constants[constants:]

    def guarded(self) -> str:
        """The first value that it is for, for people."""
        first = next(x for x in self.lines if not x.outs and x.what == "item")
        return f"at {describe(first.site)}"

    def agrees(self, other: Draft) -> str | None:
        """Where another draft differs from this one, for people; None if nowhere."""
        for mine, others in zip(self.lines, other.lines, strict=False):
            if mine.text != others.text or mine.outs != others.outs:
                return _at(others)
        if len(self.lines) != len(other.lines):
            longer = max(self.lines, other.lines, key=len)
            return _at(longer[min(len(self.lines), len(other.lines))])
        for k, (a, b) in enumerate(zip(self.constants, other.constants, strict=False)):
            if not alike(a, b):
                name = f"c{k}"
                found = [x for x in other.lines if re.search(rf"\b{name}\b", x.text)]
                return _at(found[0]) if found else "a value that it returns"
        return None

    def laid_out(self, name: str, array: Any) -> None:
        """How the array of a variable lies in memory, if it lies side by side or is one number."""
        if self.fuses and array.__class__ is np.ndarray and array.ndim:
            repeated = array.size > 1 and not any(array.strides)
            if repeated or array.flags.c_contiguous:
                self.layouts[name] = ArrayLayout(array.shape, array.dtype, repeated)

    def fuse(self, returns: str) -> None:
        """Put runs of elementwise lines together."""
        kept = variables(returns)
        found = fuse(self.lines, self.names, self.layouts, kept, self.sums, self.constant)
        self.lines, self.fused = found

    def compile(
        self, given: list[str], returns: str, recorded: bool = False, kept: Iterable[str] = ()
    ) -> tuple[Callable[..., tuple], list[int], Layout]:
        """The function ``run(arguments, memory) -> results``. Variables are dropped after their last use.

        given: the variables that the arguments are. kept: those of the results that may lie in the memory of the plan,
        which is theirs then as long as they are used.

        recorded: it is ``run(arguments, memory, clock, replayed)``, which calls ``replayed(name, site, in_backward,
            start)`` after each op and node. `Recorder.replayed` of a profiler is that.

        Returns:
            The function, for each line of its text the number of the line of the draft or -1, and what its memory is:
            ``memory`` is what `Layout.arrays` of that gives, or what is left of an earlier run.
        """
        inside_plan, kept = set(kept), variables(returns)
        groups = Groups(self.lines, kept - inside_plan)
        for name in inside_plan:
            groups.last[groups.of(name)] = len(self.lines)
        layout = Layout(self.lines, groups)
        # arrays in the memory of the plan, under all their names, are not dropped; nor are those of what was before
        made_there = {self.lines[i].outs[0] for i in (*layout.places, *layout.turned)}
        inside = {groups.of(self.lines[i].outs[0]) for i in layout.places}
        ends: list[list[str]] = [[] for _ in self.lines]
        for name, i in groups.named.items():
            if name[0] != "t" or name in kept or name in made_there:
                continue
            if not (groups.of(name) in inside and groups.whole(name)):
                ends[i].append(name)
        body = []
        if given:
            body.append("".join(f"{name}, " for name in given) + "= arguments")
        if len(layout):
            body.append("".join(f"m{i}, " for i in range(len(layout))) + "= memory")
        names = {**self.names, "__name__": "gradlib.generated"}
        numbers = [-1] * (1 + len(body))
        taken = Taken()
        for i, line in enumerate(self.lines):
            if taken and not (line.leaf or self._only_computes(line)):
                taken.hand_over(body, numbers, names)
            taken.see(line)
            if recorded and line.what and not (i and _of_one(self.lines[i - 1], line)):
                body.append("start_ = clock()")
            text, gone = line.text, ends[i]
            if line.made is not None and i in layout.places:
                text = f"{line.outs[0]} = {line.made.text.replace(OUT, f'm{layout.places[i]}')}"
            elif i in layout.turned:
                text = f"{line.outs[0]} = m{layout.turned[i]}"
            elif line.leaf:
                name, leaf = line.ins[0], names.get(line.leaf)
                fits = line.fitting and name in gone and groups.alone(name)
                if taken.may_wait(leaf) and fits and not recorded:
                    taken.add(leaf, name, i)
                    if taken.size > Taken.MOST:
                        taken.hand_over(body, numbers, names)
                    continue
                if taken:
                    taken.hand_over(body, numbers, names)
                if fits:
                    text = f"take(({line.leaf},), ({name},))"
                else:  # to be taken over by its leaf if nobody else has it
                    drop = f"; {name} = None" if name in gone else ""
                    text = f"b_ = [{name}]{drop}; accumulate({line.leaf}, b_)"
                    gone = [n for n in gone if n != name]
            if gone:
                text += "; " + " = ".join(gone) + " = None"
            body.append(text)
            if recorded and line.what and not _of_one(line, *self.lines[i + 1 : i + 2]):
                names[f"e{i}"] = line.node or line.what, line.site, bool(line.node)
                body.append(f"replayed(*e{i}, start_)")
            while len(numbers) <= len(body):
                numbers.append(i)
        if taken:
            taken.hand_over(body, numbers, names)
        body.append(f"return {returns}")
        more = ", clock, replayed" if recorded else ""
        source = f"def run(arguments, memory{more}):\n" + "".join(f"    {x}\n" for x in body)
        filename = f"{GENERATED}plan {id(self):x}{' of a profile' if recorded else ''}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(compile(source, filename, "exec"), names)
        self.source, run = source, names["run"]
        weakref.finalize(run, linecache.cache.pop, filename, None)
        return run, numbers, layout

    def _only_computes(self, line: Line) -> bool:
        """Whether nobody can tell if a line comes before or after gradients are handed over: it raises nothing."""
        if line.effect:
            return False
        found = _COMPUTES.match(line.text)
        return found is not None and (not found[1] or isinstance(self.names[found[1]], np.ufunc))


_COMPUTES = re.compile(
    r"r\d+ = c\d+\._array$|t\d+ (?:[-+*/]= |= \w+(?:\.T| [-+*/] \w+)?$|= [tr]\d+\.dot\(|= (c\d+)\()"
)


class Taken:
    """Gradients that leaves without one take over: several with one call, as long as they are small."""

    MOST = 1 << 14  # elements

    def __init__(self) -> None:
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self.line = self.size = 0
        self._without: set[int] = set()  # ids of leaves that have no gradient

    def __len__(self) -> int:
        return len(self.leaves)

    def see(self, line: Line) -> None:
        """A line that comes next."""
        if line.clears:
            self._without.update(map(id, line.clears))
        elif line.effect and not (line.leaf or line.again):
            self._without.clear()

    def may_wait(self, leaf: Any) -> bool:
        """Whether the gradient that a leaf gets next is added to none: what reads memory may come before it."""
        waits = id(leaf) in self._without
        self._without.discard(id(leaf))
        return waits

    def add(self, leaf: Any, name: str, line: int) -> None:
        """The array of the variable `name` is to be the gradient of `leaf`, by that line of the draft."""
        self.leaves.append(leaf)
        self.names.append(name)
        self.line = line
        self.size += leaf._array.size

    def hand_over(self, body: list[str], numbers: list[int], names: dict[str, Any]) -> None:
        """Write that down."""
        names[leaves := f"l{self.line}"] = tuple(self.leaves)
        gone = " = ".join(self.names)
        body.append(f"take({leaves}, ({', '.join(self.names)},)); {gone} = None")
        numbers.append(self.line)
        self.leaves, self.names, self.size = [], [], 0


def variables(returns: str) -> set[str]:
    """Those that a text of what is returned names."""
    return set(returns.replace("(", " ").replace(")", " ").replace(",", " ").split())


def _of_one(line: Line, after: Line | None = None) -> bool:
    """Whether two lines are of one op or node."""
    return after is not None and (line.span, line.what) == (after.span, after.what)


def accumulate_into(leaf: Any, gradients: list) -> None:
    """What the engine does when the gradient of a leaf is complete."""
    grad = gradients[0]
    if grad.dtype is not leaf._array.dtype:
        gradients[0] = grad.astype(leaf._array.dtype)
    del grad
    accumulate(leaf, gradients, RAW, False)


MEMORY = "_memory"  # what lines do that take new memory, see `layout.unwritten`
FUNCTIONS = {
    "asarray": np.asarray, "ndarray": np.ndarray, "accumulate": accumulate_into, "take": take, "bump": bump,
}  # fmt: skip
"""What lines of all plans call by name."""


def _at(line: Line) -> str:
    return f"{line.what or 'a tensor that it uses'} at {describe(line.site)}"


def alike(a: Any, b: Any) -> bool:
    """Whether two constants are the same: identical, or equal in type, layout and value."""
    kind = a.__class__
    if a is b or kind is not b.__class__:
        return a is b
    if kind is int or kind is str:
        return bool(a == b)
    if isinstance(a, (tuple, list)):
        pairs = zip(a, b, strict=False)  # most are identical
        return len(a) == len(b) and all([x is y or alike(x, y) for x, y in pairs])
    if same(a, b):
        return True
    if isinstance(a, types.MethodType):
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    if isinstance(a, np.ndarray):
        kinds = a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
        return kinds and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    return False
