"""Events of the autograd profiler under PyTorch's names; see `gradlib.profiler`."""

from ..profiler import _events
from ..profiler._events import *  # noqa: F403

__all__ = _events.__all__  # pyright: ignore[reportUnsupportedDunderAll]
