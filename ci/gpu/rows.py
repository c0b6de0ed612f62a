"""The file of results: a JSON object on each line, written at once, so that a run that is cut off leaves what it had.

Stages are processes of their own; the runner tells them where the file is by GRADLIB_GPU_ROWS.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE, STAGE = "GRADLIB_GPU_ROWS", "GRADLIB_GPU_STAGE"


def add(name: str, **values: Any) -> None:
    """Append a row of this stage; `values` are numbers or texts, with their unit as ``unit``."""
    row = {"stage": os.environ.get(STAGE, ""), "name": name, **values, "at": round(time.time(), 1)}
    text = json.dumps(row).encode() + b"\n"
    with open(os.environ[FILE], "ab+", buffering=0) as file:
        if file.tell() and file.seek(-1, os.SEEK_END) >= 0 and file.read() != b"\n":
            text = b"\n" + text  # who wrote last was ended in the middle of a line
        file.write(text)


def add_measured(workloads: Iterable[Any], run: Callable[[Any], Iterable[Any]]) -> None:
    """The rows that ``run(workload)`` measures (`Row` of ci/bench/measure.py), each as soon as it is there.

    Medians of all columns are written in the row's unit; the phases of a workload follow its name.
    """
    for workload in workloads:
        for row in run(workload):
            factor = {"ms": 1e3, "us": 1e6, "us/op": 1e6}.get(row.unit, 1.0)
            times = {column: v * factor for column, v in row.medians.items()}
            phase = row.name.startswith(" ")
            name = f"{workload.name}: {row.name.strip()}" if phase else row.name
            add(name, unit=row.unit, ratio=row.ratio, error=row.error, **times)


@contextmanager
def attempt(name: str) -> Iterator[None]:
    """What fails inside becomes a row with the error, and the rest goes on.

    Where the device is lost nothing more can be learnt in this process: SystemExit with what lost it.
    """
    try:
        yield
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:500]
        add(name, error=text)
        from tests_gpu import faults  # here: it chooses the device

        if faults.lost():
            raise SystemExit(f"the device is lost after {name}: {text}") from error


def read(path: Path, stage: str | None = None) -> list[dict[str, Any]]:
    """The rows of a file, or those of one stage; without a line whose writer was ended in the middle of it."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if stage is None or row["stage"] == stage:
            rows.append(row)
    return rows
