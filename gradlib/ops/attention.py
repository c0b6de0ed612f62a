"""scaled_dot_product_attention: one node that keeps no matrix of probabilities.

The forward kernel goes over tiles of queries and keeps the logarithm of each row's sum; the backward kernel computes
the probabilities of a tile again. With derivatives of derivatives the plain formulas are recorded instead.
"""

from __future__ import annotations

import math

import numpy as np

from ..core import errors
from ..core.op import declare
from ..core.tensor import Tensor
from ._blocks import kind_name, narrow
from .dropout import dropout
from .expose import function
from .softmax import _ones, softmax_op

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


def _parts(mask, shape, length: int, keys: int):
    """(index, mask) of what is computed in one go: a flat batch number, or a slice of them where matrices are small.

    mask: broadcast to (*shape, L, S), or None.
    """
    count, size = math.prod(shape), length * keys
    if count > 1 and 0 < size <= WHOLE:
        whole = None if mask is None else mask.reshape(count, length, keys)
        parts = [
            slice(b, b + max(1, TILE // 4 // size))
            for b in range(0, count, max(1, TILE // 4 // size))
        ]
        return [(part, None if whole is None else whole[part]) for part in parts]
    if mask is None:
        return [(b, None) for b in range(count)]
    return [(b, mask[np.unravel_index(b, shape)] if shape else mask) for b in range(count)]


def _times(a, b, out=None):
    """The matrix product of two matrices or of two stacks of them."""
    return a.dot(b, out) if a.ndim == 2 else np.matmul(a, b, out=out)


def _scores(q, k, mask, i, j, is_causal, scale):
    """Scores of a tile of queries, masked; only keys that a causal mask leaves."""
    keys = _limit(j, k.shape[-2], is_causal)
    s = _times(q[..., i:j, :], k[..., :keys, :].swapaxes(-1, -2))
    s *= scale
    if is_causal:
        start = min(i, keys)  # keys before the tile's first query are all allowed
        s[..., start:] += _forbidden(0, j - i, keys - start, s.dtype)
    if mask is not None:
        s += mask[..., i:j, :keys]
    return s, keys


def _split(a):
    """(*, L, E) as (batches, L, E): a view where strides allow it."""
    return a.reshape(math.prod(a.shape[:-2]), *a.shape[-2:])


def _spread_mask(xp, attn_mask, shape, dtype):
    """A mask as additive numbers, broadcast (not copied) to `shape`."""
    if attn_mask is None:
        return None
    if attn_mask.dtype.kind == "b":
        attn_mask = xp.where(attn_mask, dtype.type(0), dtype.type(-np.inf))
    return xp.broadcast_to(attn_mask.astype(dtype, copy=False), shape)


def _plain_attention(xp, q, k, v, mask, is_causal, scale):
    """In whole arrays: for array libraries other than NumPy."""
    s = xp.matmul(q, k.swapaxes(-1, -2)) * scale
    if is_causal:
        s = xp.where(xp.arange(s.shape[-1]) > xp.arange(s.shape[-2])[:, None], -xp.inf, s).astype(
            q.dtype
        )
    if mask is not None:
        s = s + mask
    top = s.max(axis=-1, keepdims=True)
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
        return _plain_attention(xp, query, key, value, mask, is_causal, scale)
    q, k, v = _split(query), _split(key), _split(value)
    out, lse = np.empty((len(q), length, v.shape[-1]), d), np.empty((len(q), length), d)
    tiles = _tiles(length, keys)
    for part, own in _parts(mask, lead, length, keys):
        for i, j in tiles:
            s, n = _scores(q[part], k[part], own, i, j, is_causal, scale)
            _tile_forward(s, v[part][..., :n, :], out[part][..., i:j, :], lse[part][..., i:j])
    return out.reshape(*lead, length, v.shape[-1]), lse.reshape(*lead, length)


def _tile_forward(s, v, out, lse) -> None:
    if not s.size:
        out[...], lse[...] = 0, -np.inf
        return
    top = np.maximum.reduce(s, axis=-1, keepdims=True)
    if not np.isfinite(np.minimum.reduce(top, axis=None)):
        top = np.where(np.isfinite(top) | np.isnan(top), top, 0)
    s -= top
    np.exp(s, out=s)
    total = s.dot(_ones(s.shape[-1], s.dtype))
    np.log(total, out=lse)
    lse += top[..., 0]
    if not np.minimum.reduce(total, axis=None) > 0:  # nothing allowed in some row: its result is 0
        total[total == 0] = 1
    _times(s, v, out)
    out /= total[..., None]


def _attention_grad(xp, g, q, k, v, mask, lse, lead, is_causal, scale, needs):
    """Gradients of query, key, value and of the mask's broadcast form, tile by tile."""
    length, keys = q.shape[1], k.shape[1]
    dq, dk, dv = (
        np.zeros(a.shape, a.dtype) if need else None
        for a, need in zip((q, k, v), needs[:3], strict=True)
    )
    dm = np.zeros((len(q), length, keys), q.dtype) if needs[3] else None
    for part, own in _parts(mask, lead, length, keys):
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
                dv[part][..., :n, :] += _times(p.swapaxes(-1, -2), gb)
            if dq is None and dk is None and dm is None:
                continue
            ds = _times(gb, v[part][..., :n, :].swapaxes(-1, -2))
            ds -= np.vecdot(ds, p)[..., None]
            ds *= p
            if dm is not None:
                dm[part][..., i:j, :n] = ds
            ds *= scale
            if dq is not None:
                _times(ds, k[part][..., :n, :], dq[part][..., i:j, :])
            if dk is not None:
                dk[part][..., :n, :] += _times(ds.swapaxes(-1, -2), q[part][..., i:j, :])
    return dq, dk, dv, dm


def _attention_vjp(F, g, query, key, value, attn_mask, logsumexp, is_causal, scale, needs, traced):
    if traced or F.backend.name != "numpy":
        return _attention_formula(F, g, query, key, value, attn_mask, is_causal, scale, needs)
    xp, d = F.backend, query.dtype
    wide = [xp.wide(a) for a in (g, query, key, value)]
    lead = query.shape[:-2]
    full = (*lead, query.shape[-2], key.shape[-2])
    mask = _spread_mask(xp, attn_mask, full, wide[0].dtype)
    lse = logsumexp.reshape(math.prod(lead), query.shape[-2])
    dout, q, k, v = map(_split, wide)
    found = _attention_grad(xp, dout, q, k, v, mask, lse, lead, is_causal, scale, needs)
    shapes = (query.shape, key.shape, value.shape, full)
    out = [
        None if a is None else a.reshape(s).astype(d, copy=False)
        for a, s in zip(found, shapes, strict=True)
    ]
    if out[3] is not None:
        out[3] = F.sum_to_size(out[3], attn_mask.shape)
    return tuple(out)


def _probabilities(F, query, key, attn_mask, is_causal, scale):
    scores = F.matmul(query, _swapped(F, key)) * scale
    if is_causal:
        n, m = query.shape[-2], key.shape[-2]
        later = _backend_of(query).arange(m) > _backend_of(query).arange(n)[:, None]
        scores = F.where(later, -math.inf, scores)
    if attn_mask is not None:
        if _is_bool(attn_mask):
            scores = F.where(attn_mask, scores, -math.inf)
        else:
            scores = scores + attn_mask
    return _safe_softmax(F, scores)


def _safe_softmax(F, scores):
    """softmax over the last dimension; rows where nothing is allowed give 0."""
    p = F.softmax(scores, scores.ndim - 1)
    none = F.isneginf(F.amax(scores, (scores.ndim - 1,), True))
    return F.where(_expanded(F, none, p.shape), 0.0, p)


def _expanded(F, x, shape):
    return F.expand(x, tuple(shape))


def _swapped(F, x):
    return F.transpose(x, x.ndim - 2, x.ndim - 1)


def _backend_of(x):
    from ..backends import backend_of

    return backend_of(getattr(x, "_array", x))


def _is_bool(mask) -> bool:
    return getattr(mask, "_array", mask).dtype.kind == "b"


def _attention_formula(F, g, query, key, value, attn_mask, is_causal, scale, needs):
    p = _probabilities(F, query, key, attn_mask, is_causal, scale)
    dv = F.matmul(_swapped(F, p), g) if needs[2] else None
    dp = F.matmul(g, _swapped(F, value))
    ds = F.softmax_grad(dp, p, p.ndim - 1)
    dq = F.matmul(ds, key) * scale if needs[0] else None
    dk = F.matmul(_swapped(F, ds), query) * scale if needs[1] else None
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


attention_op = declare(
    "scaled_dot_product_attention_op", _attention, promote="free", vjp=_attention_vjp,
    node="ScaledDotProductFlashAttentionForCpuBackward0", samples=_samples,
    # only the kernels use it; recorded formulas start from the scores again
    hidden={"logsumexp": lambda F, query: F.sum(query, (query.ndim - 1,), False)},
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
        return _with_dropout(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return attention_op.call(query, key, value, attn_mask, is_causal, scale)


def _with_dropout(query: Tensor, key, value, attn_mask, dropout_p, is_causal, scale):
    scores = (query * scale) @ key.transpose(-2, -1)
    xp = _backend_of(query)
    if is_causal:
        n, m = scores.shape[-2:]
        attn_mask = Tensor._make(xp.arange(m) <= xp.arange(n)[:, None])
    if attn_mask is not None:
        if attn_mask._array.dtype.kind == "b":
            scores = scores.masked_fill(~attn_mask, -math.inf)
        else:
            scores = scores + attn_mask
    p = softmax_op.call(scores, scores.dim() - 1)
    return dropout(p, dropout_p, True) @ value


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
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )
