"""What marks code for TorchScript: here it changes nothing."""

from __future__ import annotations

import contextlib
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from ..nn import Module

__all__ = ["Final", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "script"]

_NO_FILE = "gradlib has no TorchScript: keep the Python code of the model, and save its state_dict with gradlib.save"


class Error(RuntimeError):
    """What TorchScript raises; no code of gradlib does.

    It is there for ``except torch.jit.Error``.
    """


class ScriptWarning(Warning):
    """A warning of TorchScript's compiler; there is none.

    It is there for filters of warnings.
    """


class Attribute(NamedTuple):
    """A value with its type in TorchScript; a `ScriptModule` that is given one keeps the value.

    Example:
        >>> Attribute({}, dict).value
        {}
    """

    value: Any
    type: Any


class ScriptModule(Module):
    """A Module. `script` does not make one, for it gives what it gets; programs may derive from it.

    Attributes that are set to an `Attribute` get its value.

    Example:
        >>> isinstance(gradlib.jit.ScriptModule(), nn.Module)
        True
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.value if isinstance(value, Attribute) else value)

    def save(self, f: Any, **kwargs: Any) -> NoReturn:
        """Refused: there are no TorchScript files.

        Raises:
            NotImplementedError: always; the text says what to do.
        """
        raise NotImplementedError(_NO_FILE)

    save_to_buffer = save


class RecursiveScriptModule(ScriptModule):
    """A name for `ScriptModule`, which PyTorch's `script` gives.

    Nothing is an instance of it.
    """


class ScriptFunction:
    """The type of functions that PyTorch's `script` gives; here they stay functions, and nothing is an instance.

    It is there for ``isinstance``.

    Raises:
        NotImplementedError: when one is made.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"gradlib.jit.ScriptFunction cannot be made. {_NO_FILE}")


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """`obj` itself: a function, Module or class, which runs as the Python that it is.

    Results are those of TorchScript as far as that agrees with Python; code that only Python can run is accepted.
    `is_scripting` remains False in it.

    Args:
        obj: what to script; may be used as a decorator.
        optimize: accepted, with PyTorch's warning.
        example_inputs: accepted.

    Example:
        >>> @gradlib.jit.script
        ... def double(x: gradlib.Tensor):
        ...     return x * 2
        >>> double(gradlib.ones(2))
        tensor([2., 2.])
    """
    if optimize is not None:
        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead",
            FutureWarning,
            stacklevel=2,
        )
    return obj


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself: a method of a `ScriptModule` that TorchScript would compile.

    Used as a decorator.
    """
    return fn


def is_scripting() -> bool:
    """False: code runs as Python.

    Example:
        >>> gradlib.jit.is_scripting()
        False
    """
    return False


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator for what TorchScript leaves to Python: it changes nothing.

    Args:
        drop: the function, if it is used without brackets; else accepted.
        kwargs: accepted.

    Example:
        >>> gradlib.jit.ignore(abs) is abs and gradlib.jit.ignore(drop=True)(abs) is abs
        True
    """
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Any) -> Any:
    """`fn` itself: a method or property that TorchScript replaces by an exception.

    Used as a decorator.
    """
    return fn


def export(fn: Any) -> Any:
    """`fn` itself: a method that TorchScript compiles besides forward.

    Used as a decorator.
    """
    return fn


def interface(obj: Any) -> Any:
    """`obj` itself: a class that says what methods TorchScript modules have in common.

    Used as a decorator.
    """
    return obj


def _overload(func: Any) -> Any:
    """`func` itself: a signature for TorchScript alone."""
    return func


_overload_method = _drop = _overload


def annotate(the_type: Any, the_value: Any) -> Any:
    """`the_value`, of which TorchScript is told the type.

    Args:
        the_type: accepted.
        the_value: what is given back.

    Example:
        >>> gradlib.jit.annotate(list[int], [])
        []
    """
    return the_value


def _unwrap_optional(x: Any) -> Any:
    """`x`, which must not be None."""
    assert x is not None, "Unwrapping null optional"
    return x


def _isinstance(obj: Any, target_type: Any) -> bool:
    """Whether `obj` is of a type, with the types of elements: ``list[int]``, ``dict[str, Tensor]``, ``int | None``.

    Args:
        obj: any value.
        target_type: a type, a tuple of types, or one of typing's.

    Example:
        >>> gradlib.jit.isinstance([1, 2], list[int]), gradlib.jit.isinstance([1, "a"], list[int])
        (True, False)
    """
    if isinstance(target_type, tuple):
        return any(_isinstance(obj, t) for t in target_type)
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if target_type is Any:
        return True
    if origin is None:
        if target_type in (typing.List, typing.Dict, typing.Tuple):  # noqa: UP006
            raise RuntimeError(
                f"Attempted to use {target_type} without a contained type. Please add a contained type, e.g. List[int]"
            )
        return obj is None if target_type is None else isinstance(obj, target_type)
    if origin in (typing.Union, types.UnionType):
        return any(_isinstance(obj, t) for t in inner)
    if not isinstance(obj, origin):
        return False
    if origin is dict:
        return all(_isinstance(k, inner[0]) and _isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple and not (len(inner) == 2 and inner[1] is ...):
        return len(obj) == len(inner) and all(map(_isinstance, obj, inner))
    return all(_isinstance(v, inner[0]) for v in obj)


# -- what would make compiled code faster ------------------------------------------------------------------------


def freeze(mod: Module, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Module:
    """`mod` itself: there is no compiled code to put its parameters into.

    Args:
        mod: a Module in eval mode.
        preserved_attrs: accepted.
        optimize_numerics: accepted.

    Raises:
        RuntimeError: `mod` is no Module, or in training mode.
    """
    if not isinstance(mod, Module):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    return mod


def optimize_for_inference(mod: Module, other_methods: Any = None) -> Module:
    """`mod` itself, as `freeze` gives it.

    Args:
        mod: a Module in eval mode.
        other_methods: accepted.

    Raises:
        RuntimeError: `mod` is no Module, or in training mode.
    """
    return freeze(mod)


def run_frozen_optimizations(
    mod: Module, optimize_numerics: bool = True, preserved_methods: Any = None
) -> None:
    """Do nothing: there is no compiled code.

    Accepted for programs that call it.
    """


def set_fusion_strategy(strategy: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accept how often compiled code would be specialised; there is none.

    Returns:
        The strategy before: none.
    """
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Accept a setting of compiled code; there is none.

    Args:
        enabled: accepted.
    """


def onednn_fusion_enabled() -> bool:
    """False: there is no compiled code.

    Example:
        >>> gradlib.jit.onednn_fusion_enabled()
        False
    """
    return False


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield


def fuser(name: str) -> contextlib.AbstractContextManager[None]:
    """A context manager that changes nothing: there is no compiled code.

    Args:
        name: accepted.
    """
    return _nothing()


def optimized_execution(should_optimize: bool) -> contextlib.AbstractContextManager[None]:
    """A context manager that changes nothing: there is no compiled code.

    Args:
        should_optimize: accepted.
    """
    return _nothing()


def strict_fusion() -> contextlib.AbstractContextManager[None]:
    """A context manager that changes nothing: there is no compiled code.

    Outside of TorchScript PyTorch warns that it does not work; here nothing is said.
    """
    return _nothing()
