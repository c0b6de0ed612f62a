"""Cross entropy of linear scores, on request in pieces of the batch, so that the scores never exist all at once."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from typing import Any

from ..operators import public as ops
from ..operators.linalg.linear import linear_op
from ..operators.nn.cross_entropy import cross_entropy
from ..operators.nn.loss_base import reduction_number
from ..tape import dtypes
from ..tape.tensor import Tensor
from ..utils.checkpoint import checkpoint

_ACC_DTYPES = (None, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How ``linear_cross_entropy`` takes the batch apart.

    Args:
        allow_retain_graph: accepted; backward recomputes the scores of a piece, so it may always run again.
        batch_chunk_size: samples in a piece; None leaves the choice to `chunking_method`.
        chunking_method: "aspect_ratio:k" makes the scores of a piece as large as k times the input, "auto" is k = 2,
            None is one piece.
        acc_policy: "accurate", "balanced", "compact" or "auto"; all are computed alike here.
        acc_dtype: the floating type that the losses of the pieces are added in; None is that of the input.

    Raises:
        ValueError: a value that is none of these.

    Example:
        >>> options = nn.LinearCrossEntropyOptions(batch_chunk_size=2)
        >>> loss = nn.LinearCrossEntropyLoss(3, 4, options=options)
        >>> loss(gradlib.zeros(5, 3), gradlib.tensor([0, 1, 2, 3, 0])).dim()
        0
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        method = self.chunking_method
        if method not in (None, "auto") and not re.fullmatch(r"aspect_ratio(:\d+)?", str(method)):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.acc_dtype not in _ACC_DTYPES:
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
                f"{self.acc_dtype}. Pass acc_dtype=None to let the op pick automatically."
            )

    def rows(self, batch: int, features: int, classes: int) -> int:
        """How many samples a piece has, by these options.

        Args:
            batch: samples in all.
            features: size of a sample.
            classes: scores of a sample.

        Example:
            >>> nn.LinearCrossEntropyOptions(chunking_method=None).rows(64, 8, 1000)
            64
        """
        if self.batch_chunk_size is not None:
            return self.batch_chunk_size
        if self.chunking_method is None:
            return max(batch, 1)
        _, _, ratio = self.chunking_method.partition(":")
        return max(1, int(ratio or 2) * batch * features // max(classes, 1))


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target, ...)``.

    Args:
        input: Tensor (N, in_features) or (in_features,).
        linear_weight: Tensor (C, in_features), or (C, d1, ..., in_features) for a loss of K dimensions, which needs
            a batch.
        target: classes (N, d1, ...) or probabilities (N, C, d1, ...).
        linear_bias: Tensor (C, d1, ...).
        weight: Tensor (C,), a factor for each class.
        reduction: "none", "mean" or "sum".
        ignore_index: the class that does not count; None is -100. Not for probabilities.
        label_smoothing: the share of each target that is spread evenly over the classes.
        options: pieces of the batch, whose scores are computed again in backward; None is all at once.

    Raises:
        RuntimeError: shapes that do not fit, or `ignore_index` with probabilities.

    Example:
        >>> loss = nn.functional.linear_cross_entropy(gradlib.zeros(2, 3), gradlib.ones(4, 3), gradlib.tensor([0, 1]))
        >>> round(loss.item(), 4)
        1.3863
    """
    _check(input, linear_weight, target, linear_bias, ignore_index)
    check_options(linear_weight.shape[0], weight, label_smoothing)
    number = reduction_number(reduction)
    how = {
        "weight": weight,
        "ignore_index": -100 if ignore_index is None else ignore_index,
        "label_smoothing": label_smoothing,
    }
    if options is None or not _can_split(input, linear_weight):
        logits = _scores(input, linear_weight, linear_bias)
        return cross_entropy(logits, target, reduction=reduction, **how)
    return _in_pieces(input, linear_weight, linear_bias, target, number, how, options)


def _check(input, linear_weight, target, linear_bias, ignore_index) -> None:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
    expected = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != expected:
        raise RuntimeError(f"expected linear_bias shape {expected}, got {tuple(linear_bias.shape)}")
    if input.dim() == 2 and target.dim() and target.shape[0] != input.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")


def check_options(classes: int, weight: Tensor | None, label_smoothing: float) -> None:
    """RuntimeError for a weight that has not one element for each class, or a share outside [0, 1]."""
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"expected weight shape to be ({classes},), got {tuple(weight.shape)}")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")


def _can_split(input: Tensor, linear_weight: Tensor) -> bool:
    if linear_weight.dim() > 2:
        warnings.warn(
            "linear_cross_entropy: a K-dimensional loss is not computed in pieces; options are ignored.",
            stacklevel=3,
        )
        return False
    return input.dim() == 2


def _scores(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> Tensor:
    """(N, C, d1, ...) or (C,)."""
    if linear_weight.dim() == 2:
        return linear_op.call(input, linear_weight, linear_bias)
    shape = linear_weight.shape
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    flat = linear_op.call(input, linear_weight.reshape(-1, shape[-1]), bias)
    return flat.view(input.shape[0], *shape[:-1])


def _in_pieces(input, linear_weight, linear_bias, target, number: int, how: dict, options):
    batch, classes = input.shape[0], linear_weight.shape[0]
    rows = options.rows(batch, input.shape[1], classes)
    kind = "none" if number == 0 else "sum"

    def piece(x, y):
        losses = cross_entropy(_scores(x, linear_weight, linear_bias), y, reduction=kind, **how)
        return losses if options.acc_dtype is None else losses.to(options.acc_dtype)

    parts = [
        checkpoint(piece, input[i : i + rows], target[i : i + rows], use_reentrant=False)
        for i in range(0, max(batch, 1), rows)
    ]
    if number == 0:
        return ops.cat(parts).to(input.dtype)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    total = total.to(input.dtype)
    return (
        total if number == 2 else total / _count(target, how["weight"], how["ignore_index"], batch)
    )


def _count(target: Tensor, weight: Tensor | None, ignore_index: int, batch: int) -> Any:
    """What the mean divides by: samples, or the weights of those that count."""
    if target.is_floating_point():
        return batch or math.nan
    kept = target != ignore_index
    if weight is None:
        return kept.sum()
    return weight[target.masked_fill(~kept, 0)].masked_fill(~kept, 0).sum()
