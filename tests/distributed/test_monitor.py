"""A rank that raises, is killed, or is stopped is named on all others, in the times that are promised."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gradlib.distributed import DistNetworkError, HashStore, TCPStore, _wire
from gradlib.distributed._liveness import RUNS, STOPPED, VANISHED, state
from gradlib.distributed._monitor import Failure, Monitor
from tests.distributed.harness import ROOM

ROOT = Path(__file__).parent.parent.parent

# Joins, does what it is told, and says what it heard of others, failures or goodbyes, and when.
PROCESS = """
import os, signal, sys, time, threading
from gradlib.distributed import TCPStore
from gradlib.distributed._monitor import Monitor

rank, size, port = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
deed = sys.argv[4]
store = TCPStore("127.0.0.1", port)
heard, something = [], threading.Event()
monitor = Monitor(
    store, rank, size, lambda failure: (heard.append((failure, time.time())), something.set()),
    float(sys.argv[5]), lambda rank: something.set(),
)
store.barrier("all", size)
if deed:
    store.set("when", str(time.time()))
    exec(deed)
something.wait(300)
failure = monitor.failure
began = float(store.get("when"))
print(len(heard), failure and (failure.rank, failure.kind), round(heard[0][1] - began, 2) if heard else None,
      sorted(monitor.left), failure.text if failure else "", sep="|")
"""


def ranks(
    culprit: int, deed: str, size: int = 3, interval: float = 1.0, store: TCPStore | None = None
) -> list[tuple[int, str, float | None, str, str]]:
    """What the other ranks heard first: calls, failure, seconds after it, who left, text."""
    store = store or TCPStore("127.0.0.1", 0, is_master=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(rank), str(size), str(store.port),
             deed if rank == culprit else "", str(interval)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    found = []
    try:
        for rank, process in enumerate(processes):
            if rank != culprit:
                text = process.communicate(timeout=300)[0]
                calls, failure, seconds, left, more = text.split("|", 4)
                found.append(
                    (int(calls), failure, None if seconds == "None" else float(seconds), left, more)
                )
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return found


def test_a_traceback_reaches_all() -> None:
    for calls, failure, seconds, _, text in ranks(0, "raise KeyError('mine')"):
        assert calls == 1 and failure == str((0, "raised"))
        assert seconds is not None and seconds < 2 + ROOM
        assert "KeyError: 'mine'" in text and "Traceback" in text


@pytest.mark.parametrize(("culprit", "size"), [(0, 2), (2, 3)])
def test_a_killed_process_is_named(culprit: int, size: int) -> None:
    deed = "os.kill(os.getpid(), signal.SIGKILL)"
    for calls, failure, seconds, _, text in ranks(culprit, deed, size):
        assert calls == 1 and failure == str((culprit, "died"))
        assert seconds is not None and seconds < 5 + ROOM
        assert f"rank {culprit}" in text and "kill -9" in text


@pytest.mark.parametrize(("culprit", "size"), [(0, 2), (1, 3)])
def test_a_stopped_process_is_named(culprit: int, size: int) -> None:
    deed = "os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)"
    for calls, failure, seconds, _, text in ranks(culprit, deed, size):
        assert calls == 1 and failure == str((culprit, "stopped"))
        assert seconds is not None and seconds < 5 + ROOM
        assert "SIGSTOP" in text


def test_a_clean_end_and_a_long_call_are_no_failures() -> None:
    # a call that holds the interpreter for long: ten heartbeats stay away meanwhile
    busy = "import ctypes; ctypes.PyDLL(None).sleep(2)\nmonitor.close(); sys.exit()"
    for calls, failure, _, left, _ in ranks(1, busy, interval=0.2):
        assert (calls, failure) == (0, "None") and "1" in left


def test_a_thread_that_raises_is_heard_of() -> None:
    deed = (
        "def work(): raise ValueError('in a thread')\n"
        "threading.Thread(target=work).start(); time.sleep(600)"
    )
    for calls, failure, seconds, _, text in ranks(1, deed, 2):
        assert calls == 1 and failure == str((1, "raised")) and "in a thread" in text
        assert seconds is not None and seconds < 2 + ROOM


def test_a_child_of_a_killed_process_does_not_hide_it() -> None:
    deed = (
        "child = os.fork()\n"
        "if not child: os.close(1); time.sleep(600); os._exit(0)\n"
        "store.set('child', str(child)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    store = TCPStore("127.0.0.1", 0, is_master=True)
    try:
        for _, failure, seconds, _, _ in ranks(1, deed, 2, store=store):
            assert failure == str((1, "died")) and seconds is not None and seconds < 2 + ROOM
    finally:
        os.kill(int(store.get("child")), signal.SIGKILL)


def pair() -> tuple[Monitor, Monitor, list[Failure]]:
    """Two monitors in this process."""
    store, heard = HashStore(), []
    made: list[Monitor] = []
    thread = threading.Thread(target=lambda: made.append(Monitor(store, 0, 2, heard.append)))
    thread.start()
    other = Monitor(store, 1, 2, heard.append)
    thread.join()
    return made[0], other, heard


def test_the_first_failure_counts_and_the_rest_is_consequence() -> None:
    one, other, heard = pair()
    try:
        other.post(ValueError("first"))
        failure = one.wait(60)
        assert failure is not None and (failure.rank, failure.kind) == (1, "raised")
        one.post(ValueError("second"))
        assert other.failure is not None and "first" in other.failure.text
        assert [each.rank for each in heard] == [1]
    finally:
        other.close()
        one.close()


def test_goodbye() -> None:
    one, other, heard = pair()
    other.close()
    deadline = time.monotonic() + 60
    while one.left != {1} and time.monotonic() < deadline:
        time.sleep(0.01)
    assert one.left == {1} and one.wait(0.1) is None
    one.close()
    one.close()
    assert heard == []


def test_it_costs_next_to_nothing() -> None:
    one, other, _ = pair()
    began, before = time.monotonic(), time.process_time()
    time.sleep(2)
    assert time.process_time() - before < 0.05 * (time.monotonic() - began)
    other.close()
    one.close()


def test_a_stranger_cannot_join() -> None:
    store = HashStore()
    made: list[Monitor] = []
    thread = threading.Thread(target=lambda: made.append(Monitor(store, 0, 2, print)))
    thread.start()
    host, port, *_ = _wire.unpack(store.get("monitor/place"))
    with pytest.raises(DistNetworkError, match="did not let this one in"):
        _wire.connect(host.decode(), int(port), b"guess", 60)
    thread.join()
    assert made[0].failure is None
    made[0].close()


def test_states_of_processes() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert state(process.pid) == RUNS
        os.kill(process.pid, 19)
        deadline = time.monotonic() + 60
        while state(process.pid) != STOPPED and time.monotonic() < deadline:
            time.sleep(0.01)
        assert state(process.pid) == STOPPED
        process.kill()
        process.wait()
        assert state(process.pid) == VANISHED
