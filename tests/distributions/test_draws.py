"""Draws have the distribution that they should: Kolmogorov-Smirnov and chi-squared tests of 10^5 with a fixed seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import gradlib as gl
from gradlib import distributions as d

from .references import CONTINUOUS, DISCRETE

pytestmark = pytest.mark.host  # against SciPy, on the host
COUNT = 100_000
LEAST = 1e-3  # a probability below is a wrong distribution, as seeds are fixed


def t(values) -> gl.Tensor:
    return gl.tensor(values, dtype=gl.float64)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    parameters, ours, theirs = CONTINUOUS[name]
    made = ours(*map(t, parameters))
    drawn = made.sample((COUNT,))
    assert drawn.dtype is gl.float64 and not drawn.requires_grad
    values = drawn.numpy()
    reference = theirs(*parameters)
    if "VonMises" in name:  # angles in [-pi, pi)
        values = (values - parameters[0] + math.pi) % (2 * math.pi) - math.pi + parameters[0]
    assert stats.kstest(values, reference.cdf).pvalue > LEAST
    assert bool(made.support.check(drawn).all())


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    parameters, ours, theirs = DISCRETE[name]
    drawn = ours(*map(t, parameters)).sample((COUNT,)).numpy()
    assert_frequencies(drawn, theirs(*parameters).pmf)


def assert_frequencies(drawn: np.ndarray, probability) -> None:
    """A chi-squared test of whole numbers; rare ones are taken together."""
    counts = np.bincount(drawn.astype(int))
    expected = COUNT * probability(np.arange(len(counts)))
    common = expected > 20
    seen = [*counts[common], counts[~common].sum()]
    wanted = [*expected[common], COUNT - expected[common].sum()]
    keep = [w > 1e-6 for w in wanted]
    seen, wanted = np.array(seen)[keep], np.array(wanted)[keep]
    assert stats.chisquare(seen, wanted * (seen.sum() / wanted.sum())).pvalue > LEAST


def test_small_gammas_and_dirichlets_do_not_underflow_to_nan():
    drawn = d.Gamma(gl.full((1000,), 1e-3), 1.0).sample()
    assert bool((drawn > 0).all())
    drawn = d.Dirichlet(gl.full((1000, 3), 1e-4)).sample()
    np.testing.assert_allclose(drawn.sum(-1).numpy(), 1, rtol=1e-6)
    first = (drawn[:, 0] > 0.5).double().mean().item()
    assert first == pytest.approx(1 / 3, abs=0.05)


def test_dirichlet_margins_are_beta_distributions():
    a = [0.3, 2.0, 1.7]
    drawn = d.Dirichlet(t(a)).sample((COUNT,)).numpy()
    for k in range(3):
        assert stats.kstest(drawn[:, k], stats.beta(a[k], sum(a) - a[k]).cdf).pvalue > LEAST


def test_multinomial():
    p = [0.2, 0.5, 0.3]
    drawn = d.Multinomial(5, t(p)).sample((COUNT,)).numpy()
    assert (drawn.sum(-1) == 5).all()
    for k in range(3):
        assert_frequencies(drawn[:, k], stats.binom(5, p[k]).pmf)
    expected = stats.multinomial(5, p).cov()
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.02)


def test_one_hot():
    drawn = d.OneHotCategorical(t([0.2, 0.5, 0.3])).sample((COUNT,)).numpy()
    assert (drawn.sum(-1) == 1).all()
    assert_frequencies(drawn.argmax(-1), lambda k: np.array([0.2, 0.5, 0.3])[k])


COVARIANCE = [[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.7]]


def whitened(made, drawn: gl.Tensor) -> np.ndarray:
    root = gl.linalg.cholesky(made.covariance_matrix)
    return gl.linalg.solve_triangular(root, (drawn - made.loc).mT, upper=False).numpy()


def test_multivariate_normals():
    mean = t([0.3, -1.0, 2.0])
    factor, diagonal = t([[1.0], [2.0], [-0.5]]), t([0.5, 1.0, 2.0])
    for made in (
        d.MultivariateNormal(mean, t(COVARIANCE)),
        d.MultivariateNormal(mean, precision_matrix=t(COVARIANCE)),
        d.LowRankMultivariateNormal(mean, factor, diagonal),
    ):
        for row in whitened(made, made.sample((COUNT,))):
            assert stats.kstest(row, stats.norm.cdf).pvalue > LEAST


def test_wishart_moments_and_margins():
    """The diagonal is a scaled chi-squared number; all means and variances are those of SciPy."""
    made, reference = d.Wishart(t(5.5), t(COVARIANCE)), stats.wishart(5.5, COVARIANCE)
    drawn = made.sample((COUNT,)).numpy()
    for k in range(3):
        scaled = drawn[:, k, k] / COVARIANCE[k][k]
        assert stats.kstest(scaled, stats.chi2(5.5).cdf).pvalue > LEAST
    error = 5 * np.sqrt(reference.var() / COUNT)
    assert (np.abs(drawn.mean(0) - reference.mean()) < error).all()
    np.testing.assert_allclose(drawn.var(0), reference.var(), rtol=0.05)


@pytest.mark.parametrize("concentration", [0.6, 1.0, 3.0])
def test_each_lkj_correlation_is_a_beta_number(concentration):
    """(r + 1) / 2 has both parameters concentration + (n - 2) / 2 (section 3.2 of the source)."""
    n = 4
    factors = d.LKJCholesky(n, t(concentration)).sample((COUNT,))
    drawn = (factors @ factors.mT).numpy()
    a = concentration + (n - 2) / 2
    for i in range(n):
        for j in range(i):
            p = stats.kstest((drawn[:, i, j] + 1) / 2, stats.beta(a, a).cdf).pvalue
            assert p > LEAST, (i, j)


def test_mixture():
    made = d.MixtureSameFamily(
        d.Categorical(t([0.3, 0.7])), d.Normal(t([-1.0, 2.0]), t([0.5, 1.5]))
    )
    drawn = made.sample((COUNT,))
    p = stats.kstest(drawn.numpy(), lambda x: made.cdf(t(x)).numpy()).pvalue
    assert p > LEAST


def test_relaxed():
    """The log-odds of the binary one are logistic; the greatest element of a vector is that of a Categorical."""
    drawn = d.RelaxedBernoulli(t(0.8), t(0.3)).sample((COUNT,))
    centre, scale = math.log(0.3 / 0.7) / 0.8, 1 / 0.8
    assert stats.kstest(gl.logit(drawn).numpy(), stats.logistic(centre, scale).cdf).pvalue > LEAST
    drawn = d.RelaxedOneHotCategorical(t(0.8), t([0.2, 0.5, 0.3])).sample((COUNT,)).numpy()
    np.testing.assert_allclose(drawn.sum(-1), 1)
    assert_frequencies(drawn.argmax(-1), lambda k: np.array([0.2, 0.5, 0.3])[k])


def test_logistic_normal_is_the_image_of_a_normal_vector():
    made = d.LogisticNormal(t([0.3, -1.0]), t([0.5, 2.0]))
    back = d.StickBreakingTransform().inv(made.sample((COUNT,))).numpy()
    for k, (mean, scale) in enumerate([(0.3, 0.5), (-1.0, 2.0)]):
        assert stats.kstest(back[:, k], stats.norm(mean, scale).cdf).pvalue > LEAST


def test_a_seed_fixes_all_draws():
    for name, (parameters, ours, _) in {**CONTINUOUS, **DISCRETE}.items():
        made = ours(*map(t, parameters))
        gl.manual_seed(7)
        first = made.sample((3,))
        gl.manual_seed(7)
        assert gl.equal(first, made.sample((3,))), name


def test_an_expanded_batch_has_independent_draws():
    for made in (d.Normal(0.0, 1.0), d.Gamma(2.0, 1.0), d.Poisson(50.0), d.Beta(2.0, 1.0)):
        drawn = made.expand((100,)).sample()
        assert len(set(drawn.tolist())) > 10
