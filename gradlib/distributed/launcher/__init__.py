"""Start functions and programs in several processes; the command is ``python -m gradlib.distributed.run``."""

from __future__ import annotations

from ..._refused import refuse
from .api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

__getattr__ = refuse(__name__, whole=True)
