"""Profiling over training steps: `profile` with a schedule, on top of `gradlib.autograd.profiler`."""

from __future__ import annotations

from ..autograd.profiler import KinetoStepTracker, record_function
from ._profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "KinetoStepTracker",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
