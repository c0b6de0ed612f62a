"""Ranges of a profile: what their texts say, how they nest, and the device work that was launched in each.

Times are integer nanoseconds here, as the profilers write them; the events made from ranges have microseconds.
"""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ._function_event import FunctionEvent

NS_PER_US = 1000
DOMAIN = "gradlib"  # of the ranges that emit_nvtx makes
FORWARD, BACKWARD = "forward", "backward"  # and their categories
FILL_NAME = "[CUDA memset]"
_COPIES = "HtoD DtoH HtoA AtoH AtoA AtoD DtoA DtoD HtoH PtoP".split()  # CUPTI numbers them from 1
_MANAGED = "HtoD DtoH DtoD".split()  # and Nsight Systems those of managed memory from 11


def copy_name(kind: int | None) -> str:
    """The name of a copy as NVIDIA's tools print it, from its number."""
    if kind and kind <= len(_COPIES):
        return f"[CUDA memcpy {_COPIES[kind - 1]}]"
    if kind and kind <= len(_COPIES) + len(_MANAGED):
        return f"[CUDA Unified Memory memcpy {_MANAGED[kind - len(_COPIES) - 1]}]"
    return "[CUDA memcpy]"


class Label(NamedTuple):
    """What the text of a range says."""

    name: str
    seq: int | None = None
    backward: bool = False  # whether seq is the number that a backward node was made with
    sizes: list[list[int]] | None = None
    line: str | None = None  # "file:line" of the op in the program


# where the name ends: PyTorch numbers an op's calls (op_id), and those that may make a node in sequence, too
_NUMBER = re.compile(r",\s*(?:op_id|(?:stashed )?seq)\s*=\s*\d+")
_SEQUENCE = re.compile(r",\s*(stashed )?seq\s*=\s*(\d+)")
_NODE = re.compile(r"Backward\d*$|AccumulateGrad$")
_SIZES = re.compile(r",\s*sizes\s*=\s*(\[[][\d,\s-]*\])")
_LINE = re.compile(r",\s*at=(.+:\d+)$")
# encloses the range of the node itself, with the same number
_WRAPPER = "autograd::engine::evaluate_function"


def read_label(text: str) -> Label:
    """Parse ``"mul, seq=37, sizes=[[2, 3], []], at=train.py:41"``; also with spaces around "=", as PyTorch writes.

    A text without a number is a range of the user's: its name is the whole text.
    """
    number = _NUMBER.search(text)
    if number is None:
        return Label(text)
    name = text[: number.start()]
    # two calls share at most the rest: the numbers of calls would fill any memory of whole texts
    return _read(name, _OP_ID.sub("", text[number.start() :]))


_OP_ID = re.compile(r",\s*op_id\s*=\s*\d+")


@functools.lru_cache(maxsize=4096)
def _read(name: str, rest: str) -> Label:
    sequence, sizes, line = _SEQUENCE.search(rest), _SIZES.search(rest), _LINE.search(rest)
    stashed, seq = sequence.groups() if sequence else (None, None)
    return Label(
        name,
        None if seq is None or name.startswith(_WRAPPER) else int(seq),
        bool(stashed or _NODE.search(name)),
        json.loads(sizes[1]) if sizes else None,
        line[1] if line else None,
    )


class Range:
    """One range: who (process and thread), when (ns), and its event."""

    __slots__ = ("backward", "end", "event", "process", "seq", "start", "thread")

    def __init__(self, process: int, thread: int, start: int, end: int, label: Label):
        self.process, self.thread, self.start, self.end = process, thread, start, end
        self.seq, self.backward = label.seq, label.backward
        self.event: Any = None

    def make_event(
        self, number: int, name: str, label: Label, origin: int = 0, unit: int = NS_PER_US
    ) -> None:
        """The FunctionEvent of this range, with times since `origin` (ns) in units of `unit` ns."""
        self.event = FunctionEvent(
            number,
            name,
            self.thread,
            (self.start - origin) / unit,
            (self.end - origin) / unit,
            input_shapes=label.sizes,
            stack=[label.line] if label.line else None,
            scope=int(label.backward),
            sequence_nr=-1 if label.seq is None else label.seq,
        )


class Work(NamedTuple):
    """Something that ran on a device: a kernel, copy, fill, or a whole graph."""

    launched: int  # ns, on the host
    name: str
    device: int
    stream: int
    start: int  # ns, on the device
    duration: int  # ns


def attach(
    ranges: list[Range], work: dict[tuple, list[Work]]
) -> Iterator[tuple[Range | None, Work]]:
    """Nest ranges, and give each piece of work with the innermost range of its thread that was open at its launch.

    work: by (process, thread). Linear in time after sorting. None stands for work launched outside all ranges.
    """
    threads: dict[tuple, list[Range]] = defaultdict(list)
    for r in ranges:
        threads[r.process, r.thread].append(r)
    for key, launches in work.items():
        if key not in threads:
            yield from ((None, piece) for piece in launches)
    for key, group in threads.items():
        yield from _sweep(group, sorted(work.get(key, ())))


def _sweep(ranges: list[Range], work: list[Work]) -> Iterator[tuple[Range | None, Work]]:
    """`attach` for one thread."""
    ranges.sort(key=lambda r: (r.start, -r.end))
    stack: list[Range] = []
    done = 0
    for r in ranges:
        while done < len(work) and work[done].launched < r.start:
            yield _innermost(stack, work[done]), work[done]
            done += 1
        _close(stack, r.start)
        # ranges of different domains may overlap without one containing the other
        parent = next((p for p in reversed(stack) if p.end >= r.end), None)
        if parent is not None:
            parent.event.append_cpu_child(r.event)
            r.event.set_cpu_parent(parent.event)
        stack.append(r)
    for piece in work[done:]:
        yield _innermost(stack, piece), piece


def _close(stack: list[Range], now: int) -> None:
    while stack and stack[-1].end <= now:
        stack.pop()


def _innermost(stack: list[Range], piece: Work) -> Range | None:
    _close(stack, piece.launched)
    return stack[-1] if stack else None


def pair(ranges: Iterable[Range]) -> list[tuple[Range, Range]]:
    """(forward, backward) for each range of a backward node whose forward range is in the profile.

    A number stands on every range opened until a node takes it: ops that record nothing, and ops made of others. The
    node was made in the last of them. Counters of different threads may run alike, so the node's own thread is
    preferred. The backward events get `fwd_thread` and `stack` of their forward events.
    """
    makers: dict[tuple, list[Range]] = defaultdict(list)
    highest: dict[tuple, int] = defaultdict(int)
    pairs = []
    for r in sorted(ranges, key=lambda r: r.start):
        if r.seq is None:
            continue
        if not r.backward:
            thread = r.process, r.thread
            # numbers only grow; a 0 after others, or in backward, says that no node can be made
            if r.seq >= highest[thread] and (r.seq or not _in_backward(r.event)):
                highest[thread] = r.seq
                makers[r.process, r.seq].append(r)
            continue
        candidates = makers.get((r.process, r.seq))
        if candidates:
            own = [c for c in candidates if c.thread == r.thread]
            forward = (own or candidates)[-1]
            r.event.fwd_thread = forward.thread
            r.event.stack = r.event.stack or forward.event.stack
            pairs.append((forward, r))
    return pairs


def _in_backward(event: FunctionEvent) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if parent.scope == 1:
            return True
        parent = parent.cpu_parent
    return False
