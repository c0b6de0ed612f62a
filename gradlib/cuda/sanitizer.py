"""A sanitizer for streams: finds memory that two streams use without anything that puts them in order.

Every stream has a vector clock: for each stream, how much of its work comes before what is queued next. An event
carries the clock of the stream at the moment it was recorded, a wait joins it into the waiting stream, and what the
host has waited for comes before everything that is queued later. Two uses of the same memory, at least one of them a
write, must be ordered; memory that was freed and handed out again counts as the same. Errors are found whether or not
the accident happens in this run.

Seen are operations, also those of backward and of optimizers, and the streams, events and waits of ``gradlib.cuda``
and of the engine; not what a program does with CuPy directly, nor the inside of graphs that are launched. It watches
the thread that switched it on, and costs some microseconds for each operation.

Source: L. Lamport, Time, clocks, and the ordering of events in a distributed system, CACM 21(7), 1978; C. Fidge,
Timestamps in message-passing systems that preserve the partial ordering, 1988.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..devices.cuda import lanes as _lanes
from ..devices.cuda import library as _library
from ..optim.optimizer import register_optimizer_step_pre_hook
from ..tape import recording
from ..tape.device import stored
from ..tape.modes import shared
from ..tape.node import AccumulateGrad
from ..tape.source import describe, user_frame
from ..tape.tensor import Tensor
from . import memory, streams

__all__ = [
    "CUDASanitizerErrors",
    "Report",
    "UnsynchronizedAccessError",
    "disable_cuda_sanitizer",
    "enable_cuda_sanitizer",
    "sanitize",
]

_EVENTS = 1 << 14  # how many events are remembered
_USES = 64  # how many uses of a block of memory
Clock = dict[Any, int]  # lane -> how much of its work


class Use(NamedTuple):
    """One use of memory by an operation."""

    kind: str  # "read" or "write"
    lane: Any
    time: int  # the lane's own clock
    low: int
    high: int
    name: str
    what: str  # shape and dtype
    site: Any

    def __str__(self) -> str:
        lane = self.lane
        return (
            f"{self.kind} of {self.what} by {self.name} on stream {lane.stream.ptr:#x} of cuda:{lane.device}\n"
            f"    at {describe(self.site)}"
        )


class Report(NamedTuple):
    """Two uses of the same memory that nothing orders; ``str()`` tells it in full.

    Attributes:
        first: the earlier use: the operation, its stream and the line of the program.
        second: the later one.
    """

    first: Use
    second: Use

    def __str__(self) -> str:
        return (
            f"CUDA stream sanitizer: possible data race on memory at {self.second.low:#x}\n"
            f"  {self.second}\n  is not ordered after the\n  {self.first}\n"
            "Let the second stream wait for the first (wait_stream, wait_event) before it uses the memory; if the "
            "memory was freed in between, record_stream keeps it until the first use is done."
        )


class UnsynchronizedAccessError(RuntimeError):
    """A race was found; a RuntimeError.

    Attributes:
        report: the two uses.
    """

    def __init__(self, report: Report):
        super().__init__(str(report))
        self.report = report


class CUDASanitizerErrors(RuntimeError):
    """The races that a block of :func:`sanitize` ended with; a RuntimeError.

    Attributes:
        errors: a list of `Report`.
    """

    def __init__(self, errors: list[Report]):
        super().__init__("\n\n".join(map(str, errors)))
        self.errors = errors


def _join(clock: Clock, other: Clock) -> None:
    for lane, time in other.items():
        if clock.get(lane, 0) < time:
            clock[lane] = time


class Order:
    """The vector clocks of streams, events and the host."""

    def __init__(self) -> None:
        self.clocks: dict[Any, Clock] = {}
        self.host: Clock = {}
        self.events: OrderedDict[int, tuple[Any, Clock]] = OrderedDict()
        self.forgot = False  # whether there were too many events

    def clock(self, lane: Any) -> Clock:
        """Of what is queued on a lane next. The legacy default stream and blocking streams wait for each other."""
        clock = self.clocks.setdefault(lane, {})
        _join(clock, self.host)
        if not _non_blocking(lane):
            legacy = lane.stream.ptr in (0, 1)
            for other, theirs in self.clocks.items():
                if other is lane or other.device != lane.device or _non_blocking(other):
                    continue
                if legacy or other.stream.ptr in (0, 1):
                    _join(clock, theirs)
        return clock

    def tick(self, lane: Any) -> Clock:
        """The clock of work that is queued on a lane now."""
        clock = self.clock(lane)
        clock[lane] = clock.get(lane, 0) + 1
        return clock

    def record(self, event: Any, lane: Any) -> None:
        self.events.pop(id(event), None)
        self.events[id(event)] = event, dict(self.clock(lane))
        if len(self.events) > _EVENTS:
            self.events.popitem(last=False)
            self.forgot = True

    def of_event(self, event: Any) -> Clock:
        """Of an event. One that is forgotten comes after everything, so that nothing is reported without need."""
        found = self.events.get(id(event))
        if found is not None:
            return found[1]
        everything: Clock = {}
        if not self.forgot:
            return everything  # recorded before this began
        for clock in self.clocks.values():
            _join(everything, clock)
        return everything

    def wait(self, lane: Any, event: Any) -> None:
        _join(self.clock(lane), self.of_event(event))

    def done(self, event: Any) -> None:
        """The host knows that an event is done."""
        _join(self.host, self.of_event(event))

    def synchronized(self, lane: Any) -> None:
        """The host has waited for a stream."""
        _join(self.host, self.clock(lane))

    def synchronized_device(self, device: int) -> None:
        for lane in self.clocks:
            if lane.device == device:
                self.synchronized(lane)


def _non_blocking(lane: Any) -> bool:
    return lane.stream.ptr not in (0, 1) and bool(getattr(lane.stream, "is_non_blocking", True))


class Sanitizer:
    """A recorder (`tape.recording`) that follows the uses of device memory."""

    def __init__(self, on_error: str):
        self.on_error = on_error
        self.order = Order()
        self.blocks: dict[int, list[Use]] = {}  # address of a block -> its uses
        self.reports: list[Report] = []
        self.seen: set[tuple] = set()
        self.lock = threading.RLock()
        self.nodes: list[Any] = []

    # -- what the recorder hears -------------------------------------------------------------------------------------

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> tuple:
        if scope == recording.BACKWARD:
            self.nodes.append(op)
        return name, op, args, attrs, scope

    def exit(self, token: tuple, result: Any) -> None:
        name, op, args, attrs, scope = token
        if scope == recording.BACKWARD:
            node = self.nodes.pop()
            if isinstance(node, AccumulateGrad) and node.variable is not None:
                self.use("write", node.variable._grad, name)
            return
        if scope != recording.OP or op is None or result is None or op.view:
            return
        given = args[0] if op.variadic else args
        outs = result if isinstance(result, tuple) else (result,)
        target = next((o for o in outs if _device_array(o) is not None), None)
        for a in given:
            self.use("read", a, name, target)
        for o in outs:
            self.use("write", o, name)
        if op.leaves_device and target is None:
            lazy = dict(zip(op.attrs, attrs, strict=True)).get("non_blocking")
            if not (lazy and outs[0].is_pinned()):
                self.waited_for(given)

    def created(self, tensor: Any) -> None:
        self.use("write", tensor, "creation")

    def host_reads(self, name: str, tensor: Any) -> None:
        self.read_by_host(tensor, name)

    def read_by_host(self, tensor: Tensor, name: str) -> None:
        """A copy to the host that waits."""
        self.use("read", tensor, name)
        self.waited_for((tensor,))

    def waited_for(self, tensors: Any) -> None:
        for t in tensors:
            array = _device_array(t)
            if array is not None:
                self.order.synchronized(shared.cuda.current(array.device.id))

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An optimizer reads gradients, and writes parameters and its state."""
        name = f"{type(optimizer).__name__}.step"
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if p.grad is not None:
                self.use("read", p.grad, name)
                self.use("write", p, name)
                for value in optimizer.state.get(p, {}).values():
                    self.use("write", value, name)

    # -- uses --------------------------------------------------------------------------------------------------------

    def use(self, kind: str, tensor: Any, name: str, where: Any = None) -> None:
        """Work that is queued now reads or writes a tensor, on the current stream of its device (or `where`'s)."""
        array = _device_array(tensor)
        if array is None or not array.size or shared.cuda.held is not None:
            return
        place = array if where is None else stored(where._array)
        lane = shared.cuda.current(place.device.id)
        with self.lock:
            clock = self.order.tick(lane)
            low, high = _extent(array)
            use = Use(kind, lane, clock[lane], low, high, name, _describe(tensor), None)
            self._check(use, clock, array.data.mem.ptr)

    def _check(self, use: Use, clock: Clock, block: int) -> None:
        kept, races = [], []
        for other in self.blocks.get(block, ()):
            if other.high <= use.low or use.high <= other.low:
                kept.append(other)
                continue
            ordered = clock.get(other.lane, 0) >= other.time
            if not ordered and "write" in (use.kind, other.kind):
                races.append(other)
            covered = use.low <= other.low and other.high <= use.high
            if not (
                covered
                and ordered
                and (use.kind == "write" or (other.lane is use.lane and other.kind == "read"))
            ):
                kept.append(other)
        name, site = self._site(use.name)
        use = use._replace(name=name, site=site)
        self.blocks[block] = [*kept[-_USES:], use]
        for other in races:
            self._report(Report(other, use))

    def _site(self, name: str) -> tuple[str, Any]:
        node = next((n for n in reversed(self.nodes) if getattr(n, "site", None)), None)
        if node is not None:
            return f"{name} (backward)", node.site
        frame = user_frame(sys._getframe(3))
        return name, (frame.f_code, frame.f_lasti)

    def _report(self, report: Report) -> None:
        key = tuple((u.kind, u.name, u.site) for u in report)
        if key in self.seen:
            return
        self.seen.add(key)
        self.reports.append(report)
        if self.on_error == "raise":
            raise UnsynchronizedAccessError(report)
        if self.on_error == "warn":
            warnings.warn(str(report), stacklevel=4)


def _device_array(value: Any) -> Any:
    """The raw array of a tensor on a device, else None."""
    array = stored(getattr(value, "_array", None))
    return None if array is None or array.__class__ is np.ndarray else array


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"


def _extent(array: Any) -> tuple[int, int]:
    """The first address of an array and the one after its last."""
    low = high = array.data.ptr
    for n, stride in zip(array.shape, array.strides, strict=True):
        step = (n - 1) * stride
        low, high = (low + step, high) if step < 0 else (low, high + step)
    return low, high + array.itemsize


# -- hooks on streams and events ---------------------------------------------------------------------------------------


def _lane(stream: Any) -> Any:
    return shared.cuda.lane(stream._index, stream._stream)


Hook = tuple[Any, str, Callable]  # owner, name of an attribute, what to put there


def _after(s: Sanitizer, owner: Any, name: str, then: Callable) -> Hook:
    """``owner.name`` that calls ``then(result, *its arguments)`` afterwards."""
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        with s.lock:
            then(result, *args, **kwargs)
        return result

    return owner, name, hooked


def _event_hooks(s: Sanitizer) -> Iterator[Hook]:
    """The events of the engine and of ``gradlib.cuda``."""
    order = s.order

    def current_or(stream: Any) -> Any:
        return _lane(streams.current_stream() if stream is None else stream)

    def records(result: Any, event: Any, stream: Any = None) -> None:
        order.record(event._event, current_or(stream))

    def waits(result: Any, event: Any, stream: Any = None) -> None:
        if event._event is not None:
            order.wait(current_or(stream), event._event)

    def is_done(result: Any, event: Any) -> None:
        if result is not False and event._event is not None:
            order.done(event._event)

    yield _after(s, _lanes.Lane, "record", lambda event, lane: order.record(event, lane))
    yield _after(s, _lanes.Lane, "wait", lambda _, lane, event: order.wait(lane, event))
    yield _after(s, streams.Event, "record", records)
    yield _after(s, streams.Event, "wait", waits)
    yield _after(s, streams.Event, "synchronize", is_done)
    yield _after(s, streams.Event, "query", is_done)
    yield _lanes.Streams, "sweep", _sweeping(s)


def _hooks(s: Sanitizer) -> Iterator[Hook]:
    """Everything that orders work, and what reads values."""
    order = s.order

    def stream_done(done: Any, stream: Any) -> None:
        if done is not False:
            order.synchronized(_lane(stream))

    yield from _event_hooks(s)
    yield _after(s, streams.Stream, "synchronize", stream_done)
    yield _after(s, streams.Stream, "query", stream_done)
    yield _after(s, _library, "wait_for", lambda _, index: order.synchronized_device(index))
    yield _after(s, memory, "empty_cache", lambda _: s.blocks.clear())  # the device was waited for
    for name in ("item", "tolist", "__index__"):
        label = f"Tensor.{name}"
        yield _after(s, Tensor, name, lambda _, t, label=label: s.read_by_host(t, label))


def _sweeping(s: Sanitizer) -> Callable:
    """``Streams.sweep``, which finds out that events are done."""
    plain = _lanes.Streams.sweep

    def sweep(self: Any) -> None:
        before = list(self._retired)
        plain(self)
        left = {id(entry) for entry in self._retired}
        with s.lock:
            for entry in before:
                if id(entry) not in left:
                    s.order.done(entry[1])

    return sweep


class _Installed:
    """A sanitizer at work, and how to remove it."""

    def __init__(self, on_error: str):

        self.sanitizer = Sanitizer(on_error)
        self.plain: list[tuple[Any, str, Any]] = []
        for owner, name, hooked in list(_hooks(self.sanitizer)):
            self.plain.append((owner, name, vars(owner).get(name)))
            setattr(owner, name, hooked)
        self.step = register_optimizer_step_pre_hook(self.sanitizer.before_step)
        recording.add(self.sanitizer)

    def remove(self) -> None:
        recording.remove(self.sanitizer)
        self.step.remove()
        for owner, name, plain in reversed(self.plain):
            if plain is None:  # inherited
                delattr(owner, name)
            else:
                setattr(owner, name, plain)


_installed: _Installed | None = None


def enable_cuda_sanitizer(on_error: str = "raise") -> None:
    """Watch this thread from now on; `sanitize` does it for a block.

    Args:
        on_error: "raise": UnsynchronizedAccessError after the operation that makes the race; "warn": a warning;
            "collect": only keep it for :func:`disable_cuda_sanitizer`.

    Raises:
        ValueError: another `on_error`.
        RuntimeError: it is on already.
    """
    global _installed
    if on_error not in ("raise", "warn", "collect"):
        raise ValueError(
            f"enable_cuda_sanitizer(): on_error must be 'raise', 'warn' or 'collect', got {on_error!r}"
        )
    if _installed is not None:
        raise RuntimeError("the CUDA sanitizer is at work already; it does not nest")
    _installed = _Installed(on_error)


def disable_cuda_sanitizer() -> list[Report]:
    """Stop watching. Call it in the thread that enabled it.

    Returns:
        The races that were found, as a list of `Report`; empty if it was off.
    """
    global _installed
    if _installed is None:
        return []
    found, _installed = _installed, None
    found.remove()
    return found.sanitizer.reports


@contextlib.contextmanager
def sanitize(on_error: str = "raise") -> Iterator[list[Report]]:
    """The sanitizer for a block; gives the list of races found so far. See :func:`enable_cuda_sanitizer`.

    With "collect", all of them are raised as CUDASanitizerErrors when the block ends.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     x, side = gradlib.ones(1000, device="cuda"), gradlib.cuda.Stream()
        ...     gradlib.cuda.synchronize()
        ...     with gradlib.cuda.sanitizer.sanitize("collect") as races:
        ...         with gradlib.cuda.stream(side):
        ...             y = x * 2
        ...         z = y + 1  # nothing waits for `side`
        ...         assert len(races) == 1
        ...         races.clear()  # else they are raised here
    """
    enable_cuda_sanitizer(on_error)
    assert _installed is not None
    reports = _installed.sanitizer.reports
    try:
        yield reports
    finally:
        disable_cuda_sanitizer()
    if on_error == "collect" and reports:
        raise CUDASanitizerErrors(list(reports))
