"""Events of the autograd profiler under PyTorch's names; see `gradlib.profiler`."""

from ..profiler._events import EventList, MemRecordsAcc, StringTable
from ..profiler._function_event import (
    MEMORY_EVENT_NAME,
    OUT_OF_MEMORY_EVENT_NAME,
    DeviceType,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
)

__all__ = [
    "DeviceType",
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MEMORY_EVENT_NAME",
    "MemRecordsAcc",
    "OUT_OF_MEMORY_EVENT_NAME",
    "StringTable",
]
