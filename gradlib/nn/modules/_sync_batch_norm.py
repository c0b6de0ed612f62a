"""Batch normalisation by the statistics of all ranks: what `SyncBatchNorm` runs where there are several."""

from __future__ import annotations

import sys
from typing import Any

from ...autograd.function import Function, once_differentiable
from ...operators import public as ops
from ...tape.tensor import Tensor

__all__ = ["SyncBatchNormFunction", "group_of"]


def group_of(process_group: Any) -> Any:
    """The group to take statistics over, if it has several ranks; else None.

    A program that never imported ``gradlib.distributed`` has one rank.
    """
    distributed: Any = sys.modules.get("gradlib.distributed")
    if distributed is None or not distributed.is_initialized():
        return None
    group = distributed.group.WORLD if process_group is None else process_group
    return group if group.size() > 1 else None


def _collectives() -> Any:
    return sys.modules["gradlib.distributed"]


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    """[C] -> [1, C, 1...], to stand beside `like` [N, C, *L]."""
    return values.view(1, -1, *[1] * (like.dim() - 2))


class SyncBatchNormFunction(Function):
    """(x - mean) / sqrt(var + eps) * weight + bias, mean and variance of each channel over all ranks.

    Means and squared deviations of the ranks are put together pairwise exactly: T. F. Chan, G. H. Golub, R. J. LeVeque,
    Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        eps: float,
        momentum: float,
        group: Any,
    ) -> Tensor:
        """input: [N, C, *L], with another N on each rank if need be -> the same shape."""
        dims = [0, *range(2, input.dim())]
        x = input.float() if input.element_size() < 4 else input
        channels = x.shape[1]
        count = x.numel() // max(channels, 1)
        mean = x.mean(dims) if count else x.new_zeros(channels)
        squares = (x - _per_channel(mean, x)).square().sum(dims)
        mine = ops.cat([mean, squares, ops.full_like(mean[:1], float(count))])
        ranks = ops.empty(group.size() * mine.numel(), dtype=x.dtype, device=x.device)
        _collectives().all_gather_into_tensor(ranks, mine, group=group)
        means, squares, counts = ranks.view(group.size(), -1).split([channels, channels, 1], dim=1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        squares = (squares + counts * (means - mean).square()).sum(0)
        invstd = (squares / total + eps).rsqrt()
        if running_mean is not None and running_var is not None:
            for running, new in ((running_mean, mean), (running_var, squares / (total - 1))):
                running.mul_(1 - momentum).add_(new.to(running.dtype), alpha=momentum)
        normal = (x - _per_channel(mean, x)) * _per_channel(invstd, x)
        if weight is not None:
            normal = normal * _per_channel(weight.to(x.dtype), x)
        if bias is not None:
            normal = normal + _per_channel(bias.to(x.dtype), x)
        ctx.save_for_backward(input, weight, mean, invstd, total)
        ctx.group, ctx.with_bias = group, bias is not None
        return normal.to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The gradients of input, weight and bias; those of weight and bias are this rank's part."""
        input, weight, mean, invstd, total = ctx.saved_tensors
        dims = [0, *range(2, input.dim())]
        g = grad.to(mean.dtype)
        normal = (input.to(mean.dtype) - _per_channel(mean, g)) * _per_channel(invstd, g)
        sum_g, sum_gn = g.sum(dims), (g * normal).sum(dims)
        grad_weight = sum_gn.to(weight.dtype) if weight is not None else None
        grad_bias = sum_g.to(grad_weight.dtype if grad_weight is not None else grad.dtype)
        grad_input = None
        if ctx.needs_input_grad[0]:
            sums = ops.cat([sum_g, sum_gn])
            _collectives().all_reduce(sums, group=ctx.group)
            mean_g, mean_gn = (sums / total).chunk(2)
            scale = invstd if weight is None else invstd * weight.to(invstd.dtype)
            centred = g - _per_channel(mean_g, g) - normal * _per_channel(mean_gn, g)
            grad_input = (centred * _per_channel(scale, g)).to(input.dtype)
        return grad_input, grad_weight, grad_bias if ctx.with_bias else None, *[None] * 5
