"""A run of elementwise lines of a plan, and the kernel that it becomes; see fusion.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..devices.numpy import chains, mkl
from ..devices.numpy.sums import add_up
from ..op import spreading
from .calls import Called, Named
from .memory import OUT, Made
from .sequence import SMALL
from .together import fused


class Layout(NamedTuple):
    """Shape and dtype of an array that is C-contiguous; repeated: or has one number everywhere, in one place."""

    shape: tuple[int, ...]
    dtype: np.dtype
    repeated: bool = False


class Run:
    """Lines that are to become one."""

    def __init__(self, fusion: Any):
        self.fusion = fusion
        self.members: list[tuple[int, Any]] = []
        self.before: list[tuple[int, Any]] = []
        self.after: list[tuple[int, Any]] = []
        self.inside: set[str] = set()  # memory that members write to
        self.later: set[str] = set()  # memory that lines of `after` make
        self.read_later: set[str] = set()  # that they read
        self.shape: tuple[int, ...] | None = None
        self.row = 0
        self.arrays: dict[str, tuple[np.dtype, int, int]] = {}  # given: dtype, kind, elements
        self.written: set[str] = set()  # of those given
        self.made: dict[str, Layout] = {}
        self.alias: dict[str, tuple[str, np.dtype]] = {}  # views of all bits: of what, as what
        self.calls: list[
            tuple[int, tuple[int, int], tuple]
        ] = []  # operands: names, or arrays of one number

    def touches(self, line: Any) -> bool:
        """Whether a line names what the run makes, or what is made of that."""
        mine = self.inside | self.later
        return any([self.fusion.groups.of(n) in mine for n in (*line.ins, *line.outs)])

    # -- gathering ---------------------------------------------------------------------------------------------------

    def add(self, i: int, line: Any, called: Called) -> bool:
        """Take a line in, if it fits."""
        before = self.shape, self.row, dict(self.arrays), set(self.written)
        try:
            fits = self._add(line, called)
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            self.shape, self.row, self.arrays, self.written = before
            return False
        self.members.append((i, line))
        return True

    def _add(self, line: Any, called: Called) -> bool:
        fusion, groups = self.fusion, self.fusion.groups
        if any([groups.of(n) in self.later for n in line.ins]) or len(line.outs) > 1:
            return False
        if any([fusion.given[n] > 1 for n in line.outs]):
            return False
        operands = [o for o in called.operands if o is not None and not isinstance(o, np.dtype)]
        shape = self._shape(operands)
        if (
            shape is None
            or not math.prod(shape)
            or (self.shape is not None and shape != self.shape)
        ):
            return False
        self.shape = shape
        if called.function is np.ndarray.view:
            return self._view(line, called)
        found = [self._operand(o) for o in operands]
        if any([f is None for f in found]):
            return False
        step = self._step(called, found)
        if step is None:
            return False
        what, loop, given, dtype = step
        if called.into:
            into = called.into
            if not self._may_write(into, dtype) or not self._apart():
                return False
            if line.outs:  # a new name for the array
                self.alias[line.outs[0]] = self._base(into), dtype
            self.inside.add(groups.of(into))
        else:
            into = line.outs[0] if line.outs else ""
            if not into or not self._apart():
                return False
            if line.made is None or line.made.shape != shape or line.made.dtype != dtype:
                return False
            self.made[into] = Layout(shape, dtype)
            self.inside.add(groups.of(into))
        self.calls.append((what, loop, (*given, into)))
        return True

    def _apart(self) -> bool:
        """Whether nothing that is given can be memory that the run writes to, seen through another array."""
        of = self.fusion.groups.of
        written = {of(n): n for n in self.written}
        return all([written.get(of(n), n) == n for n in self.arrays])

    def _layout(self, name: str) -> Layout | None:
        if name in self.alias:
            base, dtype = self.alias[name]
            found = self._layout(base)
            return None if found is None else found._replace(dtype=dtype)
        return self.made.get(name) or self.fusion.layouts.get(name)

    def _shape(self, operands: list) -> tuple[int, ...] | None:
        shapes = []
        for o in operands:
            if isinstance(o, Named):
                layout = self._layout(o)
                if layout is None:
                    return None
                shapes.append(layout.shape)
            elif isinstance(o, np.ndarray):
                shapes.append(o.shape)
        return np.broadcast_shapes(*shapes) if shapes else None

    def _operand(self, value: Any) -> Any:
        """(operand of a call, its dtype or Python type); None if it cannot be one."""
        if isinstance(value, Named):
            layout = self._layout(value)
            assert layout is not None
            base = self._base(value)
            if base not in self.made:
                if self.fusion.given.get(base, 1) > 1:
                    return None
                whole = self._layout(base)
                kind = self._kind(layout.shape)
                if kind is not None and whole is not None and whole.repeated:
                    kind = chains.kernel().REPEATED
                if whole is None or kind is None or not whole.dtype.isbuiltin:
                    return None
                self.arrays.setdefault(base, (whole.dtype, kind, math.prod(whole.shape)))
                if self.arrays[base][1] != kind:
                    return None
            return base, layout.dtype
        if isinstance(value, (np.ndarray, np.generic)):
            return (
                (np.array(value), value.dtype)
                if value.ndim == 0 and value.dtype.isbuiltin
                else None
            )
        return (value, type(value)) if type(value) in (bool, int, float) else None

    def _base(self, name: str) -> str:
        return self.alias[name][0] if name in self.alias else name

    def _kind(self, shape: tuple[int, ...]) -> int | None:
        """How the elements of an array of this shape lie to those of the run."""
        programs = chains.kernel()
        whole: Any = self.shape
        if shape == whole:
            return programs.DENSE
        if math.prod(shape) == 1:
            return programs.ONE
        padded = (1,) * (len(whole) - len(shape)) + tuple(shape)
        full = [n == w for n, w in zip(padded, whole, strict=True)]
        first = next(k for k, n in enumerate(padded) if n != 1)
        last = max([k for k, n in enumerate(padded) if n != 1])
        if all(full[first:]) and math.prod(padded) == math.prod(whole):
            return programs.DENSE
        if all(full[first:]):
            kind, row = programs.ROW, math.prod(whole[first:])
        elif all(full[: last + 1]):
            kind, row = programs.COLUMN, math.prod(whole[last + 1 :])
        else:
            return None
        if self.row and row != self.row:
            return None
        self.row = row
        return kind

    def _step(self, called: Called, found: list) -> tuple | None:
        """(what the kernel does, loop, operands, dtype of the result)."""
        programs, function = chains.kernel(), called.function
        kinds = [k for _, k in found]
        if function is np.dtype:
            dtype = called.operands[-1]
            what = {
                "f4": programs.TO_FLOAT,
                "f8": programs.TO_DOUBLE,
                "i4": programs.TO_INT,
                "i8": programs.TO_LONG,
            }
            if kinds[0] == dtype and dtype.isbuiltin:
                return programs.COPY, (dtype.itemsize, 0), (found[0][0],), dtype
            if kinds[0] != np.dtype(bool) or dtype.str[1:] not in what:
                return None
            return what[dtype.str[1:]], (0, 0), (found[0][0],), dtype
        if function is np.where:
            if kinds[0] != np.dtype(bool):
                return None
            dtype = np.result_type(*[k if isinstance(k, np.dtype) else k(0) for k in kinds[1:]])
            if dtype.itemsize not in (1, 4, 8) or any(
                [isinstance(k, np.dtype) and k != dtype for k in kinds[1:]]
            ):
                return None
            given = [found[0][0], *[self._number(v, dtype) for v, _ in found[1:]]]
            return programs.WHERE, (dtype.itemsize, 0), tuple(given), dtype
        if mkl.quicker(function.__name__, function) is not function:
            return None  # eager leaves it to another library where arrays are large
        resolved = function.resolve_dtypes((*kinds, None))
        if any([isinstance(k, np.dtype) and k != r for k, r in zip(kinds, resolved, strict=False)]):
            return None
        loop = chains.loop_of(function, "".join([d.char for d in resolved]))
        if loop is None:
            return None
        given = [self._number(v, d) for (v, _), d in zip(found, resolved, strict=False)]
        return programs.LOOP, loop, tuple(given), resolved[-1]

    @staticmethod
    def _number(value: Any, dtype: np.dtype) -> Any:
        with np.errstate(all="ignore"):
            return value if isinstance(value, (str, np.ndarray)) else np.array(value, dtype)

    def _view(self, line: Any, called: Called) -> bool:
        name, dtype = called.operands
        layout = self._layout(name)
        if layout is not None and dtype is None:
            dtype = layout.dtype
        if layout is None or layout.dtype.itemsize != dtype.itemsize or not dtype.isbuiltin:
            return False
        if self._operand(name) is None or not self._apart():
            return False
        self.alias[line.outs[0]] = self._base(name), dtype
        return True

    def _may_write(self, name: str, dtype: np.dtype) -> bool:
        """Whether a call may write its result into an array that is there."""
        programs, groups = chains.kernel(), self.fusion.groups
        layout, base = self._layout(name), self._base(name)
        if layout is None or layout.dtype != dtype or layout.shape != self.shape:
            return False
        if groups.of(name) in self.read_later:
            return False
        if base in self.made:
            return True
        if not groups.whole(base) or self._operand(Named(name)) is None:
            return False
        self.written.add(base)
        return self.arrays[base][1] == programs.DENSE

    # -- writing -----------------------------------------------------------------------------------------------------

    def lines(self) -> list:
        """The lines in the place of those of the run."""
        before = list(self.before)
        elements = math.prod(self.shape or ())
        if not self._pays(elements):
            own = [*self.members, *self.before, *self.after]
            return [line for _, line in sorted(own, key=lambda x: x[0])]
        fusion, members = self.fusion, {i for i, _ in self.members}
        outs, views = [], []
        summed = self._summed(elements)
        for name in self.made:
            group = fusion.groups.of(name)
            others = fusion.users[group] - members
            if name in summed and others == {summed[name][0]} and group not in fusion.returned:
                continue
            summed.pop(name, None)
            if group in fusion.returned or others:
                outs.append(name)
        for i, line in self.members:  # names that others use
            name = line.outs[0] if line.outs else ""
            if name in self.alias and (
                fusion.readers.get(name, set()) - members or name in fusion.kept
            ):
                again = self._again(line, name)
                if self._base(name) in self.made:
                    views.append(again)
                else:
                    before.append((i, again))
        totals = {n: f"s{i}" for n, (i, _) in summed.items()}
        after = [
            self._of_total(line, totals) if (i, line) in summed.values() else line
            for i, line in self.after
        ]
        before.sort(key=lambda x: x[0])
        return [
            *[line for _, line in before],
            *self._written(outs, totals, elements),
            *views,
            *after,
        ]

    def _summed(self, elements: int) -> dict[str, tuple[int, Any]]:
        """Of what the run makes: what is summed up behind it as a whole, and by which line."""
        found: dict[str, tuple[int, Any]] = {}
        for i, line in self.after:
            total = self.fusion.sums.get(line.outs[0])
            if (
                total is not None
                and total.name in line.ins
                and total.name in self.made
                and chains.sums(elements, self.row)
            ):
                found[total.name] = i, line
        return found

    def _of_total(self, line: Any, totals: dict[str, str]) -> Any:
        """The line of a sum, for which the kernel has added up."""
        total = self.fusion.sums[line.outs[0]]
        name = totals[total.name]
        text = f"{line.outs[0]} = {self.fusion.constant(total)}({name})"
        return line._replace(text=text, ins=(name,))

    def _again(self, line: Any, name: str) -> Any:
        """The line that gives a name to the memory of what the run works on."""
        base, dtype = self.alias[name]
        whole = self._layout(base)
        text = f"{name} = {base}"
        if whole is not None and whole.dtype != dtype:
            text += f".view({self.fusion.constant(dtype)})"
        return line._replace(text=text, outs=(name,), ins=(base,), made=None)

    def _pays(self, elements: int) -> bool:
        count = len(self.calls)
        return count > 1 or (
            count == 1 and (elements >= spreading.LARGE or self._single_and_small(elements))
        )

    def _single_and_small(self, elements: int) -> bool:
        """Whether it is one call that pays as a part of a sequence alone."""
        return len(self.members) == 1 and elements <= SMALL

    def _written(self, outs: list[str], summed: dict[str, str], elements: int) -> list:
        fusion = self.fusion
        first = next(line for _, line in self.members if line.what or line.node)
        ops = list(dict.fromkeys([line.what for _, line in self.members if line.what]))
        what = f"{', '.join(ops)} (fused)"
        made = []
        empty = fusion.constant(np.empty)
        for name in outs:
            shape, dtype, _ = self.made[name]
            text = f"{name} = {empty}({fusion.constant(tuple(shape))}, {fusion.constant(dtype)})"
            made.append(
                first._replace(
                    text=text, outs=(name,), ins=(), what=what, made=Made(OUT, tuple(shape), dtype)
                )
            )
        given = [*self.arrays, *outs]
        chain = self._chain(outs, given, list(summed), elements)
        text = f"{fusion.constant(chain)}({', '.join(given)})"
        single = self._single_and_small(elements)
        if single:
            fusion.alone[text] = self.members[0][1]
        if summed:
            text = f"{''.join(f'{n}, ' for n in summed.values())}= {text}"
        names = tuple(summed.values())
        line = first._replace(text=text, outs=names, ins=tuple(given), what=what, made=None)
        if not single:
            sites = [line.site for _, line in self.members if line.what]
            fusion.fused.append(fused(ops, elements, sites))
        return [*made, line]

    def _chain(
        self, outs: list[str], given: list[str], summed: list[str], elements: int
    ) -> chains.Chain:
        programs = chains.kernel()
        layouts = [chains.Given(*self.arrays[n]) for n in self.arrays]
        layouts += [chains.Given(self.made[n].dtype, programs.DENSE, elements) for n in outs]
        given = [*given, *summed]
        layouts += [
            chains.Given(self.made[n].dtype, programs.WINDOW, chains.WINDOW) for n in summed
        ]
        constants: list[np.ndarray] = []
        numbers: dict[tuple, int] = {}
        for _, _, operands in self.calls:
            for o in operands:
                if isinstance(o, np.ndarray) and (o.dtype, o.tobytes()) not in numbers:
                    numbers[o.dtype, o.tobytes()] = len(given) + len(constants)
                    constants.append(o)
        first = len(given) + len(constants)
        single = self._single(given)
        places, scratch = self._places(given, first, single)
        places |= {n: k for k, n in enumerate(given)}
        calls = []
        for what, loop, operands in self.calls:
            found = [
                numbers[o.dtype, o.tobytes()]
                if isinstance(o, np.ndarray)
                else places[self._base(o)]
                for o in operands
            ]
            calls.append(chains.Call(what, loop, tuple(found)))
        numbers_made = {places[n] - first for n in single if n in places}
        return chains.Chain(
            layouts,
            constants,
            scratch,
            calls,
            elements,
            self.row,
            self._slow(outs, given, summed),
            numbers_made,
        )

    def _single(self, given: list[str]) -> set[str]:
        """What the run makes on its way that is the same number everywhere."""
        programs = chains.kernel()
        same = programs.ONE, programs.REPEATED
        one = {
            n for n, (_, kind, _) in self.arrays.items() if kind in same and n not in self.written
        }
        single, before = set(self.made) - set(given), None
        while before != len(single):
            before = len(single)
            for what, _, (*operands, into) in self.calls:
                named = {self._base(o) for o in operands if isinstance(o, str)}
                if what != programs.LOOP or not named <= single | one:
                    single.discard(self._base(into))
        return single

    def _places(
        self, given: list[str], first: int, single: set[str]
    ) -> tuple[dict[str, int], list[np.dtype]]:
        """Where the run makes what no other line uses: as few blocks as can be."""
        last: dict[str, int] = {}
        for k, (_, _, operands) in enumerate(self.calls):
            for o in operands:
                if isinstance(o, str):
                    last[self._base(o)] = k
        places: dict[str, int] = {}
        scratch: list[np.dtype] = []
        free: dict[tuple, list[int]] = {}  # by bytes of an element, and whether it is one number
        for k, (_, _, operands) in enumerate(self.calls):
            name = self._base(operands[-1])
            if name in self.made and name not in given and name not in places:
                dtype = self.made[name].dtype
                spare = free.setdefault((dtype.itemsize, name in single), [])
                if spare:
                    places[name] = spare.pop()
                else:
                    places[name] = first + len(scratch)
                    scratch.append(dtype)
            for o in {self._base(o) for o in operands if isinstance(o, str)}:
                if o in places and last[o] == k:
                    free.setdefault((self.made[o].dtype.itemsize, o in single), []).append(
                        places[o]
                    )
        return places, scratch

    def _slow(self, outs: list[str], given: list[str], summed: list[str]) -> Callable:
        """The lines as they were, for arrays that the kernel does not take."""
        names = dict(self.fusion.names)
        parameters = ", ".join([f"out_{n}" if n in outs else n for n in given if n not in summed])
        body = [line.text for _, line in self.members]
        body += [f"out_{n}[...] = {n}" for n in outs]
        body.append(f"return ({''.join(f'add_up({n}, ()), ' for n in summed)})")
        names["add_up"] = add_up
        exec(f"def slow({parameters}):\n" + "".join(f"    {x}\n" for x in body), names)
        return names["slow"]
