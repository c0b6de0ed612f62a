"""Compile all kernels into CuPy's cache, in as many processes as there are processors."""

from __future__ import annotations

import os
import sys
import time
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


def main() -> None:
    """Compile everything; a row for each family."""
    jobs = groups()
    spent: dict[str, float] = {}
    failed: dict[str, str] = {}
    if device.REAL:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            results = [f.result() for f in as_completed([pool.submit(compiled, j) for j in jobs])]
    else:
        results = [compiled(job) for job in jobs]
    for name, kernel, seconds, error in results:
        spent[name] = spent.get(name, 0.0) + seconds
        if error:
            failed[name] = f"{kernel}: {error}"
    for name, seconds in sorted(spent.items()):
        rows.add(f"compile: {name}", seconds=round(seconds, 2), error=failed.get(name, ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
