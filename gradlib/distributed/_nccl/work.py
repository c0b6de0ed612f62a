"""A collective that was queued on a GPU: done when the GPU has done it, which the host does not wait for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...tape.modes import shared
from .._work import NO_TIMEOUT, Work

if TYPE_CHECKING:
    from ...futures import Future
    from .engine import Nccl

__all__ = ["StreamWork"]


class StreamWork(Work):
    """See `Work`. Its `wait` lets the current stream wait; the host goes on at once.

    Args:
        engine: that has queued it.
        event: after it.
        result: the tensors that it writes to.
    """

    def __init__(self, engine: Nccl, event: Any, result: Any) -> None:
        super().__init__(result)
        self._engine, self._after = engine, event
        self.finish()  # for those who ask the base: what there was to do on the host is done

    def wait(self, timeout: timedelta | float | None = NO_TIMEOUT) -> bool:
        """Let the current stream wait for it.

        Args:
            timeout: no matter: the host does not wait, and the engine ends what takes longer than the group allows.

        Returns:
            True.

        Raises:
            DistBackendError: the engine has failed since.
        """
        self._engine.check_alive()
        shared.cuda.current(self._engine.device).wait(self._after)
        return True

    def is_completed(self) -> bool:
        """Whether the GPU has done it."""
        return bool(self._after.done)

    def is_success(self) -> bool:
        """Whether the GPU has done it, and the engine has not failed since."""
        return self.is_completed() and not self._engine.failed

    def get_future(self) -> Future:
        """A future that is done: the current stream waits for its value, and so do callbacks given to it here."""
        self.wait()
        return super().get_future()
