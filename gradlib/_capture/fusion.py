"""Fusion: runs of elementwise lines of a plan as one line, whose kernel goes through memory once.

A run is gathered from neighbouring lines. A line between two of a run that only computes something else moves: before
the run if it needs nothing that the run makes, else behind it. So the lines of a run come to stand where its last one
stands, with all that they read unchanged: a line that may write to memory, or of which it is not known, ends the run.
So does one that reads what stands behind the run. Within a run the order of lines stays, and with it what writes in
place do.

What a run makes is an array where anything behind it uses it, and else a few blocks in the cache. Its calls are those
of the lines, so its results have the same bits (see `devices/numpy/chains.py`). An array that turns out to be laid
out in another way than when the plan was written is noticed by the kernel, and the lines are run one by one.

Where arrays are small, what is left of a plan is joined further; see sequence.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .calls import read
from .memory import Groups
from .runs import Layout, Run
from .sequence import gather
from .together import Together
from .totals import Total

MOST = 1000  # lines of a run


def fuse(
    lines: list,
    names: dict[str, Any],
    layouts: dict[str, Layout],
    returned: set[str],
    sums: dict[str, Total],
    constant: Callable,
) -> tuple[list, list[Together]]:
    """The lines of a plan with runs in the place of what they are made of.

    Args:
        names: the constants of the plan.
        layouts: what is known of arrays that are contiguous, by variable.
        returned: variables that the plan returns.
        sums: of variables that are made of the sum of all elements of another one, how.
        constant: gives the name of a new constant.
    """
    fusion = _Fusion(lines, names, layouts, returned, sums, constant)
    lines, fused = fusion.done()
    return gather(lines, names, fusion.layouts, returned, fusion.alone, constant, fused), fused


class _Fusion:
    def __init__(self, lines, names, layouts, returned, sums, constant):
        self.lines, self.names, self.constant, self.sums = lines, names, constant, sums
        self.groups = Groups(lines, returned)
        self.layouts = dict(layouts)
        self.given: dict[str, int] = {}  # how many lines give a variable
        self.users: dict[str, set[int]] = {}  # memory -> lines that name it
        self.readers: dict[str, set[int]] = {}  # variable -> lines that read it
        for i, line in enumerate(lines):
            if line.made is not None and line.made.shape:
                self.layouts[line.outs[0]] = Layout(line.made.shape, line.made.dtype)
            for n in line.outs:
                self.given[n] = self.given.get(n, 0) + 1
            for n in line.ins:
                self.readers.setdefault(n, set()).add(i)
            for n in (*line.outs, *line.ins):
                self.users.setdefault(self.groups.of(n), set()).add(i)
        self.kept, self.returned = returned, {self.groups.of(n) for n in returned}
        self.result: list = []
        self.fused: list[Together] = []
        # by the text of a run of one small call, the line that it was
        self.alone: dict[str, Any] = {}
        self.run: Run | None = None

    def done(self) -> tuple[list, list[Together]]:
        for i, line in enumerate(self.lines):
            self._take(i, line)
        self._end()
        return self.result, self.fused

    def _take(self, i: int, line: Any) -> None:
        called = (
            None if line.effect or (line.node == "" and not line.what) else read(line, self.names)
        )
        if called is not None:
            if (
                self.run is not None
                and len(self.run.members) < MOST
                and self.run.add(i, line, called)
            ):
                return
            run = Run(self)
            if run.add(i, line, called):
                self._end()
                self.run = run
                return
        if self.run is None or not self._beside(i, line):
            self._end()
            self.result.append(line)

    def _beside(self, i: int, line: Any) -> bool:
        """Put a line that is not of the run before or behind it; False where it cannot move."""
        if line.effect or not line.outs or "out=" in line.text:
            return False  # kernels of ops compute something from their arguments, and nothing else
        run = self.run
        assert run is not None
        (run.after if run.touches(line) else run.before).append((i, line))
        if run.after and run.after[-1][1] is line:
            run.later |= {self.groups.of(n) for n in line.outs}
            run.read_later |= {self.groups.of(n) for n in line.ins}
        return True

    def _end(self) -> None:
        if self.run is not None:
            run, self.run = self.run, None
            self.result += run.lines()
