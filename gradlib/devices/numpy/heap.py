"""The C library's heap, from which NumPy has the memory of arrays."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

MOST = (32 << 20) - (64 << 10)  # bytes: the largest block that the C library keeps in its heap


def keep_freed_memory() -> None:
    """Let the C library keep what a step frees for the next one, up to 64 MB, instead of giving it back to the system.

    glibc gives back what is free at the end of its heap beyond a limit, which it raises to twice the largest block that
    it has seen freed. A step whose arrays come and go by the megabyte pays for that with thousands of page faults each
    time. One large block, which is never touched, raises the limit for good. Elsewhere this has no effect, nor where
    the environment (``MALLOC_TRIM_THRESHOLD_`` and its kin) says what the limits are.
    """
    with suppress(MemoryError):  # where the process may not have that much
        np.empty(MOST, np.uint8)
