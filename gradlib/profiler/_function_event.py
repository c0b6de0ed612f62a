"""What the profiler makes of a record: an event, the sums over a group of events, and what they consist of."""

from __future__ import annotations

import enum
from collections import namedtuple
from operator import attrgetter
from typing import Any, NamedTuple

from ._table import format_time

MEMORY_EVENT_NAME = "[memory]"  # allocations and releases outside of any operation
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


class DeviceType(enum.Enum):
    """Where an event ran: what `FunctionEvent.device_type` is.

    Example:
        >>> DeviceType.CUDA.value
        1
    """

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
        """The length in microseconds.

        Example:
            >>> Interval(1.0, 3.5).elapsed_us()
            2.5
        """
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start}, {self.end})"


Kernel = namedtuple("Kernel", ["name", "device", "duration"])
Kernel.__doc__ = """A kernel that an event started on a device: an entry of `FunctionEvent.kernels`.

Attributes:
    name: of the kernel.
    device: its index.
    duration: in microseconds.
"""


def _per_call(total: str) -> property:
    def average(self) -> float:
        return getattr(self, total) / self.count if self.count else 0.0

    doc = f"``{total}`` of one call, in microseconds.\n\nThe total divided by ``count``; 0 of no calls."
    return property(average, doc=doc)


def _as_text(name: str) -> property:
    doc = f"``{name}`` with a unit.\n\nText such as ``1.500ms``: in us, ms or s, by its size."
    return property(lambda self: format_time(getattr(self, name)), doc=doc)


def _alias(name: str) -> property:
    doc = f"The older name of ``{name}``.\n\nThe same number, whatever the device is."
    return property(lambda self: getattr(self, name), doc=doc)


class FormattedTimesMixin:
    """Averages of times in microseconds, and their forms with a unit, from the totals that a subclass has.

    Events and sums over events have them: ``cpu_time`` is ``cpu_time_total`` of one call, ``cpu_time_str`` the same as
    text; names with ``self`` leave the events inside out, those with ``device`` or ``cuda`` count kernels.
    """

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

    Example:
        >>> event = FunctionEvent(0, "mul", thread=1, start_us=0.0, end_us=5.0)
        >>> event.cpu_time_total
        5.0
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
        self.trace_name, self.overload_name = name, ""
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
        """Add a device kernel that this event started.

        Args:
            name: of the kernel.
            device: its index.
            duration: in microseconds.
        """
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that ran directly inside this one.

        Args:
            child: the event; its `set_cpu_parent` is for the caller to call.
        """
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the innermost event around this one.

        Args:
            parent: the event.
        """
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """What `EventList.key_averages` groups by: the name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from start to end; 0 for an event of a device.

        The events inside it are counted; see `self_cpu_time_total`.
        """
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent in the event itself: `cpu_time_total` less that of the events inside it.

        0 for an asynchronous event.
        """
        if self.is_async:
            return 0
        return self.cpu_time_total - sum([child.cpu_time_total for child in self.cpu_children])

    @property
    def device_time_total(self) -> float:
        """Microseconds of the kernels of this event and the events inside it.

        0 for an asynchronous event.
        """
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
        """Microseconds of the kernels of this event itself.

        `device_time_total` less that of the events inside it.
        """
        return self.device_time_total - sum(
            [child.device_time_total for child in self.cpu_children]
        )

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes allocated less bytes released by the event itself, on the CPU.

        `cpu_memory_usage` less that of the events inside it.
        """
        return self.cpu_memory_usage - sum([child.cpu_memory_usage for child in self.cpu_children])

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes allocated less bytes released by the event itself, on the device.

        `device_memory_usage` less that of the events inside it.
        """
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
    """The sums over a group of events: an entry of `EventList.key_averages`; ``*_time`` is the time of one call.

    Attributes:
        key: the name of the events.
        count: how many there are.
        cpu_time_total, self_cpu_time_total: sums in microseconds; the same with ``device``.
        cpu_memory_usage, self_cpu_memory_usage: sums in bytes; the same with ``device``.
        flops: the sum of the estimates.

    Example:
        >>> total = FunctionEventAvg()
        >>> for start in (0, 10):
        ...     _ = total.add(FunctionEvent(start, "mul", 1, start, start + 3))
        >>> total.count, total.cpu_time_total, total.cpu_time
        (2, 6, 3.0)
    """

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
        self.node_id, self.scope, self.overload_name = 0, 0, ""
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.device_type = DeviceType.CPU
        self.input_shapes: Any = None
        self.stack: list[str] | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or the sums over others with the same key; returns self.

        Args:
            other: what is added. The first one gives key, shapes and stack.
        """
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
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
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
    kernel: str = ""  # its name, where that is known

    @property
    def name(self) -> str:
        """What it is called: as the kernel, or as the event."""
        return self.kernel or self.event.trace_name
