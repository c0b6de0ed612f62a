"""Kullback-Leibler divergences between two distributions of one type."""

from __future__ import annotations

import math
from typing import Any

from .. import linalg
from ..autograd import grad
from ..autograd.grad_mode import enable_grad
from ..operators import public as ops
from ..special import gammaln as lgamma
from ..tape.tensor import Tensor
from ._categories import Categorical, OneHotCategorical
from ._counts import Bernoulli, Binomial, Geometric, Poisson
from ._folded import HalfNormal
from ._half_line import Exponential, Gamma
from ._interval import Beta, ContinuousBernoulli, Uniform
from ._line import Cauchy, Gumbel, Laplace, Normal
from ._normals import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    log_diagonal,
    low_rank_distance,
    squared_length,
)
from ._simplex import Dirichlet
from ._tails import Pareto
from .exp_family import ExponentialFamily
from .independent import Independent
from .kl import kl_divergence, register_kl
from .transformed_distribution import TransformedDistribution
from .utils import _all_true, _softplus, _sum_rightmost, euler_constant

__all__: list[str] = []
linalg: Any


# -- composed ----------------------------------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    with enable_grad():
        theta = [x.detach().requires_grad_() for x in p._natural_params]
        normaliser = p._log_normalizer(*theta)
        gradients = grad(normaliser.sum(), theta, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normaliser
    for a, b, slope in zip(theta, q._natural_params, gradients, strict=True):
        term = (b - a) * slope
        result = result - _sum_rightmost(term, term.dim() - result.dim())
    return result


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: Any, q: Any) -> Tensor:
    """A bijection that both have leaves the divergence as it is."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


# -- discrete ----------------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    return _kl_of_events(p, q)


def _kl_of_events(p: Any, q: Any) -> Tensor:
    """The divergence of one event: infinite where `q` excludes what `p` has."""
    yes = p.probs * (_softplus(-q.logits) - _softplus(-p.logits))
    no = (1 - p.probs) * (_softplus(q.logits) - _softplus(p.logits))
    # logits of a probability that was given as 0 or 1 are finite; one that large logits are rounded to is none
    rounded = q.logits.sigmoid()
    yes = yes.masked_fill((q.probs == 0) & (rounded > 0), math.inf)
    no = no.masked_fill((q.probs == 1) & (rounded < 1), math.inf)
    # a term of probability 0 is 0, also where the other distribution excludes it
    return yes.masked_fill(p.probs == 0, 0) + no.masked_fill(p.probs == 1, 0)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if not _all_true(~(p.total_count < q.total_count)):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    all_events = (p.total_count * _kl_of_events(p, q)).masked_fill(p.total_count == 0, 0)
    return all_events.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    term = p.probs * (p.logits - q.logits)
    term = ops.where(q.probs == 0, math.inf, term)
    return ops.where(p.probs == 0, 0.0, term).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return _kl_of_events(p, q) / p.probs  # 1 / p.probs events are expected


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    ratio = p.rate / q.rate.masked_fill(p.rate == 0, 1)
    return ops.xlogy(p.rate, ratio) - (p.rate - q.rate)


# -- continuous --------------------------------------------------------------------------------------------------------


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    normaliser = lgamma(c) + lgamma(d) + lgamma(a + b) - lgamma(c + d) - lgamma(a) - lgamma(b)
    slopes = (a - c) * ops.digamma(a) + (b - d) * ops.digamma(b)
    return normaliser + slopes + (c + d - a - b) * ops.digamma(a + b)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(
    p: ContinuousBernoulli, q: ContinuousBernoulli
) -> Tensor:
    return p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() - q._cont_bern_log_norm()


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normaliser = lgamma(total) - lgamma(b.sum(-1)) + (lgamma(b) - lgamma(a)).sum(-1)
    slope = ops.digamma(a) - ops.digamma(total).unsqueeze(-1)
    return normaliser + ((a - b) * slope).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + lgamma(b)
        - lgamma(a)
        + (a - b) * ops.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, off = p.scale / q.scale, (p.loc - q.loc) / q.scale
    rest = (-off + lgamma(1 + ratio)).exp() - (1 + euler_constant)
    return -ratio.log() + off + ratio * euler_constant + rest


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * (-off / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    off = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + off - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.scale < q.scale, math.inf)  # q excludes the least values of p


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """F. Chyzak, F. Nielsen, A closed-form formula for the KL divergence between Cauchy densities, arXiv 1905.10965."""
    squares = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return (squares / (4 * p.scale * q.scale)).log()


# -- multivariate normal -----------------------------------------------------------------------------------------------


def _trace(factor: Tensor, root: Tensor) -> Tensor:
    """trace((L L^T)^-1 R R^T) for triangular L [..., n, n] and R [..., n, m], whose batches broadcast."""
    return linalg.solve_triangular(factor, root, upper=False).pow(2).sum((-2, -1))


def _need_one_size(p: Any, q: Any, names: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {names} with different event shapes cannot be computed"
        )


def _kl_of_normals(p: Any, q: Any, log_dets: Tensor, trace: Tensor, distance: Tensor) -> Tensor:
    """log_dets: log det of the covariance of q, less that of p."""
    return 0.5 * (log_dets + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(
    p: MultivariateNormal, q: MultivariateNormal
) -> Tensor:
    _need_one_size(p, q, "Multivariate Normals")
    a, b = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    log_dets = 2 * (log_diagonal(b) - log_diagonal(a))
    return _kl_of_normals(p, q, log_dets, _trace(b, a), squared_length(b, q.loc - p.loc))


def _low_rank_parts(
    p: Any, q: LowRankMultivariateNormal, roots: list[Tensor], diagonal: Tensor | None
) -> tuple[Tensor, Tensor]:
    """trace(S_q^-1 S_p), where S_p is the sum of R R^T and a diagonal, and the distance of the means in S_q.

    By the matrix inversion lemma: S_q^-1 = D^-1 - A^T A with A = (capacitance root)^-1 W^T D^-1.
    """
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    a = linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)
    inverse = q._unbroadcasted_cov_diag.reciprocal()
    trace: Any = 0.0
    for root in roots:
        plain = (root.pow(2) * inverse.unsqueeze(-1)).sum((-2, -1))
        trace = trace + plain - (a @ root).pow(2).sum((-2, -1))
    if diagonal is not None:
        plain = (diagonal * inverse).sum(-1)
        trace = trace + plain - (a.pow(2) * diagonal.unsqueeze(-2)).sum((-2, -1))
    distance = low_rank_distance(
        q._unbroadcasted_cov_factor,
        q._unbroadcasted_cov_diag,
        q.loc - p.loc,
        q._capacitance_tril,
    )
    return trace, distance


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(
    p: LowRankMultivariateNormal, q: LowRankMultivariateNormal
) -> Tensor:
    _need_one_size(p, q, "Low Rank Multivariate Normals")
    roots, diagonal = [p._unbroadcasted_cov_factor], p._unbroadcasted_cov_diag
    return _kl_of_normals(
        p, q, q._log_det() - p._log_det(), *_low_rank_parts(p, q, roots, diagonal)
    )


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(
    p: MultivariateNormal, q: LowRankMultivariateNormal
) -> Tensor:
    _need_one_size(p, q, "(Low Rank) Multivariate Normals")
    root = p._unbroadcasted_scale_tril
    log_dets = q._log_det() - 2 * log_diagonal(root)
    return _kl_of_normals(p, q, log_dets, *_low_rank_parts(p, q, [root], None))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(
    p: LowRankMultivariateNormal, q: MultivariateNormal
) -> Tensor:
    _need_one_size(p, q, "(Low Rank) Multivariate Normals")
    factor = q._unbroadcasted_scale_tril
    log_dets = 2 * log_diagonal(factor) - p._log_det()
    trace = _trace(factor, p._unbroadcasted_cov_factor) + _trace(
        factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()
    )
    return _kl_of_normals(p, q, log_dets, trace, squared_length(factor, q.loc - p.loc))
