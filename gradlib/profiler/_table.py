"""The profiler's table: columns, units, and the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._throttling import summary

UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
MIN_WIDTH = 12
GAP = "  "


def format_time(time_us: float, unit: str | None = None) -> str:
    """Microseconds as text: ``"3.000us"``, ``"1.500ms"``, ``"2.000s"``; in the unit that suits, or in `unit`."""
    if unit is None:
        unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return f"{time_us / UNITS[unit]:.3f}{unit}"


def format_time_share(time_us: float, total_us: float) -> str:
    """A time as a percentage of a total; ``"--"`` of a total of nothing."""
    return f"{time_us * 100 / total_us:.2f}%" if total_us else "--"


def format_memory(nbytes: int) -> str:
    """Bytes as text: ``"64 B"``, ``"2.00 KB"``, ``"-1.50 MB"``."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def cut_name(name: str, width: int | None) -> str:
    """`name`, with ``...`` for what a column of `width` has no room for."""
    return name if width is None or len(name) < width - 3 else name[: width - 3] + "..."


def cut_source(text: str, width: int | None) -> str:
    """The end of `text`, which tells most of a place in a program, in at most `width` characters."""
    if width is None or len(text) <= width:
        return text
    end = text[len(text) - width :]
    return "..." + end[3:] if len(end) > 3 else end


class Column:
    """A heading, the text of a cell or the lines of it, and how wide the column is at least."""

    def __init__(
        self,
        heading: str,
        cell: Callable[[Any], str | list[str]],
        width: int = MIN_WIDTH,
        left: bool = False,
    ):
        self.heading, self.cell, self.width, self.left = heading, cell, width, left

    def pad(self, text: str, width: int) -> str:
        return text.ljust(width) if self.left else text.rjust(width)


def text_width(texts: Iterable[str], most: int | None) -> int:
    """The width of a column of texts: four more than the longest, and no more than `most`."""
    width = max(map(len, texts), default=0) + 4
    return width if most is None else min(width, most)


def render(
    events: Any,
    *,
    sort_by: str | None,
    row_limit: int,
    header: str | None,
    top_level_events_only: bool,
    widths: tuple[int | None, int | None, int | None],
    time_unit: str | None = None,
) -> str:
    """The table of `events`; see `EventList.table`. `widths` are those of names, shapes and sources."""
    if not events:
        return ""
    unit = time_unit if time_unit in UNITS else None
    rows = sort(events, sort_by)
    if top_level_events_only:
        rows = [event for event in rows if event.cpu_parent is None]
    if row_limit >= 0:
        rows = rows[:row_limit]
    columns = choose_columns(events, widths, unit)
    cells = [[column.cell(event) for column in columns] for event in rows]
    return layout(columns, cells, header, footer(events, unit), top_level_events_only)


def sort(events: Any, sort_by: str | None) -> list:
    """Largest first; in the given order without `sort_by`."""
    if sort_by is None:
        return list(events)
    name = sort_by.replace("cuda", "device")
    if not hasattr(events[0], name):
        raise AttributeError(
            f"{type(events[0]).__name__!r} object has no attribute {sort_by!r}: sort_by is one of cpu_time, cuda_time, "
            "cpu_time_total, cuda_time_total, self_cpu_time_total, self_cuda_time_total, cpu_memory_usage, "
            "cuda_memory_usage, self_cpu_memory_usage, self_cuda_memory_usage, count"
        )
    return sorted(events, key=lambda event: getattr(event, name), reverse=True)


def choose_columns(
    events: Any, widths: tuple[int | None, int | None, int | None], unit: str | None = None
) -> list[Column]:
    """The columns for which `events` have something to show."""
    most_name, most_shapes, most_source = widths
    cpu_total = sum([e.self_cpu_time_total for e in events])
    columns = [
        Column(
            "Name",
            lambda e: cut_name(e.key, most_name),
            text_width([e.key for e in events], most_name),
        ),
        Column("Self CPU %", lambda e: format_time_share(e.self_cpu_time_total, cpu_total)),
        Column("Self CPU", lambda e: format_time(e.self_cpu_time_total, unit)),
        Column("CPU total %", lambda e: format_time_share(cpu_share(e), cpu_total)),
        Column("CPU total", lambda e: format_time(e.cpu_time_total, unit)),
        Column("CPU time avg", lambda e: format_time(e.cpu_time, unit)),
    ]
    device = events._use_device.upper() if events._use_device else ""
    if device and any([e.self_device_time_total > 0 for e in events]):
        columns += device_columns(events, device, unit)
    if events._profile_memory:
        uses = device and any([e.self_device_memory_usage > 0 for e in events])
        columns += memory_columns(device if uses else "")
    columns.append(Column("# of Calls", lambda e: str(e.count)))
    if any([e.node_id != -1 for e in events]):
        columns.append(Column("Node ID", lambda e: str(e.node_id)))
    if any([e.input_shapes for e in events]):
        room = text_width([str(e.input_shapes) for e in events], most_shapes)
        columns.append(Column("Input Shapes", lambda e: str(e.input_shapes)[:room], room))
    if any([e.stack for e in events]):
        wide = text_width([entry for e in events for entry in e.stack or ()], most_source)
        columns.append(Column("Source Location", lambda e: source_lines(e, wide), wide, left=True))
    if events._with_flops and any([e.flops > 0 for e in events]):
        columns.append(flops_column(events))
    return columns


def cpu_share(event: Any) -> float:
    """The time of an event that counts: none of one that overlaps others, whose time is theirs, too."""
    return 0.0 if event.is_async else event.cpu_time_total


def device_columns(events: Any, device: str, unit: str | None) -> list[Column]:
    total = sum([e.self_device_time_total for e in events])
    return [
        Column(f"Self {device}", lambda e: format_time(e.self_device_time_total, unit)),
        Column(f"Self {device} %", lambda e: format_time_share(e.self_device_time_total, total)),
        Column(f"{device} total", lambda e: format_time(e.device_time_total, unit)),
        Column(f"{device} time avg", lambda e: format_time(e.device_time, unit)),
    ]


def memory_columns(device: str) -> list[Column]:
    columns = [
        Column("CPU Mem", lambda e: format_memory(e.cpu_memory_usage)),
        Column("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage)),
    ]
    if device:
        columns += [
            Column(f"{device} Mem", lambda e: format_memory(e.device_memory_usage)),
            Column(f"Self {device} Mem", lambda e: format_memory(e.self_device_memory_usage)),
        ]
    return columns


def flops_column(events: Any) -> Column:
    """FLOPs in the unit that suits the smallest."""
    smallest = min([e.flops for e in events if e.flops > 0], default=0)
    power = min(max(0, (len(str(smallest)) - 1) // 3), 5)
    unit, scale = ("", "K", "M", "G", "T", "P")[power], 1000**power
    return Column(
        f"Total {unit}FLOPs", lambda e: f"{e.flops / scale:8.3f}" if e.flops > 0 else "--"
    )


def source_lines(event: Any, width: int) -> list[str]:
    return [cut_source(entry, width) for entry in event.stack or []]


def footer(events: Any, unit: str | None = None) -> list[str]:
    cpu = sum([e.self_cpu_time_total for e in events])
    lines = [f"Self CPU time total: {format_time(cpu, unit)}"]
    device = sum([e.self_device_time_total for e in events])
    if events._use_device and device:
        lines.append(f"Self {events._use_device.upper()} time total: {format_time(device, unit)}")
    if events._samples:
        lines += filter(None, [summary(events._samples)])
    return lines


def layout(
    columns: list[Column],
    cells: list[list],
    header: str | None,
    last: list[str],
    top_level_only: bool,
) -> str:
    lines = [[_lines(cell) for cell in row] for row in cells]
    widths = [
        max(column.width, len(column.heading), *(len(text) for row in lines for text in row[i]))
        for i, column in enumerate(columns)
    ]
    rule = GAP.join("-" * width for width in widths)
    above = []
    if header is not None:
        above += ["=" * len(rule), header]
    if top_level_only:
        above += ["=" * len(rule), "This report only display top-level ops statistics"]
    body = []
    has_stack = any(column.left for column in columns)
    for row in lines:
        for k in range(max(1, *(len(cell) for cell in row))):
            body.append([cell[k] if k < len(cell) else "" for cell in row])
        if has_stack:
            body.append([""] * len(row))
    text = [
        "".join(
            column.pad(value, width) + GAP
            for column, value, width in zip(columns, row, widths, strict=True)
        )
        for row in [[column.heading for column in columns], *body]
    ]
    rule += GAP
    return "\n".join([*above, rule, text[0], rule, *text[1:], rule, *last, ""])


def _lines(cell: str | list[str]) -> list[str]:
    return [cell] if isinstance(cell, str) else cell
