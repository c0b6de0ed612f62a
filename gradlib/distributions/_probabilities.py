"""Parameters that are given as probabilities or as logits, and computed from each other when they are asked for."""

from __future__ import annotations

from typing import Any

from ..tape.tensor import Size, Tensor
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def need_one(probs: Any, logits: Any) -> None:
    """ValueError unless one of two parameters is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class ProbsOrLogits(Distribution):
    """A distribution with the parameter `probs` or `logits`: of one event, or of exclusive ones along a dimension."""

    _is_binary = True

    def _choose(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Keep what is given of two parameters, broadcast with others; gives the others."""
        need_one(probs, logits)
        given = logits if probs is None else probs
        *rest, value = broadcast_all(*others, given)
        setattr(self, "logits" if probs is None else "probs", value)
        return tuple(rest)

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds, or normalised log-probabilities."""
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, self._is_binary)

    @property
    def _param(self) -> Tensor:
        """The parameter that was given, or is known by now."""
        probs = self.__dict__.get("probs")
        return self.logits if probs is None else probs

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and of `logits`.

        Example:
            >>> gradlib.distributions.Categorical(gradlib.ones(2, 3)).param_shape
            torch.Size([2, 3])
        """
        return self._param.shape
