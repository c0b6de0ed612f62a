"""A convolution or linear layer and the batch normalisation after it as one layer, for evaluation."""

from __future__ import annotations

import copy

from gradlib.nn.modules.module import Module
from gradlib.nn.parameter import Parameter
from gradlib.operators import public as ops
from gradlib.tape.tensor import Tensor

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

    conv_w: Tensor (O, I, *kernel), or (I, O, *kernel) with `transpose`. The others have O elements.
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
    """Weight (O, I) and bias (O,) of the linear layer that equals one followed by batch normalisation."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _evaluating(layer: Module, bn: Module) -> Module:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError("the batch normalisation has no running statistics to fold in")
    return copy.deepcopy(layer)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of `conv` with the batch normalisation `bn` folded in. Both must be in evaluation mode.

    Raises:
        AssertionError: one of the two is in training mode.
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
