"""Which steps of a loop a profile records, and what of them."""

from __future__ import annotations

import enum
import os
import socket
import time
import warnings
from collections.abc import Callable

from ..devices.cuda.library import is_available
from ._exports import Exports


class ProfilerAction(enum.Enum):
    """What a profile does during a step: nothing, warm up (record, and forget it), record, or end a cycle.

    A `schedule` gives one for each step.

    Example:
        >>> plan = schedule(wait=1, warmup=1, active=1)
        >>> plan(1)
        <ProfilerAction.WARMUP: 1>
    """

    NONE = 0
    WARMUP = 1  # record, and forget it
    RECORD = 2
    RECORD_AND_SAVE = 3  # the last step of a cycle


class ProfilerActivity(enum.Enum):
    """What is recorded: an entry of `activities` of `profile`.

    CPU is the operations, CUDA the times of their kernels. The others have no device here: asking for them warns.

    Example:
        >>> with profile(activities=[ProfilerActivity.CPU]) as prof:
        ...     y = gradlib.ones(2) * 2
    """

    CPU = 0
    CUDA = 2
    XPU = 1
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """The activities that can be recorded: CPU, and CUDA where there is a device.

    Example:
        >>> ProfilerActivity.CPU in supported_activities()
        True
    """
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_available() else [])}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A schedule for `profile`: cycles of `wait` idle steps, `warmup` steps and `active` recorded steps.

    Args:
        repeat: the number of cycles; 0 goes on to the end.
        skip_first: idle steps before the first cycle.
        skip_first_wait: nonzero leaves the idle steps of the first cycle out.

    Returns:
        A function from the step number to the action of that step.

    Raises:
        AssertionError: a number is negative, or `active` is 0.

    Example:
        >>> plan = schedule(wait=1, warmup=1, active=2)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    cycle = wait + warmup + active

    def plan(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        position = step % cycle
        if position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        last = position == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return plan


def always(_: int) -> ProfilerAction:
    """The schedule that records every step."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Exports], None]:
    """An `on_trace_ready` that writes ``<worker>.<time>.pt.trace.json`` into a directory, as TensorBoard reads it.

    Args:
        dir_name: the directory; made if there is none.
        worker_name: by default the names of the host and of the process.
        use_gzip: write ``.pt.trace.json.gz``.
        use_python_export: accepted; there is one exporter.

    Raises:
        RuntimeError: the directory cannot be made (when a trace is ready).

    Example:
        >>> with profile(on_trace_ready=tensorboard_trace_handler("log", worker_name="me")):
        ...     y = gradlib.ones(2) * 2
    """

    def handler(prof: Exports) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as exc:
            raise RuntimeError("Can't create directory: " + dir_name) from exc
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        name = f"{worker}.{time.time_ns()}.pt.trace.json{ending}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler
