"""Probability distributions: drawing from them, densities, moments, divergences; and transforms of them.

    from gradlib import distributions

    policy = distributions.Categorical(logits=scores)
    action = policy.sample()
    loss = -policy.log_prob(action) * reward            # a score function estimate

    posterior = distributions.Normal(mean, deviation)
    z = posterior.rsample()                             # differentiable in mean and deviation
    loss = loss + distributions.kl_divergence(posterior, distributions.Normal(0.0, 1.0)).sum()

The files are families: on the line, on the half line, on an interval, counts, categories, relaxations, vectors,
matrices. PyTorch's modules, of one distribution each, are made of the table below.
"""

from __future__ import annotations

import sys as _sys
from types import ModuleType as _ModuleType

from . import _kl_mixed, _kl_same, constraints, kl, transforms, utils
from ._categories import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from ._counts import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from ._folded import HalfCauchy, HalfNormal, LogNormal
from ._half_line import Chi2, Exponential, FisherSnedecor, Gamma, InverseGamma
from ._interval import Beta, ContinuousBernoulli, Kumaraswamy, Uniform
from ._line import Cauchy, Gumbel, Laplace, Normal, StudentT, VonMises
from ._matrices import LKJCholesky, Wishart
from ._normals import LowRankMultivariateNormal, MultivariateNormal
from ._relaxed import (
    ExpRelaxedCategorical as _ExpRelaxedCategorical,
)
from ._relaxed import (
    LogisticNormal,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from ._relaxed import (
    LogitRelaxedBernoulli as _LogitRelaxedBernoulli,
)
from ._simplex import Dirichlet
from ._tails import GeneralizedPareto, Pareto, Weibull
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .independent import Independent
from .kl import kl_divergence, register_kl
from .mixture_same_family import MixtureSameFamily
from .transformed_distribution import TransformedDistribution
from .transforms import *
from .transforms import __all__ as _transforms

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "Poisson",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "TransformedDistribution",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
__all__ += _transforms  # pyright: ignore[reportUnsupportedDunderAll]

# PyTorch's modules that are no files here, and the classes that they hold
_MODULES = {
    "bernoulli": (Bernoulli,),
    "beta": (Beta,),
    "binomial": (Binomial,),
    "categorical": (Categorical,),
    "cauchy": (Cauchy,),
    "chi2": (Chi2,),
    "continuous_bernoulli": (ContinuousBernoulli,),
    "dirichlet": (Dirichlet,),
    "exponential": (Exponential,),
    "fishersnedecor": (FisherSnedecor,),
    "gamma": (Gamma,),
    "generalized_pareto": (GeneralizedPareto,),
    "geometric": (Geometric,),
    "gumbel": (Gumbel,),
    "half_cauchy": (HalfCauchy,),
    "half_normal": (HalfNormal,),
    "inverse_gamma": (InverseGamma,),
    "kumaraswamy": (Kumaraswamy,),
    "laplace": (Laplace,),
    "lkj_cholesky": (LKJCholesky,),
    "log_normal": (LogNormal,),
    "logistic_normal": (LogisticNormal,),
    "lowrank_multivariate_normal": (LowRankMultivariateNormal,),
    "multinomial": (Multinomial,),
    "multivariate_normal": (MultivariateNormal,),
    "negative_binomial": (NegativeBinomial,),
    "normal": (Normal,),
    "one_hot_categorical": (OneHotCategorical, OneHotCategoricalStraightThrough),
    "pareto": (Pareto,),
    "poisson": (Poisson,),
    "relaxed_bernoulli": (_LogitRelaxedBernoulli, RelaxedBernoulli),
    "relaxed_categorical": (_ExpRelaxedCategorical, RelaxedOneHotCategorical),
    "studentT": (StudentT,),
    "uniform": (Uniform,),
    "von_mises": (VonMises,),
    "weibull": (Weibull,),
    "wishart": (Wishart,),
}


def _make_module(name: str, classes: tuple[type, ...]) -> None:
    """Make a module that holds some classes, which then say that they are from there: pickles look for them so."""
    full = f"{__name__}.{name}"
    module = _ModuleType(full, f"PyTorch's module of {' and '.join(c.__name__ for c in classes)}.")
    module.__file__ = _sys.modules[classes[0].__module__].__file__  # for inspect.getsource
    module.__dict__["__all__"] = [c.__name__ for c in classes]
    for cls in classes:
        setattr(module, cls.__name__, cls)
        cls.__module__ = full
    _sys.modules[full] = globals()[name] = module


for _name, _classes in _MODULES.items():
    _make_module(_name, _classes)
