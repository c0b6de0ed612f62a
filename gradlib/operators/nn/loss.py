"""Losses: pointwise ones as one node each, the rest in terms of other operations."""

from __future__ import annotations

import inspect
import math
import warnings

from ...op.declare import Op, declare
from ...op.expose import PUBLIC, function
from ...op.inplace import check_cast
from ...op.vmap import all_entries
from ...tape import dtypes, modes
from ...tape.modes import AUTOCAST, is_grad_enabled, state
from ...tape.tensor import Tensor
from ..elementwise.activation import logsigmoid_op
from ..kinds import floating, mixed_kinds, unsupported

NONE, MEAN, SUM = range(3)
_NUMBERS = {"none": NONE, "mean": MEAN, "sum": SUM}


def reduction_number(reduction: str, size_average=None, reduce=None) -> int:
    """0, 1, 2 for "none", "mean", "sum"; the two old keywords win over `reduction`, with a warning."""
    if size_average is not None or reduce is not None:
        old = size_average is not False
        reduction = "none" if reduce is False else "mean" if old else "sum"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    try:
        return _NUMBERS[reduction]
    except (KeyError, TypeError):
        raise ValueError(f"{reduction} is not a valid value for reduction") from None


def reduced(losses: Tensor, reduction: int) -> Tensor:
    """Losses of all elements: as they are, their mean, or their sum."""
    return losses if reduction == NONE else losses.mean() if reduction == MEAN else losses.sum()


def number_of(name: str, reduction, position: int) -> int:
    """The reduction of a function of the main namespace: 1 mean, 2 sum, any other int none of them.

    TypeError for anything but an int.
    """
    if type(reduction) is not int:
        kind = type(reduction).__name__
        raise TypeError(
            f"{name}(): argument 'reduction' (position {position}) must be int, not {kind}"
        )
    return reduction if reduction in (MEAN, SUM) else NONE


def _reduce(xp, losses, reduction: int):
    if reduction == NONE:
        return losses
    return _total(xp.add_up(losses, (), False), losses.size, reduction)


def _total(total, count: int, reduction: int):
    """The sum of `count` losses, or their mean, which is nan where there is none."""
    if reduction == MEAN and count:
        return total / count
    return total * (float("nan") if reduction == MEAN else 1)


def _share(g, x, reduction: int):
    """The gradient of each element's loss."""
    if reduction != MEAN:
        return g
    n = 1
    for length in x.shape:
        n *= length
    return g * (1 / max(n, 1))


def _in_wide(F, slope, g, self, target):
    """``slope(g, self, target)``, rounded once where raw arrays hold half types."""
    if hasattr(self, "_array") or self.dtype.itemsize > 2:
        return slope(g, self, target)
    wide = F.backend.wide
    return slope(wide(g), wide(self), wide(target)).astype(self.dtype)


def pointwise_loss(
    name: str,
    value,
    slope,
    attrs: tuple = (),
    *,
    node: str,
    other,
    low=-2.0,
    high=2.0,
    refused="",
    **spec,
) -> Op:
    """Declare a loss: `value(xp, self, target, **attrs)` of each element, then the reduction.

    slope, other: derivatives of a value with respect to self and target: (F, self, target, then attributes in order).
    refused: see `floating`.
    """
    extra = [p for p in inspect.signature(value).parameters if p not in ("xp", "self", "target")]

    def forward(xp, self, target, *, reduction, **kwargs):
        return _reduce(xp, value(xp, self, target, **kwargs), reduction)

    forward.__signature__ = _signature(("xp", "self", "target"), ("reduction", *extra))
    forward.__name__ = name.removesuffix("_loss_op").removesuffix("_op")

    def formula(of):
        def gradient(F, g, self, target, reduction, *values):
            return _in_wide(
                F, lambda g, x, y: _share(g, x, reduction) * of(F, x, y, *values), g, self, target
            )

        gradient.__signature__ = _signature(("F", "g", "self", "target", "reduction", *extra), ())
        return gradient

    def samples(t):
        box = {"low": low, "high": high}
        cases = attrs or ((),)
        out = [
            (t(3, 4, **box), t(3, 4, **box), r, *case) for case in cases for r in (NONE, MEAN, SUM)
        ]
        return [
            *out,
            (t(**box), t(**box), MEAN, *cases[0]),
            (t(0, **box), t(0, **box), SUM, *cases[0]),
        ]

    return declare(
        name + "_op",
        floating(forward, refused=refused),
        public=name,
        node=node,
        batch="losses",
        samples=samples,
        self=formula(slope),
        target=formula(other),
        **spec,
    )


def _signature(plain: tuple, keywords: tuple) -> inspect.Signature:
    """What `declare` reads the names of arguments and attributes from."""
    kind = inspect.Parameter
    return inspect.Signature(
        [
            *(kind(n, kind.POSITIONAL_OR_KEYWORD) for n in plain),
            *(kind(n, kind.KEYWORD_ONLY) for n in keywords),
        ]
    )


def _pair(input, target, name: str):
    """Input and target broadcast to one shape; a warning as PyTorch's when they differ."""
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}(): argument 'target' must be Tensor, not {type(target).__name__}")
    if input._array.shape != target._array.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
        return PUBLIC["broadcast_tensors"](input, target)
    return input, target


def _refuse_grad(tensor, function: str, argument: str) -> None:
    """RuntimeError for an argument that has no derivative but requires grad."""
    if tensor is not None and tensor.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"The function '{function}' is not differentiable with respect to argument '{argument}'. This input cannot "
            "have requires_grad True."
        )


# -- regression --------------------------------------------------------------------------------------------------------


@floating
def _mse(xp, self, target, *, reduction):
    difference = self - target
    if reduction == NONE:
        difference *= difference
        return difference
    flat = difference.reshape(-1)
    return _total(xp.sum_of_squares(flat), flat.size, reduction)


mse_op = declare(
    "mse_loss_op", _mse, autocast="float32", node="MseLossBackward0",
    self=lambda F, g, self, target, reduction: _in_wide(
        F, lambda g, x, y: (x - y) * _share(g * 2.0, x, reduction), g, self, target
    ),
    target=lambda F, g, self, target, reduction: _in_wide(
        F, lambda g, x, y: (y - x) * _share(g * 2.0, x, reduction), g, self, target
    ),
    public="mse_loss",
    samples=lambda t: [
        (t(3, 4), t(3, 4), NONE), (t(3, 4), t(3, 4), MEAN), (t(3), t(3), SUM), (t(), t(), MEAN), (t(0), t(0), SUM),
    ],
    batch="losses",
)  # fmt: skip


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The squared error.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        weight: of the shape of `input`: each error times that, the mean over the sum of the weights.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.mse_loss(gradlib.tensor([1.0, 3.0]), gradlib.zeros(2))
        tensor(5.)
    """
    number = reduction_number(reduction, size_average, reduce)
    input, target = _pair(input, target, "mse_loss")
    if weight is None:
        return mse_op.call(input, target, number)
    return _weighted(mse_op.call(input, target, NONE), weight, input, number)


def _times_weight(losses, weight, input):
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    return losses * weight


def _weighted(losses, weight, input, number):
    losses = _times_weight(losses, weight, input)
    return losses.sum() / weight.sum() if number == MEAN else reduced(losses, number)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The absolute error; its gradient at 0 is 0.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        weight: of the shape of `input`: each error times that, the mean over the sum of the weights.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.l1_loss(gradlib.tensor([1.0, -3.0]), gradlib.zeros(2))
        tensor(2.)
    """
    number = reduction_number(reduction, size_average, reduce)
    input, target = _pair(input, target, "l1_loss")
    losses = (input - target).abs()
    return reduced(losses, number) if weight is None else _weighted(losses, weight, input, number)


def _smooth_l1(xp, self, target, *, beta):
    e = xp.absolute(self - target)
    return xp.where(e < beta, (0.5 / beta) * e * e, e - 0.5 * beta)


def _huber(xp, self, target, *, delta):
    e = xp.absolute(self - target)
    return xp.where(e <= delta, 0.5 * e * e, delta * (e - 0.5 * delta))


smooth_l1_op = pointwise_loss(
    "smooth_l1_loss",
    _smooth_l1,
    lambda F, x, y, beta: F.clamp_number((x - y) * (1 / beta), -1.0, 1.0),
    ((1.0,), (0.5,)),
    autocast="float32",
    node="SmoothL1LossBackward0",
    other=lambda F, x, y, beta: F.clamp_number((y - x) * (1 / beta), -1.0, 1.0),
)
huber_op = pointwise_loss(
    "huber_loss", _huber, lambda F, x, y, delta: F.clamp_number(x - y, -delta, delta), ((1.0,), (0.5,)),
    autocast="float32", node="HuberLossBackward0", other=lambda F, x, y, delta: F.clamp_number(y - x, -delta, delta),
)  # fmt: skip


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """``e**2 / (2 * beta)`` of errors below `beta`, ``|e| - beta / 2`` of larger ones.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        beta: where the parabola meets the line, 0 or more.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast; a negative `beta`.

    Example:
        >>> F.smooth_l1_loss(gradlib.tensor([0.5, -3.0]), gradlib.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    number = reduction_number(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    input, target = _pair(input, target, "smooth_l1_loss")
    if beta == 0:
        return reduced((input - target).abs(), number)
    return smooth_l1_op.call(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """``e**2 / 2`` of errors up to `delta`, ``delta * (|e| - delta / 2)`` of larger ones.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        delta: where the parabola meets the line, positive.
        weight: of the shape of `input`: each error times that; the mean is one over all elements.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast; `delta` is not positive.

    Example:
        >>> F.huber_loss(gradlib.tensor([0.5, -3.0]), gradlib.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    number = reduction_number(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    input, target = _pair(input, target, "huber_loss")
    check_cast(target.dtype, input.dtype)
    target = target.to(input.dtype)
    if weight is None:
        return huber_op.call(input, target, number, delta)
    losses = _times_weight(huber_op.call(input, target, NONE, delta), weight, input)
    return reduced(losses, number)


# -- classification by elements ----------------------------------------------------------------------------------------


def _outside(xp, x) -> bool:
    """Whether an element is known not to lie in [0, 1]; looking at those of a device would mean waiting."""
    if xp.waits or not x.size:
        return False
    return not (xp.minimum.reduce(x, None) >= 0 and xp.maximum.reduce(x, None) <= 1)


def _bce(xp, self, target):
    if _outside(xp, self):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if _outside(xp, target):
        raise RuntimeError("all elements of target should be between 0 and 1")
    return -(
        target * xp.maximum(xp.log(self), -100) + (1 - target) * xp.maximum(xp.log1p(-self), -100)
    )


def _bce_logits_piece(xp, self, target):
    """(1 - y) * x + max(-x, 0) + log(1 + exp(-|x|)): infinite x makes an infinite loss, not nan."""
    out = xp.log1p(xp.exp(-xp.absolute(self)))
    out -= xp.minimum(self, xp.zeros(self.shape, self.dtype))  # NumPy is slow beside a single 0
    rest = 1 - target
    rest *= self
    out += rest
    return out


bce_op = pointwise_loss(
    "binary_cross_entropy", _bce, lambda F, x, y: (x - y) / F.clamp_number(x * (1.0 - x), 1e-12, None),
    refused="binary_cross_entropy",
    autocast="cpu:float32 cuda:refuse", node="BinaryCrossEntropyBackward0", low=0.1, high=0.9,
    check=mixed_kinds,
    other=lambda F, x, y: F.log1p(-x) - F.log(x),
)  # fmt: skip
bce_logits_op = pointwise_loss(
    "binary_cross_entropy_with_logits", lambda xp, self, target: xp.in_pieces(_bce_logits_piece, self, target),
    lambda F, x, y: F.sigmoid(x) - y, refused="log_sigmoid_cpu",
    autocast="float32", node="BinaryCrossEntropyWithLogitsBackward0", other=lambda F, x, y: -x,
)  # fmt: skip
soft_margin_op = pointwise_loss(
    "soft_margin_loss",
    lambda xp, self, target: xp.logaddexp(self.dtype.type(0), -target * self),
    lambda F, x, y: -y * F.sigmoid(-y * x),
    autocast="float32",
    node="SoftMarginLossBackward0",
    other=lambda F, x, y: -x * F.sigmoid(-y * x),
)


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Binary cross entropy of probabilities: ``-(y * log(x) + (1 - y) * log(1 - x))``, the logarithms at least -100.

    Args:
        input, target: floating tensors of one shape, in [0, 1].
        weight: broadcasts to that shape: each term times that.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape of `input` with "none".

    Raises:
        ValueError: the shapes differ.
        RuntimeError: elements that are not in [0, 1].

    Example:
        >>> F.binary_cross_entropy(gradlib.tensor([0.5]), gradlib.tensor([1.0]))
        tensor(0.6931)
    """
    number = reduction_number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    _refuse_grad(weight, "binary_cross_entropy", "weight")
    if weight is None:
        return bce_op.call(input, target, number)
    losses = bce_op.call(input, target, NONE)
    common = dtypes.promote(losses.dtype, weight.dtype)
    check_cast(common, losses.dtype)
    return reduced((losses * weight).to(losses.dtype), number)


def _bce_with_logits(input, target, weight, pos_weight, number):
    if target.size() != input.size():
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    here, there = input.dtype, target.dtype
    if here.category != dtypes.FLOATING:
        raise unsupported("log_sigmoid_cpu", here)
    if there.category != dtypes.FLOATING:
        kinds = [t.dtype.scalar_type for t in (input, target)]
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
            if kinds[1] == "Bool"
            else "result type {} can't be cast to the desired output type {}".format(*kinds)
        )
    mixed = here is not there and not state.bits & AUTOCAST
    if weight is None and pos_weight is None:
        loss = bce_logits_op.call(input, target, number)
        return loss.to(target.dtype) if mixed else loss
    if pos_weight is None:
        losses = bce_logits_op.call(input, target, NONE)
    else:
        losses = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid_op.call(input)
    losses = losses if weight is None else losses * weight
    if losses.dtype is not target.dtype and not state.bits & AUTOCAST:  # that of the target decides
        losses = losses.to(target.dtype)
    return reduced(losses, number)


@function("binary_cross_entropy_with_logits")
def _bce_with_logits_public(input, target, weight=None, pos_weight=None, reduction=NONE):
    """The binary cross entropy of scores, not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of
    `nn.functional.binary_cross_entropy_with_logits`.

    Example:
        >>> gradlib.binary_cross_entropy_with_logits(gradlib.zeros(1), gradlib.ones(1))
        tensor([0.6931])
    """
    number = number_of("binary_cross_entropy_with_logits", reduction, 5)
    return _bce_with_logits(input, target, weight, pos_weight, number)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None,
):  # fmt: skip
    """Binary cross entropy of scores: of their sigmoids, without overflow.

    Args:
        input, target: floating tensors of one shape; targets in [0, 1].
        weight: broadcasts to that shape: each term times that.
        pos_weight: broadcasts to it: the term of the positive class times that.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape of `input` with "none".

    Raises:
        ValueError: the shapes differ.

    Example:
        >>> F.binary_cross_entropy_with_logits(gradlib.zeros(2), gradlib.tensor([0.0, 1.0]))
        tensor(0.6931)
    """
    number = reduction_number(reduction, size_average, reduce)
    return _bce_with_logits(input, target, weight, pos_weight, number)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """``log(1 + exp(-target * input))``.

    Args:
        input: a floating tensor.
        target: a tensor that broadcasts with it, of 1 and -1.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> F.soft_margin_loss(gradlib.zeros(2), gradlib.tensor([1.0, -1.0]))
        tensor(0.6931)
    """
    number = reduction_number(reduction, size_average, reduce)
    _refuse_grad(target, "soft_margin_loss", "target")
    if input._array.shape != target._array.shape:
        own = input.shape
        input, target = PUBLIC["broadcast_tensors"](input, target)
        if input.shape != own:
            raise RuntimeError(
                f"output with shape {list(own)} doesn't match the broadcast shape {list(input.shape)}"
            )
    check_cast(target.dtype, input.dtype)
    return soft_margin_op.call(input, target.to(input.dtype), number)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence: ``y * (log(y) - x)``.

    Args:
        input: log probabilities.
        target: probabilities, or with `log_target` their logarithms; the shapes broadcast.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean" (over all elements, with a warning), "batchmean" (over dimension 0), "sum" or "none".
        log_target: what `target` is.

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.kl_div(gradlib.tensor([0.0]), gradlib.tensor([1.0]), reduction="sum")
        tensor(0.)
    """
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = _kl(input, target, SUM, log_target)
        return total / input.size()[0] if input.dim() else total
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    return _kl(input, target, reduction_number(reduction, size_average, reduce), log_target)


def _kl(input, target, number, log_target):
    if input.is_complex() or target.is_complex():
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if not (input.is_floating_point() and target.is_floating_point()):
        kind = "Complex" if input.is_complex() or target.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    losses = (
        target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    )
    return reduced(losses, number)


@function("kl_div")
def _kl_div_public(input, target, reduction=NONE, log_target=False):
    """target * (log(target) - input) of each element, for log probabilities `input`; not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of `nn.functional.kl_div`.
    """
    return _kl(input, target, number_of("kl_div", reduction, 3), log_target)


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean",
):  # fmt: skip
    """Negative log likelihood of counts under Poisson distributions.

    Args:
        input: the logarithms of the rates, or without `log_input` the rates.
        target: counts that broadcast with it.
        log_input: what `input` is.
        full: whether Stirling's approximation of ``log(target!)`` is added for targets above 1.
        size_average, reduce: an old way to say `reduction`, which warns.
        eps: added to rates before the logarithm.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.poisson_nll_loss(gradlib.zeros(2), gradlib.tensor([1.0, 2.0]))
        tensor(1.)
    """
    number = reduction_number(reduction, size_average, reduce)
    return _poisson_nll(input, target, log_input, full, eps, number)


@function("poisson_nll_loss")
def _poisson_nll_public(input, target, log_input, full, eps, reduction):
    """exp(input) - target * input, or input - target * log(input + eps) without `log_input`; not reduced unless asked
    for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of `nn.functional.poisson_nll_loss`.
    """
    number = number_of("poisson_nll_loss", reduction, 6)
    return _poisson_nll(input, target, log_input, full, eps, number)


def _poisson_nll(input, target, log_input, full, eps, number):
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, number)


def _one_for_all(shape, other) -> bool:
    """Whether `other` is `shape` with a single dimension of length one instead."""
    if len(shape) != len(other):
        return False
    unequal = [b for a, b in zip(shape, other, strict=True) if a != b]
    return unequal == [1]


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of `target` under normal distributions: ``(log(var) + (input - target)**2 / var) / 2``.

    Args:
        input: the means.
        target: a tensor that broadcasts with it.
        var: the variances: a number, of the shape of `input`, or with the last length 1 or left out; those below
            `eps` count as `eps`.
        full: whether ``log(2 * pi) / 2`` is added.
        eps: the least variance.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        ValueError: `var` has another shape or a negative element.

    Example:
        >>> F.gaussian_nll_loss(gradlib.zeros(2), gradlib.ones(2), gradlib.ones(2))
        tensor(0.5000)
    """
    number = reduction_number(reduction)
    if not isinstance(var, Tensor):
        var = input.new_full(input.shape, float(var))
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not _one_for_all(input.shape, var.shape):
            raise ValueError("var is of incorrect size")
    if (all_entries(var) < 0).any():
        raise ValueError("var has negative entry/entries")

    safe = var.clone()
    with modes.Flag(modes.NO_GRAD, True):
        safe.clamp_(min=eps)
    losses = 0.5 * (safe.log() + (input - target) ** 2 / safe)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, number)
