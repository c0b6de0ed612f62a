"""Sequences: neighbouring lines of a plan whose arrays are small, as one call; see `devices/numpy/sequences.py`.

A sequence is gathered from lines that are next to each other once runs are fused: such runs, and products of matrices,
with views of what they work on between them. Its steps are in the order of the lines, so nothing that writes in place
has to be looked at. Lines that read the array of a tensor from before stand before it. Any other line ends it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..devices.numpy import sequences
from ..devices.numpy.chains import Chain
from ..devices.numpy.sequences import Apply, Product, Slot
from .memory import OUT, Made
from .together import joined

SMALL = 1 << 14  # elements of an array at most: with larger ones the time is in the steps
WORK = 1 << 20  # multiplications of a product
_ROOT = re.compile(r"r\d+ = c\d+\._array")
_CALL = re.compile(r"(c\d+)\(([\w, ]*)\)")
_DOT = re.compile(r"(t\d+) = (\w+)\.dot\((\w+)\)")
_VIEW = re.compile(r"(t\d+) = (\w+)\.(T|reshape\(.*\))")


def gather(
    lines: list,
    names: dict[str, Any],
    layouts: dict[str, Any],
    kept: set[str],
    alone: dict[str, list],
    constant: Callable,
    told: list,
) -> list:
    """The lines of a plan with sequences in the place of what they are made of.

    Args:
        names: the constants of the plan.
        layouts: what is known of arrays that are contiguous, by variable.
        kept: variables that the plan returns.
        alone: by the text of the line of a run of one call, the line that it was: which is quicker by itself.
        constant: gives the name of a new constant.
        told: what was joined is added to it.
    """
    return _Gathering(lines, names, layouts, kept, alone, constant, told).done()


class _Gathering:
    def __init__(self, lines, names, layouts, kept, alone, constant, told):
        self.lines, self.names, self.kept, self.told = lines, names, kept, told
        self.layouts, self.alone, self.constant = layouts, alone, constant
        self.users: dict[str, set[int]] = {}
        for i, line in enumerate(lines):
            for n in (*line.outs, *line.ins):
                self.users.setdefault(n, set()).add(i)
        self.result: list = []
        self.found: _Sequence | None = None

    def done(self) -> list:
        for i, line in enumerate(self.lines):
            if self.found is None:
                self.found = _Sequence(self)
            if not self.found.add(i, line):
                self._end()
                self.found = _Sequence(self)
                if not self.found.add(i, line):
                    self.result.append(line)
        self._end()
        return self.result

    def _end(self) -> None:
        if self.found is not None:
            self.result += self.found.lines()
            self.found = None


class _Sequence:
    """Lines that are to become one."""

    def __init__(self, gathering: _Gathering):
        self.of = gathering
        self.members: list[tuple[int, Any]] = []
        self.before: list[tuple[int, Any]] = []
        self.views: dict[str, tuple[str, sequences.Layout, Any]] = {}  # of what, layout, line
        self.made: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        self.given: dict[str, Slot] = {}
        self.steps: list[tuple] = []  # what makes a step of slots, and the variables that have them

    # -- gathering ---------------------------------------------------------------------------------------------------

    def add(self, i: int, line: Any) -> bool:
        """Take a line in, if it fits."""
        if line.effect or line.leaf:
            return False
        if line.made is None and _ROOT.fullmatch(line.text):
            if not self.members:
                return False
            self.before.append((i, line))
            return True
        made: Any = line.made
        if _is_new(line):
            self.made[line.outs[0]] = made.shape, made.dtype
            fits = made.dtype.isbuiltin == 1
        elif (match := _DOT.fullmatch(line.text)) is not None and made is not None:
            fits = self._product(made, *match.groups())
        elif (match := _VIEW.fullmatch(line.text)) is not None:
            fits = self._view(line, *match.groups())
        else:
            match = _CALL.fullmatch(line.text)
            fits = match is not None and self._chain(*match.groups())
        if fits:
            self.members.append((i, line))
        return fits

    def _chain(self, name: str, arguments: str) -> bool:
        chain = self.of.names.get(name)
        if not isinstance(chain, Chain) or chain.large or chain.windows:
            return False
        variables = arguments.split(", ")
        given = dict(self.given)
        for variable, wanted in zip(variables, chain.given, strict=True):
            if wanted.elements > SMALL or not self._array(variable, given):
                return False
        self.given = given
        self.steps.append((partial(Apply, chain), variables))
        return True

    def _product(self, made: Made, name: str, a: str, b: str) -> bool:
        given = dict(self.given)
        found = [self._matrix(x, given) for x in (a, b)]
        _, shape, dtype = made
        if None in found or any([d != dtype for _, _, d in found]) or not 0 < _size(shape) <= SMALL:
            return False
        one, two = [(s, t) for s, t, _ in found]
        if _size(one[0]) * _size(two[0][1:]) > WORK or self._base(a) == self._base(b):
            return False
        if not sequences.fitting(one, two, dtype):
            return False
        self.given = given
        self.made[name] = shape, dtype
        own = shape, _strides(shape, dtype.itemsize)
        self.steps.append((partial(Product, (one, two, own), dtype), (a, b, name)))
        return True

    def _view(self, line: Any, name: str, base: str, how: str) -> bool:
        found = self._matrix(base, dict(self.given))
        if found is None:
            return False
        shape, strides, dtype = found
        if how == "T":
            layout = shape[::-1], strides[::-1]
        else:
            known = self.of.layouts.get(name)
            if known is None or known.repeated or strides != _strides(shape, dtype.itemsize):
                return False
            layout = known.shape, _strides(known.shape, dtype.itemsize)
        self.views[name] = base, layout, line
        return True

    def _base(self, name: str) -> str:
        while name in self.views:
            name = self.views[name][0]
        return name

    def _matrix(self, name: str, given: dict[str, Slot]) -> Any:
        """(shape, strides, dtype) of an array of one or two dimensions."""
        base = self._base(name)
        if not self._array(base, given) or (base in given and given[base].repeated):
            return None
        dtype = self._dtype(base, given)
        if name in self.views:
            layout = self.views[name][1]
        else:
            known = self.of.names.get(name, self.of.layouts.get(name))
            shape = self.made[name][0] if name in self.made else known.shape
            layout = shape, _strides(shape, dtype.itemsize)
        return (*layout, dtype) if len(layout[0]) in (1, 2) else None

    def _array(self, name: str, given: dict[str, Slot]) -> bool:
        """Whether a variable is an array that the kernel takes: of the sequence, or one that it is given."""
        base = self._base(name)
        if base not in self.made and base not in given and not self._is_given(base, given):
            return False
        if name not in self.views:
            return True
        shape, strides = self.views[name][1]
        return strides == _strides(shape, self._dtype(base, given).itemsize)

    def _dtype(self, base: str, given: dict[str, Slot]) -> np.dtype:
        return self.made[base][1] if base in self.made else given[base].dtype

    def _is_given(self, name: str, given: dict[str, Slot]) -> bool:
        value = self.of.names.get(name)  # a constant
        if isinstance(value, np.ndarray) and value.ndim and value.flags.c_contiguous:
            layout: Any = value
        else:
            layout = self.of.layouts.get(name) if value is None else None
        if layout is None or layout.dtype.isbuiltin != 1 or not 0 < _size(layout.shape) <= SMALL:
            return False
        repeated = value is None and layout.repeated
        given[name] = Slot(layout.dtype, _size(layout.shape), repeated)
        return True

    # -- writing -----------------------------------------------------------------------------------------------------

    def lines(self) -> list:
        """The lines in the place of those that were taken in."""
        if len(self.steps) < 2:
            return self._as_they_were()
        of, own = self.of, {i for i, _ in self.members}
        outside = {n for n in (*self.made, *self.views) if n in of.kept or of.users[n] - own}
        for name in reversed(self.views):  # and what those are views of
            if name in outside:
                outside.add(self.views[name][0])
        again = [line for n, (_, _, line) in self.views.items() if n in outside]
        real = [n for n in self.made if n in outside]
        first = next(line for _, line in self.members if line.what)
        ops = self._ops()
        arrays = [*self.given, *real]
        call = first._replace(
            text=f"{self.of.constant(self._sequence(real))}({', '.join(arrays)})",
            outs=(), ins=tuple(arrays), made=None, what=f"{', '.join(ops)} (joined)",
        )  # fmt: skip
        of.told.append(
            joined(ops, len(self.steps), [line.site for _, line in self.members if line.what])
        )
        return [
            *[line for _, line in self.before],
            *[self._empty(n, first) for n in real],
            call,
            *again,
        ]

    def _as_they_were(self) -> list:
        own = sorted([*self.before, *self.members], key=lambda x: x[0])
        lines = []
        for _, line in own:
            alone = self.of.alone.get(line.text)
            if alone is not None:  # in the place of the new array, too
                lines = [x for x in lines if x.outs != alone.outs or not _is_new(x)]
            lines.append(line if alone is None else alone)
        return lines

    def _ops(self) -> list[str]:
        ops = [line.what.removesuffix(" (fused)") for _, line in self.members if line.what]
        return list(dict.fromkeys(", ".join(ops).split(", ")))

    def _empty(self, name: str, like: Any) -> Any:
        shape, dtype = self.made[name]
        constant = self.of.constant
        text = f"{name} = {constant(np.empty)}({constant(shape)}, {constant(dtype)})"
        return like._replace(text=text, outs=(name,), ins=(), made=Made(OUT, shape, dtype))

    def _sequence(self, real: list[str]) -> sequences.Sequence:
        spans: dict[str, list[int]] = {}  # of what nothing else uses: the steps that do
        for k, (_, variables) in enumerate(self.steps):
            for base in map(self._base, variables):
                if base in self.made and base not in real:
                    spans.setdefault(base, []).append(k)
        slots = {n: k for k, n in enumerate([*self.given, *real, *spans])}
        given = list(self.given.values())
        for n in real:
            shape, dtype = self.made[n]
            given.append(Slot(dtype, _size(shape)))
        needs = []
        for n, used in spans.items():
            shape, dtype = self.made[n]
            needs.append((_size(shape) * dtype.itemsize, used[0], used[-1]))
        steps = [what(tuple([slots[self._base(n)] for n in v])) for what, v in self.steps]
        return sequences.Sequence(given, needs, steps, self._slowly(real))

    def _slowly(self, real: list[str]) -> Callable:
        """The lines as they were, for arrays that the kernel does not take."""
        names = dict(self.of.names)
        given = ", ".join([*self.given, *[f"out_{n}" for n in real]])
        body = [line.text for _, line in self.members] + [f"out_{n}[...] = {n}" for n in real]
        exec(f"def slowly({given}):\n" + "".join(f"    {x}\n" for x in body), names)
        return names["slowly"]


def _is_new(line: Any) -> bool:
    """Whether a line gives a new array that a run is to fill."""
    return line.made is not None and line.made.text == OUT


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Those of a contiguous array."""
    found = [item]
    for n in shape[:0:-1]:
        found.append(found[-1] * n)
    return tuple(found[::-1]) if shape else ()
