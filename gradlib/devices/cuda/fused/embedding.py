"""Looking up rows and the gradient of that, atomic or repeatable (`kernels/embedding.cu`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....tape.switches import switches
from ..kernels import (
    FLOATS,
    HALVES,
    SINGLES,
    blocks_for,
    dense,
    family,
    instance,
    instances,
    launcher_of,
    words,
)
from . import forward, vjp

INDICES = (np.dtype(np.int32), np.dtype(np.int64))
WORDS = ("unsigned char", "unsigned short", "unsigned", "uint64", "uint4")
MODULE = family(
    "embedding",
    instances("take_rows", WORDS, INDICES),
    instances("add_rows", SINGLES, INDICES),
    instances("add_sorted_rows", FLOATS, INDICES, (False, True)),
)


@forward("embedding_op")
def embedding(xp, weight, indices, *, padding_idx, scale_grad_by_freq):
    if indices.dtype not in INDICES:
        return NotImplemented
    width = math.prod(weight.shape[1:])
    out = xp.empty(indices.shape + weight.shape[1:], weight.dtype)
    if out.size:
        sizes = (np.int64(indices.size), np.int64(width), np.int64(weight.shape[0]))
        given = (dense(xp, weight), dense(xp, indices), out, *sizes)
        kernel = instance("take_rows", words(weight.dtype), indices.dtype)
        launcher_of(xp).launch(MODULE, kernel, blocks_for(-(-out.nbytes // 16)), 256, given)
    return out


def sum_rows(
    xp: Any, grad: Any, indices: Any, rows: int, padding: int = -1, by_count: bool = False, in_order: bool = False
) -> Any:  # fmt: skip
    """Zeros (rows, ...) with each of `grad` added at the row that `indices` names; NotImplemented for other dtypes.

    padding: a row that gets nothing. by_count: divide by how often a row occurs. in_order: the same bits in every run.
    """
    if grad.dtype not in FLOATS or indices.dtype not in INDICES:
        return NotImplemented
    shape = grad.shape[indices.ndim :]
    width = math.prod(shape)
    out = xp.zeros((rows, *shape), grad.dtype)
    if not grad.size:
        return out
    g, flat = dense(xp, grad), dense(xp, indices).reshape(-1)
    sizes = tuple(np.int64(n) for n in (flat.size, width, rows, padding))
    launch = launcher_of(xp).launch
    if in_order or switches.deterministic or by_count or grad.dtype in HALVES:
        order = xp.argsort(flat, kind="stable")
        given = (g, flat[order], order, out, *sizes)
        kernel = instance("add_sorted_rows", grad.dtype, indices.dtype, by_count)
        launch(
            MODULE, kernel, (flat.size, blocks_for(width)), min(256, -(-width // 32) * 32), given
        )
    else:
        kernel = instance("add_rows", grad.dtype, indices.dtype)
        launch(MODULE, kernel, blocks_for(grad.size), 256, (g, flat, out, *sizes))
    return out


@forward("embedding_grad")
def embedding_grad(xp, grad, indices, *, rows):
    return sum_rows(xp, grad, indices, rows)


@vjp("embedding_op")
def embedding_vjp(F, g, indices, weight_shape, padding_idx, scale_grad_by_freq):
    how = (weight_shape[0], padding_idx, bool(scale_grad_by_freq))
    grad = sum_rows(F.backend, g, indices, *how)
    return grad if grad is NotImplemented else (grad, None)
