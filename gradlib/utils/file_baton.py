"""A file that several processes pass on: who makes it works, the others wait until it is gone."""

from __future__ import annotations

import os
import time
import warnings

__all__ = ["FileBaton"]


class FileBaton:
    """One process at a time.

    Args:
        lock_file_path: the file.
        wait_seconds: how often those that wait look.
        warn_after_seconds: when they say that they wait; never, if None.

    Example:
        >>> baton = FileBaton("baton")
        >>> baton.try_acquire(), FileBaton("baton").try_acquire()
        (True, False)
        >>> baton.release()
    """

    def __init__(
        self,
        lock_file_path: str | os.PathLike[str],
        wait_seconds: float = 0.1,
        warn_after_seconds: float | None = None,
    ) -> None:
        self.lock_file_path = lock_file_path
        self.wait_seconds, self.warn_after_seconds = wait_seconds, warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Make the file; False if another process has made it.

        `release` removes it.
        """
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Wait until the file is gone.

        It is removed by who has made it.
        """
        start, said = time.monotonic(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            waited = time.monotonic() - start
            if (
                self.warn_after_seconds is not None
                and waited > self.warn_after_seconds
                and not said
            ):
                said = True
                warnings.warn(
                    f'Waited on lock file "{self.lock_file_path}" for {waited:.0f} seconds.',
                    stacklevel=2,
                )

    def release(self) -> None:
        """Remove the file.

        Others go on then.
        """
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.unlink(self.lock_file_path)
