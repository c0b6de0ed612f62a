"""layer_norm and rms_norm: normalisations of each row (the last dimensions).

Each is one node that keeps its input and 1 / standard deviation (layer_norm: and the mean).
"""

from __future__ import annotations

import math

from ...op.declare import declare
from ...op.expose import function
from ...op.plain_numbers import python_number
from ...tape import dtypes, modes
from ..kinds import F4, F8, check_kind, check_parameters, is_half, narrow, unsupported, wide_or_none

# -- layer_norm ------------------------------------------------------------------------------------------------------


def _rows(xp, x, weight, bias, eps):
    """On (rows, n): (result, mean, 1 / standard deviation), the last two as columns."""
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    rstd = 1 / xp.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps)
    out = centred * rstd
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return out, mean, rstd


def layer_norm_by(kernel, few: float = math.inf):
    """The forward function of layer_norm, in float32 for half types; kernel: as `_rows`.

    few: elements from which on it takes rows of a half type, and gives such, beside all else in float32.
    """

    def forward(xp, input, weight=None, bias=None, *, normalized_shape, eps):
        d, shape = input.dtype, input.shape
        if (weight is not None and weight.dtype is not d) or (
            bias is not None and bias.dtype is not d
        ):
            check_parameters(input, weight, bias)
        if d is not F4 and d is not F8:
            check_kind(input, "LayerNormKernelImpl")
            input = input if input.size > few else xp.wide(input)
            weight, bias = wide_or_none(xp, weight), wide_or_none(xp, bias)
        outer = shape[: len(shape) - len(normalized_shape)]
        stats = outer + (1,) * len(normalized_shape)
        n = math.prod(normalized_shape)
        if not input.size:
            empty = xp.zeros(stats, F4 if is_half(input) else input.dtype)
            return input.astype(d), empty, empty
        if weight is not None and weight.ndim > 1:
            weight = weight.reshape(-1)
        if bias is not None and bias.ndim > 1:
            bias = bias.reshape(-1)
        out, mean, rstd = kernel(xp, input.reshape(-1, n), weight, bias, eps)
        out = out.reshape(shape)
        if out.dtype is not d:
            out = narrow(out, d)
        return out, mean.reshape(stats), rstd.reshape(stats)

    return forward


def _layer_norm_vjp(F, g, input, weight, result1, result2, normalized_shape, needs):
    k = g.ndim - len(normalized_shape)
    inner, outer = tuple(range(k, g.ndim)), tuple(range(k))
    xhat = (input - result1) * result2
    gw = g if weight is None else g * weight
    dx = dw = db = None
    if needs[0]:
        dx = result2 * (gw - F.mean(gw, inner, True) - xhat * F.mean(gw * xhat, inner, True))
    if needs[1]:
        dw = F.sum(g * xhat, outer, False) if outer else g * xhat
    if needs[2]:
        db = F.sum(g, outer, False) if outer else g
    like = input if weight is None else weight  # a bias may come alone
    return tuple(map(F.in_dtype_of, (dx, dw, db), (input, like, like)))


def _inner(input, normalized_shape):
    return tuple(range(input.ndim - len(normalized_shape), input.ndim))


layer_norm_op = declare(
    "native_layer_norm", layer_norm_by(_rows),
    autocast="cuda:float32", promote="free", vjp=_layer_norm_vjp, dependent="input weight",
    hidden={
        "result1": lambda F, input, normalized_shape: F.mean(input, _inner(input, normalized_shape), True),
        "result2": lambda F, input, result1, normalized_shape, eps: F.rsqrt(
            F.mean(F.square(input - result1), _inner(input, normalized_shape), True) + eps
        ),
    },
    samples=lambda t: [
        (t(3, 5), t(5), t(5), (5,), 1e-5), (t(2, 3, 4), t(3, 4), None, (3, 4), 1e-3), (t(4, 3), None, None, (3,), 1e-5),
        (t(6), t(6), t(6), (6,), 1e-5), (t(0, 3), t(3), t(3), (3,), 1e-5),
    ],
    batch="layer_norm",
    aten="(input, normalized_shape, weight, bias, eps)",
)  # fmt: skip


@function("layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """The last dimensions normalised to mean 0 and variance 1, then times `weight` plus `bias`.

    Args:
        input: a tensor whose last lengths are `normalized_shape`.
        normalized_shape: a tuple of ints.
        weight, bias: of that shape, or None.
        eps: added to the variance.
        cudnn_enable: without effect.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> F.layer_norm(gradlib.tensor([[1.0, 3.0]]), (2,), eps=0.0)
        tensor([[-1.,  1.]])
    """
    shape = _normalized(input, normalized_shape, weight, bias)
    return layer_norm_op.call(input, weight, bias, shape, eps)


@function("native_layer_norm")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """``layer_norm``, and what it needs for its gradient.

    Args:
        input: a tensor whose last lengths are `normalized_shape`.
        normalized_shape: a tuple of ints.
        weight, bias: of that shape, or None.
        eps: added to the variance.

    Returns:
        A tuple (output, mean, 1 / standard deviation); gradients flow through the first only.

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> gradlib.native_layer_norm(gradlib.tensor([[1.0, 3.0]]), (2,), None, None, 0.0)[0]
        tensor([[-1.,  1.]])
    """
    shape = _normalized(input, normalized_shape, weight, bias)
    out = layer_norm_op.call(input, weight, bias, shape, eps)
    with modes.Flag(modes.NO_GRAD, True):
        return out, *moments(input, _inner(input, shape), eps, keepdim=True)


def moments(input, dims: tuple, eps: float, *, keepdim: bool) -> tuple:
    """Mean and 1 / standard deviation of `input` over `dims`, computed in float32 for half types."""
    wide = input.float() if is_half(input._array) else input
    mean, var = wide.mean(dims, keepdim=keepdim), wide.var(dims, correction=0, keepdim=keepdim)
    return mean.to(input.dtype), (var + eps).rsqrt().to(input.dtype)


def _normalized(input, normalized_shape, weight, bias=None) -> tuple:
    """`normalized_shape` as a tuple of ints, checked."""
    if normalized_shape.__class__ is not tuple:
        normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
    k, shape = len(normalized_shape), input._array.shape
    if not k:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value._array.shape != normalized_shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(value.shape)} and normalized_shape = {list(normalized_shape)}"
            )
    if shape[len(shape) - k :] != normalized_shape or len(shape) < k:
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*, {', '.join(map(str, normalized_shape))}], but got input of size{list(shape)}"
        )
    return normalized_shape


# -- rms_norm --------------------------------------------------------------------------------------------------------


def _squares(x):
    """The sum of the squares of each row, as a column."""
    return (x * x).sum(axis=1, keepdims=True)


def rms_norm_by(squares):
    """The forward function of rms_norm, in float32 for half types; squares: as `_squares`."""

    def forward(xp, input, weight=None, *, normalized_shape, eps):
        d, shape = input.dtype, input.shape
        n = math.prod(normalized_shape)
        x = xp.wide(input).reshape(math.prod(shape[: len(shape) - len(normalized_shape)]), n)
        rstd = 1 / xp.sqrt(squares(x) / max(x.shape[1], 1) + eps)
        out = x * rstd
        if weight is not None:
            out *= xp.wide(weight).reshape(-1)
        stats = shape[: len(shape) - len(normalized_shape)] + (1,) * len(normalized_shape)
        return narrow(out.reshape(shape), d), rstd.reshape(stats)

    return forward


def _rms_norm_vjp(F, g, input, weight, result1, normalized_shape, needs):
    inner = _inner(g, normalized_shape)
    outer = tuple(range(g.ndim - len(inner)))
    xhat = input * result1
    gw = g if weight is None else g * weight
    dx = result1 * (gw - xhat * F.mean(gw * xhat, inner, True)) if needs[0] else None
    dw = None
    if needs[1]:
        dw = F.sum(g * xhat, outer, False) if outer else g * xhat
    return F.in_dtype_of(dx, input), F.in_dtype_of(dw, weight)


rms_norm_op = declare(
    "fused_rms_norm",
    rms_norm_by(_squares),
    autocast="cuda:float32",
    public="_fused_rms_norm",
    dependent="input weight",
    channels_last="input",
    promote="free",
    vjp=_rms_norm_vjp,
    hidden={
        "result1": lambda F, input, normalized_shape, eps: F.rsqrt(
            F.mean(F.square(input), _inner(input, normalized_shape), True) + eps
        ),
    },
    samples=lambda t: [
        (t(3, 5), t(5), (5,), 1e-5),
        (t(2, 3, 4), None, (3, 4), 1e-3),
        (t(6), t(6), (6,), 1e-5),
        (t(0, 3), t(3), (3,), 1e-5),
    ],
    batch="layer_norm",
    aten="(input, normalized_shape, weight, eps)",
)


@function("rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """The last dimensions divided by the root of their mean square, then times `weight`.

    Args:
        input: a tensor whose last lengths are `normalized_shape`.
        normalized_shape: a tuple of ints.
        weight: of that shape, or None.
        eps: added to the mean square; if None the smallest number that changes 1.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> F.rms_norm(gradlib.tensor([[1.0, 7.0]]), (2,), eps=0.0)
        tensor([[0.2000, 1.4000]])
    """
    shape = _normalized(input, normalized_shape, weight)
    if not (input.is_floating_point() or input.is_complex()):
        raise unsupported("rms_norm", input)
    if eps is None:
        eps = dtypes.finfo(dtypes.float32 if is_half(input._array) else input.dtype).eps
    elif eps.__class__ is not float:
        eps = python_number(eps, "rms_norm(): argument 'eps'")
    if input.is_complex():  # squares, not absolute values
        inner = _inner(input, shape)
        out = input * (input.square().mean(inner, keepdim=True) + eps).rsqrt()
        return out if weight is None else out * weight
    return rms_norm_op.call(input, weight, shape, eps)
