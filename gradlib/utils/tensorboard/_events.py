"""The file of events that TensorBoard reads."""

# pyright: reportAttributeAccessIssue=false
# protobuf makes its classes at run time
from __future__ import annotations

import os
import time
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

__all__ = ["FileWriter"]


class FileWriter:
    """Writes events to a file, in a thread of its own.

    Args:
        log_dir: the folder.
        max_queue: events that wait before `add_event` does.
        flush_secs: seconds after which what waits is written.
        filename_suffix: end of the file's name.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        self._options = (str(log_dir), max_queue, flush_secs, filename_suffix)
        self.event_writer = EventFileWriter(*self._options)

    def get_logdir(self) -> str:
        """The folder.

        As it was given.
        """
        return self.event_writer.get_logdir()

    def add_event(self, event: Event, step: Any = None, walltime: float | None = None) -> None:
        """Write an event.

        Args:
            event: TensorBoard's.
            step: number of the step.
            walltime: seconds since 1970; now, if None.
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Summary, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a summary.

        Args:
            summary: TensorBoard's.
            global_step: number of the step.
            walltime: seconds since 1970; now, if None.
        """
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits.

        Returns when it is in the file.
        """
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file.

        `reopen` begins another one.
        """
        self.event_writer.close()

    def reopen(self) -> None:
        """Begin another file in the folder.

        The one before is closed.
        """
        self.event_writer.close()
        self.event_writer = EventFileWriter(*self._options)
