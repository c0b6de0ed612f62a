"""``torch.compile`` and ``torch.compiler`` for programs that call them: nothing is compiled, results are the same.

An op costs little here without a compiler, and elementwise formulas are single kernels on CUDA already. A whole
training step as one launch is `gradlib.cuda.capture`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "allow_in_graph",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """`model` itself: a function or Module, or, without one, a decorator that changes nothing.

    The settings are accepted; `mode` and `options` exclude each other, as in PyTorch.

    Raises:
        RuntimeError: `mode` and `options` are both given.

    Example:
        >>> step = gradlib.compile(lambda x: x * 2)
        >>> step(gradlib.ones(2))
        tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    return model if model is not None else lambda function: function


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, **settings: Any) -> Any:
    """`fn` itself, or a decorator that changes nothing: there is no compiler to keep it from.

    All arguments of PyTorch are accepted.
    """
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """`fn` itself: there is no tracer that would stop at it.

    Example:
        >>> gradlib.compiler.allow_in_graph(abs) is abs
        True
    """
    return fn


def is_compiling() -> bool:
    """False: code always runs as it is written.

    Example:
        >>> gradlib.compiler.is_compiling()
        False
    """
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Do nothing: nothing is kept that could be forgotten.

    Accepted for programs that call it.
    """


def cudagraph_mark_step_begin() -> None:
    """Do nothing: graphs are captured by `gradlib.cuda.capture` and `gradlib.cuda.graph` only.

    Accepted for programs that call it.
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of compilers: none.

    Example:
        >>> gradlib.compiler.list_backends()
        []
    """
    return []
