"""What the profiler makes of its records: events, their averages, and lists of them with tables and exports."""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import defaultdict, namedtuple
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from ._demangle import demangle
from ._event_tree import forward_of, inherit, nest
from ._profiler_exports import Exports
from ._profiler_table import format_time, render

__all__ = [
    "DeviceType",
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MEMORY_EVENT_NAME",
    "MemRecordsAcc",
    "OUT_OF_MEMORY_EVENT_NAME",
    "StringTable",
]

MEMORY_EVENT_NAME = "[memory]"  # allocations and releases outside of any operation
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


class DeviceType(enum.Enum):
    """Where an event ran."""

    CPU = 0
    CUDA = 1


class Interval:
    """A span of time in microseconds.

    Example:
        >>> Interval(1, 3).elapsed_us()
        2
    """

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float):
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """The length in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start}, {self.end})"


Kernel = namedtuple("Kernel", ["name", "device", "duration"])
Kernel.__doc__ = "A kernel that an event started on a device; its duration is in microseconds."


class StringTable(defaultdict):
    """Names by their mangled form, demangled when first asked for; other names stand for themselves."""

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
        """The records that start in [start_ns, end_ns], by time."""
        first = bisect_left(self._start_nses, start_ns)
        yield from self._mem_records[first : bisect_right(self._start_nses, end_ns)]


def _per_call(total: str) -> property:
    def average(self) -> float:
        return getattr(self, total) / self.count if self.count else 0.0

    return property(average, doc=f"``{total}`` of one call, in microseconds.")


def _as_text(name: str) -> property:
    return property(lambda self: format_time(getattr(self, name)), doc=f"``{name}`` with a unit.")


def _alias(name: str) -> property:
    return property(lambda self: getattr(self, name), doc=f"The older name of ``{name}``.")


class FormattedTimesMixin:
    """Averages of times in microseconds, and their forms with a unit, from the totals that a subclass has."""

    count: int

    cpu_time = _per_call("cpu_time_total")
    device_time = _per_call("device_time_total")
    cpu_time_str = _as_text("cpu_time")
    device_time_str = _as_text("device_time")
    cpu_time_total_str = _as_text("cpu_time_total")
    device_time_total_str = _as_text("device_time_total")
    self_cpu_time_total_str = _as_text("self_cpu_time_total")
    self_device_time_total_str = _as_text("self_device_time_total")

    cuda_time = _alias("device_time")
    cuda_time_total = _alias("device_time_total")
    self_cuda_time_total = _alias("self_device_time_total")
    cuda_time_str = _alias("device_time_str")
    cuda_time_total_str = _alias("device_time_total_str")
    self_cuda_time_total_str = _alias("self_device_time_total_str")
    cuda_memory_usage = _alias("device_memory_usage")
    self_cuda_memory_usage = _alias("self_device_memory_usage")


class FunctionEvent(FormattedTimesMixin):
    """One run of an operation, of a backward node (scope 1) or of a labelled block.

    Args:
        id: unique among the events of a profile; they are numbered by start.
        name: of the operation, node or label.
        thread: number of the thread that ran it.
        start_us, end_us: microseconds since the profile began.
        fwd_thread: for a backward node, the thread of the forward operation.
        input_shapes: shapes of the arguments, ``[]`` for those that are no tensors.
        stack: the user's calls, innermost first.
        scope: 0 for operations, 1 for backward nodes, 7 for labels.
        cpu_memory_usage, device_memory_usage: bytes allocated less bytes released meanwhile.
        sequence_nr: joins a forward operation with its backward node; -1 if it has none.
        flops: estimate of floating point operations; 0 where there is none.
        is_legacy: kernels of an event are also listed by the events around it.
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        fwd_thread: int | None = None,
        input_shapes: list | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        *,
        use_device: str | None = None,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        is_legacy: bool = False,
        flops: int = 0,
        module_hierarchy: str = "",
        is_user_annotation: bool = False,
        concrete_inputs: list | None = None,
    ):
        self.id, self.name, self.thread, self.node_id = id, name, thread, node_id
        self.trace_name = name
        self.time_range = Interval(start_us, end_us)
        self.fwd_thread = fwd_thread
        self.input_shapes = [] if input_shapes is None else input_shapes
        self.concrete_inputs = [] if concrete_inputs is None else concrete_inputs
        self.stack = [] if stack is None else stack
        self.scope, self.sequence_nr = scope, sequence_nr
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.use_device, self.device_type, self.device_index = use_device, device_type, device_index
        self.flops, self.module_hierarchy = flops, module_hierarchy
        self.is_user_annotation = is_user_annotation
        self.in_backward = scope == 1  # set for all else that runs in a backward pass, too
        self.count = 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Add a device kernel of `duration` microseconds."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that ran directly inside this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the innermost event around this one."""
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """What `EventList.key_averages` groups by: the name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from start to end; 0 for an event of a device."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """`cpu_time_total` less that of the children."""
        if self.is_async:
            return 0
        return self.cpu_time_total - sum([child.cpu_time_total for child in self.cpu_children])

    @property
    def device_time_total(self) -> float:
        """Microseconds of the kernels of this event and the events inside it."""
        if self.is_async:
            return 0
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        total = sum([kernel.duration for kernel in self.kernels])
        if not self.is_legacy:
            total += sum([child.device_time_total for child in self.cpu_children])
        return total

    @property
    def self_device_time_total(self) -> float:
        """`device_time_total` less that of the children."""
        return self.device_time_total - sum(
            [child.device_time_total for child in self.cpu_children]
        )

    @property
    def self_cpu_memory_usage(self) -> int:
        """`cpu_memory_usage` less that of the children."""
        return self.cpu_memory_usage - sum([child.cpu_memory_usage for child in self.cpu_children])

    @property
    def self_device_memory_usage(self) -> int:
        """`device_memory_usage` less that of the children."""
        return self.device_memory_usage - sum(
            [child.device_memory_usage for child in self.cpu_children]
        )

    def __repr__(self) -> str:
        device = self.use_device or "device"
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type} node_id={self.node_id} "
            f"cpu_time={self.cpu_time_str} start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} {device}_time={self.device_time_str} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


SUMS = (
    "cpu_time_total",
    "device_time_total",
    "self_cpu_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "device_memory_usage",
    "self_cpu_memory_usage",
    "self_device_memory_usage",
    "count",
    "flops",
)
_sums_of = attrgetter(*SUMS)


class FunctionEventAvg(FormattedTimesMixin):
    """The sums over a group of events; ``*_time`` is the time of one call."""

    cpu_time_total: float
    device_time_total: float
    self_cpu_time_total: float
    self_device_time_total: float
    cpu_memory_usage: int
    device_memory_usage: int
    self_cpu_memory_usage: int
    self_device_memory_usage: int

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.flops = 0
        self.cpu_time_total = self.device_time_total = 0
        self.self_cpu_time_total = self.self_device_time_total = 0
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.node_id, self.scope = 0, 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.device_type = DeviceType.CPU
        self.input_shapes: Any = None
        self.stack: list[str] | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or the sums over others with the same key; returns self."""
        if self.key is None:
            for name in (
                "key node_id scope is_async is_remote is_legacy is_user_annotation use_device device_type "
                "input_shapes stack cpu_children cpu_parent"
            ).split():
                setattr(self, name, getattr(other, name))
        self._accumulate([other])
        return self

    __iadd__ = add

    def _accumulate(self, events: list) -> None:
        if events:
            totals = map(sum, zip(*map(_sums_of, events), strict=True))
            for name, total in zip(SUMS, totals, strict=True):
                setattr(self, name, getattr(self, name) + total)

    @property
    def name(self) -> str:
        """The key, as events have it."""
        return self.key or ""

    def __repr__(self) -> str:
        device = self.use_device or "device"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


class DeviceSlice(NamedTuple):
    """The work of an event on a CUDA stream; times as those of events."""

    event: FunctionEvent
    device: int
    stream: int  # its address; 0 is the default stream
    start_us: float
    duration_us: float


class EventList(Exports, list):
    """A list of events, or of their averages, with tables and exports.

    Args:
        *args: as for list.
        use_device: name of the device whose times the table shows; None for the CPU alone.
        profile_memory, with_flops: whether tables have columns for them.
        with_stack: whether the events have stacks.
        began_at_ns: the time of day at which the events' times are 0, as ``time.time_ns``.
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
        self._tree_built = False

    def _build_tree(self) -> None:
        """Fill in cpu_parent, cpu_children and what backward events have from their forward ones."""
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

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds: the sum of the self times of all events."""
        return sum([event.self_cpu_time_total for event in self])

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        header: str | None = None,
        top_level_events_only: bool = False,
        *,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
    ) -> str:
        """The events as a table, one row for each.

        Args:
            sort_by: an attribute, largest first: cpu_time, cuda_time, cpu_time_total, cuda_time_total,
                self_cpu_time_total, self_cuda_time_total, cpu_memory_usage, cuda_memory_usage,
                self_cpu_memory_usage, self_cuda_memory_usage, count (and the same with ``device`` for
                ``cuda``). None keeps the order of the list.
            row_limit: the most rows; -1 for all.
            header: text above the table.
            top_level_events_only: leave out the events inside others.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longer texts are cut.

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
        """The metrics that `export_stacks` takes."""
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
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Sums over the events of the same name.

        Args:
            group_by_input_shapes: and of the same input shapes.
            group_by_stack_n: and of the same n innermost stack entries.

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
        """The sums over all events, with the key "Total"."""
        total = FunctionEventAvg()
        total.key, total.use_device = "Total", self._use_device
        total._accumulate(self)
        return total
