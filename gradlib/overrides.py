"""``gradlib.overrides``: objects and modes that take the place of the library's functions.

A class with a ``__torch_function__`` is asked instead of every public function, method and property that it is given
to; a `TorchFunctionMode` is asked for all of them while it is active. How that costs nothing where there is neither is
written in `tape.override`.

Example:
    >>> class Names(gradlib.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(gradlib.overrides.resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     _ = gradlib.nn.functional.relu(gradlib.ones(2))
    torch.ones
    torch.nn.functional.relu
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .tape import override
from .tape.modes import state
from .tape.tensor import Tensor

__all__ = [
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "TorchFunctionMode",
    "wrap_torch_function",
]

_disabled_torch_function_impl = override.disabled


class TorchFunctionMode:
    """A block in which every public function, method and property asks this object first.

    A subclass defines ``__torch_function__(self, func, types, args=(), kwargs=None)``; inside of it the mode is off, so
    that it may call `func`. Modes nest; the innermost is asked first. Also functions that make tensors ask.

    Example:
        >>> class Double(gradlib.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         kwargs = dict(kwargs or {})
        ...         if func is gradlib.zeros:
        ...             kwargs.setdefault("dtype", gradlib.float64)
        ...         return func(*args, **kwargs)
        >>> with Double():
        ...     gradlib.zeros(1).dtype
        torch.float64
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """What `func` gives for these arguments; subclasses define it.

        Raises:
            NotImplementedError: the subclass does not.
        """
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        _push_mode(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        """An instance, under the name that older programs call.

        Arguments are those of the class. It warns (UserWarning).
        """
        warnings.warn("`Mode.push()` is no longer necessary: use `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets each function do what it does."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """``func(*args, **kwargs)``."""
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass(override.Off):
    """A block in which subclasses and foreign classes are not asked; modes are.

    Example:
        >>> class Loud(gradlib.Tensor):
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         raise RuntimeError("asked")
        >>> with gradlib._C.DisableTorchFunctionSubclass():
        ...     (gradlib.ones(1).as_subclass(Loud) + 1).item()
        2.0
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(override.SUBCLASSES)


class DisableTorchFunction(override.Off):
    """A block in which nobody is asked, modes neither."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(override.ALL)


def _push_mode(mode: TorchFunctionMode) -> None:
    override.arm()
    state.function_modes = (*state.function_modes, mode)


def _pop_mode() -> TorchFunctionMode:
    *rest, last = state.function_modes
    state.function_modes = tuple(rest)
    return last


@contextlib.contextmanager
def _pop_mode_temporarily() -> Iterator[TorchFunctionMode]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode() -> TorchFunctionMode | None:
    modes = state.function_modes
    return modes[-1] if modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(state.function_modes)


def _len_torch_function_stack() -> int:
    return len(state.function_modes)


@contextlib.contextmanager
def _enable_torch_function() -> Iterator[None]:
    with override.Off(0):
        yield


def enable_reentrant_dispatch() -> contextlib.AbstractContextManager[None]:
    """A block in which a handler may call functions that ask again; here they always may.

    Example:
        >>> with gradlib.overrides.enable_reentrant_dispatch():
        ...     gradlib.ones(1) + 1
        tensor([2.])
    """
    return contextlib.nullcontext()


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument, or a mode, takes the place of the function that is given them.

    Example:
        >>> gradlib.overrides.has_torch_function([gradlib.ones(1)])
        False
    """
    off = state.overrides_off
    if state.function_modes and off < override.ALL:
        return True
    return not off and bool(override.overloaded(relevant_args))


def has_torch_function_unary(argument: Any) -> bool:
    """`has_torch_function` of one argument.

    Example:
        >>> gradlib.overrides.has_torch_function_unary(gradlib.ones(1))
        False
    """
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """`has_torch_function` of the arguments given.

    Example:
        >>> gradlib.overrides.has_torch_function_variadic(gradlib.ones(1), 2)
        False
    """
    return has_torch_function(arguments)


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Any = None) -> list[Any]:
    return override.overloaded(relevant_args)


def handle_torch_function(
    public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the innermost mode or an overriding argument gives for ``public_api(*args, **kwargs)``.

    Functions of a program that want to be overridden call it where `has_torch_function` says so.

    Args:
        public_api: the function that was called.
        relevant_args: the arguments that may override it.

    Raises:
        TypeError: all of them returned NotImplemented.

    Example:
        >>> class Five:
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return 5
        >>> def double(x):
        ...     if gradlib.overrides.has_torch_function_unary(x):
        ...         return gradlib.overrides.handle_torch_function(double, (x,), x)
        ...     return 2 * x
        >>> double(Five())
        5
    """
    return override.ask(public_api, override.overloaded(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable:
    """A decorator that makes a function of a program overridable.

    Args:
        dispatcher: takes what the function takes, and gives the arguments that may override it.

    Example:
        >>> @gradlib.overrides.wrap_torch_function(lambda x: (x,))
        ... def double(x):
        ...     return 2 * x
        >>> double(gradlib.ones(1))
        tensor([2.])
    """

    def wrap(func: Callable) -> Callable:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return wrap


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or of a class with a ``__torch_function__``.

    Example:
        >>> gradlib.overrides.is_tensor_like(gradlib.ones(1)), gradlib.overrides.is_tensor_like([1.0])
        (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def resolve_name(f: Any) -> str | None:
    """Under which name a program finds what a handler was told; None if under none.

    Example:
        >>> gradlib.overrides.resolve_name(gradlib.Tensor.shape.__get__)
        'torch.Tensor.shape.__get__'
    """
    return override.name_of(f)


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a handler was told a method or a property of Tensor, rather than a function.

    Here a method and the function of the same name are often one object; then the answer is True.

    Example:
        >>> gradlib.overrides.is_tensor_method_or_property(gradlib.Tensor.shape.__get__)
        True
    """
    return func.__name__ in ("__get__", "__set__", "__delete__") or _is_method(func)


def _is_method(func: Callable) -> bool:
    return getattr(Tensor, func.__name__, None) is func


def get_default_nowrap_functions() -> set[Callable]:
    """Properties whose tensors keep their class: ``Tensor.grad`` and the base of a view.

    Example:
        >>> gradlib.Tensor.grad.__get__ in gradlib.overrides.get_default_nowrap_functions()
        True
    """
    override.arm()
    return override.keeps_class()


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable]]:
    """What can be overridden: modules, and Tensor, with their functions.

    Example:
        >>> gradlib.nn.functional.gelu in gradlib.overrides.get_overridable_functions()[gradlib.nn.functional]
        True
    """
    return override.functions()


def get_ignored_functions() -> set[Callable]:
    """Functions of the first page that ask nobody, or only modes.

    Example:
        >>> gradlib.is_tensor in gradlib.overrides.get_ignored_functions()
        True
    """
    return override.ignored()


@functools.cache
def get_testing_overrides() -> dict[Callable, Callable]:
    """For everything that can be overridden a function with the same parameters, that returns -1.

    Example:
        >>> gradlib.overrides.get_testing_overrides()[gradlib.add](1, 2)
        -1
    """
    found = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            found[function] = _dummy(function)
    return found


def _dummy(function: Callable) -> Callable:
    def dummy(*args: Any, **kwargs: Any) -> int:
        return -1

    with contextlib.suppress(TypeError, ValueError):
        dummy.__signature__ = inspect.signature(function)  # pyright: ignore[reportFunctionMemberAccess]
    return dummy
