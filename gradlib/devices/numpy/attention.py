"""scaled_dot_product_attention over tiles of queries, forward and backward, without a matrix of probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...op.plain_numbers import number_array
from ...operators.kinds import narrow
from ...operators.nn.attention import attention_by, spread_mask
from ...tape.layout import empty_ordered, order_of
from . import forward, parallel, vjp
from .namespace import backend
from .sums import MAX, largest, ones, smallest

ROWS = 64  # queries of a tile: matrices of this size BLAS multiplies as they lie, without packing
TILE = 1 << 17  # scores of one batch entry in a tile at most
STACK = 1 << 16  # scores up to which batch entries are computed together
SMALL = 1 << 12  # scores below which one step less counts for more than a quicker step
FEW = 1 << 14  # scores that are sooner asked for their extrema than rows for their lengths
SURE = 40.0  # scores up to here need no shift: exp and its sums stay within float32

_masks: dict = {}
_quicker: Callable | None = None


def rows_by(function: Callable) -> None:
    """`function(scores, lse)` is asked first for the softmax of rows, in place; False where they are not for it."""
    global _quicker
    _quicker = function


def _tiles(length: int, keys: int):
    """(start, stop) of tiles of queries."""
    step = min(ROWS, max(16, TILE // max(keys, 1)))
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
    room, axis, inside = STACK // max(size, 1), len(lead), 1
    if room < 2:
        return list(np.ndindex(*lead))
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


def _beside(a, column, factor=None):
    """`a` with one column more (a number, or one for each row), times `factor` but for that column."""
    out = np.empty((*a.shape[:-1], a.shape[-1] + 1), a.dtype)
    if factor is None:
        out[..., :-1] = a
    else:
        np.multiply(a, factor, out[..., :-1])
    out[..., -1] = column
    return out


def _columns(a, ones: int = 0):
    """A copy of `a` with its last two dimensions swapped (the quickest to multiply rows with), over rows of ones."""
    *lead, rows, width = a.shape
    out = np.empty((*lead, width + ones, rows), a.dtype)
    # swapping what is contiguous is the quicker by more than the copy costs
    out[..., :width, :] = np.ascontiguousarray(a).swapaxes(-1, -2)
    if ones:
        out[..., width:, :] = 1
    return out


def _mask_tile(s, mask, i: int, j: int, is_causal: bool) -> None:
    """What is forbidden, and the mask, added to the scores of queries i..j."""
    keys = s.shape[-1]
    if is_causal:
        start = min(i, keys)  # keys before the tile's first query are all allowed
        if start < keys:
            s[..., start:] += _forbidden(0, j - i, keys - start, s.dtype)
    if mask is not None:
        s += mask[..., i:j, :keys]


def _modest(q, k) -> bool:
    """Whether no product of a row of `q` with one of `k` can be larger than `SURE` (|q k| <= |q| |k|)."""
    return bool(np.vecdot(q, q).max() * np.vecdot(k, k).max() < SURE * SURE)


def _in_tiles(xp, query, key, value, mask, is_causal: bool, scale: float) -> tuple:
    """The result, and the logarithms of the sums of rows."""
    lead, (length, keys), d = query.shape[:-2], (query.shape[-2], key.shape[-2]), query.dtype
    q = _rows(query)
    out, lse = _like(q, (*lead, length, value.shape[-1])), np.empty((*lead, length), d)
    if not lse.size:
        return out, lse
    if not keys:
        out[...], lse[...] = 0, -np.inf
        return out, lse
    if lse.size * keys <= FEW:
        small = lse.size * keys < SMALL
        s = _few_scores(q, key, number_array(scale, d), small)
        _mask_tile(s, mask, 0, length, is_causal)
        exp = _exp_rows if small or is_causal or mask is not None else _exp_few
        _mix(s, value, out, lse, mask is not None, exp)
        return out, lse
    q, k, v = q * scale, _rows(key), _rows(value)
    exp = _exp if mask is None and _quicker is None and _modest(q, k) else _exp_rows
    columns, tiles = _columns(k), _tiles(length, keys)

    def attend(*part: Any) -> None:
        pq, pk, pv, po, pl = q[part], columns[part], v[part], out[part], lse[part]
        own = None if mask is None else mask[part]
        for i, j in tiles:
            n = _limit(j, keys, is_causal)
            s = np.matmul(pq[..., i:j, :], pk[..., :n])
            _mask_tile(s, own, i, j, is_causal)
            _mix(s, pv[..., :n, :], po[..., i:j, :], pl[..., i:j], own is not None, exp)

    parallel.each(_parts(lead, tiles[0][1] * keys), lse.size * keys, attend)
    return out, lse


def _few_scores(q, k, factor, small: bool):
    """The scores of all queries."""
    turned = k.swapaxes(-1, -2)
    if small:
        return np.matmul(q * factor, turned)
    columns = np.empty(turned.shape, q.dtype)  # the quickest to multiply rows with
    return np.matmul(q, np.multiply(turned, factor, columns))


def _mix(s, v, out, lse, masked: bool, exp) -> None:
    """The means of the rows of `v` by scores, which are lost, and the logarithms of their sums."""
    if _quicker is not None and _quicker(s, lse):
        np.matmul(s, v, out)
        return
    total = exp(s, lse, masked)
    np.matmul(s, v, out)
    out /= total[..., None]


def _exp(s, lse, masked: bool):
    """exp(s) in place, of modest scores; returns the sums of rows, and their logarithms in `lse`."""
    backend.exp(s, s)
    total = s.reshape(-1, s.shape[-1]).dot(ones(s.shape[-1], s.dtype)).reshape(lse.shape)
    backend.log(total, lse)
    return total


def _exp_few(s, lse, masked: bool):
    """The same of scores that are asked whether they are modest."""
    modest = largest(s) < SURE and smallest(s) > -SURE
    return (_exp if modest else _exp_rows)(s, lse, masked)


def _exp_rows(s, lse, masked: bool):
    """The same shifted row by row; `masked`: in some row nothing may be allowed."""
    top = MAX(s, -1, None, None, True)
    if not math.isfinite(smallest(top)):
        top = np.where(np.isfinite(top) | np.isnan(top), top, 0)
    s -= top
    total = _exp(s, lse, masked)
    lse += top[..., 0]
    if masked and not smallest(total) > 0:  # nothing allowed: the result is 0
        total[total == 0] = 1
    return total


def _attention_grad(g, q, k, v, mask, out, lse, is_causal, scale, needs):
    """Gradients of query, key, value and of the mask's broadcast form, tile by tile.

    What is subtracted from each row of the scores, and of the gradients of the probabilities, is one more term of the
    products that make them.
    """
    lead, length, keys = q.shape[:-2], q.shape[-2], k.shape[-2]
    dq, dk, dv = (_like(a, a.shape) if need else None for a, need in zip((q, k, v), needs))
    dm = np.zeros((*lead, length, keys), q.dtype) if needs[3] else None
    if not lse.size or not keys:
        for empty in (dq, dk, dv):
            if empty is not None:
                empty.fill(0)
        return dq, dk, dv, dm
    if (
        lse.size * keys < SMALL
        and dm is None
        and dq is not None
        and dk is not None
        and dv is not None
    ):
        return *_grad_of_few(g, q, k, v, mask, out, lse, is_causal, scale, (dq, dk, dv)), None
    if mask is not None:  # nothing allowed: all probabilities are 0
        lse = np.where(lse == -np.inf, np.inf, lse)
    qs, k1 = _beside(q, -lse, scale), _columns(k, 1)
    slopes = needs[0] or needs[1] or needs[3]
    if slopes:
        g1, v1 = _beside(g, -np.vecdot(g, out)), _columns(v, 1)
    tiles = _tiles(length, keys)[::-1]  # the first one then writes, for all keys

    def of_part(*part: Any) -> None:
        own = None if mask is None else mask[part]
        for i, j in tiles:
            n = _limit(j, keys, is_causal)
            first = j == length
            p = np.matmul(qs[part][..., i:j, :], k1[part][..., :n])
            _mask_tile(p, own, i, j, is_causal)
            backend.exp(p, p)
            if dv is not None:
                _accumulate(dv[part], p, g[part][..., i:j, :], first)
            if not slopes:
                continue
            ds = np.matmul(g1[part][..., i:j, :], v1[part][..., :n])
            ds *= p
            if dm is not None:
                dm[part][..., i:j, :n] = ds
            if dq is not None:
                np.matmul(ds, k[part][..., :n, :], dq[part][..., i:j, :])
            if dk is not None:
                _accumulate(dk[part], ds, qs[part][..., i:j, :-1], first)

    parallel.each(_parts(lead, tiles[-1][1] * keys), lse.size * keys, of_part)
    if dq is not None:
        dq *= scale
    return dq, dk, dv, dm


def _grad_of_few(g, q, k, v, mask, out, lse, is_causal, scale, results):
    """`_attention_grad` of one tile, in as few calls as can be."""
    dq, dk, dv = results
    factor = number_array(scale, q.dtype)
    qs = q * factor
    p = np.matmul(qs, k.swapaxes(-1, -2))
    _mask_tile(p, mask, 0, q.shape[-2], is_causal)
    if mask is not None:
        lse = np.where(lse == -np.inf, np.inf, lse)
    p -= lse[..., None]
    np.exp(p, p)
    np.matmul(p.swapaxes(-1, -2), g, dv)
    ds = np.matmul(g, v.swapaxes(-1, -2))
    ds -= np.vecdot(g, out)[..., None]
    ds *= p
    np.matmul(ds, k, dq)
    dq *= factor
    np.matmul(ds.swapaxes(-1, -2), qs, dk)
    return dq, dk, dv


def _accumulate(out, p, rows, first: bool) -> None:
    """The first rows of `out` (+)= p^T rows; the others are 0."""
    n = p.shape[-1]
    if not first:
        out[..., :n, :] += np.matmul(p.swapaxes(-1, -2), rows)
        return
    np.matmul(p.swapaxes(-1, -2), rows, out[..., :n, :])
    if n < out.shape[-2]:
        out[..., n:, :] = 0


forward("scaled_dot_product_attention_op")(attention_by(_in_tiles))


@vjp("scaled_dot_product_attention_op")
def attention_vjp(F, g, query, key, value, attn_mask, result, logsumexp, is_causal, scale, needs):
    xp, d = F.backend, query.dtype
    dout, q, k, v, out = (xp.wide(a) for a in (g, query, key, value, result))
    mask = spread_mask(xp, attn_mask, (*query.shape[:-1], key.shape[-2]), q.dtype)
    found = _attention_grad(
        _rows(dout), _rows(q), _rows(k), _rows(v), mask, out, logsumexp, is_causal, scale, needs
    )
    dq, dk, dv, dm = (None if a is None else narrow(a, d) for a in found)
    return dq, dk, dv, None if dm is None else F.sum_to_size(dm, attn_mask.shape)
