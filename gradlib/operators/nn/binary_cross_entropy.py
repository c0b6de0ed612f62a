"""Binary cross entropy, of probabilities and of scores."""

from __future__ import annotations

from ...op.expose import function
from ...op.inplace import check_cast
from ...tape import dtypes
from ...tape.modes import AUTOCAST, state
from ..elementwise.activation import logsigmoid_op
from ..kinds import mixed_kinds, unsupported
from .loss_base import NONE, number_of, pointwise_loss, reduced, reduction_number, refuse_grad


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
    refuse_grad(weight, "binary_cross_entropy", "weight")
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
