"""Every registered divergence against a Monte Carlo estimate, and how functions are found for types."""

from __future__ import annotations

import math
import warnings

import pytest

import gradlib as gl
from gradlib import distributions as d
from gradlib.distributions.kl import _KL_REGISTRY


def t(values) -> gl.Tensor:
    return gl.tensor(values, dtype=gl.float64)


# the first and the second of a pair
MAKERS = {
    d.Bernoulli: (lambda: d.Bernoulli(t([0.2, 0.7])), lambda: d.Bernoulli(t([0.4, 0.3]))),
    d.Beta: (lambda: d.Beta(t([0.5, 2.0]), t([1.5, 3.0])), lambda: d.Beta(t([1.5, 1.0]), t([0.7, 2.0]))),
    d.Binomial: (lambda: d.Binomial(5, t([0.2, 0.7])), lambda: d.Binomial(5, t([0.3, 0.4]))),
    d.Categorical: (lambda: d.Categorical(t([[0.2, 0.8]] * 2)), lambda: d.Categorical(t([[0.7, 0.3], [0.5, 0.5]]))),
    d.Cauchy: (lambda: d.Cauchy(t([0.5, -1.0]), t([1.0, 2.0])), lambda: d.Cauchy(t([0.0, 1.0]), t([2.0, 0.5]))),
    d.ContinuousBernoulli: (lambda: d.ContinuousBernoulli(t([0.2, 0.5])), lambda: d.ContinuousBernoulli(t([0.5, 0.1]))),
    d.Dirichlet: (lambda: d.Dirichlet(t([[0.5, 2.0, 1.0]] * 2)), lambda: d.Dirichlet(t([1.5, 1.0, 3.0]))),
    d.Exponential: (lambda: d.Exponential(t([0.5, 2.0])), lambda: d.Exponential(t([1.5, 1.0]))),
    d.ExponentialFamily: (
        lambda: d.Wishart(t([4.0, 5.0]), gl.eye(2).double()),
        lambda: d.Wishart(t(3.5), t([[2.0, 0.5], [0.5, 1.0]])),
    ),
    d.Gamma: (lambda: d.Gamma(t([0.5, 2.0]), t([1.0, 3.0])), lambda: d.Gamma(t([1.5, 1.0]), t([0.7, 2.0]))),
    d.Geometric: (lambda: d.Geometric(t([0.2, 0.7])), lambda: d.Geometric(t([0.4, 0.1]))),
    d.Gumbel: (lambda: d.Gumbel(t([0.5, -1.0]), t([1.0, 2.0])), lambda: d.Gumbel(t([0.0, 1.0]), t([2.5, 3.5]))),
    d.HalfNormal: (lambda: d.HalfNormal(t([0.5, 2.0])), lambda: d.HalfNormal(t([1.5, 1.0]))),
    d.Independent: (
        lambda: d.Independent(d.Normal(t([[0.5, -1.0]]), 1.0), 1),
        lambda: d.Independent(d.Normal(t([[0.0, 1.0]]), 2.0), 1),
    ),
    d.Laplace: (lambda: d.Laplace(t([0.5, -1.0]), t([1.0, 2.0])), lambda: d.Laplace(t([0.0, 1.0]), t([2.0, 1.5]))),
    d.LowRankMultivariateNormal: (
        lambda: d.LowRankMultivariateNormal(t([[0.5, -1.0]]), t([[1.0], [2.0]]), t([1.0, 2.0])),
        lambda: d.LowRankMultivariateNormal(t([[0.0, 1.0]]), t([[-1.0], [0.5]]), t([0.7, 1.5])),
    ),
    d.MultivariateNormal: (
        lambda: d.MultivariateNormal(t([[0.5, -1.0]]), t([[2.0, 0.5], [0.5, 1.0]])),
        lambda: d.MultivariateNormal(t([[0.0, 1.0]]), t([[1.0, -0.3], [-0.3, 2.0]])),
    ),
    d.Normal: (lambda: d.Normal(t([0.5, -1.0]), t([1.0, 2.0])), lambda: d.Normal(t([0.0, 1.0]), t([2.0, 1.5]))),
    d.OneHotCategorical: (lambda: d.OneHotCategorical(t([[0.2, 0.8]])), lambda: d.OneHotCategorical(t([[0.7, 0.3]]))),
    d.Pareto: (lambda: d.Pareto(t([1.5, 2.0]), t([6.5, 7.5])), lambda: d.Pareto(t([0.1, 0.05]), t([1.0, 2.0]))),
    d.Poisson: (lambda: d.Poisson(t([0.5, 2.0])), lambda: d.Poisson(t([1.5, 1.0]))),
    d.TransformedDistribution: (lambda: d.LogNormal(t([0.5, -1.0]), 1.0), lambda: d.LogNormal(t([0.0, 1.0]), 2.0)),
    d.Uniform: (lambda: d.Uniform(t([0.25, 0.1]), t([0.5, 0.75])), lambda: d.Uniform(t([-1.0, 0.0]), t([2.0, 1.0]))),
}  # fmt: skip
PAIRS = sorted(_KL_REGISTRY, key=str)


@pytest.mark.host  # many draws, of formulas that are the same on devices
@pytest.mark.parametrize(("p", "q"), PAIRS, ids=[f"{p.__name__}-{q.__name__}" for p, q in PAIRS])
def test_against_monte_carlo(p, q):
    first, second = MAKERS[p][0](), MAKERS[q][1]()
    exact = d.kl_divergence(first, second)
    assert exact.shape == first.batch_shape
    n = 50_000
    second._validate_args = False
    if isinstance(second, d.TransformedDistribution):
        second.base_dist._validate_args = False
    drawn = first.sample((n,))
    terms = first.log_prob(drawn) - second.log_prob(drawn)
    if bool(exact.isinf().any()):
        # the second distribution excludes draws of the first: outside of its support
        assert bool(exact.isinf().all())
        outside = ~second.support.check(drawn)
        assert bool(outside.any(0).all()) or bool(first.support.check(t(1e9)).any())
        return
    error = 5 * terms.std(0) / math.sqrt(n)
    assert bool(((terms.mean(0) - exact).abs() <= error + 1e-9).all()), (terms.mean(0), exact)


def test_all_types_have_makers():
    known = {t for pair in _KL_REGISTRY for t in pair}
    # without those that a program, such as the example of register_kl, has registered in this process
    assert {t for t in known if getattr(d, t.__name__, None) is t} == set(MAKERS)


def test_a_subclass_uses_the_function_of_its_base_and_its_own_is_closer():
    class Mine(d.Normal):
        pass

    p, q = Mine(0.0, 1.0), d.Normal(2.0, 1.0)
    assert d.kl_divergence(p, q).item() == 2
    before = dict(_KL_REGISTRY)
    try:
        d.register_kl(Mine, d.Normal)(lambda p, q: "mine")
        assert d.kl_divergence(p, q) == "mine"
        assert d.kl_divergence(d.Normal(0.0, 1.0), q).item() == 2
    finally:
        _KL_REGISTRY.clear()
        _KL_REGISTRY.update(before)
        d.kl._KL_MEMOIZE.clear()


def test_an_ambiguous_pair_warns():
    class Left(d.Normal):
        pass

    before = dict(_KL_REGISTRY)
    try:
        d.register_kl(Left, d.Normal)(lambda p, q: "left")
        d.register_kl(d.Normal, Left)(lambda p, q: "right")
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            assert d.kl_divergence(Left(0.0, 1.0), Left(0.0, 1.0)) == "left"
    finally:
        _KL_REGISTRY.clear()
        _KL_REGISTRY.update(before)
        d.kl._KL_MEMOIZE.clear()


def test_no_function_for_a_pair():
    with pytest.raises(NotImplementedError, match="p type Normal and q type Cauchy"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Cauchy(0.0, 1.0))


def test_divergences_are_differentiable_and_zero_of_equals():
    for first, second in MAKERS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p, _ = first(), second()
        zero = d.kl_divergence(p, p)
        assert zero.numpy(force=True) == pytest.approx(0, abs=1e-10)


def test_one_distribution_excludes_what_the_other_has():
    """Infinite where q gives probability 0 to what p has; what p excludes counts nothing."""
    p, q = t([0.0, 1.0, 0.0, 1.0, 0.5, 0.0]), t([1.0, 0.0, 0.0, 1.0, 1.0, 0.5])
    want = [math.inf, math.inf, 0.0, 0.0, math.inf, math.log(2.0)]
    assert d.kl_divergence(d.Bernoulli(p), d.Bernoulli(q)).tolist() == pytest.approx(want)
    two = d.kl_divergence(d.Binomial(2, p), d.Binomial(2, q))
    assert two.tolist() == pytest.approx([2 * v for v in want])
    assert d.kl_divergence(d.Binomial(0, p), d.Binomial(0, q)).tolist() == [0.0] * 6
    geometric = d.kl_divergence(d.Geometric(t([1.0, 1.0, 0.5])), d.Geometric(t([1.0, 0.5, 1.0])))
    assert geometric.tolist() == pytest.approx([0.0, math.log(2.0), math.inf])
    poisson = d.kl_divergence(d.Poisson(t([0.0, 1.0, 0.0])), d.Poisson(t([1.0, 0.0, 0.0])))
    assert poisson.tolist() == pytest.approx([1.0, math.inf, 0.0])
    mixed = d.kl_divergence(d.Bernoulli(t([0.0, 0.5])), d.Poisson(t([0.0, 0.0])))
    assert mixed.tolist() == [0.0, math.inf]


def test_large_logits_exclude_nothing():
    """A probability that is 1 by rounding alone leaves the divergence finite."""
    p, q = d.Bernoulli(logits=t([0.0, 50.0])), d.Bernoulli(logits=t([50.0, -800.0]))
    assert d.kl_divergence(p, q).tolist() == pytest.approx([25.0 - math.log(2.0), 800.0])
