"""The profiler's recorder: notes what happens as cheaply as it can, and makes events of it afterwards."""

from __future__ import annotations

import gc
import threading
from threading import get_ident
from time import perf_counter_ns, time_ns
from typing import Any

from ..tape.memory import key as memory_key
from ..tape.modes import state
from ..tape.node import LEAF_SEQ
from ..tape.recording import LABEL, OP
from ..tape.tensor import Tensor
from . import _collectives
from ._blocks import Memory, user_stack
from ._device_times import Timers
from ._events import EventList
from ._function_event import MEMORY_EVENT_NAME, DeviceSlice, FunctionEvent
from ._memory import blocks_of
from ._places import stack_entry
from ._throttling import Sampler

# A token is (name, seq, scope, details or None, start_ns). Records are kept in one flat list, field after field: a
# tuple for each would be a burden to the garbage collector, which looks at all that exist again and again.
FIELDS = 7  # name, seq, scope, details, start_ns, end_ns, thread
OP_IN_PASS = (
    256  # scope of an op that ran in a backward pass: in a node, between nodes or in a hook
)


class Collector:
    """A recorder that notes times only.

    Args:
        limit: the most records kept; those after it are counted in `dropped`.
        options: the profile.
    """

    def __init__(self, limit: int, options: Any):
        self.records: list = []
        self.room, self.dropped, self.options = limit * FIELDS, 0, options
        self.began_ns, self.began_at_ns = perf_counter_ns(), time_ns()
        self.new_threads: Any = None  # NewThreads, if they are recorded, too
        self.collectives: list[_collectives.Collective] = []
        self.sites: dict[tuple, Details] = {}

    def enter(
        self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int
    ) -> tuple[Any, ...]:
        if scope == OP and state.current_task is not None:
            scope = OP_IN_PASS
        return name, seq, scope, None, perf_counter_ns()

    def exit(self, token: tuple, result: Any) -> None:
        end, records = perf_counter_ns(), self.records
        if len(records) >= self.room:
            self.dropped += 1
            return
        name, seq, scope, details, start = token
        if seq >= 0 and result.__class__ is Tensor:
            node = result._fn
            if node is not None and node.seq > seq:
                seq = node.seq  # somebody else took the number that was foreseen
        records.extend((name, seq, scope, details, start, end, get_ident()))

    def replayed(self, name: str, site: tuple, in_backward: bool, start: int) -> None:
        """Note an op or node that a captured step replayed."""
        details = self.sites.get(site)
        if details is None:
            details = self.sites[site] = Details()
            details.stack = [site]
        if in_backward:
            self.exit((name, -1, OP_IN_PASS, details, start), None)
        else:
            self.exit((name, -1, OP, details, start), None)

    def abandon(self, token: tuple) -> None:
        """Forget a range: what is not exited is not recorded."""

    def finish(self) -> None:
        """The profile is over; a label that ends later is not part of it."""
        self.room = 0
        self.collectives = _collectives.since(self.began_at_ns)

    def time_devices(self, on: bool) -> None:
        """Whether to time what devices do from now on."""

    def count(self) -> int:
        """The number of records."""
        return len(self.records) // FIELDS

    def device_times(self) -> dict[int, tuple]:
        """(device, stream, ns at which it started on the host's clock, microseconds) by record number."""
        return {}


class Details:
    """What is noted of a range beside its times."""

    __slots__ = (
        "allocated",
        "args",
        "device_allocated",
        "event",
        "flops",
        "modules",
        "shapes",
        "stack",
        "timer",
    )

    def __init__(self) -> None:
        self.args: Any = None  # while an op or node runs whose memory is counted
        self.shapes: list | None = None
        self.stack: list | None = None
        self.modules: tuple = ()
        self.timer: Any = None
        self.event: Any = None  # in the end, what was made of the record
        self.flops = self.allocated = self.device_allocated = 0


class DetailedCollector(Collector):
    """A recorder that notes what the options of `profile` ask for.

    Memory: an op allocates the bytes of its results, and of what its node keeps for backward, that lie in memory of
    their own, not in that of an argument; functions that make tensors from nothing (zeros, randn, tensor...) allocate
    theirs in the event around them. Memory is released when the last array on it is gone. What a kernel needs for
    itself and frees again is not counted, nor is memory that was there before the profile.
    """

    replayed: Any = None  # a replay has no shapes, calls or modules to note: steps run as they are

    def __init__(self, limit: int, options: Any):
        super().__init__(limit, options)
        self.memory = Memory(options.with_stack) if options.profile_memory else None
        self.timers: Any = None
        self.timing = options.use_device == "cuda"
        self.sampler: Any = None
        if self.timing:
            self.timers = Timers()
            self.sampler = Sampler()
            self.sampler.start()

    def enter(
        self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int
    ) -> tuple[Any, ...]:
        options, details = self.options, Details()
        if options.record_shapes and scope != LABEL:
            details.shapes = shapes_of(args, attrs)
        if options.with_stack:
            details.stack = user_stack()
        if options.with_modules:
            details.modules = state.modules or ()
        if scope == OP and op is not None and options.with_flops:
            details.flops = _flops(op, args, attrs)
        if self.memory is not None and scope != LABEL and op is not None:
            details.args = (args[0], grad_memory(args[0])) if seq == LEAF_SEQ else args
        if self.timing and ((scope == OP and op is not None) or seq == LEAF_SEQ):
            details.timer = self.timers.start(args)
        if scope == OP and state.current_task is not None:
            scope = OP_IN_PASS
        return name, seq, scope, details, perf_counter_ns()

    def exit(self, token: tuple, result: Any) -> None:
        details = token[3]
        if details.timer is not None:
            self.timers.stop(details.timer)
        super().exit(token, result)
        if details.args is not None:
            self.count_memory(token, result)
            details.args = None

    def count_memory(self, token: tuple, result: Any) -> None:
        """Note what an op or a node allocated, and what a node that has run need not keep any longer."""
        _, seq, scope, details, _ = token
        memory: Any = self.memory
        if scope in (OP, OP_IN_PASS):
            if result is not None:
                memory.results(details, details.args, result)
        elif seq == LEAF_SEQ:
            memory.accumulated(details, *details.args)
        elif state.current_task is None or not state.current_task.keep_graph:
            memory.freed(seq)

    def created(self, tensor: Tensor) -> None:
        """Note the memory of a new tensor that no op made."""
        if self.memory is not None:
            self.memory.created(tensor)

    def finish(self) -> None:
        super().finish()
        if self.memory is not None:
            self.memory.stop()
        if self.sampler is not None:
            self.sampler.stop()

    def time_devices(self, on: bool) -> None:
        self.timing = on and self.timers is not None

    def device_times(self) -> dict[int, tuple]:
        if self.timers is None:
            return {}
        noted = enumerate(self.records[3::FIELDS])
        timed = {i: details.timer for i, details in noted if details.timer is not None}
        return self.timers.elapsed(timed)


def grad_memory(leaf: Tensor) -> tuple[int, ...]:
    """Identifies the memory of the gradient that a leaf has already."""
    return () if leaf._grad is None else (memory_key(leaf._grad._array),)


def _flops(op: Any, args: Any, attrs: tuple) -> int:
    """Floating point operations of a call, estimated; 0 for ops that are no products."""
    if op.flops is None:
        return 0
    shapes = [getattr(a, "shape", ()) for a in args]
    return op.flops(dict(zip(op.attrs, attrs, strict=False)), *shapes)


def shapes_of(args: Any, attrs: tuple) -> list:
    """The shapes of tensors, [] for anything else."""
    shapes = [list(a._array.shape) if isinstance(a, Tensor) else [] for a in args]
    return shapes + [[] for _ in attrs] if attrs else shapes


# -- events ------------------------------------------------------------------------------------------------------------


def make_events(collector: Collector, options: Any) -> EventList:
    """The events of all records, by start, with parents, children, memory and device times."""
    collecting = gc.isenabled()
    gc.disable()  # nothing here becomes garbage, and the collector would look at all events again and again
    try:
        return _make_events(collector, options)
    finally:
        if collecting:
            gc.enable()


def _make_events(collector: Collector, options: Any) -> EventList:
    origin, threads = collector.began_ns, {}
    device = collector.device_times()
    records = list(zip(*[iter(collector.records)] * FIELDS, strict=True))
    # by start; of equal times, the range around the others, which ended last, comes first
    order = sorted(range(len(records)), key=lambda i: (records[i][4], -records[i][5], -i))
    events = EventList(
        use_device=options.use_device,
        profile_memory=options.profile_memory,
        with_flops=options.with_flops,
        with_stack=options.with_stack,
        began_at_ns=collector.began_at_ns,
    )
    texts: dict[tuple, str] = {}
    for number, i in enumerate(order):
        name, seq, scope, details, start, end, ident = records[i]
        event = FunctionEvent(
            number, name, threads.setdefault(ident, len(threads) + 1),
            (start - origin) / 1e3, (end - origin) / 1e3,
            scope=scope, sequence_nr=-1 if seq == LEAF_SEQ else seq,
            use_device=options.use_device, is_user_annotation=scope == LABEL,
        )  # fmt: skip
        if name.startswith("ProfilerStep#"):
            event.name = "ProfilerStep*"  # steps are averaged as one; the trace shows the number
        if scope == OP_IN_PASS:
            event.scope, event.in_backward = OP, True
        if details is not None:
            fill_in(event, details, texts)
        if i in device:
            add_device_work(events, event, device[i], origin)
        events.append(event)
    events._build_tree()
    add_extras(events, collector, threads)
    return events


def add_device_work(events: EventList, event: FunctionEvent, times: tuple, origin: int) -> None:
    """Note what an event launched: see `Collector.device_times`."""
    index, stream, began_ns, duration = times
    event.append_kernel(event.trace_name, index, duration)
    at = (began_ns - origin) / 1e3
    begin = max(at, event.time_range.start)  # the CUDA event before it was recorded earlier
    left = max(at + duration - begin, 0.0)
    events._device_slices.append(DeviceSlice(event, index, stream, begin, left))


def add_extras(events: EventList, collector: Any, threads: dict[int, int]) -> None:
    """What is no event of its own: names of threads, blocks of memory, clocks of devices."""
    names: dict = {t.ident: t.name for t in threading.enumerate()}
    if collector.new_threads is not None:
        names = collector.new_threads.names | names
    events._collectives = collector.collectives
    events._threads = {number: names.get(ident, "") for ident, number in threads.items()}
    if getattr(collector, "memory", None) is not None:
        account_memory(events, collector, threads)
        events._blocks = blocks_of(collector.memory.blocks, collector.began_ns)
    if getattr(collector, "sampler", None) is not None:
        events._samples = collector.sampler.since(collector.began_ns)


def fill_in(event: FunctionEvent, details: Details, texts: dict[tuple, str]) -> None:
    """Copy what was noted into an event."""
    details.event = event
    event.input_shapes = details.shapes or []
    event.flops = details.flops
    event.cpu_memory_usage = details.allocated
    event.device_memory_usage = details.device_allocated
    event.module_hierarchy = ".".join(details.modules)
    for place in details.stack or ():
        text = texts.get(place)
        if text is None:
            text = texts[place] = stack_entry(place)
        event.stack.append(text)


def account_memory(events: EventList, collector: Any, threads: dict[int, int]) -> None:
    """Charge changes of memory to the innermost event at that time, and all memory to the events around it, too.

    Changes outside of any event become events of their own.
    """
    by_thread: dict[int, list[FunctionEvent]] = {}
    for event in events:
        by_thread.setdefault(event.thread, []).append(event)
    outside = []
    cursors = {thread: Sweep(mine) for thread, mine in by_thread.items()}
    for time, ident, nbytes, on_device in collector.memory.changes():
        thread = threads.setdefault(ident, len(threads) + 1)
        at = (time - collector.began_ns) / 1e3
        event = cursors[thread].innermost(at) if thread in cursors else None
        if event is None:
            event = FunctionEvent(
                0, MEMORY_EVENT_NAME, thread, at, at, use_device=events._use_device
            )
            outside.append(event)
        if on_device:
            event.device_memory_usage += nbytes
        else:
            event.cpu_memory_usage += nbytes
    for event in reversed(events):  # children come after their parents
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
            event.cpu_parent.device_memory_usage += event.device_memory_usage
    if outside:
        events.extend(outside)
        events.sort(key=lambda e: (e.time_range.start, -e.time_range.end, e.id))
        for number, event in enumerate(events):
            event.id = number


class Sweep:
    """The innermost event of one thread at times that only grow."""

    def __init__(self, events: list[FunctionEvent]):
        self.events, self.next, self.open = events, 0, []

    def innermost(self, at: float) -> FunctionEvent | None:
        while self.next < len(self.events) and self.events[self.next].time_range.start <= at:
            self.open.append(self.events[self.next])
            self.next += 1
        # an event that has ended stays below those still open: drop it when it comes to the top
        while self.open and self.open[-1].time_range.end < at:
            self.open.pop()
        return self.open[-1] if self.open else None
