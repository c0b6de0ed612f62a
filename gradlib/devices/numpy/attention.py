"""scaled_dot_product_attention over tiles of queries, forward and backward, without a matrix of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.nn.attention import attention_by, spread_mask
from ...tape.layout import empty_ordered, order_of
from . import forward, vjp
from .sums import ones

TILE = 1 << 17  # scores of a tile at most
WHOLE = 1 << 13  # scores of one batch entry up to which several entries are computed together

_masks: dict = {}


def _tiles(length: int, keys: int):
    """(start, stop) of tiles of queries."""
    step = max(16, min(length, TILE // max(keys, 1)))
    if length >= 256:
        step = min(step, 128)
    return [(i, min(i + step, length)) for i in range(0, length, step)]


def _limit(j: int, keys: int, is_causal: bool) -> int:
    """How many keys queries up to `j` may look at."""
    return min(j, keys) if is_causal else keys


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


def _in_tiles(xp, query, key, value, mask, is_causal: bool, scale: float) -> tuple:
    """The result, and the logarithms of the sums of rows."""
    lead, (length, keys), d = query.shape[:-2], (query.shape[-2], key.shape[-2]), query.dtype
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


@forward("scaled_dot_product_attention_op")
def attention(
    xp: Any, query: Any, key: Any, value: Any, attn_mask=None, *, is_causal: bool, scale: float
):
    return attention_by(_in_tiles, xp, query, key, value, attn_mask, is_causal, scale)


@vjp("scaled_dot_product_attention_op")
def attention_vjp(F, g, query, key, value, attn_mask, result, logsumexp, is_causal, scale, needs):
    xp, d = F.backend, query.dtype
    dout, q, k, v, out = (xp.wide(a) for a in (g, query, key, value, result))
    mask = spread_mask(xp, attn_mask, (*query.shape[:-1], key.shape[-2]), q.dtype)
    found = _attention_grad(
        _rows(dout), _rows(q), _rows(k), _rows(v), mask, out, logsumexp, is_causal, scale, needs
    )
    dq, dk, dv, dm = (None if a is None else a.astype(d, copy=False) for a in found)
    return dq, dk, dv, None if dm is None else F.sum_to_size(dm, attn_mask.shape)
