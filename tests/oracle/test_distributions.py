"""Distributions, transforms, constraints and divergences beside PyTorch: values, gradients, shapes, texts."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib

LIBRARIES: tuple[Any, ...] = (gradlib, torch)

# Each line makes a distribution. `P` makes a parameter in float64, whose gradient is compared too.
DISTRIBUTIONS = """
d.Bernoulli(P([0.2, 0.7]))
d.Bernoulli(logits=P([[0.3], [-2.0]]))
d.Bernoulli(0.3)
d.Beta(P([0.5, 2.0]), P([[1.5], [3.0]]))
d.Beta(2.0, 3.0)
d.Binomial(5, P([0.2, 0.7]))
d.Binomial(T([5.0, 3.0]), logits=P([0.3, -2.0]))
d.Categorical(P([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
d.Categorical(logits=P([0.3, -2.0, 0.0]))
d.Cauchy(P([0.5, -1.0]), P([1.0, 2.0]))
d.Chi2(P([1.0, 4.5]))
d.ContinuousBernoulli(P([0.2, 0.9]))
d.ContinuousBernoulli(logits=P([0.3, -2.0]))
d.Dirichlet(P([[0.5, 1.5, 3.0], [1.0, 2.0, 4.0]]))
d.Dirichlet(P([0.5, 0.2]))
d.Exponential(P([0.5, 3.0]))
d.FisherSnedecor(P([3.0, 5.0]), P([4.5, 7.0]))
d.Gamma(P([0.5, 3.0]), P([1.0, 2.0]))
d.GeneralizedPareto(P([0.0, 1.0, 1.0]), P([1.0, 2.0, 3.0]), P([0.2, -0.3, 0.6]))
d.Geometric(P([0.2, 0.7]))
d.Geometric(logits=P([0.3, -2.0]))
d.Gumbel(P([0.5, -1.0]), P([1.0, 2.0]))
d.Gumbel(0.0, 1.0)
d.HalfCauchy(P([1.0, 2.0]))
d.HalfNormal(P([1.0, 2.0]))
d.Independent(d.Normal(P([[0.5, -1.0]]), P([1.0, 2.0])), 1)
d.Independent(d.Bernoulli(P([0.5, 0.2])), 0)
d.InverseGamma(P([0.5, 3.0]), P([1.0, 2.0]))
d.Kumaraswamy(P([0.5, 3.0]), P([1.5, 2.0]))
d.Laplace(P([0.5, -1.0]), P([1.0, 2.0]))
d.LKJCholesky(3, P([0.5, 2.0]))
d.LogNormal(P([0.5, -1.0]), P([1.0, 2.0]))
d.LogisticNormal(P([0.5, -1.0]), P([1.0, 2.0]))
d.LowRankMultivariateNormal(P([0.5, -1.0, 0.3]), P([[1.0], [2.0], [0.5]]), P([1.0, 2.0, 0.7]))
d.MixtureSameFamily(d.Categorical(P([0.3, 0.7])), d.Normal(P([0.5, -1.0]), P([1.0, 2.0])))
d.MixtureSameFamily(d.Categorical(P([0.3, 0.7])), d.Independent(d.Normal(P([[0.5, 1.0], [-1.0, 0.0]]), 1.0), 1))
d.Multinomial(4, P([[0.2, 0.3, 0.5]]))
d.Multinomial(3, logits=P([0.3, -2.0, 0.0]))
d.MultivariateNormal(P([0.5, -1.0]), P([[2.0, 0.5], [0.5, 1.0]]))
d.MultivariateNormal(P([[0.5, -1.0]] * 3), precision_matrix=P([[2.0, 0.5], [0.5, 1.0]]))
d.MultivariateNormal(P([0.5, -1.0]), scale_tril=P([[[2.0, 0.0], [0.5, 1.0]]]))
d.NegativeBinomial(P([3.0, 2.5]), P([0.2, 0.7]))
d.NegativeBinomial(3, logits=P([0.3, -2.0]))
d.Normal(P([0.5, -1.0]), P([[1.0], [2.0]]))
d.Normal(0.0, 1.0)
d.OneHotCategorical(P([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
d.OneHotCategoricalStraightThrough(logits=P([0.3, -2.0, 0.0]))
d.Pareto(P([1.0, 2.0]), P([0.5, 3.0]))
d.Poisson(P([0.5, 3.0]))
d.RelaxedBernoulli(T(0.7), P([0.2, 0.7]))
d.RelaxedBernoulli(T(0.7), logits=P([0.3, -2.0]))
d.RelaxedOneHotCategorical(T(0.7), P([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
d.StudentT(P([0.7, 1.5, 3.0]), P([0.5, -1.0, 0.0]), P([1.0, 2.0, 3.0]))
d.TransformedDistribution(d.Normal(P([0.5, -1.0]), 1.0), [d.AffineTransform(1.0, T([2.0, -3.0])), d.ExpTransform()])
d.TransformedDistribution(d.Uniform(P([0.1, 0.2]), 0.9), d.SigmoidTransform().inv)
d.TransformedDistribution(d.Normal(P([0.5, -1.0]), 1.0), [d.StickBreakingTransform()])
d.Uniform(P([-1.0, 0.5]), P([1.0, 2.0]))
d.VonMises(P([0.5, -1.0]), P([1.0, 20.0]))
d.Weibull(P([1.0, 2.0]), P([1.5, 3.0]))
d.Wishart(P(4.5), P([[2.0, 0.5], [0.5, 1.0]]))
d.Wishart(P([3.0, 4.0]), precision_matrix=P([[2.0, 0.5], [0.5, 1.0]]))
d.Wishart(3, scale_tril=T([[2.0, 0.0], [0.5, 1.0]]))
""".strip().splitlines()

# Where PyTorch's number is not the mathematical one, or less precise: docs/differences.md.
ROUGH = {"VonMises": 1e-4, "ContinuousBernoulli": 1e-6}
OURS_ALONE: set[tuple[str, str]] = {
    ("Kumaraswamy", "mode"),
    ("GeneralizedPareto", "variance"),
    ("GeneralizedPareto", "stddev"),
}


pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected", "ignore:Low df values")


@pytest.fixture(autouse=True)
def in_float64():
    """Numbers become float64, too."""
    for library in LIBRARIES:
        library.set_default_dtype(library.float64)
    yield
    for library in LIBRARIES:
        library.set_default_dtype(library.float32)


def names_for(library: Any) -> tuple[dict[str, Any], list[Any]]:
    """What an expression finds, and the parameters that it makes."""
    made: list[Any] = []

    def parameter(values):
        made.append(library.tensor(values, dtype=library.float64, requires_grad=True))
        return made[-1]

    d = importlib.import_module(f"{library.__name__}.distributions")
    names = {
        "torch": library,
        "d": d,
        "N": d.Normal,
        "L": d.LowRankMultivariateNormal,
        "t": d.transforms,
        "c": d.constraints,
        "u": d.utils,
        "P": parameter,
        "T": lambda values: library.tensor(values, dtype=library.float64),
    }
    return names, made


def attempt(function: Any) -> Any:
    """A result as plain data, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(function())
        except Exception as error:
            return type(error).__name__.lstrip("_"), str(error).replace("gradlib", "torch")


def plain(value: Any) -> Any:
    if hasattr(value, "detach"):
        return str(value.dtype).split(".")[-1], value.detach().numpy()
    if isinstance(value, (list, tuple)) and type(value).__name__ != "Size":
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def same(ours: Any, theirs: Any, rtol: float = 1e-9) -> bool:
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        if ours.dtype == np.float32:
            rtol = max(rtol, 1e-5)
        return ours.shape == theirs.shape and np.allclose(
            ours, theirs, rtol, rtol * 1e-2 + 1e-12, equal_nan=True
        )
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(
            same(a, b, rtol) for a, b in zip(ours, theirs, strict=True)
        )
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k], rtol) for k in ours)
    return ours == theirs


def gradients(result: Any, parameters: list[Any]) -> list[Any]:
    """The gradients of the finite part of a result in all parameters; None becomes zeros."""
    for p in parameters:
        p.grad = None
    if not result.requires_grad:
        return []
    result.sum().backward(retain_graph=True)
    return [p.new_zeros(p.shape) if p.grad is None else p.grad for p in parameters]


def values_for(expression: str) -> list[np.ndarray]:
    """Draws from the distribution, as PyTorch makes them."""
    names, _ = names_for(torch)
    torch.manual_seed(0)
    drawn = eval(expression, names).sample((3,))
    return [drawn.detach().numpy(), drawn[0].detach().numpy()]


def facts(expression: str, library: Any, values: list[np.ndarray]) -> dict[str, Any]:
    names, parameters = names_for(library)
    made = eval(expression, names)
    found: dict[str, Any] = {
        "repr": attempt(lambda: repr(made)),
        "batch": tuple(made.batch_shape),
        "event": tuple(made.event_shape),
        "support": attempt(lambda: repr(made.support)),
        "constraints": attempt(lambda: {k: repr(v) for k, v in made.arg_constraints.items()}),
        "flags": (made.has_rsample, made.has_enumerate_support),
        "class support": attempt(lambda: repr(type(made).support)),
    }
    for name in "mean mode variance stddev probs logits covariance_matrix precision_matrix scale_tril".split():
        found[name] = attempt(lambda name=name: getattr(made, name))
    for name in "entropy perplexity enumerate_support".split():
        found[name] = attempt(getattr(made, name))
    found["entropy gradients"] = attempt(lambda: gradients(made.entropy(), parameters))
    for k, value in enumerate(values):
        x = library.tensor(value)
        if x.is_floating_point():
            x.requires_grad_()
        for name in ("log_prob", "cdf"):
            found[f"{name} {k}"] = attempt(lambda name=name, x=x: getattr(made, name)(x))
            found[f"{name} gradients {k}"] = attempt(
                lambda name=name, x=x: gradients(getattr(made, name)(x), [*parameters, x])
            )
    p = library.tensor([[0.01], [0.3], [0.9]], dtype=library.float64, requires_grad=True)
    found["icdf"] = attempt(lambda: made.icdf(p))
    found["icdf gradients"] = attempt(lambda: gradients(made.icdf(p), [*parameters, p]))
    wide = made.expand((4, *made.batch_shape))
    found["expanded"] = (repr(wide), tuple(wide.batch_shape), tuple(wide.event_shape))
    found["expanded draw"] = tuple(wide.sample((2,)).shape)
    found["expanded log_prob"] = attempt(lambda: wide.log_prob(library.tensor(values[1])))
    found["expanded mean"] = attempt(lambda: wide.mean)
    found["draw"] = (tuple(made.sample((2, 3)).shape), str(made.sample().dtype).split(".")[-1])
    return found


@pytest.mark.parametrize("expression", DISTRIBUTIONS)
def test_a_distribution_is_that_of_pytorch(expression):
    kind = expression[2:].partition("(")[0]
    values = values_for(expression)
    ours, theirs = (facts(expression, library, values) for library in LIBRARIES)
    rtol = ROUGH.get(kind, 1e-9)
    different = {
        key: (ours[key], theirs[key])
        for key in theirs
        if not same(ours[key], theirs[key], max(rtol, 1e-7 if "grad" in key else 0))
        and (kind, key) not in OURS_ALONE
    }
    assert not different


# Evaluated on both: the same value, text or error, with its text.
EXPRESSIONS = """
N(0.,-1.)
N(torch.zeros(2),T([1.,-1.]))
N(0.,1.).log_prob(1.)
N(0.,1.).log_prob(T('nan') if 0 else T(float('nan')))
N(torch.zeros(2),1.).log_prob(torch.zeros(3))
d.Dirichlet(torch.ones(3)).log_prob(torch.ones(2))
d.Dirichlet(T(1.))
d.Categorical()
d.Categorical(probs=torch.ones(2),logits=torch.ones(2))
d.Categorical(probs=T(1.))
d.Categorical(logits=T(1.))
d.Bernoulli(probs='x')
d.Bernoulli(probs=1)
d.Normal('a',1.)
d.Bernoulli(T(1.5))
d.MultivariateNormal(torch.zeros(2))
d.MultivariateNormal(T(0.),torch.eye(2))
d.MultivariateNormal(torch.zeros(2),T([1.,2.]))
d.MultivariateNormal(torch.zeros(2),precision_matrix=T([1.,2.]))
d.MultivariateNormal(torch.zeros(2),scale_tril=T([1.,2.]))
d.MultivariateNormal(torch.zeros(2),torch.eye(3))
d.MultivariateNormal(torch.zeros(2),-torch.eye(2))
d.MultivariateNormal(torch.zeros(2),-torch.eye(2),validate_args=False)
d.MultivariateNormal(torch.zeros(2),torch.eye(2),torch.eye(2))
L(T(0.),torch.ones(2,1),torch.ones(2))
L(torch.zeros(2),torch.ones(2),torch.ones(2))
L(torch.zeros(2),torch.ones(3,1),torch.ones(2))
L(torch.zeros(2),torch.ones(2,1),torch.ones(3))
d.Uniform(1.,0.)
d.Uniform(0.,1.).log_prob(T(2.))
repr(d.Uniform(0.,1.).support)
d.Uniform(torch.zeros(2),1.)
d.Wishart(T(1.),torch.eye(2))
d.Wishart(T(3.))
d.Wishart(T(3.),torch.ones(2))
d.Wishart(T(3.),torch.ones(2,3))
d.Wishart(T(3.),torch.eye(2)).arg_constraints
d.Wishart(T(1.5),torch.eye(2))
d.Wishart(T(0.5),torch.eye(2))
d.LKJCholesky(1)
d.LKJCholesky(3,-1.)
d.LKJCholesky(3)
d.Multinomial(T(3.),T([.5,.5]))
d.Multinomial(T([3.,2.]),T([.5,.5]))
repr(d.Multinomial(3,T([.5,.5])).support)
d.Multinomial(3,T([.5,.5])).entropy()
d.Multinomial(3,T(.5))
d.Binomial(T([3.,2.]),T([.5,.5])).enumerate_support()
d.Binomial(T([3.,2.]),T([.5,.5])).entropy()
d.Independent(N(0.,1.),1)
d.Independent(N(torch.zeros(2),1.),1)
d.Independent(d.Bernoulli(torch.ones(2)/2),1).enumerate_support()
d.MixtureSameFamily(N(0.,1.),N(0.,1.))
d.MixtureSameFamily(cat,1)
d.MixtureSameFamily(cat,N(torch.zeros(2),1.))
d.MixtureSameFamily(cat,N(torch.zeros(3),1.))
d.MixtureSameFamily(d.Categorical(torch.ones(2,3)/3),N(torch.zeros(4,3),1.))
d.MixtureSameFamily(cat,N(0.,1.))
repr(d.MixtureSameFamily(cat,N(torch.zeros(3),1.)).support)
d.MixtureSameFamily(cat,N(torch.zeros(3),1.)).rsample()
d.TransformedDistribution(N(0.,1.),3)
d.TransformedDistribution(N(0.,1.),[3])
d.TransformedDistribution(N(0.,1.),[d.StickBreakingTransform()])
d.TransformedDistribution(N(0.,1.),[d.ExpTransform()])
d.TransformedDistribution(N(0.,1.),[d.ExpTransform()]).mean
d.TransformedDistribution(N(0.,1.),[d.AbsTransform()]).cdf(T(0.))
d.TransformedDistribution(N(0.,1.),[]).support
d.TransformedDistribution(N(torch.zeros(2),1.),[d.StickBreakingTransform()])
d.kl_divergence(N(0.,1.),d.Cauchy(0.,1.))
d.register_kl(1,2)
d.register_kl(N,2)
d.kl_divergence(d.Independent(N(torch.zeros(2),1.),1),d.Independent(N(torch.zeros(2,2),1.),2))
d.Normal(0.,1.).enumerate_support()
d.Poisson(T(1.)).rsample()
d.Poisson(T(1.)).cdf(T(1.))
d.Poisson(T(1.)).entropy()
repr(d.Pareto(T([1.,2.]),T(1.)).support)
repr(d.GeneralizedPareto(T(0.),T(1.),T(-.5)).support)
repr(d.GeneralizedPareto(T(0.),T(1.),T(.5)).support)
d.Pareto(T([1.,2.]),T(1.))
d.Binomial(T(-1.),T(.5))
d.Binomial(3,T(.5))
d.Binomial(3,T(.5)).support
d.NegativeBinomial(T(-1.),T(.5))
d.Geometric(T(0.))
d.Geometric(T([.5,0.]))
d.Categorical(T([1.,-1.]))
d.Categorical(torch.ones(2,3)).support
d.Categorical(torch.ones(2,3)).mean
repr(d.Categorical(torch.ones(2,3)).log_prob(T(3)))
d.VonMises(T(0.),T(1.))
d.LogisticNormal(torch.zeros(2),torch.ones(2))
d.LogisticNormal(torch.zeros(2),torch.ones(2)).__dict__.keys()
N(torch.zeros(2),1.).expand((3,))
N(0.,1.).sample_n(2).shape
t.Transform(cache_size=3)
t.AffineTransform(0.,1.)
repr(t.AffineTransform(0.,1.).inv)
repr(t.ComposeTransform([t.ExpTransform(),t.AffineTransform(0.,1.)]))
repr(t.IndependentTransform(t.ExpTransform(),1))
repr(t.ReshapeTransform((4,),(2,2)))
t.ReshapeTransform((4,),(3,))
t.ReshapeTransform((4,),(2,2))(torch.ones(3))
t.AbsTransform().sign
t.AbsTransform().log_abs_det_jacobian(torch.ones(1),torch.ones(1))
t.AbsTransform()._inverse(torch.ones(1))
t.StickBreakingTransform().forward_shape(())
t.StickBreakingTransform().forward_shape((3,))
t.StickBreakingTransform().inverse_shape(())
t.SoftmaxTransform().forward_shape(())
t.CorrCholeskyTransform().forward_shape((3,))
t.CorrCholeskyTransform().forward_shape((4,))
t.CorrCholeskyTransform().inverse_shape((4,))
t.CorrCholeskyTransform().inverse_shape((4,3))
t.AffineTransform(0.,1.,event_dim=1).domain
t.AffineTransform(0.,1.,event_dim=2).domain
t.identity_transform
t.Transform()(T(1.))
t.Transform().domain
t.Transform().with_cache(1)
t.ExpTransform().with_cache(1)._cache_size
t.Transform().inv.inv
t.ExpTransform()==t.ExpTransform()
t.ExpTransform().inv==t.ExpTransform().inv
t.TanhTransform()==t.TanhTransform()
t.SoftplusTransform().inv
t.CatTransform([t.ExpTransform(),t.AbsTransform()])
t.StackTransform([t.ExpTransform(),t.AbsTransform()])(torch.ones(3))
t.StackTransform([3])
t.CatTransform([3])
t.CatTransform([t.ExpTransform()],lengths=[1,2])
t.CumulativeDistributionTransform(N(0.,1.))
t.PowerTransform(T(2.))
t.PowerTransform(T(-2.)).sign
t.ComposeTransform([t.ExpTransform(),t.AbsTransform()]).bijective
t.ComposeTransform([]).domain
t.ComposeTransform([]).codomain
t.ComposeTransform([t.StickBreakingTransform()]).domain
t.ComposeTransform([t.ExpTransform(),t.StickBreakingTransform(), t.LowerCholeskyTransform()]).domain
t.ComposeTransform([t.ExpTransform(),t.StickBreakingTransform()]).codomain
t.LowerCholeskyTransform().bijective
t.AbsTransform().inv
t.AbsTransform().inv(T(-1.))
t.ExpTransform().inv.domain
t.ExpTransform().event_dim
t.IndependentTransform(t.ExpTransform(),1).domain
t.IndependentTransform(t.ExpTransform(),1)(T(1.))
t.ComposeTransform([t.ExpTransform(),t.AbsTransform()]).sign
t.ReshapeTransform((4,),(2,2)).domain
t.ReshapeTransform((4,),(2,2)).codomain
t.ReshapeTransform((4,),(2,2)).forward_shape((3,))
t.ReshapeTransform((4,),(2,2)).forward_shape(())
t.StackTransform([t.ExpTransform(),t.AbsTransform()]).domain
t.CatTransform([t.ExpTransform(),t.AbsTransform()]).codomain
t.SigmoidTransform().log_abs_det_jacobian(T(1.),T(1.))
t.SigmoidTransform()(T(100.))
t.SigmoidTransform()(T(-200.))
t.SigmoidTransform().inv(T([0.,1.]))
t.StickBreakingTransform()(torch.zeros(3))
t.AffineTransform(0.,T([1.,-2.])).sign
t.AffineTransform(0.,-2).sign
t.AffineTransform(0.,2.)==t.AffineTransform(0.,2.)
t.TanhTransform().inv(T(1.))
t.SoftmaxTransform().inv(torch.ones(2)/2)
d.transform_to(c.interval(0.,1.))
d.transform_to(c.interval(0.,2.))
d.biject_to(c.positive)
d.biject_to(c.greater_than(1.))
d.biject_to(c.less_than(1.))
d.biject_to(c.real)
d.biject_to(c.real_vector)
d.transform_to(c.real_vector)
d.biject_to(c.lower_cholesky)
d.biject_to(c.boolean)
d.biject_to(c.half_open_interval(0.,1.))
d.biject_to(3)
d.transform_to(c.cat([c.positive,c.real],0,[1,2]))
d.transform_to(c.stack([c.positive,c.real]))
c.cat([c.positive])
c.stack([c.positive])
c.independent(c.real,1)
c.multinomial(3)
c.integer_interval(1,2)
c.Constraint().check(T(1.))
c.dependent.check(T(1.))
c.MixtureSameFamilyConstraint(c.real)
c.independent(c.simplex,0).check(T(1.))
c.independent(c.real,2).check(T(1.))
d.biject_to(c.independent(c.positive,1))
c.positive_definite.check(torch.ones(2))
c.corr_cholesky.check(torch.eye(2))
u.tril_matrix_to_vec(torch.ones(3,3),-1)
u.tril_matrix_to_vec(torch.ones(3,3),4)
u.vec_to_tril_matrix(torch.ones(3))
u.vec_to_tril_matrix(torch.ones(4))
u.vec_to_tril_matrix(torch.ones(3),-1)
u.clamp_probs(T([0.,1.]))
u.logits_to_probs(torch.zeros(2))
d.biject_to(c.corr_cholesky)
d.biject_to(c.simplex)
d.transform_to(c.simplex)
d.transform_to(c.lower_cholesky)
d.transform_to(c.positive_definite)
d.transform_to(c.nonnegative)
d.transform_to(d.Uniform(0.,2.).support)
d.Bernoulli()
d.Bernoulli(probs=T(0.5), logits=T(0.0))
d.Binomial(3)
d.Geometric()
d.ContinuousBernoulli()
d.Multinomial(3)
d.OneHotCategorical()
d.NegativeBinomial(T(3.0))
d.RelaxedBernoulli(T(1.0))
d.RelaxedOneHotCategorical(T(1.0))
d.Beta(-1.0, 2.0)
d.HalfNormal(-1.0)
d.InverseGamma(-1.0, 1.0)
d.Gumbel(0.0, -1.0)
d.LogNormal(0.0, -1.0)
d.Weibull(-1.0, 1.0)
d.Pareto(-1.0, 1.0)
d.Pareto(1.0, -1.0)
d.Kumaraswamy(-1.0, 1.0)
d.Chi2(-1.0)
d.RelaxedBernoulli(T(1.0), T(2.0))
d.LogisticNormal(torch.zeros(2), -torch.ones(2))
d.biject_to.register(3, abs)
d.Distribution.set_default_validate_args(3)
d.Normal(torch.zeros(1), 1.0)
d.Normal(torch.zeros(2), 1.0, validate_args=False).log_prob(torch.ones(3, 1))
d.Normal(0.0, -1.0, validate_args=False)
d.StudentT(3.0, validate_args=False).log_prob(T(1.0))
t.ExpTransform().log_abs_det_jacobian(T(1.0), T(1.0))
u.broadcast_all(1.0, "a")
u.broadcast_all(T([1.0, 2.0]), 3)
u.probs_to_logits(T([0.0, 0.3, 1.0]), True)
u.probs_to_logits(T([0.0, 0.3, 1.0]))
u.logits_to_probs(T([0.0, 0.3]), True)
d.TransformedDistribution(d.Normal(torch.zeros(3), 1.0), [d.ReshapeTransform((3,), (3, 1))]).event_shape
d.TransformedDistribution(d.Normal(torch.zeros(4, 3), 1.0), [d.StickBreakingTransform()]).expand((2, 4)).batch_shape
d.Categorical(torch.ones(2, 3)).enumerate_support(expand=False)
d.OneHotCategorical(torch.ones(2, 3)).enumerate_support(expand=False)
d.Bernoulli(torch.ones(2, 1)).enumerate_support(expand=False).shape
d.Uniform(0.0, 1.0).log_prob(T(1.0))
d.Uniform(0.0, 1.0, validate_args=False).log_prob(T(2.0))
d.Uniform(0.0, 1.0, validate_args=False).cdf(T(2.0))
d.Dirichlet(T([0.5, 0.2, 0.7])).mode
d.Beta(0.5, 0.5).mode
d.Beta(1.0, 1.0).mode
d.HalfNormal(1.0, validate_args=False).log_prob(T(-1.0))
d.HalfCauchy(1.0).log_prob(T(-1.0))
d.MultivariateNormal(torch.zeros(3, 2), torch.eye(2)).expand((4, 3)).covariance_matrix.shape
d.LowRankMultivariateNormal(torch.zeros(3, 2), torch.ones(2, 1), torch.ones(4, 1, 2))
d.LowRankMultivariateNormal(torch.zeros(3, 2), torch.ones(2, 1), torch.ones(4, 2))
d.NegativeBinomial(0.0, T(0.5)).log_prob(T([0.0, 1.0]))
d.Poisson(T([0.0, 1.0])).log_prob(T([0.0, 0.0]))
d.Multinomial(2, T([0.0, 1.0])).log_prob(T([0.0, 2.0]))
d.Geometric(T(1.0)).log_prob(T(0.0))
""".strip().splitlines()
EXPRESSIONS = [e for e in EXPRESSIONS if e]
# What is better here, with the reason.
DIFFERENT = {
    "d.LKJCholesky(3,-1.)": "it names the parameter that is wrong",
    "d.register_kl(1,2)": "it says which argument",
    "d.register_kl(N,2)": "it says which argument",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_gives_what_it_gives_on_pytorch(expression):
    ours, theirs = (outcome(expression, library) for library in LIBRARIES)
    assert (expression in DIFFERENT) or same(ours, theirs), f"{ours} vs {theirs}"


def outcome(expression: str, library: Any) -> Any:
    names, _ = names_for(library)
    names["cat"] = names["d"].Categorical(library.ones(3) / 3)
    return attempt(lambda: eval(expression, names))


# A transform, and arguments of it.
TRANSFORMS = """
t.AbsTransform() | [[0.3, -1.5]]
t.AffineTransform(0.5, 2.0) | [[0.3, -1.5]]
t.AffineTransform(P([0.5, 1.0]), P([2.0, -3.0])) | [[0.3, -1.5]]
t.AffineTransform(0.5, -2.0, event_dim=1) | [[0.3, -1.5]]
t.CatTransform([t.ExpTransform(), t.AffineTransform(0.0, 2.0)], 1, [2, 1]) | [[0.3, -1.5, 1.0]]
t.CatTransform([t.IndependentTransform(t.ExpTransform(), 1), t.ExpTransform()], 0, [2, 1]) | [[0.3], [0.2], [0.6]]
t.ComposeTransform([t.AffineTransform(0.0, -0.5), t.ExpTransform()]) | [[0.3, -1.5]]
t.ComposeTransform([t.ExpTransform(), t.StickBreakingTransform()]) | [[0.3, -1.5]]
t.ComposeTransform([t.StickBreakingTransform(), t.ExpTransform()]) | [[0.3, -1.5]]
t.ComposeTransform([]) | [[0.3, -1.5]]
t.CorrCholeskyTransform() | [[0.3, -1.5, 0.7], [2.0, 0.1, -0.2]]
t.CumulativeDistributionTransform(d.Normal(P(0.5), P(2.0))) | [[0.3, -1.5]]
t.ExpTransform() | [[0.3, -1.5]]
t.ExpTransform().inv | [[0.3, 1.5]]
t.IndependentTransform(t.ExpTransform(), 1) | [[0.3, -1.5]]
t.LowerCholeskyTransform() | [[0.3, -1.5], [0.7, 1.2]]
t.PositiveDefiniteTransform() | [[0.3, -1.5], [0.7, 1.2]]
t.PowerTransform(P([2.0, -0.5])) | [[0.3, 1.5]]
t.ReshapeTransform((4,), (2, 2)) | [[0.3, -1.5, 0.7, 1.2]]
t.SigmoidTransform() | [[0.3, -1.5]]
t.SoftmaxTransform() | [[0.3, -1.5]]
t.SoftplusTransform() | [[0.3, -1.5]]
t.StackTransform([t.ExpTransform(), t.AffineTransform(0.0, 2.0)], 1) | [[0.3, -1.5]]
t.StickBreakingTransform() | [[0.3, -1.5]]
t.TanhTransform() | [[0.3, -1.5]]
d.biject_to(c.interval(-1.0, 2.0)) | [[0.3, -1.5]]
d.biject_to(c.less_than(2.0)) | [[0.3, -1.5]]
d.biject_to(c.independent(c.simplex, 1)) | [[0.3, -1.5], [0.7, 1.2]]
d.transform_to(c.cat([c.positive, c.unit_interval], 1, [1, 1])) | [[0.3, -1.5]]
d.transform_to(c.stack([c.positive, c.unit_interval], 1)) | [[0.3, -1.5]]
""".strip().splitlines()


@pytest.mark.parametrize("line", TRANSFORMS)
def test_a_transform_is_that_of_pytorch(line):
    ours, theirs = (transform_facts(line, library) for library in LIBRARIES)
    different = {k: (ours[k], theirs[k]) for k in theirs if not same(ours[k], theirs[k])}
    assert not different


def transform_facts(line: str, library: Any) -> dict[str, Any]:
    expression, _, numbers = line.partition("|")
    names, parameters = names_for(library)
    made = eval(expression, names)
    x = library.tensor(eval(numbers), requires_grad=True)
    y = made(x).detach().requires_grad_()
    found = {
        name: attempt(lambda name=name: getattr(made, name))
        for name in "domain codomain bijective sign event_dim".split()
    }
    results = {
        "forward": lambda: made(x),
        "inverse": lambda: made.inv(y),
        "jacobian": lambda: made.log_abs_det_jacobian(x, y),
        "inverse jacobian": lambda: made.inv.log_abs_det_jacobian(y, x),
    }
    for name, result in results.items():
        found[name] = attempt(result)
        found[f"{name} gradients"] = attempt(lambda r=result: gradients(r(), [*parameters, x, y]))
    cached = made.with_cache() if "Compose" not in expression else made
    z = cached(x)
    found["cached"] = attempt(lambda: (cached.inv(z) is x, repr(cached)))
    for shape in ((3,), (2, 3), (3, 3)):
        shapes = attempt(
            lambda shape=shape: [tuple(made.forward_shape(shape)), tuple(made.inverse_shape(shape))]
        )
        found[f"shapes {shape}"] = shapes if isinstance(shapes, list) else shapes[0]
    return found


# -- divergences -------------------------------------------------------------------------------------------------------

# How a distribution of each type is made; the second where it is the second of a pair.
MAKERS = {
    "Bernoulli": ("d.Bernoulli(P([0.2, 0.7]))", "d.Bernoulli(logits=P([0.4, -1.0]))"),
    "Beta": ("d.Beta(P([0.5, 2.0]), P([1.5, 3.0]))", "d.Beta(P([2.5, 1.0]), P([0.7, 3.0]))"),
    "Binomial": ("d.Binomial(5, P([0.2, 0.7]))", "d.Binomial(5, P([0.3, 0.4]))"),
    "Categorical": ("d.Categorical(P([[0.2, 0.8]]))", "d.Categorical(P([[0.7, 0.3], [0.5, 0.5]]))"),
    "Cauchy": ("d.Cauchy(P([0.5, -1.0]), P([1.0, 2.0]))", "d.Cauchy(P([0.0, 1.0]), P([2.0, 0.5]))"),
    "ContinuousBernoulli": ("d.ContinuousBernoulli(P([0.2, 0.7]))", "d.ContinuousBernoulli(P([0.4, 0.1]))"),
    "Dirichlet": ("d.Dirichlet(P([0.5, 2.0, 1.0]))", "d.Dirichlet(P([1.5, 1.0, 3.0]))"),
    "Exponential": ("d.Exponential(P([0.5, 2.0]))", "d.Exponential(P([1.5, 1.0]))"),
    "ExponentialFamily": ("d.Chi2(P([0.5, 2.0]))", "d.Chi2(P([1.5, 1.0]))"),
    "Gamma": ("d.Gamma(P([0.5, 2.0]), P([1.0, 3.0]))", "d.Gamma(P([1.5, 1.0]), P([0.7, 2.0]))"),
    "Geometric": ("d.Geometric(P([0.2, 0.7]))", "d.Geometric(P([0.4, 0.1]))"),
    "Gumbel": ("d.Gumbel(P([0.5, -1.0]), P([1.0, 2.0]))", "d.Gumbel(P([0.0, 1.0]), P([2.5, 1.5]))"),
    "HalfNormal": ("d.HalfNormal(P([0.5, 2.0]))", "d.HalfNormal(P([1.5, 1.0]))"),
    "Independent": (
        "d.Independent(d.Normal(P([0.5, -1.0]), P([1.0, 2.0])), 1)",
        "d.Independent(d.Normal(P([0.0, 1.0]), P([2.0, 1.5])), 1)",
    ),
    "Laplace": ("d.Laplace(P([0.5, -1.0]), P([1.0, 2.0]))", "d.Laplace(P([0.0, 1.0]), P([2.0, 1.5]))"),
    "LowRankMultivariateNormal": (
        "L(P([0.5, -1.0]), P([[1.0], [2.0]]), P([1.0, 2.0]))",
        "L(P([0.0, 1.0]), P([[-1.0], [0.5]]), P([0.7, 1.5]))",
    ),
    "MultivariateNormal": (
        "d.MultivariateNormal(P([0.5, -1.0]), P([[2.0, 0.5], [0.5, 1.0]]))",
        "d.MultivariateNormal(P([[0.0, 1.0]] * 3), T([[1.0, -0.3], [-0.3, 2.0]]))",
    ),
    "Normal": ("d.Normal(P([0.5, -1.0]), P([1.0, 2.0]))", "d.Normal(P([0.0, 1.0]), P([2.0, 1.5]))"),
    "OneHotCategorical": ("d.OneHotCategorical(P([0.2, 0.8]))", "d.OneHotCategorical(P([0.7, 0.3]))"),
    "Pareto": ("d.Pareto(P([1.5, 2.0]), P([3.5, 2.5]))", "d.Pareto(P([0.1, 1.0]), P([1.0, 2.0]))"),
    "Poisson": ("d.Poisson(P([0.5, 2.0]))", "d.Poisson(P([1.5, 1.0]))"),
    "TransformedDistribution": (
        "d.LogNormal(P([0.5, -1.0]), P([1.0, 2.0]))",
        "d.LogNormal(P([0.0, 1.0]), P([2.0, 1.5]))",
    ),
    "Uniform": ("d.Uniform(P([0.25, 0.1]), P([0.5, 0.75]))", "d.Uniform(P([-1.0, -0.5]), P([2.0, 1.5]))"),
}  # fmt: skip
PAIRS = sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)


def test_the_same_divergences_are_registered():
    ours = {(p.__name__, q.__name__) for p, q in gradlib.distributions.kl._KL_REGISTRY}
    assert ours == set(PAIRS)


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_a_divergence_is_that_of_pytorch(p, q):
    ours, theirs = (divergence(p, q, library) for library in LIBRARIES)
    assert same(ours, theirs, 1e-7), f"{ours} vs {theirs}"


def divergence(p: str, q: str, library: Any) -> Any:
    names, parameters = names_for(library)
    first, second = eval(MAKERS[p][0], names), eval(MAKERS[q][1], names)
    result = library.distributions.kl_divergence(first, second)
    found = [plain(result)]
    if np.isfinite(result.detach().numpy()).all():
        found.append(plain(gradients(result, parameters)))
    return found


def test_derivatives_of_draws_are_those_of_pytorch_up_to_its_precision():
    rng = np.random.default_rng(0)
    a, b = 10 ** rng.uniform(-2, 3, (2, 500))
    z, x = rng.gamma(a), rng.beta(a, b)
    inside = (z > 1e-200) & (x > 1e-200) & (x < 1 - 1e-9)
    a, b, z, x = a[inside], b[inside], z[inside], x[inside]
    for name, arguments, rtol in (
        ("_standard_gamma_grad", (a, z), 1e-3),
        ("_dirichlet_grad", (x, a, a + b), 5e-3),
    ):
        ours, theirs = (
            getattr(lib, name)(*map(lib.tensor, arguments)).numpy() for lib in LIBRARIES
        )
        np.testing.assert_allclose(ours, theirs, rtol)


@pytest.mark.parametrize("library", LIBRARIES, ids=["gradlib", "torch"])
def test_dirichlet_draws_have_the_gradient_of_pytorch(library):
    """Along the simplex: what moves with one concentration is taken from the other elements in proportion."""
    a = library.tensor([0.7, 2.0, 3.5], requires_grad=True)
    x = library.distributions.Dirichlet(a).rsample()
    weights = library.tensor([1.0, -2.0, 0.5])
    (x * weights).sum().backward()
    slope = library._dirichlet_grad(x.detach(), a.detach(), a.detach().sum().expand(3))
    expected = slope * (weights - (x.detach() * weights).sum())
    assert library.allclose(a.grad, expected, rtol=1e-6)
