"""Compile all kernels, and those of CuPy that tests use, into CuPy's cache, in a process for each processor.

The kernels come first; what CuPy compiles is begun for so long as `BUDGET` allows, and the rest is left to the tests.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context

import cupy_kernels
import device
import rows

from gradlib.devices.cuda import fused
from gradlib.devices.cuda.kernels import FAMILIES, launcher_of
from gradlib.tape.arrays import backend_for

fused.load()
# where there is no GPU kernels are compiled by g++, slowly
CHOSEN = sorted(FAMILIES) if device.REAL else ["softmax"]
OPS = None if device.REAL else ["neg"]  # None: all
BUDGET = 60  # seconds


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


def results(jobs: list[Callable[[], tuple]]) -> Iterator[tuple]:
    """What became of each job, as soon as it is known."""
    workers = min(os.cpu_count() or 1, len(jobs))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(job) for job in jobs]):
            yield done.result()


def main() -> None:
    """Compile everything; a row for each translation unit of ours, when it is ready, and one for all of CuPy's."""
    until, had = time.time() + BUDGET, cupy_kernels.kept()
    names = list(cupy_kernels.calls()) if OPS is None else OPS
    jobs: list[Callable[[], tuple]] = [partial(compiled, job) for job in groups()]
    jobs += [partial(cupy_kernels.called, name, until) for name in names]
    failed = ready = 0
    for name, *kernel, seconds, error in results(jobs):
        if kernel:
            rows.add(f"compile: {name}", kernel=kernel[0], seconds=round(seconds, 2), error=error)
        elif error == cupy_kernels.LATER:
            continue
        elif error:
            rows.add(f"compile: what CuPy needs for {name}", seconds=round(seconds, 2), error=error)
        ready += not kernel and not error
        failed += bool(error)
    now = cupy_kernels.kept()
    rows.add("compile: by the calls of tests", ops=ready, of=len(names), kept=now, new=now - had)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
