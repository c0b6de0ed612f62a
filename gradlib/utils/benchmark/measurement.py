"""What a timer has measured: times of one run each, and what they say together."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...tape.settings import get_num_threads, set_num_threads

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
_NOISY, _VERY_NOISY = 0.1, 0.25  # of the median: the middle half of the times is that wide
_SHORT = 1e-3  # seconds: what is faster is timed in many runs
_MOST_DIGITS = 5


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What was timed, and how it is called in tables.

    Args:
        stmt: the code.
        setup: what ran before it.
        global_setup: not used: it is for C++.
        label: the table.
        sub_label: the row.
        description: the column.
        env: the environment, such as a version.
        num_threads: how many threads it may use.
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """Label and row, or the code where there is no label.

        Code of several lines stands below a line of its own.
        """
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The code that runs before, for people.

        Empty where there is none.
        """
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, column and setup, a line each.

        What there is of them.
        """
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join([f"{p}\n" if "\n" in p else p for p in parts if p])


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of a task. What tables call a time is the median.

    Args:
        number_per_run: how often the code ran in each of `raw_times`.
        raw_times: seconds.
        task_spec: what was timed; its fields are attributes of the measurement, too.
        metadata: anything.

    Example:
        >>> task = TaskSpec("f()", "pass")
        >>> Measurement(2, [2.0, 4.0, 6.0], task).median
        2.0
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Seconds of a run of the code, for each of the raw times.

        A raw time is that of `number_per_run` runs.
        """
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        if not self.raw_times:
            raise ValueError("A measurement without times says nothing")
        return float(np.quantile(self.times, q))

    @property
    def median(self) -> float:
        """The time that half of the runs took less than.

        What few slow runs hardly change.
        """
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The average time.

        One slow run changes it, as it does not `median`.
        """
        if not self.raw_times:
            raise ValueError("A measurement without times says nothing")
        return float(np.mean(self.times))

    @property
    def iqr(self) -> float:
        """How far apart a quarter and three quarters of the times are.

        In seconds.
        """
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something: those above the error of the middle half of the times.

        From 1 to 5.
        """
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        error = 1.645 * float(np.std(middle)) / math.sqrt(len(middle))  # nine times of ten
        error = max(error, self.median * 10.0**-_MOST_DIGITS, 1e-12)
        digits = math.floor(math.log10(self.median / error)) if self.median > 0 else 1
        return min(max(digits, 1), _MOST_DIGITS)

    @property
    def has_warnings(self) -> bool:
        """Whether the times are too far apart to be relied on.

        That is, wider than a tenth of the median.
        """
        return not self.meets_confidence(_NOISY)

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the middle half of the times is no wider than a part of the median.

        Args:
            threshold: that part.
        """
        return self.iqr <= threshold * self.median

    @property
    def title(self) -> str:
        """See `TaskSpec.title`.

        That of the task which was timed.
        """
        return self.task_spec.title

    @property
    def env(self) -> str:
        """The environment; one without a name says so.

        Tables name it where there are several.
        """
        return "Unspecified env" if self.task_spec.env is None else str(self.task_spec.env)

    @property
    def as_row_name(self) -> str:
        """What a table calls the row.

        The sub-label, or the code where there is none.
        """
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        lines = [
            f"<{type(self).__module__}.Measurement object at {hex(id(self))}>",
            self.task_spec.summarize(),
        ]
        unit, scale = select_unit(self.median)

        def show(seconds: float) -> str:
            return f"{trim_sigfig(seconds / scale, 4):.2f}"

        runs = f"{self.number_per_run} runs {'per measurement' if len(self.raw_times) > 1 else ''}"
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        if len(self.raw_times) == 1:
            lines += [f"  {show(self.median)} {unit}", f"  1 measurement, {runs}, {threads}"]
            return "\n".join(lines)
        low, high = show(self._quantile(0.25)), show(self._quantile(0.75))
        lines += [
            f"  Median: {show(self.median)} {unit}",
            f"  IQR:    {show(self.iqr)} {unit} ({low} to {high})",
            f"  {len(self.raw_times)} measurements, {runs}, {threads}",
        ]
        if self.has_warnings:
            share = self.iqr / self.median * 100
            lines.append(
                f"  WARNING: Interquartile range is {share:.1f}% of the median measurement."
            )
            how = (
                "Measurement may be unreliable." if share > 100 * _VERY_NOISY else "Noise is high."
            )
            lines.append(f"           {how} Run it longer, on a quiet machine.")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same task as one.

        Args:
            measurements: any; those of different tasks stay apart.
        """
        groups: dict[TaskSpec, list[Measurement]] = {}
        for measurement in measurements:
            groups.setdefault(measurement.task_spec, []).append(measurement)
        return [
            Measurement(1, [t for m in group for t in m.times], task)
            for task, group in groups.items()
        ]


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time is a handy number, and its seconds.

    Args:
        t: seconds.

    Example:
        >>> select_unit(2e-5)
        ('us', 1e-06)
    """
    fitting = [(name, size) for name, size in _UNITS.items() if size <= t]
    return fitting[-1] if fitting else ("ns", 1e-9)


def unit_to_english(u: str) -> str:
    """The name of a unit.

    Example:
        >>> unit_to_english("us")
        'microsecond'
    """
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number with `n` digits that are not 0.

    Example:
        >>> trim_sigfig(1234.5, 2)
        1200.0
    """
    if x == 0:
        return 0.0
    scale = 10.0 ** (n - math.ceil(math.log10(abs(x))))
    return float(round(x * scale) / scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetition, in order.

    Example:
        >>> ordered_unique("abca")
        ['a', 'b', 'c']
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """A context in which ops use `n` threads.

    Args:
        n: how many.
    """
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
