"""``distributed.pipelining``: a model in stages, each on a rank, that work on pieces of a batch at the same time."""

from __future__ import annotations

from ..._refused import refuse
from .schedules import Schedule1F1B, ScheduleGPipe
from .stage import PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
__getattr__ = refuse(__name__)
