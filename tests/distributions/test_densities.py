"""Densities, distribution functions, moments, entropies and modes are those of SciPy, or of closed forms."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import integrate, stats

import gradlib as gl
from gradlib import distributions as d

from .references import CONTINUOUS, DISCRETE, continuous_bernoulli

pytestmark = pytest.mark.host  # against SciPy, on the host
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
ALL = {**CONTINUOUS, **DISCRETE}


def t(values) -> gl.Tensor:
    return gl.tensor(values, dtype=gl.float64)


def both(name: str):
    """A distribution and its reference."""
    parameters, ours, theirs = ALL[name]
    return ours(*map(t, parameters)), theirs(*parameters)


def points(reference) -> np.ndarray:
    return reference.ppf(np.array([0.001, 0.05, 0.3, 0.5, 0.8, 0.99, 0.99999]))


def value_or_none(get):
    try:
        return get()
    except NotImplementedError:
        return None


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_and_distribution_function(name):
    ours, reference = both(name)
    x = points(reference)
    np.testing.assert_allclose(ours.log_prob(t(x)).numpy(), reference.logpdf(x), **TOLERANCE)
    cdf = value_or_none(lambda: ours.cdf(t(x)))
    if cdf is not None:
        np.testing.assert_allclose(cdf.numpy(), reference.cdf(x), **TOLERANCE)
    p = np.array([1e-12, 0.001, 0.3, 0.5, 0.9, 0.9999])
    quantile = value_or_none(lambda: ours.icdf(t(p)))
    if quantile is not None:
        np.testing.assert_allclose(quantile.numpy(), reference.ppf(p), **TOLERANCE)


def test_which_have_a_distribution_function():
    have = {
        n for n in CONTINUOUS if value_or_none(lambda n=n: both(n)[0].cdf(t([0.6])[:0])) is not None
    }
    assert {n for n in CONTINUOUS} - have == {
        "Beta", "FisherSnedecor", "StudentT", "VonMises", "VonMises, nearly uniform",
    }  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities(name):
    ours, reference = both(name)
    k = np.arange(2 if name == "Bernoulli" else 3 if name == "Categorical" else 8)
    np.testing.assert_allclose(ours.log_prob(t(k)).numpy(), np.log(reference.pmf(k)), **TOLERANCE)


# what has a closed form in SciPy too, or in the reference
@pytest.mark.parametrize("name", [n for n in ALL if "VonMises" not in n and "Categorical" not in n])
def test_mean_and_variance(name):
    ours, reference = both(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, variance = map(float, reference.stats("mv"))
    assert ours.stddev.item() == pytest.approx(ours.variance.item() ** 0.5, nan_ok=True)
    if name == "ContinuousBernoulli":  # by integrals there
        np.testing.assert_allclose([ours.mean, ours.variance], [mean, variance], rtol=1e-7)
        return
    expected = [math.nan, math.inf] if name == "Cauchy" else [mean, variance]
    np.testing.assert_allclose([ours.mean.item(), ours.variance.item()], expected, **TOLERANCE)


@pytest.mark.parametrize("name", ALL)
def test_entropy(name):
    """By its definition: an integral or a sum, since SciPy's are not all exact."""
    ours, reference = both(name)
    entropy = value_or_none(ours.entropy)
    if entropy is None:
        assert name in (
            "FisherSnedecor", "NegativeBinomial", "Poisson", "VonMises", "VonMises, nearly uniform"
        )  # fmt: skip
        return
    if name in DISCRETE:
        k = np.arange(400 if name == "Geometric" else int(reference.support()[1]) + 1)
        p = reference.pmf(k)
        expected = -np.sum(p[p > 0] * np.log(p[p > 0]))
        np.testing.assert_allclose(entropy.item(), expected, **TOLERANCE)
        return
    if name in ("ContinuousBernoulli", "Kumaraswamy"):
        expected = integrate.quad(
            lambda x: -reference.pdf(x) * reference.logpdf(x), 0, 1, epsabs=1e-12
        )[0]
    else:
        expected = float(reference.entropy())
    np.testing.assert_allclose(entropy.item(), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_the_mode_is_where_the_density_is_greatest(name):
    ours, reference = both(name)
    mode = value_or_none(lambda: ours.mode)
    if mode is None:
        assert name == "ContinuousBernoulli"
        return
    if name in ("Beta", "Gamma", "Uniform"):  # it grows without bound at 0, or is flat
        assert name != "Uniform" or mode.isnan()
        return
    steps = np.arange(0, 9) if name in DISCRETE else np.linspace(-1e-3, 1e-3, 5) + mode.item()
    if name == "Categorical":
        steps = np.arange(3)
    if name == "Bernoulli":
        steps = np.arange(2)
    low, high = reference.support()
    density = ours.log_prob(t([s for s in steps if low <= s <= high]))
    assert bool((density <= ours.log_prob(mode) + 1e-9).all())


@pytest.mark.parametrize("odds", [1e-7, 1e-4, 3.9e-3, 4.1e-3, -3e-3, 0.05, 40.0, -800.0])
def test_continuous_bernoulli_close_to_one_half_and_far_from_it(odds):
    """Where closed forms cancel, or overflow: against integrals of exp(l x)."""
    ours = d.ContinuousBernoulli(logits=t(odds))
    top = max(odds, 0)
    weight = lambda x: math.exp(odds * x - top)
    near = [c for c in (0, 40 / abs(odds)) if 0 < c < 1] or [0.5]
    near = near if odds < 0 else [1 - c for c in near]
    total, mean, square = (
        integrate.quad(lambda x, n=n: x**n * weight(x), 0, 1, points=near, epsabs=1e-16)[0]
        for n in range(3)
    )
    mean, square = mean / total, square / total
    assert ours.mean.item() == pytest.approx(mean, abs=1e-10)
    assert ours.variance.item() == pytest.approx(square - mean**2, abs=1e-10)
    x = t([0.0, 0.3, 0.9, 1.0])
    expected = [odds * v - top - math.log(total) for v in x.tolist()]
    np.testing.assert_allclose(ours.log_prob(x).numpy(), expected, rtol=1e-10, atol=1e-10)
    p = t([0.001, 0.4, 0.999])
    np.testing.assert_allclose(ours.cdf(ours.icdf(p)).numpy(), p.numpy(), rtol=1e-8)


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64])
@pytest.mark.parametrize(
    "odds", [-800.0, -200.0, -100.0, -40.0, -3.0, 1e-3, 3.0, 40.0, 200.0, 700.0]
)
def test_quantiles_of_a_continuous_bernoulli_at_the_ends(odds, dtype):
    """0 and 1 at the ends of probability, never outside, and inverse to the distribution function close to them."""
    ours = d.ContinuousBernoulli(logits=gl.tensor(odds, dtype=dtype))
    p = gl.tensor([0.0, 1e-30, 1e-9, 0.3, 0.7, 1.0], dtype=dtype)
    x = ours.icdf(p)
    assert x[0] == 0 and x[-1] == 1 and bool((x.diff() >= 0).all())
    slope = gl.func.vmap(gl.func.grad(ours.icdf))(p[1:-1])
    assert bool(slope.isfinite().all())
    if odds > 0:  # small quantiles are exact, too
        want = np.log1p(p.double().numpy() * np.expm1(odds)) / odds if odds < 600 else x.double()
        np.testing.assert_allclose(
            x.double().numpy()[:-1], want[:-1], 2e-5 if dtype is gl.float32 else 1e-10
        )


def test_the_median_of_a_cauchy_distribution_is_its_place():
    for dtype in (gl.float32, gl.float64):
        made = d.Cauchy(gl.tensor(0.0, dtype=dtype), 1e4)
        assert made.icdf(gl.tensor(0.5, dtype=dtype)) == 0
    p = t([1e-12, 0.2, 0.25, 0.3, 0.5, 0.7, 0.75, 0.8, 1 - 1e-12])
    np.testing.assert_allclose(
        d.Cauchy(t(0.5), 2.0).icdf(p).numpy(), stats.cauchy(0.5, 2.0).ppf(p.numpy()), 1e-10
    )


def test_tails_are_exact():
    """Far from the mode, where 1 - F is rounded to 0 and F to 1 minus nothing."""
    for name in ("Normal", "Laplace", "Cauchy"):
        ours, reference = both(name)
        x = np.array([-1e8, -70.0]) if name == "Cauchy" else np.array([-60.0, -30.0])
        np.testing.assert_allclose(ours.cdf(t(x)).numpy(), reference.cdf(x), rtol=1e-9)
    p = np.array([1e-300, 1e-30])
    np.testing.assert_allclose(
        d.Normal(t(0.0), 1.0).icdf(t(p)).numpy(), stats.norm.ppf(p), rtol=1e-9
    )
    np.testing.assert_allclose(
        d.Laplace(t(0.0), 1.0).icdf(t(p)).numpy(), stats.laplace.ppf(p), rtol=1e-9
    )
    small = d.Kumaraswamy(t(2.0), t(3.0)).log_prob(t(1e-12)).item()
    assert small == pytest.approx(math.log(6e-12))


# -- vectors and matrices ------------------------------------------------------------

COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.7]])
MEAN = np.array([0.3, -1.0, 2.0])


@pytest.mark.parametrize("given", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_multivariate_normal(given):
    matrix = {
        "covariance_matrix": COVARIANCE,
        "precision_matrix": np.linalg.inv(COVARIANCE),
        "scale_tril": np.linalg.cholesky(COVARIANCE),
    }[given]
    ours = d.MultivariateNormal(t(MEAN), **{given: t(matrix)})
    reference = stats.multivariate_normal(MEAN, COVARIANCE)
    x = reference.rvs(5, random_state=0)
    np.testing.assert_allclose(ours.log_prob(t(x)).numpy(), reference.logpdf(x), **TOLERANCE)
    assert ours.entropy().item() == pytest.approx(reference.entropy(), rel=1e-12)
    np.testing.assert_allclose(ours.covariance_matrix.numpy(), COVARIANCE, **TOLERANCE)
    np.testing.assert_allclose(ours.precision_matrix.numpy() @ COVARIANCE, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(ours.variance.numpy(), np.diag(COVARIANCE), **TOLERANCE)


def test_low_rank_normal_is_the_normal_with_that_covariance():
    factor, diagonal = np.array([[1.0], [2.0], [-0.5]]), np.array([0.5, 1.0, 2.0])
    low = d.LowRankMultivariateNormal(t(MEAN), t(factor), t(diagonal))
    covariance = factor @ factor.T + np.diag(diagonal)
    reference = stats.multivariate_normal(MEAN, covariance)
    x = reference.rvs(5, random_state=0)
    np.testing.assert_allclose(low.log_prob(t(x)).numpy(), reference.logpdf(x), **TOLERANCE)
    assert low.entropy().item() == pytest.approx(reference.entropy(), rel=1e-12)
    np.testing.assert_allclose(low.covariance_matrix.numpy(), covariance, **TOLERANCE)
    np.testing.assert_allclose(low.precision_matrix.numpy() @ covariance, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(
        (low.scale_tril @ low.scale_tril.mT).numpy(), covariance, **TOLERANCE
    )


def test_wishart():
    ours, reference = d.Wishart(t(5.5), t(COVARIANCE)), stats.wishart(5.5, COVARIANCE)
    x = reference.rvs(4, random_state=0)
    expected = reference.logpdf(x.transpose(1, 2, 0))
    np.testing.assert_allclose(ours.log_prob(t(x)).numpy(), expected, **TOLERANCE)
    assert ours.entropy().item() == pytest.approx(reference.entropy(), rel=1e-10)
    np.testing.assert_allclose(ours.mean.numpy(), reference.mean(), **TOLERANCE)
    np.testing.assert_allclose(ours.variance.numpy(), reference.var(), **TOLERANCE)
    np.testing.assert_allclose(ours.mode.numpy(), reference.mode(), **TOLERANCE)


def test_dirichlet_and_multinomial():
    a = np.array([0.7, 2.0, 3.5])
    ours, reference = d.Dirichlet(t(a)), stats.dirichlet(a)
    x = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    np.testing.assert_allclose(ours.log_prob(t(x)).numpy(), reference.logpdf(x.T), **TOLERANCE)
    assert ours.entropy().item() == pytest.approx(reference.entropy(), rel=1e-12)
    np.testing.assert_allclose(ours.mean.numpy(), reference.mean(), **TOLERANCE)
    np.testing.assert_allclose(ours.variance.numpy(), reference.var(), **TOLERANCE)
    p = np.array([0.2, 0.5, 0.3])
    counts, other = d.Multinomial(4, t(p)), stats.multinomial(4, p)
    k = np.array([[1, 2, 1], [0, 4, 0]])
    np.testing.assert_allclose(counts.log_prob(t(k)).numpy(), other.logpmf(k), **TOLERANCE)
    assert counts.entropy().item() == pytest.approx(float(other.entropy()), rel=1e-12)
    assert d.OneHotCategorical(t(p)).log_prob(t([0, 1, 0])).item() == pytest.approx(math.log(0.5))


def test_lkj_of_two_dimensions_is_a_beta_distribution_of_the_correlation():
    """(r + 1) / 2 has the parameters c, c; the Cholesky factor is (1; r, sqrt(1 - r^2))."""
    c = 1.7
    for r in (-0.9, 0.0, 0.4):
        factor = t([[1.0, 0.0], [r, math.sqrt(1 - r * r)]])
        expected = stats.beta(c, c).logpdf((r + 1) / 2) - math.log(2)
        assert d.LKJCholesky(2, t(c)).log_prob(factor).item() == pytest.approx(expected, rel=1e-10)


def test_lkj_density_integrates_to_one():
    """For n = 3, over r12, r13 and the partial correlation, through CorrCholeskyTransform."""
    lkj = d.TransformedDistribution(
        d.Independent(d.Normal(gl.zeros(3, dtype=gl.float64), 1.0), 1), d.CorrCholeskyTransform()
    )
    factors = lkj.sample((20000,))
    weights = (d.LKJCholesky(3, t(1.3)).log_prob(factors) - lkj.log_prob(factors)).exp()
    assert weights.mean().item() == pytest.approx(1, abs=5 * weights.std().item() / 20000**0.5)


def test_mixture():
    weights, means, scales = np.array([0.3, 0.7]), np.array([-1.0, 2.0]), np.array([0.5, 1.5])
    ours = d.MixtureSameFamily(d.Categorical(t(weights)), d.Normal(t(means), t(scales)))
    x = np.linspace(-3, 5, 7)
    parts = stats.norm(means, scales)
    np.testing.assert_allclose(
        ours.log_prob(t(x)).numpy(), np.log(parts.pdf(x[:, None]) @ weights), **TOLERANCE
    )
    np.testing.assert_allclose(ours.cdf(t(x)).numpy(), parts.cdf(x[:, None]) @ weights, **TOLERANCE)
    mean = weights @ means
    assert ours.mean.item() == pytest.approx(mean)
    assert ours.variance.item() == pytest.approx(weights @ (scales**2 + means**2) - mean**2)


def test_relaxed_densities_integrate_to_one():
    binary = d.RelaxedBernoulli(t(0.8), t(0.3))
    total = integrate.quad(lambda x: binary.log_prob(t(x)).exp().item(), 1e-9, 1 - 1e-9)[0]
    assert total == pytest.approx(1, abs=1e-5)
    three = d.RelaxedOneHotCategorical(t(0.8), t([0.2, 0.3, 0.5]))
    uniform = d.Dirichlet(gl.ones(3, dtype=gl.float64)).sample((40000,))
    weights = (three.log_prob(uniform) - math.log(2)).exp()  # the uniform density is 2
    assert weights.mean().item() == pytest.approx(1, abs=5 * weights.std().item() / 200)


def test_exponential_families_have_the_entropy_of_their_normaliser():
    for made in (
        d.Bernoulli(t(0.3)), d.Beta(t(0.7), 2.0), d.Dirichlet(t([0.7, 2.0])), d.Exponential(t(2.0)),
        d.Gamma(t(0.7), 2.0), d.Normal(t(0.7), 2.0), d.ContinuousBernoulli(t(0.3)), d.Wishart(t(4.0), t(COVARIANCE)),
    ):  # fmt: skip
        family = d.ExponentialFamily.entropy
        try:
            carrier = made._mean_carrier_measure
        except NotImplementedError:
            continue
        expected = made.entropy().item()
        assert carrier == 0 and family(made).item() == pytest.approx(expected, rel=1e-9), made


def test_the_reference_of_the_continuous_bernoulli_is_a_density():
    assert integrate.quad(lambda x: continuous_bernoulli.pdf(x, 0.2), 0, 1)[0] == pytest.approx(1)
