"""Attention with several heads, bilinear forms and other composites of the functional interface."""

from __future__ import annotations

import math
import warnings

from ...op.expose import PUBLIC, c_type, function
from ...op.vmap import draws
from ...tape.dtypes import bool_
from ...tape.modes import AUTOCAST, state
from ...tape.tensor import Tensor
from ..create.filled import zeros_like
from ..linalg.linear import linear_op
from ..random.draw import as_array, draw_new
from ..shape.pad import pad
from .attention import scaled_dot_product_attention
from .dropout import dropout
from .softmax import softmax_op


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads: int) -> bool:
    """Whether the inputs are batched; AssertionError where they do not fit together."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    kind = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.dim()}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {query.dim() - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                f"{attn_mask.dim()}-D tensor instead"
            )
        if not batched and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            if tuple(attn_mask.shape) != expected:
                raise AssertionError(
                    f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
                )
    return batched


def _none_or_dtype(input):
    """The dtype of a mask, None without one."""
    return None if input is None else input.dtype


def _canonical_mask(
    mask, mask_name: str, other_type, other_name: str, target_type, check_other: bool = True
):
    """A bool mask (True: hidden) as numbers to add; numbers stay.

    Layers that began as a copy of PyTorch's call it.

    Args:
        mask: bool or floating, or None.
        mask_name, other_name: of this mask and another one, for messages.
        other_type: the dtype of the other one; None without one.
        target_type: the dtype of the numbers.
        check_other: whether a bool mask beside one of numbers is warned of.

    Raises:
        AssertionError: the mask is of integers.
    """
    if mask is None:
        return None
    hides = mask.dtype is bool_
    if not hides and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    return zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf) if hides else mask


def _project(query, key, value, weight, bias):
    """Packed projection of query, key and value; one product when they are the same tensor."""
    size = query.size(-1)
    if key is value:
        if query is key:
            packed = linear_op.call(query, weight, bias)
            return packed.chunk(3, -1)
        w_q, w_kv = weight.split([size, 2 * size])
        b_q, b_kv = bias.split([size, 2 * size]) if bias is not None else (None, None)
        return linear_op.call(query, w_q, b_q), *linear_op.call(key, w_kv, b_kv).chunk(2, -1)
    w = weight.chunk(3)
    b = bias.chunk(3) if bias is not None else (None, None, None)
    return _project_apart(query, key, value, *w, *b)


def _project_apart(query, key, value, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    return (
        linear_op.call(query, w_q, b_q),
        linear_op.call(key, w_k, b_k),
        linear_op.call(value, w_v, b_v),
    )


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Attention of `num_heads` heads: query (L, N, E), key (S, N, E'), value (S, N, E''); without N unbatched.

    Masks are bool (True: hidden) or numbers to add: key_padding_mask (N, S), attn_mask (L, S) or (N * heads, L, S).

    Returns:
        Output (L, N, E), and the attention weights (N, L, S), averaged over the heads or (N, heads, L, S), or None.
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if not batched:
        same_key, same_value = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same_key else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        key_padding_mask = key_padding_mask.unsqueeze(0) if key_padding_mask is not None else None
    length, count, embed = query.shape
    if embed != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}"
        )
    head = embed // num_heads
    if head * num_heads != embed:
        raise AssertionError(f"embed_dim {embed} not divisible by num_heads {num_heads}")
    if not use_separate_proj_weight and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    kind = attn_mask.dtype if attn_mask is not None else None
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", kind, "attn_mask", query.dtype
    )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = False
    if use_separate_proj_weight:
        parts = in_proj_bias.chunk(3) if in_proj_bias is not None else (None, None, None)
        q, k, v = _project_apart(
            query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, *parts
        )
    else:
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _mask_for_heads(attn_mask, length, key.shape[0], count * num_heads)
    extra = 0
    if bias_k is not None and bias_v is not None:
        k = _cat([k, bias_k.repeat(1, count, 1)])
        v = _cat([v, bias_v.repeat(1, count, 1)])
        extra += 1
    q = q.reshape(length, count * num_heads, head).transpose(0, 1)
    k = (
        k.reshape(k.shape[0], count * num_heads, head).transpose(0, 1)
        if static_k is None
        else static_k
    )
    v = (
        v.reshape(v.shape[0], count * num_heads, head).transpose(0, 1)
        if static_v is None
        else static_v
    )
    if add_zero_attn:
        zeros = (count * num_heads, 1, head)
        k, v = _cat([k, k.new_zeros(zeros)], 1), _cat([v, v.new_zeros(zeros)], 1)
        extra += 1
    attn_mask = pad(attn_mask, (0, extra)) if attn_mask is not None and extra else attn_mask
    if key_padding_mask is not None:
        for d, size in enumerate((count, key.shape[0])):
            if key_padding_mask.shape[d] != size:
                raise AssertionError(
                    f"Expected key_padded_mask.shape[{d}] to be {size}, but got {key_padding_mask.shape[d]}"
                )
    mask = _merge(attn_mask, key_padding_mask, extra, count, num_heads)
    p = dropout_p if training else 0.0
    if need_weights:
        out, weights = _with_weights(q, k, v, mask, p)
    else:
        if mask is not None and mask.shape[0] != 1:
            mask = mask.view(count, num_heads, *mask.shape[1:])
        elif mask is not None:
            mask = mask.unsqueeze(0)
        q, k, v = (x.reshape(count, num_heads, *x.shape[1:]) for x in (q, k, v))
        out = scaled_dot_product_attention(q, k, v, mask, p, is_causal)
        out, weights = out.reshape(count * num_heads, length, head), None
    out = out.transpose(0, 1).contiguous().view(length * count, embed)
    out = linear_op.call(out, out_proj_weight, out_proj_bias).view(
        length, count, out_proj_weight.shape[0]
    )
    if weights is not None:
        weights = weights.view(count, num_heads, length, k.shape[1])
        weights = weights.mean(dim=1) if average_attn_weights else weights
        weights = weights if batched else weights.squeeze(0)
    return (out if batched else out.squeeze(1)), weights


def _cat(tensors, dim: int = 0):
    return PUBLIC["cat"](tensors, dim)


def _mask_for_heads(attn_mask, length: int, keys: int, heads: int):
    """attn_mask as (1 or heads, L, S)."""
    if attn_mask.dim() == 2:
        if tuple(attn_mask.shape) != (length, keys):
            raise RuntimeError(
                f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {(length, keys)}."
            )
        return attn_mask.unsqueeze(0)
    if tuple(attn_mask.shape) != (heads, length, keys):
        raise RuntimeError(
            f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be {(heads, length, keys)}."
        )
    return attn_mask


def _merge(attn_mask, key_padding_mask, extra: int, count: int, heads: int):
    if key_padding_mask is None:
        return attn_mask
    if extra:
        key_padding_mask = pad(key_padding_mask, (0, extra))
    size = key_padding_mask.shape[-1]
    hidden = (
        key_padding_mask.view(count, 1, 1, size)
        .expand(-1, heads, -1, -1)
        .reshape(count * heads, 1, size)
    )
    return hidden if attn_mask is None else attn_mask + hidden


def _with_weights(q, k, v, mask, p: float):
    scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    weights = softmax_op.call(scores if mask is None else scores + mask, 2)
    if p > 0.0:
        weights = dropout(weights, p)
    return weights @ v, weights


# -- others ------------------------------------------------------------------------------------------------------------


@function("bilinear")
def bilinear(input1, input2, weight, bias=None):
    """``sum_ij input1[..., i] * weight[k, i, j] * input2[..., j] + bias[k]``.

    Args:
        input1, input2: (..., n) and (..., m), all other lengths the same.
        weight: (outputs, n, m).
        bias: (outputs,), or None.

    Returns:
        (..., outputs).

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> F.bilinear(gradlib.ones(1, 2), gradlib.ones(1, 3), gradlib.ones(1, 2, 3))
        tensor([[6.]])
    """
    if input1.dim() != input2.dim():
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}"
        )
    for number, x, size in ((1, input1, weight.shape[1]), (2, input2, weight.shape[2])):
        if x.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {x.shape[-1]} but expected {size}"
            )
    given = {"input1": input1, "input2": input2, "weight": weight, "bias": bias}
    given = {k: t for k, t in given.items() if t is not None}
    if len({t.dtype for t in given.values()}) > 1 and not state.bits & AUTOCAST:
        found = ", ".join(f"{k}: {c_type(t)}" for k, t in given.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {found}")
    lead = input1.shape[:-1]
    a, b = input1.reshape(-1, input1.shape[-1]), input2.reshape(-1, input2.shape[-1])
    n, (outputs, first, second) = a.shape[0], weight.shape
    middle = a @ weight.permute(1, 0, 2).reshape(first, outputs * second)
    product = middle.view(n, outputs, second) * b.unsqueeze(1)
    out = product.sum(2) if product.is_floating_point() else product.sum(2, dtype=product.dtype)
    out = out if bias is None else out + bias
    return out.view(*lead, outputs)


@draws
def _gumbel(like: Tensor) -> Tensor:
    """Gumbel noise of the shape and dtype of `like`."""
    shape, d = like._array.shape, like._array.dtype
    return Tensor._make(draw_new(None, like.device, _draw_gumbel, shape, d))


def _draw_gumbel(rng, shape: tuple, d):
    return as_array(rng.gumbel(size=shape)).astype(d)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of a relaxed categorical distribution: softmax of `logits` plus Gumbel noise, over `tau`.

    Args:
        logits: a floating tensor of log probabilities that need not be normalised.
        tau: the temperature: the lower, the nearer to one-hot.
        hard: whether the result is one-hot, with the gradient of the relaxed sample.
        eps: without effect.
        dim: the dimension of the categories.

    Returns:
        A tensor of the same shape.

    Example:
        >>> F.gumbel_softmax(gradlib.tensor([0.0, -1000.0]), hard=True)
        tensor([1., 0.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    soft = ((logits + _gumbel(logits)) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one = soft.detach().new_zeros(soft.shape).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft
