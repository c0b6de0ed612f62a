"""What the profiler makes of its records: events, their averages, and lists of them with tables and exports."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ._demangle import demangle
from ._event_tree import forward_of, inherit, mark_overlapping, nest
from ._exports import Exports
from ._function_event import DeviceSlice, DeviceType, FunctionEvent, FunctionEventAvg, Interval
from ._table import render


class StringTable(defaultdict):
    """Names by their mangled form, demangled when first asked for; other names stand for themselves.

    Example:
        >>> StringTable()["_ZN3foo3barEv"]
        'foo::bar()'
    """

    def __missing__(self, key: str) -> str:
        self[key] = value = demangle(key)
        return value


class MemRecordsAcc:
    """Memory records, found by their time in O(log n).

    Args:
        mem_records: pairs whose first element has ``start_ns()``.
    """

    def __init__(self, mem_records: Iterable[Any]):
        self._mem_records = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._start_nses = [record[0].start_ns() for record in self._mem_records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """The records that start in [start_ns, end_ns], in order of time.

        Args:
            start_ns: nanoseconds.
            end_ns: nanoseconds.
        """
        first = bisect_left(self._start_nses, start_ns)
        yield from self._mem_records[first : bisect_right(self._start_nses, end_ns)]


class EventList(Exports, list):
    """A list of events, or of their averages, with tables and exports.

    Args:
        *args: as for list.
        use_device: name of the device whose times the table shows; None for the CPU alone.
        profile_memory, with_flops: whether tables have columns for them.
        with_stack: whether the events have stacks.
        began_at_ns: the time of day at which the events' times are 0, as ``time.time_ns``.

    Example:
        >>> with gradlib.autograd.profiler.profile() as prof:
        ...     _ = x * 2
        >>> [event.name for event in prof.function_events]
        ['mul']
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self._use_device: str | None = kwargs.pop("use_device", None)
        self._profile_memory: bool = kwargs.pop("profile_memory", False)
        self._with_flops: bool = kwargs.pop("with_flops", False)
        self._with_stack: bool = kwargs.pop("with_stack", False)
        self._began_at_ns: int = kwargs.pop("began_at_ns", 0)
        super().__init__(*args, **kwargs)
        self._metadata: dict[str, Any] = {}  # for trace files
        self._threads: dict[int, str] = {}  # names by number
        self._device_slices: list[DeviceSlice] = []
        self._blocks: list[Any] | None = None  # MemoryBlock; None if memory was not recorded
        self._samples: list[Any] = []  # ClockSample
        self._collectives: list[Any] = []  # Collective
        self._tree_built = False

    def _build_tree(self) -> None:
        """Fill in cpu_parent, cpu_children and what backward events have from their forward ones."""
        mark_overlapping(self)
        nest([e for e in self if not e.is_async and e.device_type is DeviceType.CPU])
        inherit(self)
        self._tree_built = True

    def _forward_of(self) -> dict[int, FunctionEvent]:
        """The forward operation of each backward node that has one, by the node's id."""
        return forward_of(self)

    def _append_cycle(self, later: EventList) -> None:
        """Add what was recorded in a later cycle, with its times since the beginning of this one."""
        shift = (later._began_at_ns - self._began_at_ns) / 1e3
        for event in later:
            event.id += len(self)
            event.time_range = Interval(
                event.time_range.start + shift, event.time_range.end + shift
            )
        self.extend(later)
        self._threads.update(later._threads)
        self._device_slices += [
            s._replace(start_us=s.start_us + shift) for s in later._device_slices
        ]
        if self._blocks is not None:
            self._blocks += [block.shifted(shift) for block in later._blocks or ()]
        self._samples += [s._replace(time_us=s.time_us + shift) for s in later._samples]
        self._collectives += [c._replace(start_us=c.start_us + shift) for c in later._collectives]

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds: the sum of the self times of all events.

        That is the time in which anything recorded ran.
        """
        return sum([event.self_cpu_time_total for event in self])

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
        """The events as a table, one row for each.

        Args:
            sort_by: an attribute, largest first: cpu_time, cuda_time, cpu_time_total, cuda_time_total,
                self_cpu_time_total, self_cuda_time_total, cpu_memory_usage, cuda_memory_usage,
                self_cpu_memory_usage, self_cuda_memory_usage, count (and the same with ``device`` for
                ``cuda``). None keeps the order of the list.
            row_limit: the most rows; -1 for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longer texts are cut; None for none.
            header: text above the table.
            top_level_events_only: leave out the events inside others.
            time_unit: "s", "ms" or "us" for all times; anything else picks one for each.

        Raises:
            AttributeError: `sort_by` is none of these.
        """
        return render(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            header=header,
            top_level_events_only=top_level_events_only,
            widths=(max_name_column_width, max_shapes_column_width, max_src_column_width),
            time_unit=time_unit,
        )

    def __str__(self) -> str:
        return self.table()

    def _recorded_events(self) -> EventList:
        if self and isinstance(self[0], FunctionEventAvg):
            raise RuntimeError(
                "this list holds averages, which have no times of their own; export the events that they were made "
                "of: prof.function_events"
            )
        return self

    def supported_export_stacks_metrics(self) -> list[str]:
        """The metrics that `export_stacks` takes.

        Example:
            >>> EventList().supported_export_stacks_metrics()[0]
            'self_cpu_time_total'
        """
        return ["self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write one line for each event, its stack and `metric`, as flame graph tools read them.

        Raises:
            ValueError: `metric` is none of `supported_export_stacks_metrics`.
        """
        supported = self.supported_export_stacks_metrics()
        if metric not in supported:
            raise ValueError(f"metric should be one of: {supported}, not {metric!r}")
        blanks = str.maketrans(" ;\t\n", "____")
        with open(path, "w") as file:
            for event in self:
                value = int(getattr(event, metric))
                if event.stack and value > 0:
                    stack = ";".join([entry.translate(blanks) for entry in reversed(event.stack)])
                    file.write(f"{stack} {value}\n")

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over the events of the same name.

        Args:
            group_by_input_shapes: and of the same input shapes.
            group_by_stack_n: and of the same n innermost stack entries.
            group_by_overload_name: accepted; operations have no overloads here.

        Returns:
            An EventList of FunctionEventAvg, in the order of first occurrence.
        """
        groups: dict[tuple, list] = {}
        for event in self:
            key: tuple = (event.key, event.node_id, event.device_type, event.is_legacy)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n > 0:
                key += tuple(event.stack[:group_by_stack_n])
            groups.setdefault(key, []).append(event)
        averages = self._like()
        for events in groups.values():
            average = FunctionEventAvg().add(events[0])
            average._accumulate(events[1:])
            if not group_by_input_shapes:
                average.input_shapes = ""
            average.stack = (average.stack or [])[: max(group_by_stack_n, 0)]
            averages.append(average)
        return averages

    def _like(self) -> EventList:
        like = EventList(
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            with_stack=self._with_stack,
        )
        like._samples = self._samples
        return like

    def total_average(self) -> FunctionEventAvg:
        """The sums over all events, as one FunctionEventAvg with the key "Total".

        Example:
            >>> EventList([FunctionEvent(0, "mul", 1, 0, 3), FunctionEvent(1, "add", 1, 3, 5)]).total_average().count
            2
        """
        total = FunctionEventAvg()
        total.key, total.use_device = "Total", self._use_device
        total._accumulate(self)
        return total
