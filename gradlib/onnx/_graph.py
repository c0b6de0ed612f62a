"""An ONNX graph while it is written: its nodes, constants and names."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import gradlib

from ..fx import Node


class OnnxExporterError(RuntimeError):
    """A program cannot be written as ONNX.

    The text names the function, and the line of the program is not known to it.
    """


def onnx_package() -> Any:
    """The package ``onnx``; ImportError with what to do if it is not there."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError(
            "gradlib.onnx.export writes files with the package onnx: pip install 'gradlib[onnx]'"
        ) from error


class Writer:
    """Collects the nodes of an ONNX graph; values are names of tensors.

    known: Node of the traced graph -> its value in the example; number: Nodes whose value is a size.
    """

    def __init__(self, known: dict[Node, Any]) -> None:
        self.helper = onnx_package().helper
        self.numpy_helper = importlib.import_module("onnx.numpy_helper")
        self.known = known
        self.names: dict[Node, Any] = {}  # Node -> the name of its value, or a list of names
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self._count = 0

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; gives the name of its result, or a list of names."""
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(self.helper.make_node(kind, list(inputs), names, **given))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant."""
        array = np.array(value, dtype, order="C")
        name = self.fresh("const")
        self.initializers[name] = self.numpy_helper.from_array(array, name)
        return name

    def kind(self, dtype: gradlib.dtype) -> int:
        """The number by which ONNX knows a dtype."""
        short = str(dtype).rpartition(".")[2]
        name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(short, short.upper())
        return int(getattr(onnx_package().TensorProto, name))

    # -- arguments of Nodes --------------------------------------------------------------------------------------

    def value(self, arg: Any) -> Any:
        """What an argument is in the example."""
        return self.known[arg] if isinstance(arg, Node) else arg

    def tensor(self, arg: Any, dtype: gradlib.dtype | None = None) -> str:
        """The name of a tensor, size or number as a tensor of a dtype; without it of its own."""
        if not isinstance(arg, Node):
            wanted = dtype or gradlib.tensor(arg).dtype
            return self.constant(gradlib.tensor(arg, dtype=wanted).numpy())
        name, value = self.names[arg], self.known[arg]
        own = value.dtype if isinstance(value, gradlib.Tensor) else gradlib.int64
        if dtype is None or own is dtype:
            return name
        return self.op("Cast", name, to=self.kind(dtype))

    def sizes(self, values: Sequence[Any]) -> str:
        """Numbers, some of which may be known only when the graph runs, as one tensor of int64."""
        if not any(isinstance(v, Node) for v in values):
            return self.constant(list(values), np.int64)
        axis = self.constant([0], np.int64)
        parts = [
            self.op("Unsqueeze", self.names[v], axis)
            if isinstance(v, Node)
            else self.constant([v], np.int64)
            for v in values
        ]
        return self.op("Concat", *parts, axis=0)
