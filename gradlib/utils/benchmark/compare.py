"""Compare: measurements as tables, a table for each label, a row for each sub-label, a column for each description."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

_BEST, _GOOD, _BAD, _WORST = "\033[92m\033[1m", "\033[92m", "\033[34m\033[1m", "\033[2m\033[91m"
_PLAIN = "\033[0m"


class Colorize(enum.Enum):
    """What a colour of a time is relative to.

    The best of its column, or of its row.
    """

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Measurements side by side.

    Args:
        results: what timers have given.

    Example:
        >>> from gradlib.utils.benchmark import Timer
        >>> times = [Timer(code, label="sums").timeit(10) for code in ("1 + 1", "2 + 2")]
        >>> print(Compare(times))  # doctest: +SKIP
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim, self._warn = False, False
        self._colorize = Colorize.NONE
        self.extend_results(results)

    def __str__(self) -> str:
        return "\n".join(self._tables())

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements.

        Raises:
            ValueError: something else.
        """
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(result)} instead."
                )
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Show the digits alone that the times support.

        See `Measurement.significant_figures`.
        """
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Show fast times in green and slow ones in red.

        Args:
            rowwise: compare within a row, not within a column.
        """
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Say behind a time how much it varies.

        Where it varies so much that it cannot be relied on.
        """
        self._warn = True

    def print(self) -> None:
        """Print the tables.

        They are ``str(compare)``, too.
        """
        print(self)

    # -- layout ------------------------------------------------------------------------------------------------------

    def _tables(self) -> list[str]:
        merged = Measurement.merge(self._results)
        labels = ordered_unique(m.label for m in merged)
        return [self._table([m for m in merged if m.label == label]) for label in labels]

    def _table(self, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(m.median for m in results))
        rows = ordered_unique((m.num_threads, m.as_row_name, m.env) for m in results)
        rows.sort(key=lambda row: row[0])
        several = len({m.env for m in results}) > 1
        columns = ordered_unique(m.description for m in results)
        cells = {(m.num_threads, m.as_row_name, m.env, m.description): m for m in results}
        digits = {
            c: self._digits([m for m in results if m.description == c], scale) for c in columns
        }

        def shown(row: tuple, column: str | None) -> tuple[str, str]:
            found = cells.get((*row, column))
            if found is None:
                return "", ""
            time = found.median / scale
            if self._trim:
                time = trim_sigfig(time, found.significant_figures)
            text = f"{time:.{digits[column]}f}"
            if self._warn and found.has_warnings:
                text += f"  (! {found.iqr / found.median * 100:.0f}%)"
            beside = cells.values()
            if self._colorize is Colorize.ROWWISE:
                beside = [m for c in columns if (m := cells.get((*row, c))) is not None]
            elif self._colorize is Colorize.COLUMNWISE:
                beside = [m for m in results if m.description == column and m.num_threads == row[0]]
            return text, self._colour(found, list(beside))

        names = [(f"({r[2]}) " if several else "") + r[1] for r in rows]
        texts = [[shown(row, column) for column in columns] for row in rows]
        width = max(map(len, names)) + 8
        widths = [
            max([len(str(c or "")), *(len(line[i][0]) for line in texts)]) + 2
            for i, c in enumerate(columns)
        ]
        head = " " * width + "".join(f"|{str(c or '').center(w)}" for c, w in zip(columns, widths))
        title = f" {results[0].label or ''} ".center(len(head) - 2, "-")
        lines = [f"[{title}]", head.rstrip()]
        threads = None
        for row, name, line in zip(rows, names, texts):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(len(head), "-"))
            parts = [
                f"|{colour}{text.rjust(w - 1)} {_PLAIN if colour else ''}"
                for (text, colour), w in zip(line, widths)
            ]
            lines.append(f"      {name}".ljust(width) + "".join(parts))
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._warn and any(m.has_warnings for m in results):
            lines.append(
                "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
            )
        return "\n".join([*lines, ""])

    def _digits(self, results: list[Measurement], scale: float) -> int:
        """Digits behind the point for a column."""
        if not self._trim:
            return 1
        whole = [len(str(int(m.median / scale))) for m in results]
        return max([0, *(m.significant_figures - n for m, n in zip(results, whole))])

    def _colour(self, found: Measurement, beside: list[Measurement]) -> str:
        if self._colorize is Colorize.NONE:
            return ""
        best, worst = min(m.median for m in beside), max(m.median for m in beside)
        if found.median <= best * 1.01:
            return _BEST
        if found.median <= best * 1.1:
            return _GOOD
        return _WORST if found.median == worst and worst > best * 1.5 else _BAD
