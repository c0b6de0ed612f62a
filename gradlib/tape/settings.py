"""Settings of the process: determinism, threads, warnings, the default device."""

from __future__ import annotations

from typing import Any

from . import device as devices
from .arrays import backend_for
from .device import device
from .switches import switches

_state = {"warn_only": False, "warn_always": False, "interop": 1}

# -- determinism -------------------------------------------------------------------------------------------------


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Only CUDA kernels whose results are the same bits in every run; on a CPU all are.

    Args:
        mode: whether that is asked for.
        warn_only: accepted for compatibility: there is no operation without a deterministic form, so none warns or
            fails.

    Raises:
        TypeError: one of them is no bool.

    Example:
        >>> gradlib.use_deterministic_algorithms(True)
        >>> gradlib.are_deterministic_algorithms_enabled()
        True
        >>> gradlib.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    switches.deterministic, _state["warn_only"] = mode, mode and warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Whether ``use_deterministic_algorithms(True)`` was called.

    Example:
        >>> gradlib.are_deterministic_algorithms_enabled()
        False
    """
    return switches.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether ``use_deterministic_algorithms(True, warn_only=True)`` was called.

    Example:
        >>> gradlib.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return bool(_state["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The setting of `use_deterministic_algorithms` by one number.

    Args:
        debug_mode: 0 or "default" (off), 1 or "warn" (on, warn_only), 2 or "error" (on).

    Raises:
        RuntimeError: another number or word.
        TypeError: it is neither.

    Example:
        >>> gradlib.set_deterministic_debug_mode("default")
        >>> gradlib.get_deterministic_debug_mode()
        0
    """
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                + debug_mode
            )
        debug_mode = names[debug_mode]
    if not isinstance(debug_mode, int):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """The setting of `use_deterministic_algorithms` as a number: 0, 1 or 2.

    See `set_deterministic_debug_mode`.
    """
    return 0 if not switches.deterministic else 1 if _state["warn_only"] else 2


# -- warnings, rounding ------------------------------------------------------------------------------------------


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that are given once are to be given every time; Python's warning filters decide that here.

    Args:
        b: remembered for `is_warn_always_enabled`, without effect.

    Raises:
        RuntimeError: it is no bool.
    """
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _state["warn_always"] = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given last; False at first.

    Example:
        >>> gradlib.is_warn_always_enabled()
        False
    """
    return bool(_state["warn_always"])


def set_flush_denormal(mode: bool) -> bool:
    """False: whether tiny numbers are flushed to zero cannot be set from Python.

    Args:
        mode: ignored.

    Example:
        >>> gradlib.set_flush_denormal(True)
        False
    """
    return False


# -- threads -----------------------------------------------------------------------------------------------------


def set_num_threads(int: int) -> None:
    """Choose the number of threads of the CPU: of linear algebra, and of computations on large arrays.

    Results do not depend on it, but for the last bits of what linear algebra adds up.

    Args:
        int: the number. With 1 everything runs in the thread that calls.

    Raises:
        RuntimeError: it is no int, or not positive.

    Example:
        >>> before = gradlib.get_num_threads()
        >>> gradlib.set_num_threads(1)
        >>> gradlib.get_num_threads()
        1
        >>> gradlib.set_num_threads(before)
    """
    _check_threads("set_num_threads", int)
    backend_for("cpu").limit_threads(int)


def _check_threads(name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(number).__name__}")
    if number <= 0:
        raise RuntimeError(f"{name} expects a positive integer")


def get_num_threads() -> int:
    """The number of threads of the CPU that computations may use, which `set_num_threads` sets.

    OMP_NUM_THREADS and its kin in the environment choose the first one; without them it is the number of processors
    that the process may run on. Workers of a DataLoader have one.
    """
    return backend_for("cpu").count_threads()


def set_num_interop_threads(int: int) -> None:
    """Remembered, without effect: operations run one after the other.

    Args:
        int: the number.

    Raises:
        RuntimeError: it is no int, or not positive.
    """
    _check_threads("set_num_interop_threads", int)
    _state["interop"] = int


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given last; 1 at first.

    It says nothing about threads: operations run one after the other.
    """
    return int(_state["interop"])


# -- device ------------------------------------------------------------------------------------------------------


def set_default_device(device: device | str | int | None) -> None:
    """Where this thread makes tensors when nothing is said: "cpu" at first, and for None.

    Other threads, also those started later, keep theirs. For a block: ``with gradlib.device("cuda"):``. "cuda" without
    an index is the device that is current when a tensor is made. ``from_numpy`` and the like share memory where it is.

    Raises RuntimeError for the name of a device that does not exist.

    Example:
        >>> gradlib.set_default_device("cpu")
        >>> gradlib.get_default_device()
        device(type='cpu')
    """
    devices.default.device = devices.CPU if device is None else devices.device(device)


def get_default_device() -> device:
    """Where this thread makes tensors when nothing is said; of CUDA devices with the index of the current one.

    Example:
        >>> with gradlib.device("cuda:1"):
        ...     gradlib.get_default_device()
        device(type='cuda', index=1)
    """
    device = devices.default.device
    if device.type == "cuda" and device.index is None:
        return devices.on_cuda(int(backend_for("cuda").xp.cuda.runtime.getDevice()))
    return device
