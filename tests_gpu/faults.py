"""Faults of kernels. They are sticky: everything that the process does on the device afterwards fails, too."""

from __future__ import annotations

import importlib.util
from pathlib import Path

LOST = 70  # exit status of a process that has lost its device
FILES = Path("/dev")  # where Linux has a file for each GPU


def lost() -> str:
    """What the device answers when it is waited for and asked again; "" if it is well, or not in use."""
    # here, so that who imports this may choose the device first
    from gradlib.tape.modes import shared

    if shared.cuda is None:
        return ""
    runtime = shared.cuda.cuda.runtime
    for call in (runtime.deviceSynchronize, runtime.deviceSynchronize, runtime.memGetInfo):
        try:
            call()
        except Exception as error:
            answer = str(error)
        else:
            return ""
    return answer


def why_skip(reason: str | None) -> str | None:
    """`reason`, for which there is no device, if tests may be skipped for it.

    Raises RuntimeError if CuPy is there and something else is wrong than that the machine has no device: what is broken
    must not look like what is absent.
    """
    if reason is None or importlib.util.find_spec("cupy") is None:
        return reason
    absent = ("cudaErrorNoDevice", "cudaErrorInsufficientDriver", "no CUDA device was found")
    if any(a in reason for a in absent) and not any(FILES.glob("nvidia[0-9]*")):
        return reason
    raise RuntimeError(f"nothing is skipped: {reason}")
