"""Kullback-Leibler divergences between distributions of different types."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..special import gammaln as lgamma
from ..tape.tensor import Tensor
from ._counts import Bernoulli, Binomial, Poisson
from ._half_line import Exponential, Gamma
from ._interval import Beta, ContinuousBernoulli, Uniform
from ._line import Gumbel, Laplace, Normal
from ._tails import Pareto
from .kl import register_kl
from .utils import euler_constant

__all__: list[str] = []

_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)

# -- infinite, since the second distribution excludes values of the first ----------------------------------------------

_EXCLUDED = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    shape = ops.broadcast_shapes(p.batch_shape, q.batch_shape)
    some = (
        next(v for v in p.__dict__.values() if isinstance(v, Tensor))
        if not isinstance(p, Beta)
        else p.mean
    )
    return some.new_full(shape, math.inf)


for _p, _others in _EXCLUDED.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)


# -- by expectations of the logarithm of the second density ------------------------------------------------------------


def _cross_normal(mean: Tensor, variance: Tensor, q: Normal) -> Tensor:
    """-E log q(x) of a normal distribution, for x with a mean and a variance."""
    squares = (variance + (mean - q.loc).pow(2)) / q.scale.pow(2)
    return 0.5 * squares + q.scale.log() + _LOG_ROOT_TAU


def _cross_gamma(mean: Tensor, mean_log: Tensor, q: Gamma) -> Tensor:
    """-E log q(x) of a gamma distribution, for x with a mean and a mean logarithm."""
    a = q.concentration
    return lgamma(a) - a * q.rate.log() - (a - 1) * mean_log + q.rate * mean


def _cross_exponential(mean: Tensor, q: Exponential) -> Tensor:
    return q.rate * mean - q.rate.log()


def _cross_beta(mean_log: Tensor, mean_log_rest: Tensor, q: Beta) -> Tensor:
    """-E log q(x) of a beta distribution, for x with mean logarithms of x and of 1 - x."""
    a, b = q.concentration1, q.concentration0
    normaliser = lgamma(a) + lgamma(b) - lgamma(a + b)
    return normaliser - (a - 1) * mean_log - (b - 1) * mean_log_rest


def _cross_gumbel(mean: Tensor, mean_exp: Tensor, q: Gumbel) -> Tensor:
    """-E log q(x) of a Gumbel distribution, for x with a mean; `mean_exp`: E exp(-(x - loc) / scale)."""
    return (mean - q.loc) / q.scale + mean_exp + q.scale.log()


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (ops.xlogy(p.probs, q.rate) - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p: Beta, q: Exponential) -> Tensor:
    return -p.entropy() + _cross_exponential(p.mean, q)


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p: Beta, q: Gamma) -> Tensor:
    a, total = p.concentration1, p.concentration1 + p.concentration0
    return -p.entropy() + _cross_gamma(p.mean, ops.digamma(a) - ops.digamma(total), q)


@register_kl(Beta, Normal)
def _kl_beta_normal(p: Beta, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p: Beta, q: Uniform) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return result.masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p: ContinuousBernoulli, q: Exponential) -> Tensor:
    return -p.entropy() + _cross_exponential(p.mean, q)


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p: ContinuousBernoulli, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return result.masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return -p.entropy() + _cross_gamma(p.mean, -euler_constant - p.rate.log(), q)


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    speed = p.rate * q.scale
    mean_exp = (q.loc / q.scale).exp() * speed / (speed + 1)
    return -p.entropy() + _cross_gumbel(p.mean, mean_exp, q)


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p: Exponential, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() + _cross_exponential(p.mean, q)


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    shrunk = -p.concentration * (1 / (p.rate * q.scale)).log1p()
    return -p.entropy() + _cross_gumbel(p.mean, (q.loc / q.scale + shrunk).exp(), q)


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p: Gamma, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


@register_kl(Gumbel, Normal)
def _kl_gumbel_normal(p: Gumbel, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p: Laplace, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    mean_exp = (-(p.loc - q.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)).exp()
    return -p.entropy() + _cross_gumbel(p.mean, mean_exp, q)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    # the mean distance from the other location is that of a folded normal number
    z = (p.loc - q.loc) / p.scale
    distance = p.scale * (
        math.sqrt(2 / math.pi) * (-0.5 * z * z).exp() + z * ops.erf(math.sqrt(0.5) * z)
    )
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    result = -p.entropy() + _cross_exponential(p.mean, q)
    return result.masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    result = -p.entropy() + _cross_gamma(p.mean, p.scale.log() + 1 / p.alpha, q)
    return result.masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Pareto, q: Normal) -> Tensor:
    result = -p.entropy() + _cross_normal(p.mean, p.variance, q)
    return result.masked_fill(p.alpha <= 2, math.inf)


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """E log x of a uniform number."""
    return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    rest = _mean_log(1 - p.high, 1 - p.low)
    result = -p.entropy() + _cross_beta(_mean_log(p.low, p.high), rest, q)
    return result.masked_fill((p.low < 0) | (p.high > 1), math.inf)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    result = -p.entropy() - p.mean * q.logits - q._cont_bern_log_norm()
    return result.masked_fill((p.low < 0) | (p.high > 1), math.inf)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    result = -p.entropy() + _cross_exponential(p.mean, q)
    return result.masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    result = -p.entropy() + _cross_gamma(p.mean, _mean_log(p.low, p.high), q)
    return result.masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    mean_exp = ((-low).exp() - (-high).exp()) / (high - low)
    return -p.entropy() + _cross_gumbel(p.mean, mean_exp, q)


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p: Uniform, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    mean_log = _mean_log(p.low, p.high)
    result = -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * mean_log
    return result.masked_fill(p.low < q.scale, math.inf)
