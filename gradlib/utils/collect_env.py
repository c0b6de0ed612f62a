"""What a bug report should say of the machine, under PyTorch's names; see `gradlib.collect_env`."""

from __future__ import annotations

from .._refused import refuse
from ..collect_env import main
from ..collect_env import report as get_pretty_env_info

__all__ = ["get_pretty_env_info", "main"]
__getattr__ = refuse(__name__)
