"""What a profile hands out besides tables: reports by line and by memory, trace files, a page for the browser."""

from __future__ import annotations

import linecache
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..tape import source

if TYPE_CHECKING:
    from ._by_line import Report
    from ._memory import MemoryTimeline


class Exports:
    """Methods that lists of events and profiles share."""

    def _recorded_events(self) -> Any:
        """The EventList to export."""
        raise NotImplementedError

    def export_chrome_trace(self, path: str | os.PathLike, use_python_export: bool = False) -> None:
        """Write a trace for ui.perfetto.dev or chrome://tracing, compressed if `path` ends in ``.gz``.

        It has a track for each thread and each CUDA stream, arrows from each forward operation to its backward node
        and from operations to their device work, and counters of memory and of the device's clocks.

        Args:
            path: the file.
            use_python_export: accepted; there is one exporter.
        """
        from . import _chrome

        _chrome.write(self._recorded_events(), path)

    def export_html(self, path: str | os.PathLike, title: str | None = None) -> None:
        """Write one page that any browser shows, without a network: timeline, operations, source lines and memory.

        Operations are joined to their backward nodes; ``with_stack=True`` adds the lines of the program,
        ``profile_memory=True`` the memory chart.

        Args:
            path: the file.
            title: heading of the page; by default the name of the program.
        """
        from . import _html

        _html.write(self._recorded_events(), path, title)

    def by_line(self) -> Report:
        """What each line of the program costs in forward and in backward.

        A row for each line: "file:line", the number of operations called there, and the time spent in them and in the
        backward nodes that they made, on the device and on the CPU. All time counts once, for the innermost line.

        Raises:
            RuntimeError: the profile was made without ``with_stack=True``.

        Example:
            >>> print(prof.by_line().head(10))  # doctest: +SKIP
        """
        from . import _by_line

        return _by_line.by_line(self._recorded_events(), "profile(with_stack=True)")

    def memory_timeline(self, device: Any = None) -> MemoryTimeline:
        """The memory allocated since the profile began, over time, and what it was used for at its peak.

        Args:
            device: "cpu", "cuda:1", ...; by default the device with the highest peak.

        Raises:
            RuntimeError: the profile was made without ``profile_memory=True``.

        Example:
            >>> with profile(profile_memory=True, with_stack=True) as prof:  # doctest: +SKIP
            ...     loss_of(model, batch).backward()
            >>> print(prof.memory_timeline())  # doctest: +SKIP
        """
        from . import _memory

        return _memory.timeline(self._recorded_events(), device)

    def export_memory_timeline(self, path: str | os.PathLike, device: Any = None) -> None:
        """Write the memory timeline of a device; the ending of `path` picks the form.

        - ``.html``: the page of `export_html`;
        - ``.json``, ``.json.gz``: ``[times, sizes]``: microseconds, and for each of them the bytes in each category of
          `MemoryTimeline.categories`;
        - ``.raw.json.gz``: ``[time, action, bytes, category]`` for each block, with the action "CREATE" or "DESTROY".

        Raises:
            ValueError: another ending.
            RuntimeError: the profile was made without ``profile_memory=True``.
        """
        from . import _memory

        _memory.export(self._recorded_events(), path, device)


# -- places in the program -------------------------------------------------------------------------------------------


def stack_entry(site: tuple) -> str:
    """(code, instruction) as an entry of ``event.stack``."""
    code = site[0]
    return f"{code.co_filename}({source.line(site)}): {code.co_name}"


_ENTRY = re.compile(r"(.+)\((\d+)\): ")


def line_of(stack: Iterable[str] | None) -> str:
    """The innermost call as "file:line", "" without any."""
    for entry in stack or ():
        found = _ENTRY.match(entry)
        return f"{found[1]}:{found[2]}" if found else entry
    return ""


def short_lines(lines: Iterable[str]) -> dict[str, str]:
    """Short forms such as "model.py:88" of "/home/me/model.py:88", with as many folders as tell the files apart."""
    files: dict[str, list[str]] = {}
    for line in lines:
        file = line.rpartition(":")[0]
        files[file] = file.replace("\\", "/").split("/")
    names, depth = {file: parts[-1] for file, parts in files.items()}, 1
    while depth < max(map(len, files.values()), default=0):
        sharing = defaultdict(list)
        for file, name in names.items():
            sharing[name].append(file)
        depth += 1
        for group in sharing.values():
            if len(group) > 1:
                names.update({file: "/".join(files[file][-depth:]) for file in group})
    return {line: f"{names[line.rpartition(':')[0]]}:{line.rpartition(':')[2]}" for line in lines}


def source_text(line: str) -> str:
    """The program's text at "file:line"; "" if the file cannot be read."""
    file, _, number = line.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""
