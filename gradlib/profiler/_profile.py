"""`gradlib.profiler.profile`: which steps of a loop are recorded, and what happens when a cycle of them is over."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from .. import cuda
from ..autograd import profiler
from ..autograd._profiler_exports import Exports
from ..autograd.profiler_util import EventList

STEP_NAME = "ProfilerStep"


class ProfilerAction(enum.Enum):
    """What a profile does during a step."""

    NONE = 0
    WARMUP = 1  # record, and forget it
    RECORD = 2
    RECORD_AND_SAVE = 3  # the last step of a cycle


class ProfilerActivity(enum.Enum):
    """What is recorded."""

    CPU = 0
    CUDA = 2


def supported_activities() -> set[ProfilerActivity]:
    """CPU, and CUDA where there is a device."""
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda.is_available() else [])}


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


def _always(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes ``<worker>.<time>.pt.trace.json`` into a directory, as TensorBoard reads it.

    Raises:
        RuntimeError: the directory cannot be made (when a trace is ready).
    """

    def handler(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as exc:
            raise RuntimeError("Can't create directory: " + dir_name) from exc
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        name = f"{worker}.{time.time_ns()}.pt.trace.json{ending}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile(Exports):
    """Context manager that records the operations of this thread in the steps that a schedule names.

    Args:
        activities: what to record; ProfilerActivity.CUDA adds device times. None: all that are supported.
        schedule: function from the step number to a ProfilerAction (see `schedule`); None records everything.
        on_trace_ready: called with this object at the end of each cycle.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: as in `gradlib.autograd.profiler.profile`.
        acc_events: keep the events of all cycles, not those of the last one alone.
        experimental_config, execution_trace_observer: accepted; they have no effect here.
        use_cuda: the older way to ask for ProfilerActivity.CUDA.

    Example:
        >>> with profile(schedule=schedule(wait=0, warmup=1, active=1)) as prof:
        ...     for _ in range(2):
        ...         y = gradlib.ones(2) * 2
        ...         prof.step()
        >>> [e.key for e in prof.key_averages()]
        ['ProfilerStep*', 'mul']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
    ):
        self.activities = set(activities) if activities else supported_activities()
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead",
                FutureWarning,
                stacklevel=2,
            )
            change = self.activities.add if use_cuda else self.activities.discard
            change(ProfilerActivity.CUDA)
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self._options = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "with_modules": with_modules,
            "use_device": "cuda" if ProfilerActivity.CUDA in self.activities else None,
        }
        self.with_stack = with_stack
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready, self.acc_events = on_trace_ready, acc_events
        self.step_num, self.current_action = 0, ProfilerAction.NONE
        self.profiler: profiler.profile | None = None
        self._kept: EventList | None = None  # of earlier cycles
        self._cycles = 0
        self._step_label: profiler.record_function | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the step at hand."""
        profiler.KinetoStepTracker.init_step_count(STEP_NAME)
        self._change(self.schedule(self.step_num))
        self._begin_label()

    def stop(self) -> None:
        """End; a cycle that is being recorded is over."""
        self._end_label()
        if self.current_action is ProfilerAction.RECORD:
            self.current_action = ProfilerAction.RECORD_AND_SAVE
        self._change(ProfilerAction.NONE)
        profiler.KinetoStepTracker.erase_step_count(STEP_NAME)

    def step(self) -> None:
        """The next step begins."""
        self._end_label()
        self.step_num += 1
        self._change(self.schedule(self.step_num))
        profiler.KinetoStepTracker.increment_step(STEP_NAME)
        self._begin_label()

    def _begin_label(self) -> None:
        if self.record_steps and self.current_action is not ProfilerAction.NONE:
            self._step_label = profiler.record_function(f"{STEP_NAME}#{self.step_num}")
            self._step_label.__enter__()

    def _end_label(self) -> None:
        if self._step_label is not None:
            self._step_label.__exit__(None, None, None)
            self._step_label = None

    def _change(self, action: ProfilerAction) -> None:
        """Go on from the current action to `action`."""
        before, self.current_action = self.current_action, action
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish_cycle()
        elif before is ProfilerAction.RECORD and action not in RECORDING:
            warnings.warn(f"Incorrect schedule: RECORD followed by {action.name}", stacklevel=3)
            self._finish_cycle()
        elif before is ProfilerAction.WARMUP and action is not ProfilerAction.WARMUP:
            if action is ProfilerAction.NONE and self.record_steps:
                warnings.warn("Incorrect schedule: WARMUP followed by NONE", stacklevel=3)
            self._end_recording()
            self.profiler = None
        if action in RECORDING and (before not in RECORDING or self._finished):
            self._cycles += 1
            self._warn_of_clearing()
            self._begin_recording()
        elif action is ProfilerAction.WARMUP and before is not ProfilerAction.WARMUP:
            self._begin_recording()

    @property
    def _finished(self) -> bool:
        """Whether nothing is being recorded."""
        return self.profiler is None or self.profiler._collector is None

    def _warn_of_clearing(self) -> None:
        if self._cycles == 2 and not self.acc_events:
            warnings.warn(
                "Warning: Profiler clears events at the end of each cycle. Only events from the current cycle will "
                "be reported. To keep events across cycles, set acc_events=True.",
                stacklevel=4,
            )

    def _begin_recording(self) -> None:
        self.profiler = profiler.profile(**self._options)
        self.profiler.__enter__()

    def _end_recording(self) -> None:
        if self.profiler is not None and not self._finished:
            self.profiler.__exit__(None, None, None)

    def _finish_cycle(self) -> None:
        self._end_recording()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)
        if self.acc_events:
            self._keep()

    def _keep(self) -> None:
        assert self.profiler is not None
        events = self.profiler.function_events
        if self._kept is None:
            self._kept = events
        elif self._kept is not events:
            self._kept._append_cycle(events)

    def events(self) -> EventList:
        """The events of the last cycle (of all, with acc_events); to be asked for when a cycle is over.

        Raises:
            AssertionError: nothing was recorded yet.
        """
        if self.profiler is None and self._kept is None:
            raise AssertionError("Profiler must be initialized before accessing events")
        if self._kept is not None:
            return self._kept
        assert self.profiler is not None
        return self.profiler.function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Sums over the events of one name; see `EventList.key_averages`."""
        if self.profiler is None and self._kept is None:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def _recorded_events(self) -> EventList:
        events = self.events()
        events._metadata = self._metadata
        return events

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graph tools; see `EventList.export_stacks`."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace file."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a JSON value, given as text, into the trace file."""
        self._metadata[key] = json.loads(value)
