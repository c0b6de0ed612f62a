"""What a captured or compiled step costs until it is ready, and after how many steps that has paid.

    python ci/bench/readiness.py LIBRARY WORKLOAD --threads N

prints, as JSON, the seconds of an eager step and those of the first compiled ones, in a process of its own: whatever
the library loads or compiles for the first time is in them.
"""

if __name__ == "__main__":
    import environment  # noqa: F401  # first: before anything loads a BLAS

import contextlib
import importlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

CALLS = 6  # first calls that are timed; after them a step is ready
CACHE = "TORCHINDUCTOR_CACHE_DIR"
LONGEST = 600.0  # seconds that a process may take to get ready


def cost(calls, eager):
    """The most seconds that the first calls ever lie behind as many eager ones."""
    behind = worst = 0.0
    for seconds in calls:
        behind += seconds - eager
        worst = max(worst, behind)
    return worst


def pays_after(calls, eager, steady):
    """After how many calls no more time has gone than eager ones take; None if that is never.

    The first `calls` took so many seconds each, all later ones take `steady`.
    """
    behind = sum(calls) - eager * len(calls)
    if behind <= 0:
        return len(calls)
    if steady >= eager:
        return None
    return len(calls) + math.ceil(behind / (eager - steady))


def timed_calls(function, calls):
    """Seconds of each of the next calls."""
    found = []
    for _ in range(calls):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return found


@contextlib.contextmanager
def empty_cache():
    """A new folder in which torch.compile keeps what it compiles, in this process and its children."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory(prefix="bench-compile-") as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[CACHE]
            else:
                os.environ[CACHE] = before


def compiled_costs(workload, library, threads):
    """Seconds until the compiled step is ready: "cold", with the empty cache of now, and "warm" in a next process.

    Raises RuntimeError, with the last line of what the process said, if it failed.
    """
    command = [sys.executable, __file__, library, workload.name, "--threads", str(threads)]
    found = {}
    for kind in ("cold", "warm"):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"not ready ({kind}) after {LONGEST:g} s") from None
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["ended"])[-1])
        times = json.loads(done.stdout.splitlines()[-1])
        found[kind] = cost(times["calls"], times["eager"])
    return found


def main(library, name, _, threads):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
    import captured_workloads  # noqa: F401  # registers its workloads
    from workloads import WORKLOADS

    torch = importlib.import_module(library)
    torch.set_num_threads(int(threads))
    workload = next(w for w in WORKLOADS if w.name == name)
    # What the first step of all loads is no part of compiling.
    eager = statistics.median(timed_calls(workload.eager(torch, "cpu"), CALLS)[1:])
    calls = timed_calls(workload.compiled(torch, "cpu"), CALLS)
    print(json.dumps({"eager": eager, "calls": calls}))


if __name__ == "__main__":
    main(*sys.argv[1:])
