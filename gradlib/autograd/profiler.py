"""The autograd profiler: what each operation and each backward node costs.

    with gradlib.autograd.profiler.profile() as prof:
        y = x ** 2
        y.backward()
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))

`profile` records, `record_function` labels blocks, `emit_nvtx` and `emit_itt` show the operations to NVIDIA's and
Intel's tools, `load_nvprof` reads what nvprof wrote.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..profiler._autograd import profile
from ..profiler._events import EventList, MemRecordsAcc, StringTable
from ..profiler._function_event import (
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
)
from ..profiler._record_function import record_function
from ..profiler._steps import KinetoStepTracker

if TYPE_CHECKING:
    from ..profiler._nsys import load_nsys
    from ..profiler._nvprof import EnforceUnique, load_nvprof, parse_nvprof_trace
    from ..profiler._nvtx import emit_itt, emit_nvtx

__all__ = [
    "EnforceUnique",
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "StringTable",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "load_nsys",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]

# the exporters and loaders, which are imported when they are first used: name -> file of gradlib.profiler
_ELSEWHERE = {
    "emit_nvtx": "_nvtx",
    "emit_itt": "_nvtx",
    "EnforceUnique": "_nvprof",
    "load_nvprof": "_nvprof",
    "parse_nvprof_trace": "_nvprof",
    "load_nsys": "_nsys",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        module = importlib.import_module(f"gradlib.profiler.{_ELSEWHERE[name]}")
        value = globals()[name] = getattr(module, name)
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def kineto_available() -> bool:
    """Whether there is a profiler for threads and devices, with traces that Kineto's tools show: always.

    Example:
        >>> kineto_available()
        True
    """
    return True
