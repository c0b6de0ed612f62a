"""Arguments of calls as the signature of what is called has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position, and by name.

    What `normalize_function` and `normalize_module` give.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: Any = None,
    kwarg_types: Any = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of `target`, with the defaults that it does not give.

    Args:
        target: a function with one signature.
        args: its arguments by position.
        kwargs: its arguments by name.
        arg_types: accepted: there are no overloads to choose from.
        kwarg_types: accepted, too.
        normalize_to_only_use_kwargs: give all of them by name.

    Returns:
        The arguments; None if `target` has no signature, one with ``*args``, or one that they do not fit.

    Example:
        >>> normalize_function(lambda a, b=2: a, (1,), normalize_to_only_use_kwargs=True)
        ArgsKwargsPair(args=(), kwargs={'a': 1, 'b': 2})
    """
    try:
        signature = inspect.signature(target)
        bound = signature.bind(*args, **(kwargs or {}))
    except (TypeError, ValueError):
        return None
    kinds = {p.kind for p in signature.parameters.values()}
    if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
        return None
    given = list(bound.arguments)
    bound.apply_defaults()
    if normalize_to_only_use_kwargs:
        return ArgsKwargsPair((), dict(bound.arguments))
    names = given[: len(args)]
    by_position = tuple(bound.arguments[n] for n in names)
    return ArgsKwargsPair(by_position, {k: v for k, v in bound.arguments.items() if k not in names})


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """`normalize_function` for a call of the module that is found in `root` under the dotted name `target`.

    Args:
        root: a Module.
        target: where the called one is in it.
        args: the arguments by position.
        kwargs: the arguments by name.
        normalize_to_only_use_kwargs: give all of them by name.

    Raises:
        RuntimeError: there is no such module.

    Example:
        >>> normalize_module(nn.Sequential(nn.ReLU()), "0", (1,), normalize_to_only_use_kwargs=True).kwargs
        {'input': 1}
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize arguments for module {target} but root does not have a module of that name"
        ) from error
    return normalize_function(
        module.forward, args, kwargs, normalize_to_only_use_kwargs=normalize_to_only_use_kwargs
    )
