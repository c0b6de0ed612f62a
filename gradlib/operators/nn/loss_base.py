"""What losses share: the reduction of the losses of all elements, and losses of elements as one node each."""

from __future__ import annotations

import inspect
import warnings

from ...op.declare import Op, declare
from ...tape.modes import is_grad_enabled
from ...tape.tensor import Tensor
from ..kinds import floating, narrow

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
    return sum_or_mean(xp.add_up(losses, (), False), losses.size, reduction)


def sum_or_mean(total, count: int, reduction: int):
    """The sum of `count` losses, or their mean, which is nan where there is none."""
    if reduction == MEAN and count:
        return total / count
    return total * (float("nan") if reduction == MEAN else 1)


def share(g, x, reduction: int):
    """The gradient of each element's loss."""
    if reduction != MEAN:
        return g
    n = 1
    for length in x.shape:
        n *= length
    return g * (1 / max(n, 1))


def in_wide(F, slope, g, self, target):
    """``slope(g, self, target)``, rounded once where raw arrays hold half types."""
    if hasattr(self, "_array") or self.dtype.itemsize > 2:
        return slope(g, self, target)
    wide = F.backend.wide
    return narrow(slope(wide(g), wide(self), wide(target)), self.dtype)


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
            return in_wide(
                F, lambda g, x, y: share(g, x, reduction) * of(F, x, y, *values), g, self, target
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


def refuse_grad(tensor, function: str, argument: str) -> None:
    """RuntimeError for an argument that has no derivative but requires grad."""
    if tensor is not None and tensor.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"The function '{function}' is not differentiable with respect to argument '{argument}'. This input cannot "
            "have requires_grad True."
        )
