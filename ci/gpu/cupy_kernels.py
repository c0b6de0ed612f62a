"""CuPy's own kernels, compiled ahead by the calls that tests of single ops and functions make.

CuPy writes the source of a kernel for the dtypes and layouts that it meets, so nobody can list them; the tests that
need them can be called. What they compile lies in CuPy's cache under the keys by which it looks for them, since it is
CuPy that puts it there. Whether the results are right is for the tests to say, later.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LATER = "later"
sys.path.append(str(ROOT / "tests" / "operators"))  # samples.py


@functools.cache
def calls() -> dict[str, list[Callable[[], Any]]]:
    """The name of an op or a function -> the calls that its tests consist of."""
    from tests.simulated import test_functions, test_ops

    found: dict[str, list[Callable[[], Any]]] = {}
    for module in (test_ops, test_functions):
        for test in [v for k, v in vars(module).items() if k.startswith("test_")]:
            marks = [m.args for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            names = [name for name, _ in marks]
            if "name" not in names:
                continue
            for values in itertools.product(*(values for _, values in marks)):
                given = dict(zip(names, values, strict=True))
                found.setdefault(given["name"], []).append(functools.partial(test, **given))
    return found


def called(name: str, until: float) -> tuple[str, float, str]:
    """(name, seconds, error of the device or the compiler) of the calls of one op; LATER if time is up.

    until: the time after which nothing is begun.
    """
    from tests.simulated.test_ops import is_of_the_device
    from tests_gpu import faults

    began, error = time.perf_counter(), ""
    for call in calls()[name]:
        if time.time() > until:
            return name, 0.0, LATER
        try:
            call()
        except Exception as exc:
            if is_of_the_device(exc) and not error:
                error = f"{type(exc).__name__}: {exc}"[:500]
    return name, time.perf_counter() - began, faults.lost() or error


def kept() -> int:
    """How many translation units CuPy's cache has."""
    return len(list(Path(os.environ["CUPY_CACHE_DIR"]).glob("*.cubin")))
