"""What programs import from PyTorch's elastic: errors of launched processes, logs, small helpers."""

from __future__ import annotations

from ..._refused import refuse

__getattr__ = refuse(__name__, whole=True)
