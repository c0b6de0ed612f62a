"""A draft is tried out before it becomes a plan: its lines are run once more, and have to give what the step gave.

That is done in the first recording, before the step does something that cannot be repeated: an
optimizer's step, a write to an argument or a buffer, a look at a gradient. What lines write to memory of the step they
write to their own; gradients are not set, and the random numbers are those that the step drew. A step that does no
such thing is over first, and its plan is tried out as a whole: see trial.py.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..tape.dtypes import HALVES
from ..tape.generator import default_generator
from .memory import Groups, written_into
from .plan import FUNCTIONS, MEMORY

# how far the numbers of libraries may be apart whose bits depend on where arrays lie, in parts of the largest one
CLOSE, CLOSE_HALVES = 1e-4, 1e-2
LARGE = 1 << 15  # elements
MOST = 1 << 12  # functions of lines that are kept


def first_difference(
    draft: Any, given: list[str], arguments: Any, values: dict[str, Any], drawn: Any
) -> Any:
    """Run the lines so far; the first that gives something else than the step did, None if there is none.

    Args:
        given: variables that are there at first. arguments: what they are: what the step is called with.
        values: the arrays that the step has by now, by variable.
        drawn: the state of the generator when the step began.
    """
    lines = [(i, x) for i, x in enumerate(draft.lines) if x.again or not x.effect]
    groups = Groups([x for _, x in lines], ())
    when = _when([x for _, x in lines], groups, values)
    ends: dict[int, list[str]] = {}  # line -> variables that are needed no more
    for name in groups.named:
        if name[0] == "t":
            ends.setdefault(groups.last[groups.of(name)], []).append(name)
    space = {**draft.names, **dict(zip(given, arguments, strict=True))}
    now = default_generator._pack()
    default_generator._unpack(drawn)
    try:
        with np.errstate(all="ignore"):
            for k, (i, line) in enumerate(lines):
                run, names = _function_of(line)
                space.update(zip(line.outs, run(*map(space.get, names)), strict=True))
                if not all([same_result(space[n], values[n]) for n in when.get(k, ())]):
                    return draft.lines[i]
                for n in ends.get(k, ()):
                    space[n] = None
    finally:
        default_generator._unpack(now)
    return None


_split = re.compile(r"(?<![\w.])([tarAcv]\d+)\b").split
_functions: dict[tuple, Any] = {}  # of lines, whatever their variables are called


def _function_of(line: Any) -> tuple[Any, list[str]]:
    """A line as a function that gives its results, and the variables that it is called with.

    Lines that only differ in these have one: to compile the lines of a plan takes longer than to run them.
    """
    parts = _split(line.text)
    between, names = parts[::2], parts[1::2]
    first = [names.index(n) for n in names]
    outs = [names.index(n) for n in line.outs]
    key = (*between, *first, *outs)
    found = _functions.get(key)
    if found is None:
        if len(_functions) >= MOST:
            _functions.clear()
        given = ", ".join([f"p{k}" if k == i else f"q{k}" for k, i in enumerate(first)])
        text = "".join([f"{x}p{i}" for x, i in zip(between, first, strict=False)]) + between[-1]
        results = "".join([f"p{i}, " for i in outs])
        space: dict[str, Any] = {**FUNCTIONS, "__name__": "gradlib.generated"}
        exec(f"def run({given}):\n    {text}\n    return ({results})", space)
        found = _functions[key] = space["run"]
    return found, names


def _when(lines: list, groups: Groups, values: dict[str, Any]) -> dict[int, list[str]]:
    """Behind which line each variable is looked at: all that write to its memory come before.

    A sum of gradients is written over the sum before it: only the last one is looked at.
    """
    written: dict[str, int] = {}  # memory -> the last line that writes to it
    sums: dict[str, list[int]] = {}  # memory -> sums that are written over others
    made: dict[str, int] = {}
    for k, line in enumerate(lines):
        if not line.outs:
            written.update({groups.of(name): k for name in line.ins})
        elif into := written_into(line.text):
            sums.setdefault(groups.of(into[1]), []).append(k)
        made.update(dict.fromkeys(line.outs, k))
    found: dict[int, list[str]] = {}
    for name, k in made.items():
        if name not in values:
            continue
        group = groups.of(name)
        if lines[k].what == MEMORY and not written.get(group):  # whatever was there
            continue
        if not any([k < s for s in sums.get(group, ())]):
            found.setdefault(max(k, written.get(group, 0)), []).append(name)
    return found


def same_result(a: Any, b: Any) -> bool:
    """Whether a line gave what the step gave; where libraries compute it, in nearly the same numbers."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if not isinstance(a, (np.ndarray, np.generic)):
        return True
    if (a.dtype, a.shape, a.strides) != (b.dtype, b.shape, b.strides):
        return False
    return _same_bytes(a, b) or _close(a, b)


def _same_bytes(a: Any, b: Any) -> bool:
    if a.size < LARGE or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return a.tobytes() == b.tobytes()
    words = np.uint64 if a.nbytes % 8 == 0 else np.uint8  # without copies
    return np.array_equal(a.reshape(-1).view(words), b.reshape(-1).view(words))


def _close(a: Any, b: Any) -> bool:
    if half := a.dtype in HALVES:
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind not in "fc":
        return False
    largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
    return np.allclose(a, b, 0, (CLOSE_HALVES if half else CLOSE) * largest, equal_nan=True)
