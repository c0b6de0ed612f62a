"""Grad modes: whether operations are recorded. All of them are thread-local.

Each is a context manager and a decorator; a decorated generator is in the mode only while it runs.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Self

from ..tape.modes import FORWARD_AD, INFERENCE, NO_GRAD, is_grad_enabled, set_bits, state
from ..tape.tensor import Tensor

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside :class:`inference_mode`.

    Example:
        >>> with gradlib.inference_mode():
        ...     gradlib.is_inference_mode_enabled()
        True
    """
    return bool(state.bits & INFERENCE)


class _ModeDecorator:
    """What makes a context manager a decorator: each call enters a fresh copy of it."""

    def clone(self):
        """Another one of the same mode.

        A decorated function enters a new one at each call, so that it may call itself.
        """
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError

    def __call__(self, func: Callable) -> Callable:
        clone = self.clone
        if isinstance(func, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
                stacklevel=2,
            )
        elif inspect.isgeneratorfunction(func):
            return _decorated_generator(func, clone)

        @functools.wraps(func, updated=() if isinstance(func, type) else ("__dict__",))
        def in_mode(*args, **kwargs):
            with clone():
                return func(*args, **kwargs)

        return in_mode


class _BareDecorator(_ModeDecorator):
    """A mode without parameters: it decorates with and without parentheses."""

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        made = object.__new__(cls)
        return made if orig_func is None else made(orig_func)


def _decorated_generator(func: Callable, clone: Callable) -> Callable:
    """`func` as a generator that is in the mode while it runs, and in the caller's between yields."""

    @functools.wraps(func)
    def generator(*args, **kwargs):
        inner = func(*args, **kwargs)
        resume: Callable = inner.send
        value: Any = None
        while True:
            try:
                with clone():
                    got = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = inner.send, (yield got)
            except GeneratorExit:
                with clone():
                    inner.close()
                raise
            except BaseException as exc:
                resume, value = inner.throw, exc

    return generator


def _switch(no_grad: int) -> int:
    """Set the flag NO_GRAD, or clear it for 0; returns what it was. A jvp inside a jvp only notes it."""
    if state.keeps_recording is not None:
        return state.keeps_recording.switch(no_grad)
    bits = state.bits
    if bits & NO_GRAD != no_grad:
        set_bits(bits ^ NO_GRAD)
    return bits & NO_GRAD


class no_grad(_BareDecorator):
    """Record nothing: results do not require grad, whatever the inputs do.

    A context manager and a decorator; of this thread only. Factory functions keep their ``requires_grad=True``, and
    flags of existing tensors are untouched.

    Example:
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> with gradlib.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __enter__(self) -> None:
        if state.keeps_recording is not None:
            self.prev = _switch(NO_GRAD)
            return
        bits = state.bits
        self.prev = bits & NO_GRAD
        if not self.prev:
            set_bits(bits | NO_GRAD)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if state.keeps_recording is not None:
            _switch(self.prev)
            return
        bits = state.bits
        if bits & NO_GRAD != self.prev:
            set_bits(bits & ~NO_GRAD | self.prev)


class enable_grad(_BareDecorator):
    """Record again inside :class:`no_grad`. Inside :class:`inference_mode` still nothing is.

    A context manager and a decorator; of this thread only.

    Example:
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> with gradlib.no_grad():
        ...     with gradlib.enable_grad():
        ...         y = x * 2
        >>> y.requires_grad
        True
    """

    def __enter__(self) -> None:
        self.prev = _switch(0)

    __exit__ = no_grad.__exit__


class set_grad_enabled(_ModeDecorator):
    """Record if `mode`: as a function from now on, as a context manager inside its block.

    As a decorator it leaves the mode alone at the place of decoration.

    Args:
        mode: whether operations of this thread are recorded.

    Raises:
        TypeError: it is no bool.

    Example:
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> with gradlib.set_grad_enabled(False):
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __init__(self, mode: bool):
        if not isinstance(mode, bool):
            raise TypeError(
                "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}"
            )
        self.mode = mode
        self.prev = not _switch(0 if mode else NO_GRAD)

    def __call__(self, func: Callable) -> Callable:
        self.__exit__(None, None, None)
        return super().__call__(func)

    def __enter__(self) -> None:
        _switch(0 if self.mode else NO_GRAD)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _switch(0 if self.prev else NO_GRAD)

    def __str__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    __repr__ = __str__

    def clone(self) -> set_grad_enabled:
        """Another one of the same mode."""
        made = object.__new__(set_grad_enabled)
        made.mode, made.prev = self.mode, is_grad_enabled()
        return made


_ALL = NO_GRAD | INFERENCE | FORWARD_AD


class inference_mode(_ModeDecorator):
    """Record nothing, and make tensors that never take part in recording: no version counters, no views' histories.

    A context manager and a decorator; of this thread only. ``inference_mode(False)`` inside restores normal recording.

    Args:
        mode: whether it is on.

    Raises:
        RuntimeError: later, where a tensor made in it is saved for backward, or is to require grad.

    Example:
        >>> w = gradlib.ones(3, requires_grad=True)
        >>> with gradlib.inference_mode():
        ...     y = w * 2
        >>> y.is_inference()
        True
    """

    def __new__(cls, mode: bool = True):
        made = object.__new__(cls)
        if isinstance(mode, bool):
            return made
        made.__init__(True)
        return made(mode)

    def __init__(self, mode: bool = True):
        self.mode = mode

    def clone(self) -> inference_mode:
        """Another one of the same mode."""
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        bits = state.bits
        self.prev = bits & _ALL
        if self.mode:
            set_bits(bits & ~FORWARD_AD | INFERENCE | NO_GRAD)
        else:  # an ordinary place, also within no_grad
            forward = FORWARD_AD if state.dual_level >= 0 else 0
            set_bits(bits & ~(INFERENCE | NO_GRAD) | forward)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        set_bits(state.bits & ~_ALL | self.prev)


class _Setting(_ModeDecorator):
    """A setting of this thread: made at once, and for a while as a context manager."""

    _field: str  # of `state`

    def __init__(self, mode: bool):
        self.mode, self.prev = bool(mode), getattr(state, self._field)
        setattr(state, self._field, self.mode)

    def __call__(self, func: Callable) -> Callable:
        self.__exit__(None, None, None)  # a decorator changes nothing until the function is called
        return super().__call__(func)

    def __enter__(self) -> None:
        setattr(state, self._field, self.mode)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        setattr(state, self._field, self.prev)

    def clone(self) -> Self:
        """Another one of the same mode."""
        made = object.__new__(type(self))
        made.mode, made.prev = self.mode, getattr(state, self._field)
        return made


class set_multithreading_enabled(_Setting):
    """Whether backward may use threads for devices; function and context manager.

    Backward always runs in the thread that calls it (work on devices is asynchronous anyway), so this only keeps
    the setting, for code that asks for it.

    Args:
        mode: the setting of this thread.

    Example:
        >>> with gradlib.autograd.set_multithreading_enabled(False):
        ...     gradlib.autograd.is_multithreading_enabled()
        False
    """

    _field = "multithreading"


class _unsafe_preserve_version_counter(_ModeDecorator):
    """Tensors have the versions afterwards that they had before, whatever was written to them in the block.

    Unsafe: a backward that needs the old values of a tensor does not find out that they are gone.

    tensors: a tensor or a tuple of them.
    """

    def __init__(self, tensors: Any):
        if not isinstance(tensors, (Tensor, tuple)):
            raise AssertionError("Expected tensors to be a tuple")
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        self.versions = [None if t.is_inference() else t._version for t in self.tensors]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        for tensor, version in zip(self.tensors, self.versions, strict=True):
            if version is None:
                continue
            if type(tensor._ver) is int:
                tensor._ver = version
            else:
                tensor._ver.version = version


class _force_original_view_tracking(_Setting):
    """Views are made anew after in-place changes by the ops that made them, which is always so here.

    PyTorch takes strides instead, unless this asks it not to. A context manager, a decorator, or a function.
    """

    _field = "view_replay"


def is_view_replay_enabled() -> bool:
    """Whether :class:`_force_original_view_tracking` is on in this thread."""
    return state.view_replay


def is_multithreading_enabled() -> bool:
    """Whether :class:`set_multithreading_enabled` is on in this thread."""
    return state.multithreading
