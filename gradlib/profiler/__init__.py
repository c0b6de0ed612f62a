"""Profiling over training steps: `profile` with a schedule, on top of `gradlib.autograd.profiler`."""

from __future__ import annotations

from ._execution_trace import ExecutionTraceObserver
from ._function_event import DeviceType
from ._kineto import _ExperimentalConfig as _ExperimentalConfig
from ._kineto import _KinetoProfile as _KinetoProfile
from ._merge import merge_traces
from ._profile import profile
from ._record_function import record_function
from ._schedule import (
    ProfilerAction,
    ProfilerActivity,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from ._steps import KinetoStepTracker

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "KinetoStepTracker",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "merge_traces",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """Whether profiles are made by PyTorch's Kineto library: never here, and nothing is missing without it.

    Example:
        >>> kineto_available()
        False
    """
    return False
