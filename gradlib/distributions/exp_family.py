"""Exponential families, whose entropy and Kullback-Leibler divergence follow from their log normaliser."""

from __future__ import annotations

from ..autograd import grad
from ..autograd.grad_mode import enable_grad
from ..tape.tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions whose density is ``exp(sum(t(x) * theta) - F(theta) + k(x))``.

    theta are the natural parameters, t the sufficient statistics, F the log normaliser, k the carrier measure. A
    subclass gives theta as the tuple ``_natural_params``, F as the method ``_log_normalizer``, and the expectation of k
    as ``_mean_carrier_measure``.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one draw.
        validate_args: whether parameters and arguments are checked.

    Source: F. Nielsen, V. Garcia, Statistical exponential families: a digest with flash cards, arXiv 0911.4863 (2009).

    Example:
        >>> isinstance(gradlib.distributions.Normal(0.0, 1.0), gradlib.distributions.ExponentialFamily)
        True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The natural parameters, each a tensor that begins with the batch's dimensions."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """The logarithm of the normaliser as a function of the natural parameters."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float | Tensor:
        """The expectation of the logarithm of the carrier measure."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        # F - <theta, grad F> - E k: the gradient of F is the expectation of t
        result = -self._mean_carrier_measure
        with enable_grad():
            theta = [p.detach().requires_grad_() for p in self._natural_params]
            normaliser = self._log_normalizer(*theta)
            gradients = grad(normaliser.sum(), theta, create_graph=True)
        result = result + normaliser
        for parameter, gradient in zip(theta, gradients, strict=True):
            product = parameter * gradient
            result = result - product.reshape(*self._batch_shape, -1).sum(-1)
        return result
