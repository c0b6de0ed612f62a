"""What programs assert, and the functions on sizes that PyTorch's compiler traces: here sizes are plain numbers.

Example:
    >>> gradlib._check(2 > 1, lambda: "never said")
    >>> gradlib.sym_max(1, 2.0)
    2.0
"""

from __future__ import annotations

import builtins
import importlib
import math
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from .operators import public as ops
from .tape import arrays, dtypes, override
from .tape.device import device as Device
from .tape.modes import state
from .tape.tensor import Tensor

_UNSAID = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


class _Symbolic:
    """A number that a compiler follows. There are none: isinstance is False, and none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise NotImplementedError(f"gradlib has no {name}: sizes are plain numbers")


class SymInt(_Symbolic):
    """The type of a traced integer; nothing is of it.

    Example:
        >>> isinstance(gradlib.ones(2).shape[0], gradlib.SymInt)
        False
    """


class SymFloat(_Symbolic):
    """The type of a traced floating-point number; nothing is of it.

    Example:
        >>> isinstance(gradlib.ones(2).shape[0], gradlib.SymFloat)
        False
    """


class SymBool(_Symbolic):
    """The type of a traced truth value; nothing is of it.

    Example:
        >>> isinstance(gradlib.ones(2).shape[0], gradlib.SymBool)
        False
    """


def sym_int(a: Any) -> int:
    """A number without its fraction.

    Example:
        >>> gradlib.sym_int(-2.7)
        -2
    """
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: Any) -> float:
    """A number as a float.

    Example:
        >>> gradlib.sym_float(2)
        2.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether `a` is false.

    Example:
        >>> gradlib.sym_not(True)
        False
    """
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The greater of two numbers; a float if one of them is.

    Example:
        >>> gradlib.sym_max(1, 2.0)
        2.0
    """
    return _common(builtins.max(a, b), a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a float if one of them is.

    Example:
        >>> gradlib.sym_min(1, 2.0)
        1.0
    """
    return _common(builtins.min(a, b), a, b)


def _common(value: Any, a: Any, b: Any) -> Any:
    return float(value) if isinstance(a, float) or isinstance(b, float) else value


def sym_sqrt(a: Any) -> float:
    """The square root of a number.

    Example:
        >>> gradlib.sym_sqrt(4)
        2.0
    """
    return math.sqrt(a)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` if `b` is true, else `f`.

    Example:
        >>> gradlib.sym_ite(True, 1, 2)
        1
    """
    return t if b else f


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of numbers.

    Example:
        >>> gradlib.sym_sum([1, 2])
        3
    """
    return builtins.sum(args)


# -- assertions --------------------------------------------------------------------------------------------------------


def _assert(condition: Any, message: str) -> None:
    """AssertionError of `message` if a condition, perhaps a tensor, is false."""
    found = override.overloaded((condition,)) if type(condition) not in (bool, Tensor) else ()
    if found and not state.overrides_off:
        override.ask(_assert, found, (condition, message), None)
        return
    assert condition, message


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError if the only element of a tensor is zero. The host waits for it."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _check_with(
    error_type: type[Exception], cond: bool, message: Callable[[], Any] | None = None
) -> None:
    """`error_type` with what `message()` gives if `cond` is False.

    Raises:
        TypeError: `cond` is no bool, or `message` cannot be called.
    """
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
                "that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(_UNSAID)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError if `cond` is False."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """IndexError if `cond` is False."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """ValueError if `cond` is False."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """TypeError if `cond` is False."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """NotImplementedError if `cond` is False."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(
    i: int, message: Callable[[], Any] | None = None, *, max: int | None = None
) -> None:
    """RuntimeError if a number is negative or above `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Callable[[], Any] | None = None
) -> None:
    """`error_type` if not all elements of a bool tensor are True."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not dtypes.bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError if not all elements of a bool tensor are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


# -- odds and ends -----------------------------------------------------------------------------------------------------


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The lengths of the dimensions as an int64 tensor."""
    return ops.tensor(list(self.shape), dtype=dtypes.int64)


def is_distributed(input: Tensor) -> bool:
    """False: no tensor lies on several machines.

    Example:
        >>> gradlib.is_distributed(gradlib.ones(1))
        False
    """
    return False


def is_vulkan_available() -> bool:
    """False: there is no such device.

    Example:
        >>> gradlib.is_vulkan_available()
        False
    """
    return False


def compiled_with_cxx11_abi() -> bool:
    """True, as of every build of PyTorch today; nothing is compiled here.

    Example:
        >>> gradlib.compiled_with_cxx11_abi()
        True
    """
    return True


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a device type, such as ``gradlib.cuda``.

    Args:
        device: a device or its name; None: CUDA's if there is one, else the CPU's.

    Raises:
        RuntimeError: there is no module for that device.

    Example:
        >>> gradlib.get_device_module("cuda") is gradlib.cuda
        True
    """
    if device is None:
        kind = "cpu" if arrays.why_not("cuda") else "cuda"
    else:
        kind = (device if isinstance(device, Device) else Device(device)).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        )
    package = __name__.rpartition(".")[0]
    return importlib.import_module(f"{package}.{kind}")
