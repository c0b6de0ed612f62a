"""What a profile hands out besides tables: reports by line and by memory, trace files, a page for the browser."""

from __future__ import annotations

import os
from typing import Any

from . import _by_line, _chrome, _collectives, _html, _memory


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
        _chrome.write(self._recorded_events(), path)

    def export_html(self, path: str | os.PathLike, title: str | None = None) -> None:
        """Write one page that any browser shows, without a network: timeline, operations, source lines and memory.

        Operations are joined to their backward nodes; ``with_stack=True`` adds the lines of the program,
        ``profile_memory=True`` the memory chart.

        Args:
            path: the file.
            title: heading of the page; by default the name of the program.
        """
        _html.write(self._recorded_events(), path, title)

    def by_line(self) -> _by_line.Report:
        """What each line of the program costs in forward and in backward.

        A row for each line: "file:line", the number of operations called there, and the time spent in them and in the
        backward nodes that they made, on the device and on the CPU. All time counts once, for the innermost line.

        Raises:
            RuntimeError: the profile was made without ``with_stack=True``.

        Example:
            >>> print(prof.by_line().head(10))  # doctest: +SKIP
        """
        return _by_line.by_line(self._recorded_events(), "profile(with_stack=True)")

    def communication(self) -> _collectives.Communication:
        """The collectives of this process: calls, bytes, time, rate, and how much of it was hidden behind compute.

        A moment of a collective is hidden if operations or backward nodes run meanwhile. The last 1,000 collectives
        are known (``TORCH_FR_BUFFER_SIZE`` of them).

        Example:
            >>> print(prof.communication())  # doctest: +SKIP
            Collective  Calls       Bytes     Time  GB/s  Hidden  Exposed  Exposed %
            ----------  -----  ----------  -------  ----  ------  -------  ---------
            all_reduce      4  10,485,760  10112us  1.04  8904us   1208us        12%
            Exposed communication: 1208us of 60210us (2.0%)
        """
        return _collectives.communication(self._recorded_events())

    def memory_timeline(self, device: Any = None) -> _memory.MemoryTimeline:
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
        _memory.export(self._recorded_events(), path, device)
