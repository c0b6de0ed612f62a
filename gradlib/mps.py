"""Apple's GPUs, which gradlib does not drive: programs that ask are told that there are none."""

from __future__ import annotations

from ._no_device import device_count, is_available, manual_seed
from ._refused import refuse

__all__ = ["device_count", "is_available", "manual_seed"]
__getattr__ = refuse(__name__, whole=True)
