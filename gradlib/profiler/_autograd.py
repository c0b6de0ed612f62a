"""One recording of a thread: the `profile` of `gradlib.autograd.profiler`, which `_profile` repeats by a schedule."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ..devices.cuda.library import is_available, synchronize
from ..tape import recording
from ._collector import Collector, DetailedCollector, make_events
from ._events import EventList
from ._exports import Exports
from ._function_event import FunctionEventAvg
from ._threads import NewThreads

MAX_EVENTS = 4_000_000
_DEVICES = ("cuda", "xpu", "mtia", "hpu", "privateuseone")


class profile(Exports):
    """Context manager that records the operations, backward nodes and labels of this thread.

    It follows a backward pass into the threads that the pass starts; other threads are not recorded unless
    ``experimental_config`` asks for it. The events are made when the block ends; the names are those of the operations
    (``mul``), of the nodes (``MulBackward0``, ``torch::autograd::AccumulateGrad``, ``torch::autograd::GraphRoot``) and
    of the labels. An operation in place has an underscore (``add_``). Making a tensor of nothing (``zeros``, ``randn``)
    is no operation.

    The first profile of a backward pass also compiles the formulas of its nodes, about a millisecond for each kind of
    node: profile a second one, or let `gradlib.profiler.schedule` warm up.

    Args:
        enabled: False makes this a no-op with an empty list of events.
        use_cuda: the older way to say ``use_device="cuda"``.
        use_device: "cuda" also times the operations on CUDA tensors, by CUDA events.
        record_shapes: keep the shapes of the arguments (``[]`` for those that are no tensors).
        with_flops: estimate the floating point operations of products of matrices, convolutions and attention.
        profile_memory: keep what the operations' results allocate, and what is released meanwhile.
        with_stack: keep the user's calls, as file, line and function.
        with_modules: keep the classes of the nn modules around each operation ("Net.Linear").
        use_kineto: accepted; it has no effect here.
        use_cpu: must be True unless use_kineto is.
        use_mtia: accepted; there is no such device.
        experimental_config: an object whose attribute ``profile_all_threads`` asks for the threads that are started
            during the profile, too. Other settings have no effect here.
        acc_events, custom_trace_id_callback, post_processing_timeout_s, activity_filters: accepted; a profile has one
            cycle, all events, and no trace id.
        max_events: events beyond this number are dropped, with a warning at the end.

    Raises:
        RuntimeError: the object is entered a second time.
        AssertionError: ``use_cpu=False`` without use_kineto.

    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> with profile() as prof:
        ...     (x ** 2).sum().backward()
        >>> [e.count for e in prof.key_averages() if e.key == "PowBackward0"]
        [1]
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        use_mtia: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
        max_events: int = MAX_EVENTS,
    ):
        self.enabled, self.use_cpu, self.entered = enabled, use_cpu, False
        self.record_shapes, self.with_flops = record_shapes or with_flops, with_flops
        self.profile_memory, self.with_stack = profile_memory, with_stack
        self.with_modules, self.max_events = with_modules, max_events
        self.experimental_config = experimental_config
        self.use_device: str | None = None
        self._events = EventList()
        self._recorded: Any = None  # a collector whose events nobody has asked for yet
        self._collector: Any = None
        self._modules: Any = None
        self._recording = False  # of this thread; see toggle_collection_dynamic
        if not enabled:
            return
        if use_cuda:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                FutureWarning,
                stacklevel=2,
            )
        if use_mtia:
            warnings.warn("MTIA is not available, disabling MTIA profiling", stacklevel=2)
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        self.use_device = _usable("cuda" if use_cuda else use_device)

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        detailed = (
            self.record_shapes
            or self.profile_memory
            or self.with_stack
            or self.with_modules
            or self.use_device is not None
        )
        if self.use_device == "cuda":
            synchronize()
        kind = DetailedCollector if detailed else Collector
        self._collector = kind(self.max_events, self)
        if self.with_modules:
            self._modules = recording.watch_modules()
        if getattr(self.experimental_config, "profile_all_threads", False):
            self._collector.new_threads = NewThreads(self._collector)
            self._collector.new_threads.begin()
        self._record(True)
        return self

    def _record(self, on: bool) -> None:
        if on != self._recording:
            self._recording = on
            (recording.add if on else recording.remove)(self._collector)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Go on recording, or leave a part of the block out.

        Args:
            enabled: whether to record what `activities` names from now on.
            activities: of `gradlib.profiler.ProfilerActivity`: CPU for everything that this thread does, CUDA for the
                times of the device alone.
        """
        if self._collector is None:
            return
        names = {activity.name for activity in activities}
        if "CPU" in names:
            self._record(enabled)
        if "CUDA" in names:
            self._collector.time_devices(enabled)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool:
        if not self.enabled:
            return False
        self._record(False)
        if self._collector.new_threads is not None:
            self._collector.new_threads.end()
        if self.with_modules:
            recording.unwatch_modules(self._modules)
        if self.use_device == "cuda":
            synchronize()
        collector, self._collector = self._collector, None
        collector.finish()
        self._recorded = collector
        if collector.dropped:
            warnings.warn(
                f"profile() kept {collector.count()} events and dropped {collector.dropped} after them; give it a "
                "larger max_events, or profile fewer steps",
                stacklevel=2,
            )
        return False

    @property
    def function_events(self) -> EventList:
        """All events, by start; empty if nothing was recorded.

        Raises:
            RuntimeError: the block has not ended.
        """
        if self._collector is not None:
            raise RuntimeError(
                "Profiler didn't finish running: ask for its events after the with block"
            )
        if self._recorded is not None:
            recorded, self._recorded = self._recorded, None
            self._events = make_events(recorded, self)
            recorded.records.clear()  # a thread that goes on may still hold the recorder
        return self._events

    def __repr__(self) -> str:
        if self._collector is not None:
            return "<unfinished profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        if self._collector is not None:
            return "<unfinished profile>"
        return str(self.function_events)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent on the CPU: the sum of the self times of all events.

        To be asked for after the block.
        """
        return self.function_events.self_cpu_time_total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """All events as a table; `key_averages` gives the same of sums.

        Arguments and errors are those of `EventList.table`.

        Example:
            >>> with profile() as prof:
            ...     y = gradlib.ones(2) * 2
            >>> print(prof.table(row_limit=3))  # doctest: +ELLIPSIS
            ---...mul...
        """
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
            time_unit,
        )

    def _recorded_events(self) -> EventList:
        return self.function_events

    def export_chrome_trace(
        self,
        path: str | os.PathLike,
        metadata: dict[str, Any] | None = None,
        use_python_export: bool = False,
    ) -> None:
        """Write a trace for ui.perfetto.dev or chrome://tracing; see `Exports.export_chrome_trace`.

        metadata: entries that the trace gets beside its events.
        """
        self.function_events._metadata.update(metadata or {})
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graph tools; see `EventList.export_stacks`.

        Raises:
            AssertionError: the profile was made without ``with_stack=True``.
        """
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over the events of one name.

        Arguments are those of `EventList.key_averages`.

        Example:
            >>> with profile() as prof:
            ...     y = gradlib.ones(2) * 2 * 3
            >>> [(e.key, e.count) for e in prof.key_averages()]
            [('mul', 2)]
        """
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """Sums over all events, as one FunctionEventAvg with the key "Total".

        Example:
            >>> with profile() as prof:
            ...     y = gradlib.ones(2) * 2 + 1
            >>> prof.total_average().count
            2
        """
        return self.function_events.total_average()


def _usable(device: str | None) -> str | None:
    """`device` if its times can be taken, else None and a warning."""
    if device is None:
        return None
    if device not in _DEVICES:
        warnings.warn(f"The {device} is not a valid device option.", stacklevel=3)
    elif device != "cuda" or not is_available():
        name = device.upper()
        warnings.warn(f"{name} is not available, disabling {name} profiling", stacklevel=3)
    else:
        return device
    return None
