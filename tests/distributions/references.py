"""Every distribution of numbers beside its counterpart in SciPy: what the tests of densities and of draws share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats

from gradlib import distributions as d


class Kumaraswamy(stats.rv_continuous):
    """SciPy has none: F(x) = 1 - (1 - x^a)^b."""

    def _cdf(self, x, a, b):
        return -np.expm1(b * np.log1p(-(x**a)))

    def _pdf(self, x, a, b):
        return a * b * x ** (a - 1) * (1 - x**a) ** (b - 1)

    def _stats(self, a, b):
        first, second = (b * special.beta(1 + n / a, b) for n in (1, 2))
        return first, second - first**2, None, None


class ContinuousBernoulli(stats.rv_continuous):
    """SciPy has none: the density is proportional to p^x (1 - p)^(1 - x)."""

    def _cdf(self, x, p):
        odds = np.log(p / (1 - p))
        return np.expm1(odds * x) / np.expm1(odds)

    def _pdf(self, x, p):
        odds = np.log(p / (1 - p))
        return np.exp(odds * x) * odds / np.expm1(odds)


kumaraswamy = Kumaraswamy(a=0, b=1, name="kumaraswamy")
continuous_bernoulli = ContinuousBernoulli(a=0, b=1, name="continuous_bernoulli")

# parameters, what makes a distribution of them, the same in SciPy
CONTINUOUS: dict[str, tuple[tuple, Any, Any]] = {
    "Beta": ((0.7, 2.5), d.Beta, stats.beta),
    "Cauchy": ((0.5, 2.0), d.Cauchy, stats.cauchy),
    "Chi2": ((3.5,), d.Chi2, stats.chi2),
    "ContinuousBernoulli": ((0.2,), d.ContinuousBernoulli, continuous_bernoulli),
    "Exponential": ((1.5,), d.Exponential, lambda r: stats.expon(0, 1 / r)),
    "FisherSnedecor": ((3.0, 6.5), d.FisherSnedecor, stats.f),
    "Gamma": ((0.4, 2.0), d.Gamma, lambda a, r: stats.gamma(a, 0, 1 / r)),
    "Gamma of a large shape": ((40.0, 2.0), d.Gamma, lambda a, r: stats.gamma(a, 0, 1 / r)),
    "GeneralizedPareto": ((0.5, 2.0, 0.3), d.GeneralizedPareto, lambda m, s, c: stats.genpareto(c, m, s)),
    "GeneralizedPareto, bounded": ((0.5, 2.0, -0.4), d.GeneralizedPareto, lambda m, s, c: stats.genpareto(c, m, s)),
    "GeneralizedPareto, exponential": ((0.5, 2.0, 0.0), d.GeneralizedPareto, lambda m, s, c: stats.expon(m, s)),
    "Gumbel": ((0.5, 2.0), d.Gumbel, stats.gumbel_r),
    "HalfCauchy": ((2.0,), d.HalfCauchy, lambda s: stats.halfcauchy(0, s)),
    "HalfNormal": ((2.0,), d.HalfNormal, lambda s: stats.halfnorm(0, s)),
    "InverseGamma": ((3.4, 2.0), d.InverseGamma, lambda a, r: stats.invgamma(a, 0, r)),
    "Kumaraswamy": ((2.5, 1.5), d.Kumaraswamy, kumaraswamy),
    "Laplace": ((0.5, 2.0), d.Laplace, stats.laplace),
    "LogNormal": ((0.5, 0.7), d.LogNormal, lambda m, s: stats.lognorm(s, 0, np.exp(m))),
    "Normal": ((0.5, 2.0), d.Normal, stats.norm),
    "Pareto": ((1.5, 3.2), d.Pareto, lambda s, a: stats.pareto(a, 0, s)),
    "StudentT": ((3.5, 0.5, 2.0), d.StudentT, stats.t),
    "Uniform": ((0.5, 2.0), d.Uniform, lambda low, high: stats.uniform(low, high - low)),
    "VonMises": ((0.5, 3.0), d.VonMises, lambda m, k: stats.vonmises(k, m)),
    "VonMises, nearly uniform": ((0.5, 1e-6), d.VonMises, lambda m, k: stats.vonmises(k, m)),
    "Weibull": ((2.0, 1.7), d.Weibull, lambda s, c: stats.weibull_min(c, 0, s)),
}  # fmt: skip

DISCRETE: dict[str, tuple[tuple, Any, Any]] = {
    "Bernoulli": ((0.3,), d.Bernoulli, stats.bernoulli),
    "Binomial": ((7.0, 0.3), d.Binomial, lambda n, p: stats.binom(int(n), p)),
    "Categorical": (
        ([0.2, 0.5, 0.3],),
        d.Categorical,
        lambda p: stats.rv_discrete(values=(np.arange(3), p)),
    ),
    "Geometric": ((0.3,), d.Geometric, lambda p: stats.geom(p, -1)),
    "NegativeBinomial": ((3.5, 0.4), d.NegativeBinomial, lambda n, p: stats.nbinom(n, 1 - p)),
    "Poisson": ((3.2,), d.Poisson, stats.poisson),
}
