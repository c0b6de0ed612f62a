"""scaled_dot_product_attention: one node that keeps no matrix of probabilities.

The forward kernel goes over tiles of queries and keeps, beside the result, the logarithm of each row's sum. With both
the backward kernel makes the probabilities and gradients of a tile in one go, without running forward again. With
derivatives of derivatives the plain formulas are recorded instead.
"""

from __future__ import annotations

import math

import numpy as np

from ...devices.numpy.sums import ones
from ...op import costs
from ...op.declare import declare
from ...op.expose import function
from ...tape import dtypes, errors
from ...tape.layout import empty_ordered, order_of
from ..kinds import kind_name, narrow
from .dropout import dropout
from .softmax import softmax_op

TILE = 1 << 17  # scores of a tile at most
WHOLE = 1 << 13  # scores of one batch entry up to which several entries are computed together


def _tiles(length: int, keys: int):
    """(start, stop) of tiles of queries."""
    step = max(16, min(length, TILE // max(keys, 1)))
    if length >= 256:
        step = min(step, 128)
    return [(i, min(i + step, length)) for i in range(0, length, step)]


def _limit(j: int, keys: int, is_causal: bool) -> int:
    """How many keys queries up to `j` may look at."""
    return min(j, keys) if is_causal else keys


_masks: dict = {}


def _forbidden(i: int, j: int, keys: int, dtype):
    """What is added to scores of queries i..j for keys 0..keys: -inf above the diagonal."""
    found = _masks.get((i, j, keys, dtype))
    if found is None:
        if len(_masks) > 64:
            _masks.clear()
        later = np.arange(keys) > np.arange(i, j)[:, None]
        found = _masks[i, j, keys, dtype] = np.where(later, -np.inf, 0).astype(dtype)
    return found


def _parts(lead: tuple, size: int) -> list[tuple]:
    """Indices of leading dimensions: of one matrix each, or of stacks of them where their `size` scores are few."""
    if size > WHOLE:
        return list(np.ndindex(*lead))
    room, axis, inside = TILE // 4 // max(size, 1), len(lead), 1
    while axis and inside * lead[axis - 1] <= room:
        axis -= 1
        inside *= lead[axis]
    if not axis:
        return [()]
    step = max(1, room // inside)
    pieces = [slice(i, i + step) for i in range(0, lead[axis - 1], step)]
    return [(*index, piece) for index in np.ndindex(*lead[: axis - 1]) for piece in pieces]


def _rows(a):
    """`a` with the elements of a row side by side, so that matrix products take it as it lies."""
    size, step = a.strides[-1], a.strides[-2]
    fine = (size == a.itemsize or a.shape[-1] == 1) and (step >= a.shape[-1] * a.itemsize)
    return a if fine else np.ascontiguousarray(a)


def _like(a, shape):
    """An uninitialised array in the order of strides of `a`: heads that lie beside each other stay so."""
    if a.flags.c_contiguous:
        return np.empty(shape, a.dtype)
    return empty_ordered(np, shape, a.dtype, order_of((a,), shape))


def _scores(q, k, mask, i, j, is_causal, scale):
    """Scores of a tile of queries, masked; only keys that a causal mask leaves."""
    keys = _limit(j, k.shape[-2], is_causal)
    s = np.matmul(q[..., i:j, :], k[..., :keys, :].swapaxes(-1, -2))
    s *= scale
    if is_causal:
        start = min(i, keys)  # keys before the tile's first query are all allowed
        s[..., start:] += _forbidden(0, j - i, keys - start, s.dtype)
    if mask is not None:
        s += mask[..., i:j, :keys]
    return s, keys


def _spread_mask(xp, attn_mask, shape, dtype):
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
    """In whole arrays: for array libraries other than NumPy."""
    s = _whole_scores(xp, q, k, mask, is_causal, scale)
    top = s.max(axis=-1, keepdims=True) if s.shape[-1] else xp.zeros((*s.shape[:-1], 1), s.dtype)
    top = xp.where(xp.isfinite(top), top, 0)
    p = xp.exp(s - top)
    total = p.sum(axis=-1, keepdims=True)
    out = xp.matmul(xp.where(total > 0, p / total, 0), v)
    return out, (xp.log(total) + top)[..., 0]


def _attention(xp, query, key, value, attn_mask=None, *, is_causal, scale):
    d = query.dtype
    if d.kind not in "fV":
        raise NotImplementedError(
            f"\"scaled_dot_product_attention\" not implemented for '{kind_name(query)}'"
        )
    if d.itemsize == 2:
        q, k, v = (xp.wide(a) for a in (query, key, value))
        mask = xp.wide(attn_mask) if attn_mask is not None else None
        return narrow(_attention(xp, q, k, v, mask, is_causal=is_causal, scale=scale), d)
    lead, (length, keys) = query.shape[:-2], (query.shape[-2], key.shape[-2])
    mask = _spread_mask(xp, attn_mask, (*lead, length, keys), d)
    if xp.name != "numpy":
        return _whole_attention(xp, query, key, value, mask, is_causal, scale)
    q, k, v = _rows(query), _rows(key), _rows(value)
    out, lse = _like(q, (*lead, length, v.shape[-1])), np.empty((*lead, length), d)
    tiles = _tiles(length, keys)
    for part in _parts(lead, length * keys):
        own = None if mask is None else mask[part]
        for i, j in tiles:
            s, n = _scores(q[part], k[part], own, i, j, is_causal, scale)
            _tile_forward(s, v[part][..., :n, :], out[part][..., i:j, :], lse[part][..., i:j])
    return out, lse


def _tile_forward(s, v, out, lse) -> None:
    if not s.size:
        out[...], lse[...] = 0, -np.inf
        return
    top = np.maximum.reduce(s, axis=-1, keepdims=True)
    if not np.isfinite(np.minimum.reduce(top, axis=None)):
        top = np.where(np.isfinite(top) | np.isnan(top), top, 0)
    s -= top
    np.exp(s, out=s)
    total = s.dot(ones(s.shape[-1], s.dtype))
    np.log(total, out=lse)
    lse += top[..., 0]
    if not np.minimum.reduce(total, axis=None) > 0:  # nothing allowed in some row: its result is 0
        total[total == 0] = 1
    np.matmul(s, v, out=out)
    out /= total[..., None]


def _attention_grad(g, q, k, v, mask, out, lse, is_causal, scale, needs):
    """Gradients of query, key, value and of the mask's broadcast form, tile by tile."""
    lead, length, keys = q.shape[:-2], q.shape[-2], k.shape[-2]
    dq, dk, dv = (_like(a, a.shape) if need else None for a, need in zip((q, k, v), needs))
    for empty in (dq, dk, dv):
        if empty is not None:
            empty.fill(0)
    dm = np.zeros((*lead, length, keys), q.dtype) if needs[3] else None
    for part in _parts(lead, length * keys):
        own = None if mask is None else mask[part]
        for i, j in _tiles(length, keys):
            p, n = _scores(q[part], k[part], own, i, j, is_causal, scale)
            if not p.size:
                continue
            logs, gb = lse[part][..., i:j], g[part][..., i:j, :]
            p -= logs[..., None]
            np.exp(p, out=p)
            nothing = logs == -np.inf
            if nothing.any():
                p[nothing] = 0
            if dv is not None:
                dv[part][..., :n, :] += np.matmul(p.swapaxes(-1, -2), gb)
            if dq is None and dk is None and dm is None:
                continue
            ds = np.matmul(gb, v[part][..., :n, :].swapaxes(-1, -2))
            ds -= np.vecdot(gb, out[part][..., i:j, :])[..., None]
            ds *= p
            if dm is not None:
                dm[part][..., i:j, :n] = ds
            ds *= scale
            if dq is not None:
                np.matmul(ds, k[part][..., :n, :], out=dq[part][..., i:j, :])
            if dk is not None:
                dk[part][..., :n, :] += np.matmul(ds.swapaxes(-1, -2), q[part][..., i:j, :])
    return dq, dk, dv, dm


def _whole_gradient(xp, g, q, k, v, mask, out, lse, is_causal, scale, needs):
    """The same in whole arrays: for array libraries other than NumPy."""
    s, logs = _whole_scores(xp, q, k, mask, is_causal, scale), lse[..., None]
    p = xp.where(xp.isneginf(logs), q.dtype.type(0), xp.exp(s - logs))
    dv = xp.matmul(p.swapaxes(-1, -2), g) if needs[2] else None
    if not (needs[0] or needs[1] or needs[3]):
        return None, None, dv, None
    ds = p * (xp.matmul(g, v.swapaxes(-1, -2)) - (g * out).sum(axis=-1, keepdims=True))
    scale = q.dtype.type(scale)
    dq = xp.matmul(ds, k) * scale if needs[0] else None
    dk = xp.matmul(ds.swapaxes(-1, -2), q) * scale if needs[1] else None
    return dq, dk, dv, ds if needs[3] else None


def _attention_vjp(
    F, g, query, key, value, attn_mask, result, logsumexp, is_causal, scale, needs, traced
):
    if traced:
        return _attention_formula(F, g, query, key, value, attn_mask, is_causal, scale, needs)
    xp, d = F.backend, query.dtype
    dout, q, k, v, out = (xp.wide(a) for a in (g, query, key, value, result))
    mask = _spread_mask(xp, attn_mask, (*query.shape[:-1], key.shape[-2]), q.dtype)
    how = (mask, out, logsumexp, is_causal, scale, needs)
    if xp.name == "numpy":
        found = _attention_grad(_rows(dout), _rows(q), _rows(k), _rows(v), *how)
    else:
        found = _whole_gradient(xp, dout, q, k, v, *how)
    dq, dk, dv, dm = (None if a is None else a.astype(d, copy=False) for a in found)
    return dq, dk, dv, None if dm is None else F.sum_to_size(dm, attn_mask.shape)


def _probabilities(query, key, attn_mask, is_causal, scale):
    """The whole matrix, of Tensors by recorded ops; rows where nothing is allowed give 0."""
    scores = (query * scale) @ key.transpose(-2, -1)
    if is_causal:
        later = query.new_ones(scores.shape[-2:], dtype=dtypes.bool_).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    if attn_mask is None or not scores.shape[-1]:
        return softmax_op.call(scores, scores.dim() - 1)
    if attn_mask._array.dtype.kind == "b":
        scores = scores.masked_fill(~attn_mask, -math.inf)
    else:
        scores = scores + attn_mask
    nothing = scores.amax(-1, True) == -math.inf
    p = softmax_op.call(scores.masked_fill(nothing, 0.0), scores.dim() - 1)
    return p.masked_fill(nothing, 0.0)


def _attention_formula(F, g, query, key, value, attn_mask, is_causal, scale, needs):
    p = _probabilities(query, key, attn_mask, is_causal, scale)
    dv = p.transpose(-2, -1) @ g if needs[2] else None
    ds = F.softmax_grad(g @ value.transpose(-2, -1), p, p.dim() - 1)
    dq = ds @ key * scale if needs[0] else None
    dk = ds.transpose(-2, -1) @ query * scale if needs[1] else None
    dm = F.sum_to_size(ds, tuple(attn_mask.shape)) if needs[3] else None
    return dq, dk, dv, dm


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
    "scaled_dot_product_attention_op", _attention,
    implementations=_IMPLEMENTATIONS, flops=costs.attention, backward_flops=costs.attention_back, autocast="lower",
    public="scaled_dot_product_attention",
    promote="free", vjp=_attention_vjp,
    node="ScaledDotProductFlashAttentionForCpuBackward0", samples=_samples,
    # only kernels use it (and `result`); recorded formulas start from the scores again
    hidden={"logsumexp": lambda F, query: F.sum(query, (query.ndim - 1,), False)},
    batch="attention",
)  # fmt: skip


def _broadcast(query, key, value):
    """One leading shape for all three (expanded, not copied)."""
    lead = query.shape[:-2]
    if key.shape[:-2] != lead or value.shape[:-2] != lead:
        for other in (key, value):
            wrong = errors.broadcast(tuple(lead), tuple(other.shape[:-2]))
            if wrong is not None:
                raise wrong
        lead = np.broadcast_shapes(*(tuple(a.shape[:-2]) for a in (query, key, value)))
        query, key, value = (a.expand(*lead, *a.shape[-2:]) for a in (query, key, value))
    return query, key, value


def _check(query, key, value, attn_mask, is_causal) -> None:
    if not (query.dtype is key.dtype is value.dtype):
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype.tensor_type} key.dtype: "
            f"{key.dtype.tensor_type} and value.dtype: {value.dtype.tensor_type} instead."
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
    ):
        raise RuntimeError(
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype.tensor_type} and  query.dtype: {query.dtype.tensor_type} instead."
        )


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False,
):  # fmt: skip
    """``softmax(query @ key^T * scale + mask) @ value``: query (..., L, E), key (..., S, E), value (..., S, V).

    attn_mask: bool (True may look) or numbers to add, broadcast to (..., L, S). is_causal: query i looks at keys up to
    i. scale: 1 / sqrt(E) if None. dropout_p: probabilities are dropped (also outside training). enable_gqa: key and
    value have fewer heads (dimension -3), each used by several heads of `query`. A row with nothing to look at gives 0.
    """
    _check(query, key, value, attn_mask, is_causal)
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
    if (
        query._array.shape[:-2] != key._array.shape[:-2]
        or query._array.shape[:-2] != value._array.shape[:-2]
    ):
        query, key, value = _broadcast(query, key, value)
    if attn_mask is not None and attn_mask.dim() > query.dim():
        lead = attn_mask.shape[:-2]
        query, key, value = (a.expand(*lead, *a.shape[-2:]) for a in (query, key, value))
    if dropout_p > 0.0:
        p = _probabilities(query, key, attn_mask, is_causal, scale)
        return dropout(p, dropout_p, True) @ value
    return attention_op.call(query, key, value, attn_mask, is_causal, scale)


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
    """softmax(query @ key^T * scale + mask) @ value: see `nn.functional.scaled_dot_product_attention`.

    query: [..., L, E], key: [..., S, E], value: [..., S, V] -> [..., L, V]; attn_mask: broadcasts to [..., L, S],
    bool (True takes part)
    or added. Raises RuntimeError for a mask together with `is_causal`.
    """
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )
