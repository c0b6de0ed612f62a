"""Compile all kernels into CuPy's cache, in as many processes as there are processors."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import device
import rows

from gradlib.devices.cuda import fused
from gradlib.devices.cuda.kernels import FAMILIES, launcher_of
from gradlib.tape.arrays import backend_for

fused.load()
# where there is no GPU kernels are compiled by g++, slowly
CHOSEN = sorted(FAMILIES) if device.REAL else ["softmax"]


def groups() -> list[tuple[str, str]]:
    """(family, one kernel) of everything that is compiled together."""
    made: dict[tuple, tuple[str, str]] = {}
    for name in CHOSEN:
        for kernel in FAMILIES[name].kernels:
            made.setdefault((name, FAMILIES[name].group(kernel)), (name, kernel))
    return list(made.values())[: None if device.REAL else 1]


def compiled(job: tuple[str, str]) -> tuple[str, str, float, str]:
    """(family, kernel, seconds, error)"""
    name, kernel = job
    began, error = time.perf_counter(), ""
    try:
        launcher_of(backend_for("cuda")).function(FAMILIES[name], kernel)  # type: ignore[attr-defined]
    except Exception as exc:
        error = f"{type(exc).__name__}: {exc}"[:500]
    return name, kernel, time.perf_counter() - began, error


def results(jobs: list[tuple[str, str]]) -> Iterator[tuple[str, str, float, str]]:
    """What became of each job, as soon as it is known."""
    workers = min(os.cpu_count() or 1, len(jobs))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(compiled, job) for job in jobs]):
            yield done.result()


def main() -> None:
    """Compile everything; a row for each translation unit, when it is ready."""
    failed = 0
    for name, kernel, seconds, error in results(groups()):
        rows.add(f"compile: {name}", kernel=kernel, seconds=round(seconds, 2), error=error)
        failed += bool(error)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
