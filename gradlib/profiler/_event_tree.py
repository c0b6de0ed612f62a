"""How events belong together: which lie in which, and which backward node belongs to which operation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..tape.recording import LABEL

if TYPE_CHECKING:
    from ._function_event import FunctionEvent


def nesting(event: FunctionEvent) -> tuple:
    """A sorting key that puts an event before those inside it."""
    return event.time_range.start, -event.time_range.end, event.id


def mark_overlapping(events: Iterable[FunctionEvent]) -> None:
    """Labels of a thread that overlap without nesting are asynchronous: blocks of coroutines, of which one waits in the
    middle while another runs. They are nobody's parent or child, as what runs meanwhile may be either's."""
    open_labels: dict[int, list[FunctionEvent]] = defaultdict(list)
    for event in sorted((e for e in events if e.scope == LABEL), key=nesting):
        start, end = event.time_range.start, event.time_range.end
        around = [other for other in open_labels[event.thread] if other.time_range.end > start]
        for other in around:
            if other.time_range.end < end:
                other.is_async = event.is_async = True
        open_labels[event.thread] = [*around, event]


def nest(events: Iterable[FunctionEvent]) -> None:
    """Fill in cpu_parent and cpu_children.

    The parent of an event is the innermost of its thread that contains it: one sweep over the sorted events.
    """
    threads: dict[tuple, list[FunctionEvent]] = defaultdict(list)
    for event in events:
        threads[event.thread, event.node_id].append(event)
    for group in threads.values():
        group.sort(key=nesting)
        around: list[FunctionEvent] = []
        for event in group:
            start, end = event.time_range.start, event.time_range.end
            while around and not start < around[-1].time_range.end >= end:
                around.pop()
            if around and event.cpu_parent is None:
                around[-1].append_cpu_child(event)
                event.set_cpu_parent(around[-1])
            around.append(event)


def forward_of(events: Iterable[FunctionEvent]) -> dict[int, FunctionEvent]:
    """The forward operation of each backward node that has one, by the node's id."""
    makers: dict[int, FunctionEvent] = {}
    found = {}
    for event in sorted(events, key=nesting):
        if event.scope == 0 and event.sequence_nr >= 0:
            # the last operation to start with a number, the innermost, made the node
            makers[event.sequence_nr] = event
        elif event.scope == 1 and event.sequence_nr >= 0:
            maker = _maker(makers, event.sequence_nr)
            if maker is not None:
                found[event.id] = maker
    return found


def _maker(makers: dict[int, FunctionEvent], number: int) -> FunctionEvent | None:
    """The operation that made the node of a number."""
    for before in range(3):
        maker = makers.get(number - before)
        if maker is not None:
            # an operation in place on a view makes up to two nodes more: CopySlices, and one of the view
            return maker if before == 0 or maker.name.endswith("_") else None
    return None


def inherit(events: Iterable[FunctionEvent]) -> None:
    """Backward nodes, and all in them, get the stack, module and thread of the forward operation."""
    ordered = sorted(events, key=nesting)  # parents first
    forward = forward_of(ordered)
    for event in ordered:
        parent = event.cpu_parent
        source = parent if parent is not None and parent.in_backward else None
        if event.scope == 1:
            source = forward.get(event.id, source)
            if source is not None and event.fwd_thread is None:
                event.fwd_thread = source.thread
        if source is not None:
            event.in_backward = True
            event.stack = source.stack or event.stack
            event.module_hierarchy = source.module_hierarchy or event.module_hierarchy
