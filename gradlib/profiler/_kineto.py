"""What `gradlib.profiler.profile` is made of: one recording after the other, with metadata and exports."""

from __future__ import annotations

import json
import os
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from . import _autograd
from ._events import EventList
from ._exports import Exports
from ._schedule import ProfilerActivity, supported_activities

_OPTIONS = ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops")
_DEVICES = ("CUDA", "XPU", "MTIA", "HPU", "PrivateUse1")  # the first one asked for is timed


class _ExperimentalConfig:
    """Settings of PyTorch's profiler; all are accepted.

    Args:
        profile_all_threads: also record the threads that are started during the profile. The other settings have no
            effect here.
    """

    def __init__(self, *args: Any, profile_all_threads: bool = False, **settings: Any):
        self.profile_all_threads = profile_all_threads
        self.__dict__.update(settings)


class _KinetoProfile(Exports):
    """A profile that can be recorded again and again, without a schedule: `start`, `stop`, then ask for `events`.

    Args: those of `profile`, which has the same without `schedule` and `on_trace_ready`.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ):
        self.activities = supported_activities() if activities is None else _parsed(activities)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events, self.custom_trace_id_callback = acc_events, custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.profiler: _autograd.profile | None = None
        self.preset_metadata: dict[str, Any] = {}
        self._kept: EventList | None = None  # of earlier cycles
        self._cycles = 0
        self._trace_id: str | None = None

    @property
    def use_device(self) -> str | None:
        """Name of the device that is timed beside the CPU, such as "cuda"; None for none.

        The first of the activities that names one.
        """
        names = {activity.name for activity in self.activities}
        return next((name.lower() for name in _DEVICES if name in names), None)

    # -- recording -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to record."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End the recording."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Get ready for `start_trace`: what takes time is done before the recording.

        Warns the second time, unless events of all cycles are kept.
        """
        self._cycles += 1
        if self._cycles == 2 and not self.acc_events:
            warnings.warn(
                "Warning: Profiler clears events at the end of each cycle. Only events from the current cycle will "
                "be reported. To keep events across cycles, set acc_events=True.",
                stacklevel=4,
            )
        self.profiler = self._recording()

    def start_trace(self) -> None:
        """Begin to record, after `prepare_trace`; `start` does both.

        Raises:
            AssertionError: `prepare_trace` was not called.
        """
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        callback = self.custom_trace_id_callback
        self._trace_id = uuid.uuid4().hex.upper() if callback is None else callback()
        self.profiler.__enter__()

    def stop_trace(self) -> None:
        """End the recording.

        Raises:
            AssertionError: there is none.
        """
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        self.profiler.__exit__(None, None, None)
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Go on recording some of the activities, or leave a part of the program out.

        Example:
            >>> with profile() as prof:
            ...     y = gradlib.ones(2) * 2
            ...     prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
            ...     y = y.sin()  # not recorded
            ...     prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
            >>> [e.key for e in prof.key_averages()]
            ['mul']
        """
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def _recording(self) -> _autograd.profile:
        """An autograd profile with this one's options."""
        options = {name: getattr(self, name) for name in _OPTIONS}
        return _autograd.profile(
            **options, use_device=self.use_device, experimental_config=self.experimental_config
        )

    def _keep(self) -> None:
        assert self.profiler is not None
        events = self.profiler.function_events
        if self._kept is None:
            self._kept = events
        elif self._kept is not events:
            self._kept._append_cycle(events)

    # -- results -------------------------------------------------------------------------------------------------------

    def events(self) -> EventList:
        """The events of the last cycle (of all, with acc_events); to be asked for when a cycle is over.

        Raises:
            AssertionError: nothing was recorded yet.
        """
        self._must_exist("accessing events")
        if self._kept is not None:
            return self._kept
        assert self.profiler is not None
        return self.profiler.function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over the events of one name.

        Arguments are those of `EventList.key_averages`.

        Raises:
            AssertionError: nothing was recorded yet.
        """
        self._must_exist("getting key averages")
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str | os.PathLike, use_python_export: bool = False) -> None:
        """Write a trace for ui.perfetto.dev or chrome://tracing.

        Arguments are those of `EventList.export_chrome_trace`.

        Raises:
            AssertionError: nothing was recorded yet.
        """
        self._must_exist("exporting chrome trace")
        super().export_chrome_trace(path, use_python_export)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graph tools; see `EventList.export_stacks`.

        Args:
            path: the file.
            metric: "self_cpu_time_total" or "self_device_time_total".

        Raises:
            AssertionError: nothing was recorded yet, or the profile is without ``with_stack=True``.
            ValueError: another metric.
        """
        self._must_exist("exporting stacks")
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.events().export_stacks(path, metric)

    def _must_exist(self, use: str) -> None:
        if self.profiler is None and self._kept is None:
            raise AssertionError(f"Profiler must be initialized before {use}")

    def _recorded_events(self) -> EventList:
        events = self.events()
        options = {name: 1 for name in _OPTIONS if getattr(self, name)}
        events._metadata = {"trace_id": self._trace_id, **options, **self.preset_metadata}
        return events

    # -- metadata ------------------------------------------------------------------------------------------------------

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace file.

        Args:
            key: its name.
            value: the text.
        """
        self.preset_metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a JSON value, given as text, into the trace file.

        Raises:
            ValueError: `value` is no JSON.
        """
        self.preset_metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self) -> str | None:
        """What tells the last recording from all others; None before the first.

        32 hexadecimal digits, or what `custom_trace_id_callback` gave. It is "trace_id" in trace files.
        """
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Take the identity of each recording from a function, from the next one on.

        Args:
            callback: gives a str; None goes back to random ones.
        """
        self.custom_trace_id_callback = callback


def _parsed(
    activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]],
) -> set[ProfilerActivity]:
    """The activities asked for, each at most once."""
    found: set[ProfilerActivity] = set()
    for item in activities:
        if not isinstance(item, (ProfilerActivity, dict)):
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}")
        for activity in item if isinstance(item, dict) else (item,):
            if activity in found:
                raise ValueError(f"Activity {activity} specified more than once")
            if isinstance(item, dict) and item[activity]:
                raise NotImplementedError(
                    f"activities: types of {activity} by name ({item[activity]}); give {activity} alone"
                )
            found.add(activity)
    return found
