"""Where NVTX ranges go: a domain of the nvtx package, or CuPy's NVTX functions, or nowhere."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from ..packages import find
from . import namespace as _backend


class Emitter(threading.local):
    """A domain of the nvtx package. Its reused attributes are those of one thread.

    Texts are registered past the package's cache, which would keep each of them for ever: with sequence numbers in
    them, hardly two are alike.
    """

    def __init__(self, domain: Any):
        register = type(domain).get_registered_string
        self._register = functools.partial(getattr(register, "__wrapped__", register), domain)
        self._domain = domain
        self._plain = domain.get_event_attributes()
        # in this order: readers of nvprof's files, which have no names of categories, know them by number
        self._tagged = {
            name: domain.get_event_attributes(category=domain.get_category_id(name))
            for name in ("forward", "backward")
        }

    def _attributes(self, text: str) -> Any:
        self._plain.message = self._register(text)
        return self._plain

    def push(self, text: str) -> None:
        """Open a range of this thread."""
        self._domain.push_range(self._attributes(text))

    def push_tagged(self, text: str, category: str, payload: int) -> None:
        """Open a range with a category ("forward" or "backward") and an int64 payload."""
        attributes = self._tagged[category]
        attributes.message = self._register(text)
        attributes.payload = payload
        self._domain.push_range(attributes)

    def pop(self) -> None:
        """Close the range that this thread opened last."""
        self._domain.pop_range()

    def mark(self, text: str) -> None:
        """Say that something happened now."""
        self._domain.mark(self._attributes(text))

    def start(self, text: str) -> int:
        """Open a range that any thread may end; returns its number."""
        return self._domain.start_range(self._attributes(text))

    def end(self, number: int) -> None:
        """Close the range that `start` numbered."""
        self._domain.end_range(number)


class CupyEmitter:
    """CuPy's NVTX functions: texts alone, in the default domain."""

    def __init__(self, library: Any):
        self.push, self.pop, self.mark = library.RangePush, library.RangePop, library.Mark
        self.start, self.end = functools.partial(library.RangeStart, color=None), library.RangeEnd

    def push_tagged(self, text: str, category: str, payload: int) -> None:
        """Open a range; its category and payload are left out."""
        self.push(text)


def connect(domain: str | None) -> Emitter | CupyEmitter | None:
    """Where ranges go: a domain of the nvtx package (None for the default one), else CuPy; None if nobody listens.

    NVTX decides once in a process whether a profiler is attached: when the first range, or domain, is made.
    """
    package = find("nvtx")
    if package is not None:
        return _open_domain(package, domain)
    # a program that has not imported CuPy has nothing on a device to show
    return _through_cupy(sys.modules["cupy"]) if "cupy" in sys.modules else None


@functools.cache
def _through_cupy(package: Any) -> CupyEmitter | None:
    return CupyEmitter(package.cuda.nvtx) if _backend.why_not() is None else None


@functools.cache
def _open_domain(package: Any, name: str | None) -> Emitter | None:
    domain = package.get_domain(name)
    # the package's stand-in for a domain without a profiler makes no attributes
    return None if domain.get_event_attributes() is None else Emitter(domain)
