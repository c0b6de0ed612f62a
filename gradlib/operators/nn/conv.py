"""Convolutions. Three operations are each other's derivatives: the convolution, and its gradients as operations."""

from __future__ import annotations

from typing import Any

from ...devices.numpy import conv as kernels
from ...op import costs
from ...op.declare import declare
from ...op.expose import function
from ...tape import dtypes
from ..kinds import is_half, kind_name
from ..shape.pad import pad

F4, F8 = dtypes.float32.np, dtypes.float64.np


def _wide(xp, *arrays):
    """Arrays to compute with: half types as float32; integers refused."""
    d = arrays[0].dtype
    if d is F4 or d is F8 or (d.kind in "fc" and d.itemsize > 2):
        return arrays
    if d.kind in "iu":
        return arrays
    if not is_half(arrays[0]):
        raise NotImplementedError(
            f"\"slow_conv2d_cpu\" not implemented for '{kind_name(arrays[0])}'"
        )
    return tuple(xp.wide(a) if a is not None else None for a in arrays)


def _convolution(xp, input, weight, bias=None, *, stride, padding, dilation, groups):
    d = input.dtype
    x, w, b = _wide(xp, input, weight, bias)
    return kernels.forward(xp, x, w, b, stride, padding, dilation, groups).astype(d, copy=False)


def _conv_grad_input(xp, grad, weight, *, space, stride, padding, dilation, groups):
    g, w = _wide(xp, grad, weight)
    return kernels.grad_input(xp, g, w, space, stride, padding, dilation, groups).astype(
        grad.dtype, copy=False
    )


def _conv_grad_weight(xp, input, grad, *, kernel_size, stride, padding, dilation, groups):
    x, g = _wide(xp, input, grad)
    out = kernels.grad_weight(xp, x, g, kernel_size, stride, padding, dilation, groups)
    return out.astype(grad.dtype, copy=False)


def _conv_transpose(xp, input, weight, bias=None, *, space, stride, padding, dilation, groups):
    x, w, b = _wide(xp, input, weight, bias)
    if input.dtype.kind in "iu" and input.dtype.itemsize < 8:
        raise NotImplementedError(
            f"\"slow_conv_transpose2d_out_cpu\" not implemented for '{kind_name(input)}'"
        )
    out = kernels.grad_input(xp, x, w, space, stride, padding, dilation, groups)
    if b is not None:
        out += b.reshape((-1,) + (1,) * len(space))
    return out.astype(input.dtype, copy=False)


def _bias_grad(F, g):
    return F.sum(g, (0, *range(2, g.ndim)), False)


def _back(F, g, weight, shape, stride, padding, dilation, groups):
    """The convolution that takes a transposed convolution's output back to its input, of `shape`.

    An output padding of a stride or more (allowed by a larger dilation) makes the convolution longer than the input.
    """
    out = F.convolution(g, weight, None, stride, padding, dilation, groups)
    for i in range(2, len(shape)):
        if out.shape[i] > shape[i]:
            out = F.slice(out, i, 0, shape[i], 1)
    return out


def _product_rule(F, call, input, weight, input_t, weight_t, bias_t):
    """The tangent of an operation that is linear in input, weight and bias."""
    total: Any = None
    if input_t is not None:
        total = call(input_t, weight)
    if weight_t is not None:
        part = call(input, weight_t)
        total = part if total is None else total + part
    if bias_t is not None:
        column = F.reshape(bias_t, (-1,) + (1,) * (input.ndim - 2))
        total = F.zeros_like(call(input, weight)) + column if total is None else total + column
    return total


def _convolution_jvp(
    F, input, weight, input_t, weight_t, bias_t, stride, padding, dilation, groups
):
    how = (stride, padding, dilation, groups)
    return _product_rule(
        F, lambda x, w: F.convolution(x, w, None, *how), input, weight, input_t, weight_t, bias_t
    )


def _transpose_jvp(
    F, input, weight, input_t, weight_t, bias_t, space, stride, padding, dilation, groups
):
    how = (space, stride, padding, dilation, groups)
    return _product_rule(
        F, lambda x, w: F.conv_transpose(x, w, None, *how), input, weight, input_t, weight_t, bias_t
    )


convolution_op = declare(
    "convolution",
    _convolution,
    implementations="cudnn_convolution miopen_convolution mkldnn_convolution",
    flops=costs.convolution,
    backward_flops=costs.convolution_back,
    autocast="lower",
    dependent="input weight",
    promote="none",
    complex=True,
    channels_last="input weight",
    jvp=_convolution_jvp,
    input=lambda F, g, weight, input_shape, stride, padding, dilation, groups: F.conv_grad_input(
        g, weight.conjugate(), tuple(input_shape[2:]), stride, padding, dilation, groups
    ),
    weight=lambda F, g, input, weight_shape, stride, padding, dilation, groups: F.conv_grad_weight(
        input.conjugate(), g, tuple(weight_shape[2:]), stride, padding, dilation, groups
    ),
    bias=lambda F, g: _bias_grad(F, g),
    samples=lambda t: [
        (t(2, 3, 7), t(4, 3, 3), t(4), (2,), (1,), (1,), 1),
        (t(2, 2, 5, 4), t(3, 2, 3, 2), t(3), (1, 1), (1, 0), (1, 2), 1),
        (t(2, 4, 5, 5), t(4, 2, 3, 3), None, (2, 1), (1, 2), (1, 1), 2),
        (t(3, 2, 4, 4), t(3, 2, 1, 1), None, (1, 1), (0, 0), (1, 1), 1),
        (t(1, 2, 3, 4, 3), t(2, 1, 2, 2, 2), t(2), (1, 1, 1), (0, 1, 0), (1, 1, 1), 2),
        (t(0, 3, 7), t(4, 3, 3), t(4), (2,), (1,), (1,), 1),
    ],
    batch="convolution",
)
conv_grad_input_op = declare(
    "conv_grad_input",
    _conv_grad_input,
    flops=costs.convolution_input,
    promote="none",
    channels_last="grad weight",
    complex=True,
    jvp="multilinear",
    node="ConvolutionBackwardBackward0",
    grad=lambda F, g, weight, grad_shape, stride, padding, dilation, groups: _back(
        F, g, weight.conjugate(), grad_shape, stride, padding, dilation, groups
    ),
    weight=lambda F, g, grad, weight_shape, stride, padding, dilation, groups: F.conv_grad_weight(
        g, grad.conjugate(), tuple(weight_shape[2:]), stride, padding, dilation, groups
    ),
    samples=lambda t: [
        (t(2, 4, 4), t(4, 3, 3), (7,), (2,), (1,), (1,), 1),
        (t(2, 4, 3, 7), t(4, 2, 3, 3), (5, 5), (2, 1), (1, 2), (1, 1), 2),
        (t(3, 2, 2, 2), t(2, 2, 3, 3), (4, 4), (1, 1), (0, 0), (1, 1), 1),
    ],
    batch="convolution",
)
conv_grad_weight_op = declare(
    "conv_grad_weight",
    _conv_grad_weight,
    flops=costs.convolution_weight,
    promote="none",
    channels_last="input grad",
    complex=True,
    jvp="multilinear",
    node="ConvolutionBackwardBackward0",
    input=lambda F, g, grad, input_shape, stride, padding, dilation, groups: F.conv_grad_input(
        grad.conjugate(), g, tuple(input_shape[2:]), stride, padding, dilation, groups
    ),
    grad=lambda F, g, input, grad_shape, stride, padding, dilation, groups: _back(
        F, input.conjugate(), g, grad_shape, stride, padding, dilation, groups
    ),
    samples=lambda t: [
        (t(2, 3, 7), t(2, 4, 4), (3,), (2,), (1,), (1,), 1),
        (t(2, 4, 5, 5), t(2, 4, 3, 7), (3, 3), (2, 1), (1, 2), (1, 1), 2),
    ],
    batch="conv_grad_weight",
)
conv_transpose_op = declare(
    "conv_transpose", _conv_transpose,
    flops=costs.convolution_input, backward_flops=costs.transposed_back,
    autocast="lower", dependent="input weight", promote="none", complex=True, jvp=_transpose_jvp,
    channels_last="input weight",
    node="ConvolutionBackward0",
    input=lambda F, g, weight, input_shape, stride, padding, dilation, groups: _back(
        F, g, weight.conjugate(), input_shape, stride, padding, dilation, groups
    ),
    weight=lambda F, g, input, weight_shape, stride, padding, dilation, groups: F.conv_grad_weight(
        g, input.conjugate(), tuple(weight_shape[2:]), stride, padding, dilation, groups
    ),
    bias=lambda F, g: _bias_grad(F, g),
    samples=lambda t: [
        (t(1, 2, 4, 3), t(2, 1, 2, 2), t(1), (14, 10), (3, 2), (1, 0), (4, 4), 1),
        (t(2, 4, 4), t(4, 3, 3), t(3), (7,), (2,), (1,), (1,), 1),
        (t(2, 4, 3, 3), t(4, 2, 3, 3), t(4), (6, 5), (2, 1), (1, 0), (1, 1), 2),
    ],
    batch="convolution",
)  # fmt: skip


# -- public ----------------------------------------------------------------------------------------------------------


def ntuple(value, n: int, name: str = "stride") -> tuple:
    """`value` for each of `n` dimensions: a number, or a sequence of 1 or n numbers."""
    if value.__class__ is tuple and len(value) == n:
        return value
    if isinstance(value, (tuple, list)):
        if len(value) == 1:
            return (int(value[0]),) * n
        if len(value) != n:
            raise RuntimeError(
                f"expected {name} to be a single integer value or a list of {n} values to match the convolution "
                f"dimensions, but got {name}={list(value)}"
            )
        return tuple(int(v) for v in value)
    return (int(value),) * n


def _batched(input, n: int, name: str):
    """`input` with a batch dimension, and whether it was added."""
    if input._array.ndim == n + 2:
        return input, False
    if input._array.ndim == n + 1:
        return input.unsqueeze(0), True
    raise RuntimeError(
        f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of "
        f"size: {list(input.shape)}"
    )


def _check_ndim(shape, kernel) -> None:
    if len(kernel) != len(shape):
        raise RuntimeError(
            f"Expected {len(kernel)}-dimensional input for {len(kernel)}-dimensional weight {list(kernel)}, but got "
            f"{len(shape)}-dimensional input of size {list(shape)} instead"
        )


def _check(input, weight, bias, padding, dilation, stride, groups, transposed=False) -> None:
    shape, kernel = input._array.shape, weight._array.shape
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if not kernel[0]:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least 1 at dimension 0, but got weight of size "
            f"{list(kernel)} instead"
        )
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(dilation) <= 0:
        raise RuntimeError("dilation should be greater than zero")
    _check_ndim(shape, kernel)
    channels = kernel[0] if transposed else kernel[1] * groups
    if shape[1] != channels:
        raise RuntimeError(
            f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size "
            f"{list(kernel)}, expected input"
            f"{list(shape)} to have {channels} channels, but got {shape[1]} channels instead"
        )
    if kernel[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            "but got weight of size "
            f"{list(kernel)} instead"
        )
    outputs = kernel[1] * groups if transposed else kernel[0]
    if bias is not None and bias._array.shape != (outputs,):
        raise RuntimeError(
            f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size "
            f"{list(kernel)}, expected bias to "
            f"be 1-dimensional with {outputs} elements, but got bias of size {list(bias.shape)} instead"
        )
    if not transposed:
        padded = [s + 2 * p for s, p in zip(shape[2:], padding, strict=True)]
        reach = [d * (k - 1) + 1 for k, d in zip(kernel[2:], dilation, strict=True)]
        if any(p < r for p, r in zip(padded, reach, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
                f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size"
            )


def _same_padding(input, weight, stride, dilation):
    """padding="same": the input (padded at its ends where the total is odd) and the padding on both sides."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(t % 2 for t in totals):
        odd: list[int] = []
        for t in reversed(totals):
            odd += [0, t % 2]
        input = pad(input, odd)
    return input, tuple(t // 2 for t in totals)


def _conv(n: int, input, weight, bias, stride, padding, dilation, groups):
    name = f"conv{n}d"
    input, alone = _batched(input, n, name)
    stride, dilation = ntuple(stride, n), ntuple(dilation, n, "dilation")
    if padding.__class__ is str:
        if padding == "same":
            _check_ndim(input._array.shape, weight._array.shape)
            input, padding = _same_padding(input, weight, stride, dilation)
        elif padding == "valid":
            padding = (0,) * n
        else:
            raise RuntimeError(f"Invalid padding string: '{padding}', expected 'valid' or 'same'")
    else:
        padding = ntuple(padding, n, "padding")
    _check(input, weight, bias, padding, dilation, stride, groups)
    out = convolution_op.call(input, weight, bias, stride, padding, dilation, groups)
    return out.squeeze(0) if alone else out


@function("conv1d")
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of `input` (N, C, L) or (C, L) with `weight` (O, C / groups, K).

    padding: a number of zeros on both sides, or "valid" (none) or "same" (output as long as the input, stride 1).
    RuntimeError when shapes do not fit.
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@function("conv2d")
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of `input` (N, C, H, W) or (C, H, W) with `weight` (O, C / groups, KH, KW); see ``conv1d``."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@function("conv3d")
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of `input` (N, C, D, H, W) with `weight` (O, C / groups, KD, KH, KW); see ``conv1d``."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _transposed(n: int, input, weight, bias, stride, padding, output_padding, groups, dilation):
    input, alone = _batched(input, n, f"conv_transpose{n}d")
    stride, dilation = ntuple(stride, n), ntuple(dilation, n, "dilation")
    padding, extra = ntuple(padding, n, "padding"), ntuple(output_padding, n, "output_padding")
    _check(input, weight, bias, padding, dilation, stride, groups, True)
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got output_padding: "
            f"{list(extra)}, stride: {list(stride)}, dilation: {list(dilation)}"
        )
    space = tuple(
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, s, p, d, k, e in zip(
            input.shape[2:], stride, padding, dilation, weight.shape[2:], extra, strict=True
        )
    )
    if min(space) < 0:
        raise RuntimeError(
            f"Given input size per channel: ({' x '.join(map(str, input.shape[2:]))}). Calculated "
            "output size per channel: "
            f"({' x '.join(map(str, space))}). Output size is too small"
        )
    out = conv_transpose_op.call(input, weight, bias, space, stride, padding, dilation, groups)
    return out.squeeze(0) if alone else out


@function("conv_transpose1d")
def conv_transpose1d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution: the gradient of ``conv1d`` with respect to its input, `weight` (C, O / groups, K).

    output_padding: positions added to one side of the output, smaller than stride or dilation.
    """
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function("conv_transpose2d")
def conv_transpose2d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution over two dimensions; see ``conv_transpose1d``."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function("conv_transpose3d")
def conv_transpose3d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution over three dimensions; see ``conv_transpose1d``."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function("convolution")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """The general form of all convolutions; the number of dimensions is that of `weight` less 2."""
    n = weight.dim() - 2
    if transposed:
        return _transposed(
            n, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return _conv(n, input, weight, bias, stride, padding, dilation, groups)


@function("conv_tbc")
def conv_tbc(input, weight, bias, pad=0):
    """``conv1d`` on (time, batch, channels) with weight (K, C, O)."""
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(
        2, 0, 1
    )
