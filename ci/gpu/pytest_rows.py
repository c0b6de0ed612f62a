"""A plugin of pytest: writes a row for each test that fails, as it fails, counts now and then, and one for the whole.

A run that is ended by its limit (SIGTERM) writes that last one, too, and says that it is not all.
It also synchronizes the device after each test. A fault of a kernel is sticky: everything that the process does on the
device afterwards fails, too. So the process ends at once, and the test that brought it about is named.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import rows

counts: Counter[str] = Counter()
BROKEN = 70  # exit status of a process that has lost its device
EVERY = 10.0  # seconds between rows with counts
ended: list[str] = []  # why the run did not come to its end
_last = time.monotonic()


def pytest_configure(config: Any) -> None:
    """Take the signal of a limit as an interruption from the keyboard, after which pytest tidies up."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return

    def end(*_: Any) -> None:
        ended.append("ended by its limit: not all tests were run")
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)


def pytest_runtest_logreport(report: Any) -> None:
    """Called where the results are gathered."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return
    if report.when == "call" or report.outcome != "passed":
        counts[report.outcome] += 1
        global _last
        if time.monotonic() - _last > EVERY:
            _last = time.monotonic()
            rows.add("tests so far", **counts)
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr) or report.outcome
        rows.add(report.nodeid, error=text[:500])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    """The row of the whole; a run of no tests is a failure. First: to end xdist's processes may take long."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return
    error = "" if counts["passed"] else "no test passed"
    error = "; ".join([*ended, *filter(None, [error])])
    rows.add("tests", error=error, **counts)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: Any) -> Iterator[None]:
    """Wait for the device; end the process where it is lost."""
    yield
    error = lost()
    if error:
        rows.add(item.nodeid, error=f"lost the device: {error}"[:300])
        os._exit(BROKEN)


def lost() -> str:
    """What the device answers that a test has lost; "" if it is well."""
    from tests_gpu import faults

    return faults.lost()
