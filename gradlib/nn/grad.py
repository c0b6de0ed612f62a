"""The gradients of convolutions with respect to input and weight, as functions."""

from __future__ import annotations

from typing import Any

from gradlib.operators.nn.conv import conv_grad_input_op, conv_grad_weight_op, ntuple
from gradlib.tape.tensor import Tensor

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
    """The gradient of ``conv1d`` with respect to its input (N, C, L), whose size is `input_size`."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv1d`` with respect to its weight (O, C / groups, K), whose size is `weight_size`."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv2d`` with respect to its input; see ``conv1d_input``."""
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv2d`` with respect to its weight; see ``conv1d_weight``."""
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv3d`` with respect to its input; see ``conv1d_input``."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride=1, padding=0, dilation=1, groups=1
) -> Tensor:
    """The gradient of ``conv3d`` with respect to its weight; see ``conv1d_weight``."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
