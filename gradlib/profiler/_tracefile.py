"""Reading the SQLite files of NVIDIA's profilers: columns come and go with their versions, tables with the options."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"SQLite format 3\0"


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No cyclic garbage collection in a block that makes many objects, none of them garbage: it would cost a third."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class TraceFile:
    """A profiler's SQLite file, open for reading.

    path: the file.
    recorded_by: what makes such files, said in errors.

    FileNotFoundError without the file; RuntimeError if it is not an SQLite database, or a damaged one.
    """

    def __init__(self, path: str | os.PathLike, recorded_by: str):
        self.path, self.recorded_by = os.fspath(path), recorded_by
        with open(self.path, "rb") as file:
            start = file.read(len(_MAGIC))
        if start != _MAGIC:
            raise RuntimeError(f"{self.path} is not an SQLite file; {recorded_by}")
        # read-only: a profile is not to be changed, and a missing one not to be created
        self.database = sqlite3.connect(f"{Path(self.path).resolve().as_uri()}?mode=ro", uri=True)

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.database.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise RuntimeError(f"{self.path} is damaged ({error}); {self.recorded_by}") from error

    def columns(self, table: str) -> set[str]:
        """The names of a table's columns; empty when there is no such table."""
        with contextlib.closing(self.database.execute(f'PRAGMA table_info("{table}")')) as rows:
            return {row[1] for row in rows}

    def rows(self, table: str, needed: str, optional: str = "", order: str = "") -> Iterator[tuple]:
        """Rows of a table that may be absent: values of the columns `needed`, then `optional` (None where absent).

        RuntimeError if the table is there without a column in `needed`.
        """
        present = self.columns(table)
        if not present:
            return iter(())
        missing = [name for name in needed.split() if name not in present]
        if missing:
            raise RuntimeError(
                f"table {table} of {self.path} has no column {', '.join(missing)}; "
                f"it has {', '.join(sorted(present))}. "
                f"{self.recorded_by[0].upper()}{self.recorded_by[1:]}"
            )
        names = [f'"{name}"' for name in needed.split()]
        names += [f'"{name}"' if name in present else "NULL" for name in optional.split()]
        tail = f' ORDER BY "{order}"' if order in present else ""
        return self.database.execute(f'SELECT {", ".join(names)} FROM "{table}"{tail}')

    def require(self, table: str, flag: str) -> None:
        """RuntimeError that names `flag`, the option that would have recorded the table, when it is absent."""
        if not self.columns(table):
            raise RuntimeError(f"{self.path} has no table {table}: record with {flag}")

    def strings(self, table: str, key: str, value: str) -> dict[int, str]:
        """A table of numbered strings."""
        return dict(self.rows(table, f"{key} {value}"))
