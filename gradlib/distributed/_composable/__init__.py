"""``distributed._composable``: the older place of ``fully_shard``."""

from __future__ import annotations

from ..._refused import refuse
from ..fsdp import fully_shard

__all__ = ["fully_shard"]
__getattr__ = refuse(__name__)
