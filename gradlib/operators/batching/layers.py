"""Batching rules of convolution, pooling, losses and embedding; see batching_rules."""

from __future__ import annotations

import math

from ...op.vmap import one_by_one
from ...tape.tensor import Tensor
from .rules import alike, call

# -- convolution, pooling ----------------------------------------------------------------------------------------------


def _folded(x: Tensor) -> Tensor:
    """(B, N, ...) as (B * N, ...)."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def _unfolded(level, x: Tensor) -> Tensor:
    return x.reshape(level.size, x.shape[0] // level.size, *x.shape[1:])


def _side_by_side(x: Tensor) -> Tensor:
    """(B, N, C, ...) as (N, B * C, ...): each entry a group of channels."""
    return x.transpose(0, 1).reshape(x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:])


def _apart(level, x: Tensor) -> Tensor:
    """(N, B * C, ...) as (B, N, C, ...)."""
    shape = (x.shape[0], level.size, x.shape[1] // level.size, *x.shape[2:])
    return x.reshape(shape).transpose(0, 1)


def convolution(level, op, args, attrs):
    """One weight: the entries are more images. A weight for each entry: a group of channels for each."""
    x, weight, *bias = args
    bias = [b for b in bias if b is not None]
    x_physical = level.full(x)
    if not level.part(weight)[1]:
        batched_bias = bool(bias) and level.part(bias[0])[1]
        plain = (
            []
            if "bias" not in op.tensors
            else [None if batched_bias or not bias else level.part(bias[0])[0]]
        )
        out = _unfolded(level, op.call(_folded(x_physical), level.part(weight)[0], *plain, *attrs))
        if batched_bias:
            out = out + level.part(bias[0])[0].reshape(level.size, 1, -1, *(1,) * (out.ndim - 3))
        return out
    flat_weight = _folded(level.full(weight))
    flat_bias = (
        [] if "bias" not in op.tensors else [level.full(bias[0]).reshape(-1) if bias else None]
    )
    grouped = (*attrs[:-1], attrs[-1] * level.size)
    return _apart(level, op.call(_side_by_side(x_physical), flat_weight, *flat_bias, *grouped))


def conv_grad_weight(level, op, args, attrs):
    x, g = (_side_by_side(level.full(a)) for a in args)
    out = op.call(x, g, *attrs[:-1], attrs[-1] * level.size)
    return _unfolded(level, out)


def planes(level, op, args, attrs):
    """Ops on each channel of images (N, C, ...): the entries are more images."""
    out = op.call(_folded(level.full(args[0])), *attrs)
    return (
        tuple(_unfolded(level, o) for o in out) if isinstance(out, tuple) else _unfolded(level, out)
    )


def images(level, op, args, attrs):
    """Ops on images (N, C, H, W) or columns (N, C, L), of which one may come without N."""
    if args[0].ndim == (2 if "output_size" in op.attrs else 3):
        return op.call(level.full(args[0]), *attrs)
    return _unfolded(level, op.call(_folded(level.full(args[0])), *attrs))


# -- ops taken apart ---------------------------------------------------------------------------------------------------


def cross_entropy(x, target, weight, reduction, ignore_index):
    scores = call("log_softmax", x, 0 if x.ndim == 1 else 1)
    return call("nll_loss_op", scores, target, weight, reduction, ignore_index)


def max_pool(x, *attrs):
    return call("max_pool_with_indices", x, *attrs)[0]


# -- losses ------------------------------------------------------------------------------------------------------------

_NONE, _MEAN = 0, 1


def losses(level, op, args, attrs):
    reduction, *rest = attrs
    each = op.call(*alike(level, args), _NONE, *rest)
    if reduction == _NONE:
        return each
    dims = tuple(range(1, each.ndim))
    if not dims:
        return each
    return call("mean" if reduction == _MEAN else "sum", each, dims, False)


def class_losses(level, op, args, attrs):
    x, target, weight = args
    reduction, ignore_index = attrs
    if (
        weight is not None
        or target.dtype.is_floating_point
        or x.ndim > 2
        or x.ndim != target.ndim + 1
    ):
        return one_by_one(level, op, args, attrs)
    scores, classes = level.full(x), level.full(target)
    flat = scores.reshape(-1, scores.shape[-1]), classes.reshape(-1)
    each = op.call(*flat, None, _NONE, ignore_index).reshape(classes.shape)
    if reduction == _NONE or x.ndim == 1:
        return each
    total = each.sum(1)
    if reduction != _MEAN:
        return total
    return total / (classes != ignore_index).sum(1).to(total.dtype)


def nll_loss_grad(level, op, args, attrs):
    g, target, weight = args
    shape, reduction, ignore_index = attrs
    if weight is not None or len(shape) > 2 or len(shape) != target.ndim + 1:
        return one_by_one(level, op, args, attrs)
    classes, g = level.full(target), level.full(g)
    if reduction == _MEAN and len(shape) == 2:
        g = g / (classes != ignore_index).sum(1).to(g.dtype)
    while g.ndim < classes.ndim:
        g = g.unsqueeze(-1)
    flat = g.expand(classes.shape).reshape(-1), classes.reshape(-1)
    out = op.call(*flat, None, (math.prod(classes.shape), shape[-1]), _NONE, ignore_index)
    return out.reshape(level.size, *shape)


def attention(level, op, args, attrs):
    """The batch is one more leading dimension."""
    query, mask = args[0], args[3]
    if mask is not None:
        (mask, batched), rank = level.part(mask), mask.ndim
        for _ in range(query.ndim - rank if batched else 0):
            mask = mask.unsqueeze(1)
    return op.call(*(level.full(a) for a in args[:3]), mask, *attrs)


def embedding(level, op, args, attrs):
    weight, batched = level.part(args[0])
    if batched:
        return one_by_one(level, op, args, attrs)
    return op.call(weight, level.full(args[1]), *attrs)
