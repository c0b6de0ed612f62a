"""Layers of networks."""

from __future__ import annotations

from typing import Any

import gradlib

from ..fx import Node
from ..fx._names import call_name
from ._converters import converts
from ._graph import Writer


def _several(value: Any, count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value)


@converts("conv1d conv2d conv3d")
def _conv(
    w: Writer,
    node: Node,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> str:
    n = w.value(weight).ndim - 2
    if w.value(x).ndim != n + 2:
        raise TypeError("an input without a batch dimension")
    inputs = [w.tensor(x), w.tensor(weight), *([w.tensor(bias)] if bias is not None else [])]
    pads = None if isinstance(padding, str) else _several(padding, n) * 2
    auto = {"same": "SAME_UPPER", "valid": "VALID"}[padding] if isinstance(padding, str) else None
    return w.op(
        "Conv", *inputs, strides=_several(stride, n), dilations=_several(dilation, n), group=groups, pads=pads,
        auto_pad=auto,
    )  # fmt: skip


@converts("batch_norm")
def _batch_norm(
    w: Writer,
    node: Node,
    x: Any,
    mean: Any,
    var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> str:
    if training or mean is None:
        raise TypeError("statistics of the batch; export the model in eval mode")
    count = w.value(mean).shape[0]
    dtype = w.value(x).dtype
    scale = w.tensor(weight) if weight is not None else w.tensor([1.0] * count, dtype)
    shift = w.tensor(bias) if bias is not None else w.tensor([0.0] * count, dtype)
    return w.op(
        "BatchNormalization",
        w.tensor(x),
        scale,
        shift,
        w.tensor(mean),
        w.tensor(var),
        epsilon=float(eps),
    )


@converts("layer_norm")
def _layer_norm(
    w: Writer,
    node: Node,
    x: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> str:
    shape = tuple(normalized_shape)
    scale = (
        w.tensor(weight)
        if weight is not None
        else w.tensor(gradlib.ones(shape).tolist(), w.value(x).dtype)
    )
    inputs = [w.tensor(x), scale, *([w.tensor(bias)] if bias is not None else [])]
    return w.op("LayerNormalization", *inputs, axis=-len(shape), epsilon=float(eps))


@converts("max_pool1d max_pool2d max_pool3d")
def _max_pool(
    w: Writer,
    node: Node,
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> str:
    n = int(call_name(node.target)[-2])
    if return_indices or w.value(x).ndim != n + 2:
        raise TypeError("return_indices, or an input without a batch dimension")
    kernel = _several(kernel_size, n)
    return w.op(
        "MaxPool", w.tensor(x), kernel_shape=kernel, strides=_several(stride, n) if stride else kernel,
        pads=_several(padding, n) * 2, dilations=_several(dilation, n), ceil_mode=int(ceil_mode),
    )  # fmt: skip


@converts("avg_pool1d avg_pool2d avg_pool3d")
def _avg_pool(
    w: Writer,
    node: Node,
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> str:
    n = int(call_name(node.target)[-2])
    if divisor_override is not None or ceil_mode or w.value(x).ndim != n + 2:
        raise TypeError("divisor_override, ceil_mode, or an input without a batch dimension")
    kernel = _several(kernel_size, n)
    return w.op(
        "AveragePool", w.tensor(x), kernel_shape=kernel, strides=_several(stride, n) if stride else kernel,
        pads=_several(padding, n) * 2, count_include_pad=int(count_include_pad),
    )  # fmt: skip


@converts("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d")
def _adaptive(w: Writer, node: Node, x: Any, output_size: Any) -> str:
    n = int(call_name(node.target)[-2])
    if _several(output_size, n) != [1] * n or w.value(x).ndim != n + 2:
        raise TypeError("an output_size other than 1")
    return w.op("GlobalAveragePool", w.tensor(x))


@converts("embedding")
def _embedding(
    w: Writer, node: Node, input: Any, weight: Any, padding_idx: Any = None, *rest: Any, **more: Any
) -> str:
    if (rest and rest[0] is not None) or more.get("max_norm") is not None:
        raise TypeError("max_norm")
    return w.op("Gather", w.tensor(weight), w.tensor(input), axis=0)
