"""Timer: how long a piece of code takes, with the device waited for."""

from __future__ import annotations

import enum
import statistics
import textwrap
import timeit
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from ... import cuda
from .measurement import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]

_LONGEST_BLOCK = 10**9


def timer() -> float:
    """Seconds of a clock, once the work of CUDA devices is done.

    Example:
        >>> timer() <= timer()
        True
    """
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """What a timed statement is written in.

    C++ is not compiled here.
    """

    PYTHON = 0
    CPP = 1


class Timer:
    """Measures a statement: `timeit`, `blocked_autorange` or `adaptive_autorange` gives a `Measurement`.

    Args:
        stmt: the code; ``torch`` is known in it.
        setup: what runs once before.
        global_setup: for C++.
        timer: the clock.
        globals: the names that the code knows.
        label: the table in `Compare`.
        sub_label: the row.
        description: the column.
        env: the environment, such as a version.
        num_threads: how many threads ops may use.
        language: Python.

    Raises:
        NotImplementedError: C++.

    Example:
        >>> x = gradlib.ones(8)
        >>> Timer("x + 1", globals={"x": x}).timeit(100).median > 0
        True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(
                f"utils.benchmark.Timer: no C++ is compiled in gradlib (language={language!r}); time Python code"
            )
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        names = {"torch": import_module("gradlib"), **(globals or {})}
        code = textwrap.dedent(stmt).strip()
        before = textwrap.dedent(setup).strip()
        self._globals = names
        self._task_spec = TaskSpec(
            code, before, global_setup, label, sub_label, description, env, num_threads
        )
        self._timer = timeit.Timer(code, before, timer, names)

    def _seconds(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One time, of `number` runs, after a few to get warm.

        Args:
            number: how many runs.
        """
        with set_torch_threads(self._task_spec.num_threads):
            self._seconds(max(number // 100, 2))
            return Measurement(number, [self._seconds(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refuse, as PyTorch does.

        Raises:
            NotImplementedError: always; see `Timer.blocked_autorange`.
        """
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> NoReturn:
        """Refuse, as PyTorch does.

        Raises:
            NotImplementedError: always; see `Timer.blocked_autorange`.
        """
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """So many runs that the clock itself does not count, and that there can be many blocks."""
        clock = statistics.median([self._seconds(0) for _ in range(5)])
        number = 1
        while number < _LONGEST_BLOCK:
            taken = self._seconds(number)
            if taken > min_run_time or (clock <= 1e-4 * taken and taken >= min_run_time / 1000):
                break
            number *= 10
        return number

    def _measure(
        self,
        number: int,
        enough: Callable[[Measurement], bool],
        min_run_time: float,
        max_run_time: float,
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:
        total, times = 0.0, []
        while total < min_run_time or (
            total < max_run_time and not enough(Measurement(number, times, self._task_spec))
        ):
            times.append(self._seconds(number))
            if callback is not None:
                callback(number, times[-1])
            total += times[-1]
        return Measurement(number, times, self._task_spec)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Times of blocks of runs, until they took `min_run_time` together.

        Args:
            callback: is given the runs and the seconds of each block.
            min_run_time: seconds.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            return self._measure(number, lambda m: True, min_run_time, min_run_time, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Times of blocks of runs, until they agree.

        Args:
            threshold: they agree when the middle half is no wider than this part of the median.
            min_run_time: seconds at least.
            max_run_time: seconds at most.
            callback: is given the runs and the seconds of each block.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)

            def enough(measured: Measurement) -> bool:
                return len(measured.raw_times) > 3 and measured.meets_confidence(threshold)

            return self._measure(number, enough, min_run_time, max_run_time, callback)

    def collect_callgrind(self, number: int = 100, **settings: Any) -> NoReturn:
        """Refuse: instructions are not counted here.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "gradlib has no utils.benchmark.Timer.collect_callgrind: run valgrind --tool=callgrind on the program"
        )
