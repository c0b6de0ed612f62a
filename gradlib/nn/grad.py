"""The gradients of convolutions with respect to input and weight, as functions."""

from __future__ import annotations

from typing import Any

from ..operators.nn.conv import conv_grad_input_op, conv_grad_weight_op, ntuple
from ..tape.tensor import Tensor

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _how(n: int, stride: Any, padding: Any, dilation: Any) -> tuple:
    return ntuple(stride, n), ntuple(padding, n, "padding"), ntuple(dilation, n, "dilation")


def _input(n: int, input_size, weight, grad_output, stride, padding, dilation, groups: int):
    space = tuple(int(s) for s in input_size[2:])
    return conv_grad_input_op.call(
        grad_output, weight, space, *_how(n, stride, padding, dilation), groups
    )


def _weight(n: int, input, weight_size, grad_output, stride, padding, dilation, groups: int):
    kernel = tuple(int(s) for s in weight_size[2:])
    return conv_grad_weight_op.call(
        input, grad_output, kernel, *_how(n, stride, padding, dilation), groups
    )


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv1d`` with respect to its input; itself differentiable.

    Args:
        input_size: of the input: (N, C, L).
        weight: Tensor [O, C / groups, K].
        grad_output: Tensor [N, O, L']: the gradient of the result.
        stride: as in ``conv1d``, like all that follow.
        padding: zeros on both sides.
        dilation: step between the elements of a window.
        groups: blocks of channels that do not see each other.

    Returns:
        Tensor [N, C, L].

    Example:
        >>> x = gradlib.randn(1, 2, 5, requires_grad=True)
        >>> w = gradlib.randn(3, 2, 2)
        >>> out = F.conv1d(x, w)
        >>> (expected,) = gradlib.autograd.grad(out.sum(), x)
        >>> gradlib.allclose(conv1d_input(x.shape, w, gradlib.ones_like(out)), expected)
        True
    """
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv1d`` with respect to its weight; itself differentiable.

    Args:
        input: Tensor [N, C, L].
        weight_size: of the weight: (O, C / groups, K).
        grad_output: Tensor [N, O, L']: the gradient of the result.
        stride: as in ``conv1d``, like all that follow.
        padding: zeros on both sides.
        dilation: step between the elements of a window.
        groups: blocks of channels that do not see each other.

    Returns:
        Tensor [O, C / groups, K].

    Example:
        >>> x, grad = gradlib.ones(1, 1, 4), gradlib.ones(1, 1, 3)
        >>> conv1d_weight(x, (1, 1, 2), grad).tolist()
        [[[3.0, 3.0]]]
    """
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv2d`` with respect to its input (N, C, H, W).

    Arguments as in `conv1d_input`, with weight [O, C / groups, KH, KW] and grad_output [N, O, H', W'].

    Example:
        >>> conv2d_input((1, 1, 2, 2), gradlib.ones(1, 1, 2, 2), gradlib.ones(1, 1, 1, 1)).tolist()
        [[[[1.0, 1.0], [1.0, 1.0]]]]
    """
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv2d`` with respect to its weight (O, C / groups, KH, KW).

    Arguments as in `conv1d_weight`, with input [N, C, H, W] and grad_output [N, O, H', W'].

    Example:
        >>> conv2d_weight(gradlib.ones(1, 1, 3, 3), (1, 1, 2, 2), gradlib.ones(1, 1, 2, 2)).tolist()
        [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv3d`` with respect to its input (N, C, D, H, W).

    Arguments as in `conv1d_input`, with weight [O, C / groups, KD, KH, KW] and grad_output
    [N, O, D', H', W'].

    Example:
        >>> grad = conv3d_input((1, 1, 2, 2, 2), gradlib.ones(1, 1, 1, 1, 1), gradlib.ones(1, 1, 2, 2, 2))
        >>> grad.sum().item()
        8.0
    """
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv3d`` with respect to its weight (O, C / groups, KD, KH, KW).

    Arguments as in `conv1d_weight`, with input [N, C, D, H, W] and grad_output [N, O, D', H', W'].

    Example:
        >>> grad = conv3d_weight(gradlib.ones(1, 1, 2, 2, 2), (1, 1, 1, 1, 1), gradlib.ones(1, 1, 2, 2, 2))
        >>> grad.item()
        8.0
    """
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
