"""autocast: inside a block, operations run in the dtype that suits them.

While it is on, a `Casting` stands among the thread's interposers, so that every op call passes it: it casts the
tensor arguments as the op declares and lets the op go on. The casts are recorded, so gradients reach the
float32 parameters in float32.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .. import cuda, linalg
from .._refused import refuse
from ..op.expose import PUBLIC
from ..operators.nn import (
    distribution_loss,
    grid,
    interpolate,
    margin_loss,
    pool_adaptive,
    pool_fractional,
    regression_loss,
)
from ..operators.reduce import norm
from ..tape import dtypes, handed, override
from ..tape.device import device
from ..tape.modes import AUTOCAST, set_flag, state
from ..tape.tensor import Tensor
from . import _policy
from ._casting import Casting
from ._casts import cast, casts, kind_of, local

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__getattr__ = refuse(__name__)

_LOW = (dtypes.float16, dtypes.bfloat16)


# -- functions that are in a list as a whole -------------------------------------------------------------------------

# where these are found, beside gradlib itself
_PLACES = (
    distribution_loss,
    grid,
    interpolate,
    margin_loss,
    norm,
    pool_adaptive,
    pool_fractional,
    regression_loss,
    linalg,
)


@functools.cache
def _listed() -> dict[FunctionType, dict[str, int]]:
    """The functions made of several ops that are in a list -> their policies by device type."""
    found: dict[FunctionType, dict[str, int]] = {}
    for kind, lists in _policy.FUNCTIONS.items():
        for names, policy in lists:
            for name in names.split():
                for function in (PUBLIC.get(name), *[getattr(p, name, None) for p in _PLACES]):
                    inner = None if function is None else inspect.unwrap(function)
                    if isinstance(inner, FunctionType):
                        found.setdefault(inner, {})[kind] = policy
    return found


class _Whole:
    """A listed function: while it runs under autocast, what it calls is cast as it is listed."""

    __slots__ = ("policies", "run")

    def __init__(self, policies: dict[str, int]):
        self.policies = policies
        self.run: Any = None

    def call(self, args: tuple, kwargs: dict) -> Any:
        if not state.bits & AUTOCAST:
            return self.run(*args, **kwargs)
        around = state.cast_as
        state.cast_as = self.policies if around is None else around | self.policies
        try:
            return self.run(*args, **kwargs)
        finally:
            state.cast_as = around


@functools.cache
def _mark_listed() -> None:
    """Let the listed functions say that they run, from the first block on: nobody has to look for their frames."""
    for function, policies in _listed().items():
        whole = _Whole(policies)
        whole.run = override.instead(function, whole)


def lowered(tensor: Tensor) -> Tensor:
    """A float tensor in the dtype of products, where autocast is on for its device; for composite functions."""
    kind = kind_of(tensor)
    low = _current().get(kind)
    return tensor if low is None else cast(tensor, low, kind)


def widened(tensor: Any) -> Any:
    """A float tensor of the CPU in float32, where autocast is on for it; for functions that compute so there."""
    if not isinstance(tensor, Tensor) or kind_of(tensor) != "cpu" or "cpu" not in _current():
        return tensor
    return cast(tensor, dtypes.float32, "cpu")


def _of_composite(value: Any, product: bool) -> Any:
    """An argument of a function made of several ops, which is cast as a whole; what is no tensor stays."""
    if not product or not isinstance(value, Tensor):
        return widened(value)
    return lowered(value)


handed.over(in_autocast=_of_composite)


# -- state -----------------------------------------------------------------------------------------------------------


def _current() -> dict[str, dtypes.dtype]:
    """Where autocast is on in this thread: device type -> dtype."""
    if not state.bits & AUTOCAST:
        return {}
    found = next((i for i in reversed(state.interposers) if isinstance(i, Casting)), None)
    return {} if found is None else found.on


def _install(on: dict[str, dtypes.dtype]) -> None:
    """Make these the settings: one Casting at most, in front of what was there."""
    others = tuple(i for i in state.interposers if not isinstance(i, Casting))
    if on:
        _mark_listed()
    state.interposers = (*others, Casting(on)) if on else others
    set_flag(AUTOCAST, bool(on))


# PyTorch's other kinds of devices that have an autocast there
_ELSEWHERE = frozenset(("hpu", "ipu", "maia", "mps", "mtia", "privateuseone", "xla", "xpu"))


def _type_of(device_type: Any) -> str:

    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    kind = device(device_type).type
    if kind not in _policy.DEVICES:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{kind}'")
    return kind


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast exists for a device type.

    Args:
        device_type: "cpu", "cuda"...

    Raises:
        RuntimeError: it is no device type.

    Example:
        >>> gradlib.amp.is_autocast_available("cpu")
        True
    """

    return device(device_type).type in _policy.DEVICES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device type in this thread.

    Example:
        >>> with gradlib.autocast("cpu"):
        ...     gradlib.is_autocast_enabled("cpu")
        True
    """
    kind = device(device_type).type if isinstance(device_type, str) else _type_of(device_type)
    if kind not in _policy.DEVICES and kind not in _ELSEWHERE:
        raise RuntimeError(
            "unknown device type for autocast in get_autocast_dispatch_key_from_device_type"
        )
    return kind in _current()


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off in this thread, until it is switched again; `autocast` does it for a block.

    Args:
        device_type: "cuda" or "cpu"; ``set_autocast_enabled(True)`` is for "cuda".
        enabled: whether it is on.

    Raises:
        TypeError: `enabled` is no bool.
        RuntimeError: autocast does not exist for that device type.
    """
    if isinstance(device_type, bool):
        device_type, enabled = "cuda", device_type
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_autocast_enabled(): argument 'enabled' must be bool, not {type(enabled).__name__}"
        )
    kind = _type_of(device_type)
    on = {k: v for k, v in _current().items() if k != kind}
    if enabled:
        on[kind] = local.dtypes[kind]
    _install(on)


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The dtype that autocast uses for products: bfloat16 on the CPU, float16 on CUDA, unless it was set.

    Example:
        >>> gradlib.get_autocast_dtype("cpu")
        torch.bfloat16
    """
    kind = _type_of(device_type)
    return _current().get(kind) or local.dtypes[kind]


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Choose the dtype that autocast uses for products in this thread; `autocast` does it for a block.

    Args:
        device_type: "cuda" or "cpu".
        dtype: float16 or bfloat16.
    """
    kind = _type_of(device_type)
    local.dtypes[kind] = dtype
    local.now = None
    if kind in _current():
        _install(_current() | {kind: dtype})


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost autocast block ends; True at first.

    Example:
        >>> gradlib.is_autocast_cache_enabled()
        True
    """
    return local.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Choose whether casts of parameters are kept until the outermost autocast block ends.

    Args:
        enabled: False casts a parameter at each use.
    """
    local.caching = enabled
    local.now = None


def clear_autocast_cache() -> None:
    """Forget the casts of parameters that are kept, as after a change of parameters inside a block.

    The next use casts anew.
    """
    _forget()
    local.now = None


def _forget() -> None:
    if state.capture is not None:
        state.capture.casts_are_forgotten()
    casts.forget()


def autocast_increment_nesting() -> int:
    """Enter an autocast block, for code that manages the state itself; `autocast` does it.

    Returns:
        How many are open in this thread.
    """
    local.nesting += 1
    local.now = None
    return local.nesting


def autocast_decrement_nesting() -> int:
    """Leave an autocast block, for code that manages the state itself; `autocast` does it.

    Returns:
        How many are open in this thread.
    """
    local.nesting -= 1
    local.now = None
    return local.nesting


def _older(name: str, function: Callable, device: str) -> Callable:
    """A name from before device types were arguments."""

    def older(*args: Any) -> Any:
        warnings.warn(
            f"torch.{name}() is deprecated. Please use torch.{function.__name__}('{device}') instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return function(device, *args)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = (
        f"``{function.__name__}('{device}')`` under an older name: it warns (DeprecationWarning) and calls it.\n\n"
        f"Other arguments are those of `{function.__name__}`.\n"
    )
    return older


is_autocast_cpu_enabled = _older("is_autocast_cpu_enabled", is_autocast_enabled, "cpu")
set_autocast_cpu_enabled = _older("set_autocast_cpu_enabled", set_autocast_enabled, "cpu")
get_autocast_cpu_dtype = _older("get_autocast_cpu_dtype", get_autocast_dtype, "cpu")
set_autocast_cpu_dtype = _older("set_autocast_cpu_dtype", set_autocast_dtype, "cpu")
get_autocast_gpu_dtype = _older("get_autocast_gpu_dtype", get_autocast_dtype, "cuda")
set_autocast_gpu_dtype = _older("set_autocast_gpu_dtype", set_autocast_dtype, "cuda")


class autocast(contextlib.ContextDecorator):
    """Run the operations of a block, or of a decorated function, in the dtypes that suit them.

    Products and convolutions run in `dtype`; what needs range or precision (exponentials, sums, losses) in float32; ops
    of several tensors in the widest dtype among them; the rest as given. Arguments may be float32, float16, bfloat16;
    float64, integers and in-place operations are left alone. Call backward outside: it uses the dtypes of forward.

    Args:
        device_type: "cuda" or "cpu".
        dtype: float16 or bfloat16; by default float16 on CUDA and bfloat16 on the CPU.
        enabled: False switches autocast off for an inner block.
        cache_enabled: cast each float32 parameter once for the whole outermost block.

    Example:
        >>> with gradlib.autocast("cpu"):
        ...     y = model(x)  # bfloat16
        >>> with gradlib.autocast("cpu", enabled=False):
        ...     loss = loss_fn(y.float(), target)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ):
        self.device = _type_of(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = bool(enabled) and self._usable()
        self._outer: list[tuple] = []

    def _usable(self) -> bool:
        if self.device == "cuda":
            if not cuda.is_available():
                warnings.warn(
                    "CUDA is not available or torch_xla is imported. Disabling autocast.",
                    stacklevel=3,
                )
                return False
            if self.fast_dtype is dtypes.bfloat16 and not cuda.is_bf16_supported():
                raise RuntimeError(
                    "Current CUDA Device does not support bfloat16. Please switch dtype to float16."
                )
        if self.fast_dtype not in _LOW:
            name = self.device.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        self._outer.append((_current(), local.dtypes[self.device], local.caching))
        on = {k: v for k, v in _current().items() if k != self.device}
        if self._enabled:
            on[self.device] = self.fast_dtype
        local.dtypes[self.device] = self.fast_dtype
        local.caching = self._cache_enabled
        autocast_increment_nesting()
        _install(on)
        return self

    def __exit__(self, *exc: object) -> bool:
        local.nesting -= 1
        if local.nesting == 0:
            _forget()
        on, local.dtypes[self.device], local.caching = self._outer.pop()
        local.now = None
        _install(on)
        return False


# -- custom Functions ------------------------------------------------------------------------------------------------


def _convert(value: Any, device: str, dtype: dtypes.dtype) -> Any:
    """`value` with the float tensors of a device type in it (also inside dicts, lists, tuples) cast."""
    if isinstance(value, Tensor):
        return cast(value, dtype, device)
    if isinstance(value, dict):
        return {_convert(k, device, dtype): _convert(v, device, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_convert(v, device, dtype) for v in value)
    return value


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str, cast_inputs: dtypes.dtype | None = None
) -> Any:
    """Decorate ``forward`` of a custom Function: it runs under the caller's autocast, and ``backward`` will too.

    Use it together with :func:`custom_bwd`.

    Args:
        fwd: the function.
        device_type: "cuda" or "cpu".
        cast_inputs: run it with autocast off instead, on float tensors cast to this dtype; nothing if autocast is off.

    Example:
        >>> class Product(gradlib.autograd.Function):
        ...     @staticmethod
        ...     @gradlib.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, a, b):
        ...         ctx.save_for_backward(a, b)
        ...         return a @ b
        ...
        ...     @staticmethod
        ...     @gradlib.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         a, b = ctx.saved_tensors
        ...         return grad @ b.T, a.T @ grad
        >>> with gradlib.autocast("cpu"):
        ...     Product.apply(gradlib.ones(2, 2), gradlib.ones(2, 2)).dtype
        torch.bfloat16
    """
    kind = _type_of(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx, on = args[0], is_autocast_enabled(kind)
        ctx._dtype = get_autocast_dtype(kind)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(kind, enabled=False):
            given = _convert(args[1:], kind, cast_inputs)
            return fwd(ctx, *given, **_convert(kwargs, kind, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Any:
    """Decorate ``backward`` of a custom Function: it runs with the autocast state of its ``forward``.

    `custom_fwd` has an example.

    Args:
        bwd: the function.
        device_type: that of `custom_fwd`.

    Example:
        >>> class Double(gradlib.autograd.Function):
        ...     @staticmethod
        ...     @gradlib.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @gradlib.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> Double.apply(x).sum().backward()
        >>> x.grad[0]
        tensor([2., 2., 2.])
    """
    kind = _type_of(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(kind, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated
