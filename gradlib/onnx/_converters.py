"""Converters: what functions, methods and operators are in ONNX. Each gets the writer, the Node and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradlib

from ..fx import Node
from ..fx._code import inplace_methods
from ..fx._names import call_name
from ._graph import OnnxExporterError, Writer

_CONVERTERS: dict[str, Callable[..., Any]] = {}


def converts(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: this writes functions, methods and operators of these names."""

    def enter(converter: Callable[..., Any]) -> Callable[..., Any]:
        _CONVERTERS.update(dict.fromkeys(names.split(), converter))
        return converter

    return enter


def convert(w: Writer, node: Node) -> Any:
    """Write a Node; gives the name of its result.

    Raises:
        OnnxExporterError: nothing is known of the function, or of these arguments.
    """
    name = node.target if isinstance(node.target, str) else call_name(node.target)
    operators = getattr(node.target, "__module__", "") == "_operator"
    if operators and name in inplace_methods:
        unseen(node)
        name = name[1:]
    elif operators:
        name = name.strip("_")
    elif name.endswith(
        "_"
    ):  # in place: the same as a new tensor where nobody else sees the old one
        unseen(node)
        name = name[:-1]
    found = _CONVERTERS.get(name)
    if found is None:
        raise OnnxExporterError(
            f"gradlib.onnx cannot write {node._pretty_print_target(node.target)} ({node.format_node()}). Write that "
            "part of the model with other functions, or export it with PyTorch."
        )
    try:
        return found(w, node, *node.args, **node.kwargs)
    except TypeError as error:
        raise OnnxExporterError(
            f"gradlib.onnx cannot write {name} with these arguments ({node.format_node()}): {error}"
        ) from error


def unseen(node: Node) -> None:
    """OnnxExporterError if the tensor that a Node writes into is used elsewhere, too."""
    written = node.args[0]
    if (
        not isinstance(written, Node)
        or written.op in ("placeholder", "get_attr")
        or len(written.users) > 1
    ):
        raise OnnxExporterError(
            f"gradlib.onnx cannot write into a tensor that others use ({node.format_node()}); write the model without "
            "that in-place function"
        )


def dtype_of(w: Writer, node: Node) -> Any:
    value = w.known[node]
    return value.dtype if isinstance(value, gradlib.Tensor) else gradlib.int64


def axis_of(w: Writer, x: Any, dim: int) -> int:
    rank = w.value(x).ndim
    return dim % rank if rank else 0


def listed(values: tuple) -> list[Any]:
    return (
        list(values[0])
        if len(values) == 1 and isinstance(values[0], tuple | list)
        else list(values)
    )
