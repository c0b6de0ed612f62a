"""Functions that have no ONNX operator, in terms of those that have: these are traced instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gradlib

from ..nn import functional as F
from ._graph import OnnxExporterError

EXPANSIONS: dict[
    Callable[..., Any], Callable[..., Any]
] = {}  # public function -> what is traced in its place


def instead_of(
    *functions: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: this is traced where one of `functions` is called."""

    def enter(expansion: Callable[..., Any]) -> Callable[..., Any]:
        EXPANSIONS.update(dict.fromkeys(functions, expansion))
        return expansion

    return enter


@instead_of(F.linear)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    product = input @ weight.t()
    return product if bias is None else product + bias


@instead_of(F.gelu)
def gelu(input: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)
        return 0.5 * input * (1 + inner.tanh())
    return 0.5 * input * (1 + (input * math.sqrt(0.5)).erf())


@instead_of(
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout
)
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if training and p:
        raise OnnxExporterError(
            "gradlib.onnx: dropout in training mode is random; export the model in eval mode"
        )
    return input


@instead_of(F.scaled_dot_product_attention)
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout_p or enable_gqa:
        raise OnnxExporterError(
            "gradlib.onnx: scaled_dot_product_attention with dropout_p or enable_gqa"
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        hidden = gradlib.ones(query.shape[-2], key.shape[-2], dtype=gradlib.bool_).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    if attn_mask is not None:
        bool_mask = attn_mask.dtype is gradlib.bool_
        scores = scores.masked_fill(~attn_mask, -math.inf) if bool_mask else scores + attn_mask
    return scores.softmax(-1) @ value


@instead_of(F.multi_head_attention_forward)
def heads(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    given = (bias_k, bias_v, static_k, static_v)
    if any(g is not None for g in given) or add_zero_attn or (training and dropout_p):
        raise OnnxExporterError(
            "gradlib.onnx: multi_head_attention_forward with bias_k, static_k, add_zero_attn, or dropout in training"
        )
    if query.ndim != 3:
        raise OnnxExporterError(
            "gradlib.onnx: multi_head_attention_forward without a batch dimension"
        )
    length, count, embed = query.shape
    size = embed // num_heads
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = tuple(in_proj_weight[i * embed : (i + 1) * embed] for i in range(3))
    biases = [None] * 3
    if in_proj_bias is not None:
        biases = [in_proj_bias[i * embed : (i + 1) * embed] for i in range(3)]

    def project(x: Any, weight: Any, bias: Any) -> Any:
        made = linear(x, weight, bias)
        return made.reshape(x.shape[0], count, num_heads, size).permute(
            1, 2, 0, 3
        )  # batch, head, place, size

    q, k, v = map(project, (query, key, value), weights, biases)
    scores = (q * (1 / math.sqrt(size))) @ k.transpose(-2, -1)
    if attn_mask is not None:
        if attn_mask.ndim == 3:
            attn_mask = attn_mask.reshape(count, num_heads, length, key.shape[0])
        hidden = attn_mask.dtype is gradlib.bool_
        scores = scores.masked_fill(attn_mask, -math.inf) if hidden else scores + attn_mask
    if key_padding_mask is not None:
        mask = key_padding_mask[:, None, None, :]
        hidden = mask.dtype is gradlib.bool_
        scores = scores.masked_fill(mask, -math.inf) if hidden else scores + mask
    weights_ = scores.softmax(-1)
    out = (weights_ @ v).permute(2, 0, 1, 3).reshape(length, count, embed)
    out = linear(out, out_proj_weight, out_proj_bias)
    if not need_weights:
        return out, None
    return out, weights_.mean(1) if average_attn_weights else weights_
