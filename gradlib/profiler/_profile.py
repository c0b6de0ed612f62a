"""`gradlib.profiler.profile`: which steps of a loop are recorded, and what happens when a cycle of them is over."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from . import _autograd
from ._kineto import _KinetoProfile
from ._record_function import record_function
from ._schedule import ProfilerAction, ProfilerActivity, always
from ._steps import KinetoStepTracker

STEP_NAME = "ProfilerStep"
RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile(_KinetoProfile):
    """Context manager that records the operations of this thread in the steps that a schedule names.

    Args:
        activities: what to record; None: all that are supported. ProfilerActivity.CUDA adds device times; the
            operations that launch the device's work are recorded in any case.
        schedule: function from the step number to a ProfilerAction (see `schedule`); None records everything.
        on_trace_ready: called with this object at the end of each cycle.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: as in `gradlib.autograd.profiler.profile`.
        acc_events: keep the events of all cycles, not those of the last one alone.
        experimental_config: of its settings ``profile_all_threads`` has an effect: see `profile` of
            `gradlib.autograd.profiler`.
        execution_trace_observer: an `ExecutionTraceObserver`, which is started and stopped with each recording.
        use_cuda: the older way to ask for ProfilerActivity.CUDA.
        custom_trace_id_callback: gives the identity of each recording (`get_trace_id`, "trace_id" in trace files).
        post_processing_timeout_s: accepted; it has no effect here.

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
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
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
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ):
        given = locals()
        shared = _KinetoProfile.__init__.__kwdefaults__ or {}
        super().__init__(**{name: given[name] for name in shared})
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
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num, self.current_action = 0, ProfilerAction.NONE
        self._running = False
        self._warming: _autograd.profile | None = None
        self._step_label: record_function | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the step at hand; a ``with`` block does it.

        What happens in it is what the schedule says for it.
        """
        self._running = True
        KinetoStepTracker.init_step_count(STEP_NAME)
        self._change(self.schedule(self.step_num))
        self._begin_label()

    def stop(self) -> None:
        """End; a cycle that is being recorded is over, and `on_trace_ready` is called.

        Raises:
            AssertionError: nothing was started.
        """
        if not self._running:
            self._must_exist("stopping trace")
            return
        self._running = False
        self._end_label()
        if self.current_action is ProfilerAction.RECORD:
            self.current_action = ProfilerAction.RECORD_AND_SAVE
        elif self.current_action is ProfilerAction.WARMUP:
            self._end_warm_up()
            self.current_action = ProfilerAction.NONE
        self._change(ProfilerAction.NONE)
        KinetoStepTracker.erase_step_count(STEP_NAME)

    def step(self) -> None:
        """Say that the next step begins: at the end of each iteration of the loop.

        What is recorded of it is what the schedule says for it.
        """
        self.step_num += 1
        if not self._running:
            return
        self._end_label()
        self._change(self.schedule(self.step_num))
        KinetoStepTracker.increment_step(STEP_NAME)
        self._begin_label()

    def _begin_label(self) -> None:
        if self.record_steps and self.current_action is not ProfilerAction.NONE:
            self._step_label = record_function(f"{STEP_NAME}#{self.step_num}")
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
            self._end_warm_up()
        if action in RECORDING and before is not ProfilerAction.RECORD:
            self.prepare_trace()
            self.start_trace()
        elif action is ProfilerAction.WARMUP and before is not ProfilerAction.WARMUP:
            self._warming = self._recording()
            self._warming.__enter__()

    def _end_warm_up(self) -> None:
        if self._warming is not None:
            self._warming.__exit__(None, None, None)
            self._warming = None  # nobody asks for its events

    def _finish_cycle(self) -> None:
        self.stop_trace()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)
        if self.acc_events:
            self._keep()
