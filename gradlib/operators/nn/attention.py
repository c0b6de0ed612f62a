"""scaled_dot_product_attention: one node that keeps no matrix of probabilities.

The forward keeps, beside the result, the logarithm of each row's sum. With both an overlay of the gradient makes the
probabilities and gradients of a tile in one go, without running forward again. The formula starts from the scores.
"""

from __future__ import annotations

import math

import numpy as np

from ...op import costs
from ...op.declare import declare
from ...op.expose import function
from ...op.formulas import formula_function, traced_ops
from ...op.plain_numbers import python_number
from ...tape import dtypes, errors
from ...tape.modes import made_of_numbers
from ...tape.tensor import Tensor
from ..kinds import lowered, narrow, raw, unsupported
from .dropout import dropout


def spread_mask(xp, attn_mask, shape, dtype):
    """A mask as additive numbers, broadcast (not copied) to `shape`."""
    if attn_mask is None:
        return None
    if attn_mask.dtype.kind == "b":
        attn_mask = xp.where(attn_mask, dtype.type(0), dtype.type(-np.inf))
    return xp.broadcast_to(attn_mask.astype(dtype, copy=False), shape)


def _whole_scores(xp, q, k, mask, is_causal, scale):
    s = xp.matmul(q, k.swapaxes(-1, -2)) * q.dtype.type(scale)
    if is_causal:
        later = xp.arange(s.shape[-1]) > xp.arange(s.shape[-2])[:, None]
        s = xp.where(later, q.dtype.type(-np.inf), s)
    return s if mask is None else s + mask


def _whole_attention(xp, q, k, v, mask, is_causal, scale):
    """(result, logarithms of the sums of rows), without a dtype of two bytes."""
    s = _whole_scores(xp, q, k, mask, is_causal, scale)
    top = s.max(axis=-1, keepdims=True) if s.shape[-1] else xp.zeros((*s.shape[:-1], 1), s.dtype)
    top = xp.where(xp.isfinite(top), top, 0)
    p = xp.exp(s - top)
    total = p.sum(axis=-1, keepdims=True)
    out = xp.matmul(xp.where(total > 0, p / total, 0), v)
    return out, (xp.log(total) + top)[..., 0]


def attention_by(kernel):
    """The forward function of attention, in float32 for half types; kernel: as `_whole_attention`."""

    def forward(xp, query, key, value, attn_mask=None, *, is_causal, scale):
        d = query.dtype
        if d.kind not in "fV":
            raise unsupported("scaled_dot_product_attention", query)
        if d.itemsize == 2:
            q, k, v = (xp.wide(a) for a in (query, key, value))
            mask = xp.wide(attn_mask) if attn_mask is not None else None
            return narrow(forward(xp, q, k, v, mask, is_causal=is_causal, scale=scale), d)
        mask = spread_mask(xp, attn_mask, (*query.shape[:-1], key.shape[-2]), d)
        return kernel(xp, query, key, value, mask, is_causal, scale)

    return forward


@formula_function()
def attention_weights(F, query, key, attn_mask, is_causal, scale):
    """The whole matrix of probabilities; rows where nothing is allowed give 0."""
    scores = F.matmul(query * scale, F.transpose(key, key.ndim - 2, key.ndim - 1))
    last = scores.ndim - 1
    if is_causal:
        rows, columns = map(np.arange, scores.shape[-2:])
        later = columns > rows[:, None]
        scores = F.masked_fill(scores, F.mask_like(scores, later), -math.inf)
    if attn_mask is None or not scores.shape[-1]:
        return F.softmax(scores, last)
    if raw(attn_mask).dtype.kind == "b":
        scores = F.masked_fill(scores, ~attn_mask, -math.inf)
    else:
        scores = scores + attn_mask
    nothing = F.amax(scores, (last,), True) == -math.inf
    return F.masked_fill(F.softmax(F.masked_fill(scores, nothing, 0.0), last), nothing, 0.0)


@formula_function()
def mask_like(F, like, array):
    """A NumPy array of truth values as a constant where `like` is."""
    made = F.places_like(like, array)
    return made_of_numbers(Tensor._make(made)) if hasattr(like, "_array") else made


def _attention_vjp(F, g, query, key, value, attn_mask, is_causal, scale, needs):
    kinds = (query, key, value, query)
    if F.backend is not None:  # arrays
        g, query, key, value = (F.backend.wide(a) for a in (g, query, key, value))
    p = F.attention_weights(query, key, attn_mask, is_causal, scale)
    back = (p.ndim - 2, p.ndim - 1)
    dq = dk = dv = dm = None
    if needs[2]:
        dv = F.matmul(F.transpose(p, *back), g)
    if needs[0] or needs[1] or needs[3]:
        ds = F.softmax_grad(F.matmul(g, F.transpose(value, *back)), p, back[1])
        dq = F.matmul(ds, key) * scale if needs[0] else None
        dk = F.matmul(F.transpose(ds, *back), query) * scale if needs[1] else None
        dm = F.sum_to_size(ds, tuple(attn_mask.shape)) if needs[3] else None
    return tuple(map(F.in_dtype_of, (dq, dk, dv, dm), kinds))


def _samples(t):
    return [
        (t(2, 3, 4), t(2, 5, 4), t(2, 5, 3), None, False, 0.5),
        (t(2, 2, 4, 3), t(2, 2, 4, 3), t(2, 2, 4, 3), None, True, 0.7),
        (t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), t(3, 3), False, 0.5),
        (t(3, 4), t(2, 4), t(2, 4), None, False, 0.5),
        (t(2, 0, 4), t(2, 3, 4), t(2, 3, 4), None, False, 0.5),
    ]


_IMPLEMENTATIONS = """
    _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable
"""
attention_op = declare(
    "scaled_dot_product_attention_op", attention_by(_whole_attention),
    implementations=_IMPLEMENTATIONS, flops=costs.attention, backward_flops=costs.attention_back, autocast="lower",
    public="scaled_dot_product_attention",
    promote="free", vjp=_attention_vjp,
    node="ScaledDotProductFlashAttentionForCpuBackward0", samples=_samples,
    # only overlays use the two; the formula starts from the scores again
    saves="result", hidden={"logsumexp": lambda F, query: F.sum(query, (query.ndim - 1,), False)},
    batch="attention",
)  # fmt: skip


def _broadcast(query, key, value):
    """One leading shape for all three (expanded, not copied)."""
    lead = query.shape[:-2]
    if key.shape[:-2] != lead or value.shape[:-2] != lead:
        for other in (key, value):
            errors.check_broadcast(tuple(lead), tuple(other.shape[:-2]))
        lead = np.broadcast_shapes(*(tuple(a.shape[:-2]) for a in (query, key, value)))
        query, key, value = (a.expand(*lead, *a.shape[-2:]) for a in (query, key, value))
    return query, key, value


def _check(query, key, value, attn_mask, is_causal) -> None:
    if not (query.dtype is key.dtype is value.dtype):
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype.cpp_name} key.dtype: "
            f"{key.dtype.cpp_name} and value.dtype: {value.dtype.cpp_name} instead."
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: "
            f"{query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    (n, e), (m, e2), m2 = query._array.shape[-2:], key._array.shape[-2:], value._array.shape[-2]
    if e != e2 or m != m2:
        left, right = ((n, e), (e2, m)) if e != e2 else ((n, m), (m2, value.shape[-1]))
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})".format(*left, *right)
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if (
        attn_mask is not None
        and attn_mask._array.dtype.kind != "b"
        and attn_mask.dtype is not query.dtype
        and attn_mask.dtype is not dtypes.float32
    ):
        raise RuntimeError(
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype.tensor_type} and  query.dtype: {query.dtype.tensor_type} instead."
        )


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False,
):  # fmt: skip
    """``softmax(query @ key^T * scale + mask) @ value``: means of the values, weighted by the likeness of the keys.

    Args:
        query, key, value: (..., L, E), (..., S, E) and (..., S, V) of one dtype; the batches broadcast.
        attn_mask: broadcasts to (..., L, S): bool (True may look) or numbers to add.
        dropout_p: probabilities are dropped (also outside of training).
        is_causal: whether query i looks at keys up to i alone; not with `attn_mask`.
        scale: 1 / sqrt(E) if None.
        enable_gqa: whether key and value have fewer heads (dimension -3), each used by several heads of `query`.

    Returns:
        (..., L, V). A row with nothing to look at gives 0.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or both a mask and `is_causal`.

    Example:
        >>> x = gradlib.tensor([[[1.0], [3.0]]])
        >>> F.scaled_dot_product_attention(gradlib.zeros(1, 1, 1), x, x)
        tensor([[[2.]]])
    """
    query, key, value, attn_mask = lowered(query, key, value, attn_mask)
    _check(query, key, value, attn_mask, is_causal)
    kind = query.dtype
    if attn_mask is not None and attn_mask.dtype is dtypes.float32 is not kind:
        if kind.itemsize == 2:  # a mask may hold numbers that only float32 has
            query, key, value = (a.to(dtypes.float32) for a in (query, key, value))
        else:
            attn_mask = attn_mask.to(kind)
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        if query.shape[-3] % key.shape[-3] or query.shape[-3] % value.shape[-3]:
            raise RuntimeError(
                "Number of heads in key and value must divide the number of heads in query"
            )
        if repeats != 1:
            key = key.repeat_interleave(repeats, -3)
        if query.shape[-3] != value.shape[-3]:
            value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    if scale is None:
        scale = 1.0 / math.sqrt(query._array.shape[-1]) if query._array.shape[-1] else 1.0
    elif scale.__class__ is not float:
        scale = python_number(scale, "scaled_dot_product_attention(): argument 'scale'")
    if (
        query._array.shape[:-2] != key._array.shape[:-2]
        or query._array.shape[:-2] != value._array.shape[:-2]
    ):
        query, key, value = _broadcast(query, key, value)
    if attn_mask is not None and attn_mask.dim() > query.dim():
        lead = attn_mask.shape[:-2]
        query, key, value = (a.expand(*lead, *a.shape[-2:]) for a in (query, key, value))
    if dropout_p > 0.0:
        p = traced_ops.attention_weights(query, key, attn_mask, is_causal, scale)
        return (dropout(p, dropout_p, True) @ value).to(kind)
    return attention_op.call(query, key, value, attn_mask, is_causal, scale).to(kind)


@function("scaled_dot_product_attention")
def _public(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    *,
    scale=None,
    enable_gqa=False,
):
    """``nn.functional.scaled_dot_product_attention``, under the name that PyTorch has beside it.

    Args:
        query, key, value: (..., L, E), (..., S, E) and (..., S, V) of one dtype.
        attn_mask: broadcasts to (..., L, S): bool (True may look) or numbers to add.
        dropout_p: probabilities are dropped.
        is_causal: whether query i looks at keys up to i alone.
        scale: 1 / sqrt(E) if None.
        enable_gqa: whether key and value have fewer heads, each used by several heads of `query`.

    Returns:
        (..., L, V).

    Example:
        >>> x = gradlib.tensor([[[1.0], [3.0]]])
        >>> gradlib.scaled_dot_product_attention(gradlib.zeros(1, 1, 1), x, x)
        tensor([[[2.]]])
    """
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )
