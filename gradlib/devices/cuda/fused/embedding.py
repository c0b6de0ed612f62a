"""Looking up rows and the gradient of that, atomic or repeatable (`kernels/embedding.cu`)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ....tape.switches import switches
from ..kernels import (
    F4,
    FLOATS,
    HALVES,
    MOST_BLOCKS,
    SINGLES,
    blocks_for,
    dense,
    family,
    packs_for,
    words,
)
from . import forward, vjp

INDICES = (np.dtype(np.int32), np.dtype(np.int64))
MOST_COLUMNS = 65535  # blocks of the second dimension of a grid
WORDS = ("unsigned char", "unsigned short", "unsigned", "uint64", "uint4")
MODULE = family(
    "embedding",
    take_rows=product(WORDS, INDICES),
    add_rows=product(SINGLES, INDICES),
    add_sorted_rows=product(FLOATS, INDICES, (False, True)),
    claim_rows=product(INDICES),
    join_rows=product(HALVES, INDICES, (False, True)),
    own_rows=product(HALVES),
)
MOST = (1 << 31) - 2  # entries that have a number of 32 bits


@forward("embedding_op")
def embedding(xp, weight, indices, *, padding_idx, scale_grad_by_freq):
    if indices.dtype not in INDICES:
        return NotImplemented
    width = math.prod(weight.shape[1:])
    out = xp.empty(indices.shape + weight.shape[1:], weight.dtype)
    if out.size:
        sizes = (np.int64(indices.size), np.int64(width), np.int64(weight.shape[0]))
        given = (dense(xp, weight), dense(xp, indices), out, *sizes)
        kernel = ("take_rows", words(weight.dtype), indices.dtype)
        MODULE.launch(xp, kernel, blocks_for(-(-out.nbytes // 16)), 256, *given)
    return out


def sum_rows(
    xp: Any, grad: Any, indices: Any, rows: int, padding: int = -1, by_count: bool = False, in_order: bool = False
) -> Any:  # fmt: skip
    """Zeros (rows, ...) with each of `grad` added at the row that `indices` names; NotImplemented for other dtypes.

    padding: a row that gets nothing. by_count: divide by how often a row occurs. in_order: the same bits in every run.
    """
    if grad.dtype not in FLOATS or indices.dtype not in INDICES:
        return NotImplemented
    if indices.size > MOST_BLOCKS:  # a block for each
        raise RuntimeError(
            f"the gradient of an embedding takes at most {MOST_BLOCKS} indices, got {indices.size}: split them"
        )
    shape = grad.shape[indices.ndim :]
    width = math.prod(shape)
    if blocks_for(width) > MOST_COLUMNS:
        return NotImplemented
    if not grad.size:
        return xp.zeros((rows, *shape), grad.dtype)
    g, flat = dense(xp, grad), dense(xp, indices).reshape(-1)
    repeatable = in_order or switches.deterministic or by_count or flat.size > MOST
    if grad.dtype in HALVES and not repeatable:
        return _sum_halves(xp, g, flat, (rows, *shape), padding)
    out = xp.zeros((rows, *shape), grad.dtype)
    sizes = tuple(np.int64(n) for n in (flat.size, width, rows, padding))
    if repeatable:
        order = xp.argsort(flat, kind="stable")
        kernel = ("add_sorted_rows", grad.dtype, indices.dtype, by_count)
        how = (flat.size, blocks_for(width)), min(256, -(-width // 32) * 32)
        MODULE.launch(xp, kernel, *how, g, flat[order], order, out, *sizes)
    else:
        kernel = ("add_rows", grad.dtype, indices.dtype)
        MODULE.launch(xp, kernel, blocks_for(grad.size), 256, g, flat, out, *sizes)
    return out


def _sum_halves(xp: Any, g: Any, index: Any, shape: tuple, padding: int) -> Any:
    """The same for a half type, added up in float32; an entry that is alone in its row is only copied."""
    count, rows, width = index.size, shape[0], g.size // index.size
    owners, several = xp.zeros(rows, np.int32), xp.empty(count, np.int32)
    sums, out = xp.empty((count, width), F4), xp.empty(shape, g.dtype)
    kind, sizes = index.dtype, (np.int64(count), np.int64(width), np.int64(padding))
    given = (index, owners, several, np.int64(count), np.int64(rows), np.int64(padding))
    MODULE.launch(xp, ("claim_rows", kind), blocks_for(count), 256, *given)
    for add in (False, True):
        given = (g, index, owners, several, sums, *sizes)
        MODULE.launch(xp, ("join_rows", g.dtype, kind, add), blocks_for(g.size), 256, *given)
    given = (g, owners, several, sums, out, np.int64(width), np.int64(rows))
    MODULE.launch(xp, ("own_rows", g.dtype), packs_for(out.size, out.dtype), 256, *given)
    return out


@forward("embedding_grad")
def embedding_grad(xp, grad, indices, *, rows):
    return sum_rows(xp, grad, indices, rows)


@vjp("embedding_op")
def embedding_vjp(F, g, indices, weight_shape, padding_idx, scale_grad_by_freq):
    how = (weight_shape[0], padding_idx, bool(scale_grad_by_freq))
    grad = sum_rows(F.backend, g, indices, *how)
    return grad if grad is NotImplemented else (grad, None)
