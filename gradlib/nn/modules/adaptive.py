"""Adaptive softmax: a cheap softmax over many classes with very different frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax in two levels: frequent classes and, for the rest, clusters of classes.

    Args:
        in_features: size of the input vectors.
        n_classes: classes, sorted by frequency, the most frequent first.
        cutoffs: where clusters begin, increasing, each below n_classes.
        div_value: each cluster's projection is smaller than the one before by this factor.
        head_bias: whether the head has a bias.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        input: [N, in_features] or [in_features]; target: int64 [N] or [] -> (output, loss): the
        log-probability of each target [N] or [], and minus their mean [].

    Raises:
        ValueError: the cutoffs are not increasing, or not between 1 and n_classes - 1.
        RuntimeError: at the call, if shapes do not fit or a target is no class.

    Source: E. Grave et al., Efficient softmax approximation for GPUs, ICML 2017.

    Example:
        >>> net = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
        >>> out = net(gradlib.randn(3, 8), gradlib.tensor([0, 7, 19]))
        >>> tuple(out.output.shape), out.loss.dim()
        ((3,), 0)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                "increasing order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **place),
                    Linear(hidden, size, bias=False, **place),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all parameters anew, in place.

        Each linear layer draws its own, as `Linear.reset_parameters` does.
        """
        self.head.reset_parameters()
        for first, second in self.tail:  # type: ignore[misc]
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """input: [N, in] or [in], target: integers [N] or [] -> (output [N] or [], loss [])."""
        batched = target_.dim() > 0
        if batched:
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError(
                    "Input and target should have the same size in the batch dimension."
                )
            if input_.dim() != 2:
                raise RuntimeError(
                    "1D target tensor expects 2D input tensors, but found inputs with size",
                    input_.size(),
                )
        elif input_.dim() != 1:
            raise RuntimeError(
                "0D target tensor expects 1D input tensors, but found inputs with size",
                input_.size(),
            )
        x = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if target.numel():
            least, most = int(target.min()), int(target.max())
            if least < 0 or most >= self.n_classes:
                raise RuntimeError(
                    f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                    f"[{least}, {most}] were found. "
                )
        head = F.log_softmax(self.head(x), dim=1)
        first = ops.where(target < self.shortlist_size, target, ops.zeros_like(target))
        output = head.gather(1, first.unsqueeze(1)).squeeze(1)
        for i, tail in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            inside = F.log_softmax(tail(x.index_select(0, rows)), dim=1)
            column = (target.index_select(0, rows) - low).unsqueeze(1)
            chosen = inside.gather(1, column).squeeze(1)
            cluster = head[:, self.shortlist_size + i].index_select(0, rows)
            output = output.index_copy(0, rows, cluster + chosen)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            inside = F.log_softmax(tail(input), dim=1)
            parts.append(inside + head[:, self.shortlist_size + i].unsqueeze(1))
        return ops.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes.

        Args:
            input: [N, in_features].

        Returns:
            Tensor [N, n_classes].

        Example:
            >>> net = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
            >>> round(net.log_prob(gradlib.randn(1, 8)).exp().sum().item(), 4)
            1.0
        """
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each sample.

        Args:
            input: [N, in_features].

        Returns:
            Tensor [N], int64.

        Example:
            >>> net = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
            >>> tuple(net.predict(gradlib.randn(3, 8)).shape)
            (3,)
        """
        return ops.argmax(self.log_prob(input), dim=1)
