"""The last collectives of this rank: what was called, where, on what, and how far it got.

They are recorded always, at a microsecond each. When a collective fails, they are written to a file that the error
names.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import deque
from datetime import timedelta
from types import CodeType
from typing import Any

from ...tape import source

__all__ = ["dump", "entries"]


def _limit() -> int:
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 1000


class Call:
    """One collective, send or receive of this rank."""

    __slots__ = (
        "backend", "created", "detail", "dtype", "ended", "error", "group", "limit", "nbytes", "op", "p2p", "rank",
        "seq", "shapes", "site", "started", "state",
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        group: str,
        rank: int,
        seq: int,
        shapes: tuple[tuple[int, ...], ...],
        dtype: Any,
        nbytes: int,
        detail: str,
        site: tuple[CodeType, int],
        p2p: bool = False,
    ) -> None:
        self.op, self.group, self.rank, self.seq, self.shapes, self.dtype = (
            op, group, rank, seq, shapes, dtype,
        )  # fmt: skip
        self.nbytes, self.detail, self.site, self.p2p = nbytes, detail, site, p2p
        self.state, self.backend = "scheduled", "gloo"
        self.limit: timedelta | None = None  # of this one alone; else that of its group
        self.created = time.time_ns()
        self.started = self.ended = 0
        self.error: str | None = None
        _records.append(self)

    def place(self) -> str:
        """The user's line, as 'train.py:41, in step'."""
        return f"{self.site[0].co_filename}:{source.line(self.site)}, in {self.site[0].co_name}"

    def what(self) -> str:
        """Op and arguments, as 'all_reduce(float32[4, 2], SUM)'."""
        kind = getattr(self.dtype, "name", "")
        shown = [f"{kind}{list(shape)}" for shape in self.shapes[:4]]
        if len(self.shapes) > 4:
            shown.append(f"... {len(self.shapes)} tensors")
        return f"{self.op}({', '.join([*shown, *([self.detail] if self.detail else [])])})"

    def __str__(self) -> str:
        number = "" if self.p2p else f" number {self.seq}"
        return f"{self.what()}{number} at {self.place()}"

    def line(self) -> bytes:
        """The same as bytes, made again and again at little cost: for those who wait for this rank."""
        key = (self.site, self.op, self.shapes, self.dtype, self.detail)
        known = _lines.get(key)
        if known is None:
            if len(_lines) > 10_000:
                _lines.clear()
            known = _lines[key] = f"{self.what()} at {self.place()}".encode()
        return b"number %d, %s" % (self.seq, known)

    def entry(self) -> dict[str, Any]:
        """All that is known, under the names that PyTorch's flight recorder has for it."""
        return {
            "pg_id": self.group,
            "process_group": (self.group, ""),
            "rank": self.rank,
            "collective_seq_id": 0 if self.p2p else self.seq,
            "p2p_seq_id": self.seq if self.p2p else 0,
            "profiling_name": f"{self.backend}:{self.op}",
            "is_p2p": self.p2p,
            "input_sizes": [list(shape) for shape in self.shapes],
            "input_dtypes": [] if self.dtype is None else [self.dtype.scalar_type],
            "bytes": self.nbytes,
            "detail": self.detail,
            "state": self.state,
            "time_created_ns": self.created,
            "time_discovered_started_ns": self.started or None,
            "time_discovered_completed_ns": self.ended or None,
            "duration_ms": (self.ended - self.started) / 1e6 if self.ended else None,
            "GB_per_s": self.nbytes / (self.ended - self.started)
            if self.state == "completed" and self.ended > self.started
            else None,
            "frames": [
                {
                    "name": self.site[0].co_name,
                    "filename": self.site[0].co_filename,
                    "line": source.line(self.site),
                }
            ],
            "error": self.error,
        }


_lines: dict[tuple, bytes] = {}
_records: deque[Call] = deque(maxlen=_limit())


def entries() -> list[dict[str, Any]]:
    """The last collectives of this rank, the oldest first.

    Returns:
        A dict for each: op and number (``profiling_name``, ``collective_seq_id``), ``input_sizes``, ``input_dtypes``,
        the user's line (``frames``), ``state`` ("scheduled", "started", "completed" or "failed"), and times.

    Example:
        >>> [entry["profiling_name"] for entry in gradlib.distributed.flight_recorder.entries()[:0]]
        []
    """
    return [call.entry() for call in list(_records)]


def clear() -> None:
    """Forget all of them."""
    _records.clear()


def path_of(rank: int) -> str:
    """Where the record of a rank goes: ``TORCH_FR_DUMP_TEMP_FILE`` and the rank, or a file for temporary ones."""
    for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"):
        if prefix := os.environ.get(name):
            return f"{prefix}{rank}"
    return os.path.join(tempfile.gettempdir(), f"gradlib_collectives_{os.getpid()}_rank{rank}.json")


def dump(path: str | os.PathLike[str] | None = None, *, rank: int = 0) -> str:
    """Write the last collectives of this rank to a file, as JSON.

    Args:
        path: where to; by default what ``TORCH_FR_DUMP_TEMP_FILE`` says with the rank behind it, or a temporary file.
        rank: of this process.

    Returns:
        The path.
    """
    target = os.fspath(path) if path is not None else path_of(rank)
    record = {"version": "2.10", "rank": rank, "pid": os.getpid(), "entries": entries()}
    with open(target, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
    return target
