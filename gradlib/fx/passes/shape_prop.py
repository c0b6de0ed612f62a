"""Shapes and dtypes of all steps of a graph, found by running it."""

from __future__ import annotations

from typing import Any, NamedTuple

import gradlib

from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Facts about a tensor, without its values.

    `memory_format` is None where the strides fit none; `is_quantized` is always False and `qparams` empty.
    """

    shape: gradlib.Size
    dtype: gradlib.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: gradlib.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(
    result: gradlib.Tensor, include_contiguity: bool = True
) -> TensorMetadata:
    formats: list[Any] = []
    if include_contiguity:
        known = (gradlib.contiguous_format, gradlib.channels_last, gradlib.channels_last_3d)
        formats = [f for f in known if result.is_contiguous(memory_format=f)]
    return TensorMetadata(
        result.shape,
        result.dtype,
        result.requires_grad,
        tuple(result.stride()),
        formats[0] if formats else None,
        False,
        {},
    )


class ShapeProp(Interpreter):
    """Runs a graph, and leaves ``meta["tensor_meta"]`` (`TensorMetadata`) and ``meta["type"]`` with its Nodes.

    Args:
        gm: whose graph it is.
        fake_mode: must be None: gradlib has no fake tensors.

    Raises:
        NotImplementedError: `fake_mode` is given.

    Example:
        >>> traced = gradlib.fx.symbolic_trace(nn.Linear(3, 2))
        >>> _ = ShapeProp(traced).propagate(gradlib.ones(5, 3))
        >>> traced.graph.output_node().args[0].meta["tensor_meta"].shape
        torch.Size([5, 2])
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("ShapeProp: gradlib has no fake tensors; leave fake_mode out")

    def run_node(self, n: Node) -> Any:
        """The value of a Node, whose facts are kept with it.

        Args:
            n: the Node.

        Raises:
            RuntimeError: the Node cannot be run; the cause says why.
        """
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        tensors = []

        def facts(value: Any) -> Any:
            if not isinstance(value, gradlib.Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, facts)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph.

        Args:
            args: arguments in the shapes that are wanted.

        Returns:
            What it returns.
        """
        return super().run(*args)
