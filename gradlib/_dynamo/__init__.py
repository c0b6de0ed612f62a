"""``torch._dynamo`` for programs that call it: nothing is compiled, so that its marks and settings change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._refused import refuse
from ..compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)
from . import config, eval_frame, exc, external_utils, utils
from .eval_frame import OptimizedModule

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "exc",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "is_inductor_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "reset",
    "reset_code_caches",
    "run",
    "set_stance",
    "skip_frame",
    "substitute_in_graph",
]

disallow_in_graph = forbid_in_graph = nonstrict_trace = skip_frame = allow_in_graph
reset_code_caches = reset

__getattr__ = refuse(
    __name__,
    more="explain export lookup_backend register_backend replay",
    why="There is no compiler: trace programs with gradlib.fx.symbolic_trace or gradlib.export.export.",
)


def optimize(backend: Any = "inductor", **settings: Any) -> Callable[[Any], Any]:
    """A decorator that changes nothing: the old form of `gradlib.compile`.

    Args:
        backend: accepted.
        settings: accepted.

    Example:
        >>> gradlib._dynamo.optimize("eager")(abs) is abs
        True
    """
    return lambda function: function


optimize_assert = optimize


def run(fn: Any = None) -> Any:
    """`fn` itself: what runs with the compiled code that there is already.

    Args:
        fn: a function; without it a decorator.
    """
    return fn if fn is not None else lambda function: function


def graph_break(msg: str = "") -> None:
    """Do nothing: there is no graph to break.

    Args:
        msg: accepted.
    """


def mark_dynamic(t: Any, index: Any, **accepted: Any) -> None:
    """Do nothing: code runs as it is written, for all sizes.

    Args:
        t: accepted.
        index: accepted.
        accepted: accepted.
    """


def mark_static(t: Any, index: Any = None) -> None:
    """Do nothing: code runs as it is written, for all sizes.

    Args:
        t: accepted.
        index: accepted.
    """


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Do nothing: nothing is compiled for an address.

    Args:
        t: accepted.
        guard: accepted.
    """


maybe_mark_dynamic = mark_dynamic


def is_dynamo_supported() -> bool:
    """False: there is no compiler.

    Example:
        >>> gradlib._dynamo.is_dynamo_supported()
        False
    """
    return False


is_inductor_supported = is_dynamo_supported
