"""A convolution or linear layer and the batch normalisation after it as one layer, for evaluation."""

from __future__ import annotations

import copy

from ...operators import public as ops
from ...tape.tensor import Tensor
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _folded(weight, bias, mean, var, eps: float, gamma, beta, shape: tuple):
    """Weight and bias with ``gamma * (y - mean) / sqrt(var + eps) + beta`` of the output folded in."""
    bias = ops.zeros_like(mean) if bias is None else bias
    gamma = ops.ones_like(mean) if gamma is None else gamma
    beta = ops.zeros_like(mean) if beta is None else beta
    scale = gamma * (var + eps).rsqrt()
    folded = weight * scale.reshape(shape).to(weight.dtype), (bias - mean) * scale + beta
    return (
        Parameter(folded[0].detach(), weight.requires_grad),
        Parameter(folded[1].detach().to(bias.dtype), bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that equals a convolution followed by batch normalisation.

    With s = bn_w / sqrt(bn_rv + bn_eps) they are conv_w * s, by output channel, and
    (conv_b - bn_rm) * s + bn_b.

    Args:
        conv_w: Tensor [O, I, *kernel], or [I, O, *kernel] with `transpose`.
        conv_b: Tensor [O]; None is 0.
        bn_rm: running mean [O].
        bn_rv: running variance [O].
        bn_eps: what is added to it.
        bn_w: Tensor [O]; None is 1.
        bn_b: Tensor [O]; None is 0.
        transpose: whether the convolution is a transposed one.

    Returns:
        Two Parameters, in the shapes of conv_w and conv_b.

    Example:
        >>> one = gradlib.ones(1)
        >>> w, b = nn.utils.fuse_conv_bn_weights(gradlib.ones(1, 1, 2), None, one, one * 4, 0.0, one, one)
        >>> w.tolist(), b.tolist()
        ([[[0.5, 0.5]]], [0.5])
    """
    shape = (1, -1) if transpose else (-1, 1)
    shape += (1,) * (conv_w.dim() - 2)
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the linear layer that equals one followed by batch normalisation.

    Arguments and formula as in `fuse_conv_bn_weights`.

    Args:
        linear_w: Tensor [O, I].
        linear_b: Tensor [O]; None is 0.
        bn_rm: running mean [O] or [1], as all that follow.
        bn_rv: running variance.
        bn_eps: what is added to it.
        bn_w: None is 1.
        bn_b: None is 0.

    Example:
        >>> one = gradlib.ones(1)
        >>> w, b = nn.utils.fuse_linear_bn_weights(gradlib.ones(1, 2), None, one, one * 4, 0.0, one, one)
        >>> w.tolist(), b.tolist()
        ([[0.5, 0.5]], [0.5])
    """
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _evaluating(layer: Module, bn: Module) -> Module:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError("the batch normalisation has no running statistics to fold in")
    return copy.deepcopy(layer)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of `conv` with the batch normalisation `bn` folded in. Both must be in evaluation mode.

    Args:
        conv: a convolution.
        bn: what follows it.
        transpose: whether `conv` is a transposed one.

    Raises:
        AssertionError: one of the two is in training mode.
        ValueError: `bn` has no running statistics.

    Example:
        >>> conv, bn = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval()
        >>> x = gradlib.randn(2, 3, 5, 5)
        >>> gradlib.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5)
        True
    """
    fused = _evaluating(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A copy of `linear` with the batch normalisation `bn` folded in. Both must be in evaluation mode.

    Raises:
        AssertionError: one of the two is in training mode, or `bn` has neither one feature nor those of `linear`.
        ValueError: `bn` has no running statistics.

    Example:
        >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
        >>> x = gradlib.randn(2, 3)
        >>> gradlib.allclose(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-5)
        True
    """
    fused = _evaluating(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
