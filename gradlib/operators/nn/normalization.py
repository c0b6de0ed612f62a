"""Normalisations by groups of channels and others: group_norm, instance_norm, local_response_norm, normalize."""

from __future__ import annotations

import math

from ...op.declare import declare
from ...op.expose import function, write_out
from ...tape.device import beside
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor
from ..kinds import check_kind, check_parameters, narrow, wide_or_none
from ..shape.pad import pad
from .batch_norm import batch_norm_op, follows_inside, nothing, update_running
from .layer_norm import moments
from .pool_average import avg_pool3d

# -- group_norm ------------------------------------------------------------------------------------------------------


def _normalized(xp, x, groups, weight, bias, eps):
    """x (N, C, L): the result, mean and 1 / standard deviation of groups (N, G); weight and bias may be None."""
    n, c = x.shape[:2]
    grouped = x.reshape(n, groups, -1)
    mean, rstd = grouped.mean(axis=2), 1 / xp.sqrt(grouped.var(axis=2) + eps)
    scale, middle = (xp.repeat(a, c // groups, axis=1) for a in (rstd, mean))
    if weight is not None:
        scale = scale * weight
    shift = -middle * scale if bias is None else bias - middle * scale
    out = x * scale[:, :, None]
    out += shift[:, :, None]
    return out, mean, rstd


def group_norm_by(normalized):
    """The forward function of group_norm, in float32 for half types; normalized: as `_normalized`."""

    def forward(xp, input, weight=None, bias=None, *, groups, eps):
        d, shape = input.dtype, input.shape
        check_parameters(input, weight, bias)
        check_kind(input, "GroupNormKernelImpl")
        n, c = shape[:2]
        if not input.size:
            empty = xp.zeros((n, groups), xp.wide(input).dtype)
            return input.copy(), empty, empty
        x = xp.wide(input).reshape(n, c, -1)
        weight, bias = (wide_or_none(xp, a) for a in (weight, bias))
        out, mean, rstd = normalized(xp, x, groups, weight, bias, eps)
        return narrow(out.reshape(shape), d), mean, rstd

    return forward


def _group_norm_vjp(F, g, input, weight, result1, result2, groups, needs):
    n, c = input.shape[0], input.shape[1]
    split = (n, groups, c // groups, math.prod(input.shape[2:]))
    x, gx = F.reshape(input, split), F.reshape(g, split)
    mean, rstd = (F.reshape(a, (n, groups, 1, 1)) for a in (result1, result2))
    xhat = (x - mean) * rstd
    gw = gx if weight is None else gx * F.reshape(weight, (groups, c // groups, 1))
    dx = dw = db = None
    if needs[0]:
        dx = rstd * (gw - F.mean(gw, (2, 3), True) - xhat * F.mean(gw * xhat, (2, 3), True))
        dx = F.reshape(dx, tuple(input.shape))
    if needs[1]:
        dw = F.reshape(F.sum(gx * xhat, (0, 3), False), (c,))
    if needs[2]:
        db = F.reshape(F.sum(gx, (0, 3), False), (c,))
    like = input if weight is None else weight  # a bias may come alone
    return tuple(map(F.in_dtype_of, (dx, dw, db), (input, like, like)))


def _grouped(F, input, groups):
    return F.reshape(input, (input.shape[0], groups, math.prod(input.shape[1:]) // groups))


group_norm_op = declare(
    "native_group_norm", group_norm_by(_normalized),
    autocast="cuda:float32", promote="free", vjp=_group_norm_vjp, channels_last="input",
    hidden={
        "result1": lambda F, input, groups: F.mean(_grouped(F, input, groups), (2,), False),
        "result2": lambda F, input, result1, groups, eps: F.rsqrt(
            F.mean(F.square(_grouped(F, input, groups) - F.unsqueeze(result1, 2)), (2,), False) + eps
        ),
    },
    samples=lambda t: [
        (t(2, 4, 3), t(4), t(4), 2, 1e-5), (t(2, 4, 2, 2), None, None, 4, 1e-3), (t(3, 4), t(4), None, 1, 1e-5),
        (t(0, 4, 3), t(4), t(4), 2, 1e-5),
    ],
)  # fmt: skip


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Each group of channels of each sample normalised to mean 0 and variance 1, then times `weight` plus `bias`.

    Args:
        input: (N, C, ...).
        num_groups: in how many groups the channels are; it divides C.
        weight, bias: (C,), or None.
        eps: added to the variance.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: the channels do not divide into the groups, or other shapes do not fit.
        ValueError: groups of one value.

    Example:
        >>> F.group_norm(gradlib.tensor([[1.0, 3.0]]), 1, eps=0.0)
        tensor([[-1.,  1.]])
    """
    shape = input._array.shape
    if len(shape) >= 2:
        rows = shape[0] * shape[1] // num_groups
        if rows * math.prod(shape[2:]) == 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, got input size "
                f"{[rows, int(num_groups), *shape[2:]]}"
            )
    return _group_norm_public(input, num_groups, weight, bias, eps)


@function("group_norm")
def _group_norm_public(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """``nn.functional.group_norm``, also of groups of one value.

    Args:
        input: (N, C, ...).
        num_groups: in how many groups the channels are.
        weight, bias: (C,), or None.
        eps: added to the variance.
        cudnn_enabled: without effect.

    Returns:
        A tensor of the same shape: each group with mean 0 and variance 1, then times `weight` plus `bias`.

    Raises:
        RuntimeError: the channels do not divide into the groups.

    Example:
        >>> gradlib.group_norm(gradlib.tensor([[1.0, 3.0]]), 1, eps=0.0)
        tensor([[-1.,  1.]])
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    c = input._array.shape[1]
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value._array.shape != (c,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(value.shape)} and input of shape {list(input.shape)}"
            )
    return group_norm_op.call(input, weight, bias, num_groups, eps)


@function("native_group_norm")
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """``group_norm``, and what it needs for its gradient.

    Args:
        input: (N, C, ...), with `HxW` elements in a channel.
        weight, bias: (C,), or None.
        N, C, HxW: these sizes.
        group: in how many groups the channels are.
        eps: added to the variance.

    Returns:
        A tuple (output, mean, 1 / standard deviation), the last two (N, group).

    Example:
        >>> gradlib.native_group_norm(gradlib.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)[1]
        tensor([[2.]])
    """
    out = _group_norm_public(input, group, weight, bias, eps)
    return out, *moments(input.reshape(N, group, C // group * HxW), (2,), eps, keepdim=False)


# -- instance_norm, local_response_norm ------------------------------------------------------------------------------


@function("instance_norm")
def _instance_norm_public(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True,
):  # fmt: skip
    """`nn.functional.instance_norm` with all arguments in PyTorch's order of the namespace.

    input: [N, C, *] -> the same shape; weight, bias, running_mean, running_var: [C] or None. cudnn_enabled: accepted
    for
    compatibility.
    """
    return instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5,
):  # fmt: skip
    """Each channel of each sample normalised over its positions, then times `weight` plus `bias`.

    Args:
        input: (N, C, ...).
        running_mean, running_var: (C,), or None: the statistics that are used without `use_input_stats`; with it they
            follow those of `input`.
        weight, bias: (C,), or None.
        use_input_stats: whether the statistics are those of `input`.
        momentum: how much the batch counts in the update.
        eps: added to the variance.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: channels of one position.

    Example:
        >>> F.instance_norm(gradlib.tensor([[[1.0, 3.0]]]), eps=1e-12)
        tensor([[[-1.,  1.]]])
    """
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    n, c, *space = input.shape
    if not input.numel():  # as many parameters as samples, if there are any
        return nothing(input, *[t[:n] if n < 1 and t is not None else t for t in (weight, bias)])
    if use_input_stats and math.prod(space) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )

    def spread(t):
        return None if t is None else t.repeat(n)

    box: list = []
    flat = input.contiguous().view(1, n * c, *space)
    if use_input_stats:
        out = batch_norm_op.call(flat, spread(weight), spread(bias), None, None, True, eps, box)
        if running_mean is not None and not follows_inside(
            input, (running_mean, running_var), True, momentum
        ):
            mean, var, count = box
            of_batch = (unrecorded(_of_channels, mean, n, c), unrecorded(_of_channels, var, n, c))
            unrecorded(update_running, running_mean, running_var, *of_batch, count, momentum)
    else:
        out = batch_norm_op.call(
            flat,
            spread(weight),
            spread(bias),
            spread(running_mean),
            spread(running_var),
            False,
            eps,
            None,
        )
    return out.view(input.shape)


def _of_channels(values, n: int, c: int):
    """Of a number for each of `c` channels of `n` samples, the mean of each channel: raw arrays."""
    with beside(values):
        return values.reshape(n, c).mean(0)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """``input / (k + alpha * m) ** beta`` with m the mean square over `size` neighbouring channels.

    Args:
        input: (N, C, ...).
        size: how many channels; beyond the first and the last they count as 0.
        alpha, beta, k: numbers.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: fewer than three dimensions.

    Example:
        >>> F.local_response_norm(gradlib.ones(1, 2, 1), 1, alpha=3.0, beta=0.5).flatten()
        tensor([0.5000, 0.5000])
    """
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input

    n, c, *space = input.shape
    square = (input * input).reshape(n, 1, c, math.prod(space), 1)
    square = pad(square, (0, 0, 0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool3d(square, (size, 1, 1), stride=1).reshape(input.shape)
    return input / (mean * alpha + k) ** beta


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
):
    """`input` divided by its p-norm along a dimension.

    Args:
        input: a floating or complex tensor.
        p: the order of the norm.
        dim: the dimension.
        eps: what stands for smaller norms.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> F.normalize(gradlib.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    if out is not None:
        return write_out(out, normalize(input, p, dim, eps))
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
