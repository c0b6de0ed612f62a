"""Convolutions. Three operations are each other's derivatives: the convolution, and its gradients as operations."""

from __future__ import annotations

import math
from typing import Any

from ...op import costs
from ...op.declare import declare
from ...op.expose import function
from ...tape import dtypes
from ..kinds import is_half, narrow, unsupported
from ..shape.pad import pad
from .windows import inside, out_sizes, taps, zero_padded

F4, F8 = dtypes.float32.np, dtypes.float64.np


def _wide(xp, *arrays):
    """Arrays to compute with: half types as float32; integers refused."""
    d = arrays[0].dtype
    if d is F4 or d is F8 or (d.kind in "fc" and d.itemsize > 2):
        return arrays
    if d.kind in "iu":
        return arrays
    if not is_half(arrays[0]):
        raise unsupported("slow_conv2d_cpu", arrays[0])
    return tuple(xp.wide(a) if a is not None else None for a in arrays)


def _grouped(x, groups: int):
    """(N, C, *space) as (groups, C / groups, N * prod(space))."""
    return x.swapaxes(0, 1).reshape(groups, x.shape[1] // groups, -1)


def _by_tap(w, groups: int):
    """(O, C / groups, *K) as (prod(K), groups, O / groups, C / groups)."""
    taps = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    return taps.transpose(3, 0, 1, 2)


def _forward(xp, x, w, bias, stride, padding, dilation, groups):
    """The convolution (cross-correlation) of x with w: a product for each tap of the kernel, added up."""
    n, kernel, o = x.shape[0], w.shape[2:], w.shape[0]
    out = out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    source = zero_padded(xp, x, padding)
    total = xp.zeros((groups, o // groups, n * math.prod(out)), x.dtype)
    for matrix, tap in zip(_by_tap(w, groups), taps(kernel, out, stride, dilation), strict=True):
        total += xp.convolution_product(matrix, _grouped(source[tap], groups))
    result = xp.ascontiguousarray(total.reshape(o, n, *out).swapaxes(0, 1))
    return result if bias is None else result + bias.reshape((-1,) + (1,) * len(out))


def _grad_weight(xp, x, g, kernel, stride, padding, dilation, groups):
    """The gradient of w."""
    source, gradient = zero_padded(xp, x, padding), _grouped(g, groups)
    parts = [
        xp.convolution_product(gradient, _grouped(source[tap], groups).swapaxes(1, 2))
        for tap in taps(kernel, g.shape[2:], stride, dilation)
    ]
    return xp.stack(parts, -1).reshape(g.shape[1], x.shape[1] // groups, *kernel)


def _grad_input(xp, g, w, space, stride, padding, dilation, groups):
    """The gradient of x, whose spatial size is `space`; also the transposed convolution."""
    n, out, kernel, c = g.shape[0], g.shape[2:], w.shape[2:], w.shape[1] * groups
    reach = [
        max(s + 2 * p, (m - 1) * t + (k - 1) * d + 1)
        for s, p, m, t, k, d in zip(space, padding, out, stride, kernel, dilation, strict=True)
    ]
    total, gradient = xp.zeros((n, c, *reach), g.dtype), _grouped(g, groups)
    for matrix, tap in zip(_by_tap(w, groups), taps(kernel, out, stride, dilation), strict=True):
        part = xp.convolution_product(matrix.swapaxes(1, 2), gradient)
        total[tap] += part.reshape(c, n, *out).swapaxes(0, 1)
    return xp.ascontiguousarray(total[inside(space, padding)])


def convolutions_by(forward, grad_input, grad_weight) -> tuple:
    """The forward functions of the convolution, of its gradients by input and weight, and of the transposed one.

    They compute half types in float32; forward, grad_input, grad_weight: as the three above.
    """

    def convolution(xp, input, weight, bias=None, *, stride, padding, dilation, groups):
        how = (stride, padding, dilation, groups)
        return narrow(forward(xp, *_wide(xp, input, weight, bias), *how), input.dtype)

    def of_input(xp, grad, weight, *, space, stride, padding, dilation, groups):
        how = (space, stride, padding, dilation, groups)
        return narrow(grad_input(xp, *_wide(xp, grad, weight), *how), grad.dtype)

    def of_weight(xp, input, grad, *, kernel_size, stride, padding, dilation, groups):
        how = (kernel_size, stride, padding, dilation, groups)
        return narrow(grad_weight(xp, *_wide(xp, input, grad), *how), grad.dtype)

    def transposed(xp, input, weight, bias=None, *, space, stride, padding, dilation, groups):
        x, w, b = _wide(xp, input, weight, bias)
        if input.dtype.kind in "iu" and input.dtype.itemsize < 8:
            raise unsupported("slow_conv_transpose2d_out_cpu", input)
        out = grad_input(xp, x, w, space, stride, padding, dilation, groups)
        if b is not None:
            out += b.reshape((-1,) + (1,) * len(space))
        return narrow(out, input.dtype)

    return convolution, of_input, of_weight, transposed


_convolution, _conv_grad_input, _conv_grad_weight, _conv_transpose = convolutions_by(
    _forward, _grad_input, _grad_weight
)


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


def _of_two_kinds(input, weight, bias=None) -> str:
    """What PyTorch says of tensors of several dtypes."""
    if bias is not None and bias.dtype is not input.dtype:
        kinds = f"Input type ({input.dtype.cpp_name}) and bias type ({bias.dtype.cpp_name})"
        return f"{kinds} should be the same"
    return f"expected scalar type {input.dtype.scalar_type} but found {weight.dtype.scalar_type}"


convolution_op = declare(
    "convolution",
    _convolution,
    implementations="cudnn_convolution miopen_convolution mkldnn_convolution",
    flops=costs.convolution,
    backward_flops=costs.convolution_back,
    autocast="lower",
    dependent="input weight",
    promote="none",
    mixed=_of_two_kinds,
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
    aten="(input, weight, bias, stride, padding, dilation, =False, =[], groups)",
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
    autocast="lower", dependent="input weight", promote="none", mixed=_of_two_kinds, complex=True,
    jvp=_transpose_jvp,
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


CONVOLUTIONS = convolution_op, conv_grad_input_op, conv_grad_weight_op, conv_transpose_op


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
    """Cross-correlation over one dimension: each output is a sum over a window of all channels of its group.

    Args:
        input: (N, C, L) or (C, L).
        weight: (O, C / groups, K), of the dtype of `input`.
        bias: (O,), or None.
        stride: how far the window moves, an int or one for each dimension.
        padding: zeros on both sides, an int or one for each dimension; or "valid" (none) or "same" (as many as keep
            the size, with stride 1).
        dilation: the distance of the elements of a window.
        groups: channels are cut into so many parts that do not mix.

    Returns:
        A tensor of O channels with ``(L + 2 * padding - dilation * (K - 1) - 1) // stride + 1`` places for a length
            L.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or the window is larger than the padded input.

    Example:
        >>> F.conv1d(gradlib.ones(1, 1, 3), gradlib.ones(1, 1, 2)).flatten()
        tensor([2., 2.])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@function("conv2d")
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over two dimensions: each output is a sum over a window of all channels of its group.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (O, C / groups, KH, KW), of the dtype of `input`.
        bias: (O,), or None.
        stride: how far the window moves, an int or one for each dimension.
        padding: zeros on both sides, an int or one for each dimension; or "valid" (none) or "same" (as many as keep
            the size, with stride 1).
        dilation: the distance of the elements of a window.
        groups: channels are cut into so many parts that do not mix.

    Returns:
        A tensor of O channels with ``(L + 2 * padding - dilation * (K - 1) - 1) // stride + 1`` places for a length
            L.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or the window is larger than the padded input.

    Example:
        >>> F.conv2d(gradlib.ones(1, 1, 3, 3), gradlib.ones(1, 1, 2, 2)).flatten()
        tensor([4., 4., 4., 4.])
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@function("conv3d")
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over three dimensions: each output is a sum over a window of all channels of its group.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        weight: (O, C / groups, KD, KH, KW), of the dtype of `input`.
        bias: (O,), or None.
        stride: how far the window moves, an int or one for each dimension.
        padding: zeros on both sides, an int or one for each dimension; or "valid" (none) or "same" (as many as keep
            the size, with stride 1).
        dilation: the distance of the elements of a window.
        groups: channels are cut into so many parts that do not mix.

    Returns:
        A tensor of O channels with ``(L + 2 * padding - dilation * (K - 1) - 1) // stride + 1`` places for a length
            L.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or the window is larger than the padded input.

    Example:
        >>> F.conv3d(gradlib.ones(1, 1, 3, 3, 3), gradlib.ones(1, 1, 2, 2, 2)).flatten()
        tensor([8., 8., 8., 8., 8., 8., 8., 8.])
    """
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
    """The transposed convolution over one dimension: the gradient of ``conv1d`` with respect to its input.

    Args:
        input: (N, C, L) or (C, L).
        weight: (C, O / groups, K), of the dtype of `input`.
        bias: (O,), or None.
        stride: how far apart the windows are that the inputs are spread over.
        padding: what is cut off on both sides.
        output_padding: places that are added at the end, fewer than `stride` or `dilation`.
        groups: channels are cut into so many parts that do not mix.
        dilation: the distance of the elements of a window.

    Returns:
        A tensor of O channels with ``(L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1``
            places for a length L.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or nothing would be left.

    Example:
        >>> F.conv_transpose1d(gradlib.ones(1, 1, 2), gradlib.ones(1, 1, 2)).flatten()
        tensor([1., 2., 1.])
    """
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function("conv_transpose2d")
def conv_transpose2d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution over two dimensions: the gradient of ``conv2d`` with respect to its input.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (C, O / groups, KH, KW), of the dtype of `input`.
        bias: (O,), or None.
        stride: how far apart the windows are that the inputs are spread over.
        padding: what is cut off on both sides.
        output_padding: places that are added at the end, fewer than `stride` or `dilation`.
        groups: channels are cut into so many parts that do not mix.
        dilation: the distance of the elements of a window.

    Returns:
        A tensor of O channels with ``(L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1``
            places for a length L.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or nothing would be left.

    Example:
        >>> F.conv_transpose2d(gradlib.ones(1, 1, 2, 2), gradlib.ones(1, 1, 2, 2)).flatten()
        tensor([1., 2., 1., 2., 4., 2., 1., 2., 1.])
    """
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function("conv_transpose3d")
def conv_transpose3d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution over three dimensions: the gradient of ``conv3d`` with respect to its input.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        weight: (C, O / groups, KD, KH, KW), of the dtype of `input`.
        bias: (O,), or None.
        stride: how far apart the windows are that the inputs are spread over.
        padding: what is cut off on both sides.
        output_padding: places that are added at the end, fewer than `stride` or `dilation`.
        groups: channels are cut into so many parts that do not mix.
        dilation: the distance of the elements of a window.

    Returns:
        A tensor of O channels with ``(L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1``
            places for a length L.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or nothing would be left.

    Example:
        >>> F.conv_transpose3d(gradlib.ones(1, 1, 2, 2, 2), gradlib.ones(1, 1, 2, 2, 2)).flatten()
        tensor([1., 2., 1., 2., 4., 2., 1., 2., 1., 2., 4., 2., 4., 8., 4., 2., 4., 2.,
                1., 2., 1., 2., 4., 2., 1., 2., 1.])
    """
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function("convolution")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """The general form of all convolutions; see ``conv1d`` and ``conv_transpose1d``.

    Args:
        input: (N, C, ...).
        weight: (O, C / groups, ...), or of a transposed one (C, O / groups, ...); its dimensions say which
            convolution it is.
        bias: (O,), or None.
        stride, padding, dilation, output_padding: an int for each of the dimensions.
        transposed: which of the two it is.
        groups: channels are cut into so many parts that do not mix.

    Returns:
        A tensor of O channels.

    Raises:
        RuntimeError: shapes or dtypes do not fit.

    Example:
        >>> gradlib.convolution(gradlib.ones(1, 1, 3), gradlib.ones(1, 1, 2), None, (1,), (0,), (1,), False, (0,), 1)
        tensor([[[2., 2.]]])
    """
    n = weight.dim() - 2
    if transposed:
        return _transposed(
            n, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return _conv(n, input, weight, bias, stride, padding, dilation, groups)


@function("conv_tbc")
def conv_tbc(input, weight, bias, pad=0):
    """``conv1d`` with the dimensions in another order, and a bias.

    Args:
        input: (time, batch, channels).
        weight: (K, channels, O).
        bias: (O,).
        pad: zeros at both ends.

    Returns:
        (time + 2 * pad - K + 1, batch, O).

    Raises:
        RuntimeError: shapes do not fit.

    Example:
        >>> gradlib.conv_tbc(gradlib.ones(3, 1, 1), gradlib.ones(2, 1, 1), gradlib.zeros(1)).flatten()
        tensor([2., 2.])
    """
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(
        2, 0, 1
    )
