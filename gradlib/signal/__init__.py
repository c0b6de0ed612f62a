"""Signal processing: the window functions of ``gradlib.signal.windows``."""

from . import windows

__all__ = ["windows"]
