"""Anomaly detection: find the forward call behind an error or a nan in backward."""

from __future__ import annotations

import warnings
from typing import Any

from ..tape.modes import ANOMALY, set_flag, state

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_detect_anomaly",
]


def is_anomaly_enabled() -> bool:
    """True while anomaly detection is on in this thread."""
    return bool(state.bits & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """True if anomaly detection, when it is on, looks for nan."""
    return state.check_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection on or off in this thread, from now on.

    Args:
        enabled: whether it is on; see `detect_anomaly`.
        check_nan: raise RuntimeError when a backward function returns nan.

    Example:
        >>> gradlib.set_anomaly_enabled(False)
        >>> gradlib.is_anomaly_enabled()
        False
    """
    set_flag(ANOMALY, bool(enabled))
    state.check_nan = bool(check_nan)


class set_detect_anomaly:
    """Switch anomaly detection on or off: as a function from now on, as a context manager for its block.

    Args:
        mode: whether it is on in this thread; see `detect_anomaly`.
        check_nan: raise RuntimeError when a backward function returns nan.

    Example:
        >>> with gradlib.autograd.set_detect_anomaly(True):
        ...     gradlib.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev, self.prev_check_nan = is_anomaly_enabled(), state.check_nan
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: Any) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Anomaly detection for a block; it warns that this costs time.

    When backward fails, a warning shows the traceback of the forward call that made the failing function.

    Args:
        check_nan: a nan in a gradient fails, too.

    Raises:
        RuntimeError: in backward, where a function returns nan.

    Example:
        >>> x = gradlib.zeros(1, requires_grad=True)
        >>> with gradlib.autograd.detect_anomaly():
        ...     try:
        ...         (x.sqrt() * 0).sum().backward()
        ...     except RuntimeError as error:
        ...         print(error)
        Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = is_anomaly_enabled()
        self.check_nan, self.prev_check_nan = check_nan, state.check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *args: Any) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)
