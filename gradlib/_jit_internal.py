"""Names of ``torch._jit_internal`` that programs import: those of `gradlib.jit`, and a choice between functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .jit._script import (
    Final,
    _drop,
    _isinstance,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from .jit.annotations import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    BroadcastingListCls,
)

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "BroadcastingListCls",
    "Final",
    "_drop",
    "_isinstance",
    "_overload",
    "_overload_method",
    "boolean_dispatch",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that is one of two, as one of its arguments says.

    Args:
        arg_name: the name of that argument.
        arg_index: its position.
        default: what it is when it is not given.
        if_true: the function if it is true.
        if_false: the other one.
        module_name: the module of the new function, or None.
        func_name: its name, or None.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    call.__doc__ = if_true.__doc__ or if_false.__doc__
    if func_name is not None:
        call.__name__ = func_name
    if module_name is not None:
        call.__module__ = module_name
    return call
