"""Gradients of densities, of draws with their noise given, and of draws that are known by their distribution alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import gradlib as gl
from gradlib import distributions as d
from gradlib.autograd import gradcheck, gradgradcheck

from .references import CONTINUOUS, DISCRETE

COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]


def t(values, grad: bool = False) -> gl.Tensor:
    return gl.tensor(values, dtype=gl.float64, requires_grad=grad)


@pytest.mark.parametrize("name", {**CONTINUOUS, **DISCRETE})
def test_density_and_distribution_function(name):
    parameters, ours, _ = {**CONTINUOUS, **DISCRETE}[name]
    if name == "Categorical":
        parameters = ([0.2, 0.5, 0.3],)
    made = ours(*map(t, parameters))
    x = made.sample((3,))
    parameters = tuple(t(p, grad=True) for p in parameters)
    if "exponential" in name or "nearly" in name or name == "Binomial":  # at the end of a domain
        k = 0 if name == "Binomial" else -1
        parameters = tuple(p.detach() if p is parameters[k] else p for p in parameters)
    continuous = name in CONTINUOUS
    points = (x.clone().requires_grad_(),) if continuous else ()

    def density(*args):
        return ours(*args[: len(parameters)]).log_prob(args[-1] if continuous else x)

    assert gradcheck(density, (*parameters, *points), check_forward_ad=True)
    if not continuous or name in ("Gamma", "Chi2", "InverseGamma", "Gamma of a large shape"):
        return  # the incomplete gamma function has no derivative in its first argument
    for what in ("cdf", "icdf"):
        argument = x if what == "cdf" else t([0.1, 0.5, 0.93])
        try:
            getattr(made, what)(argument)
        except NotImplementedError:
            continue
        argument = argument.clone().requires_grad_()
        assert gradcheck(
            lambda *a, what=what: getattr(ours(*a[:-1]), what)(a[-1]), (*parameters, argument)
        )


def test_gamma_distribution_function_has_a_derivative_in_value_and_rate():
    x, rate = t([0.3, 2.0], grad=True), t(1.5, grad=True)
    assert gradcheck(lambda x, rate: d.Gamma(t(0.7), rate).cdf(x), (x, rate))
    assert gradcheck(lambda x: d.Chi2(t(3.0)).cdf(x), (x,))


# what is drawn by a formula from noise: the same seed gives the same noise
REPARAMETERISED = {
    "Cauchy": lambda a, b: d.Cauchy(a, b),
    "ContinuousBernoulli": lambda a, b: d.ContinuousBernoulli(logits=a * b),
    "Exponential": lambda a, b: d.Exponential(b),
    "GeneralizedPareto": lambda a, b: d.GeneralizedPareto(a, b, a),
    "Gumbel": lambda a, b: d.Gumbel(a, b),
    "HalfCauchy": lambda a, b: d.HalfCauchy(b),
    "HalfNormal": lambda a, b: d.HalfNormal(b),
    "Independent": lambda a, b: d.Independent(d.Normal(a, b), 1),
    "Kumaraswamy": lambda a, b: d.Kumaraswamy(a, b),
    "Laplace": lambda a, b: d.Laplace(a, b),
    "LogNormal": lambda a, b: d.LogNormal(a, b),
    "LogisticNormal": lambda a, b: d.LogisticNormal(a, b),
    "LowRankMultivariateNormal": lambda a, b: d.LowRankMultivariateNormal(a, a.unsqueeze(-1), b),
    "MultivariateNormal": lambda a, b: d.MultivariateNormal(
        a, scale_tril=b.diag_embed() + a.diag_embed(-1)[..., :2, :2]
    ),
    "Normal": lambda a, b: d.Normal(a, b),
    "Pareto": lambda a, b: d.Pareto(a, b),
    "RelaxedBernoulli": lambda a, b: d.RelaxedBernoulli(b, logits=a),
    "RelaxedOneHotCategorical": lambda a, b: d.RelaxedOneHotCategorical(t(0.7), logits=a * b),
    "TransformedDistribution": lambda a, b: d.TransformedDistribution(
        d.Normal(a, 1.0), [d.AffineTransform(0.0, b), d.TanhTransform()]
    ),
    "Uniform": lambda a, b: d.Uniform(-a, b),
    "Weibull": lambda a, b: d.Weibull(a, b),
}  # fmt: skip


@pytest.mark.parametrize("name", REPARAMETERISED)
def test_draws_by_a_formula(name):
    make = REPARAMETERISED[name]

    def draw(a, b):
        gl.manual_seed(3)
        return make(a, b).rsample((4,))

    a, b = t([0.7, 1.3], grad=True), t([0.9, 2.1], grad=True)
    assert make(a, b).has_rsample
    assert gradcheck(draw, (a, b))
    if name in ("Normal", "LogNormal", "Gumbel", "Weibull"):
        assert gradgradcheck(draw, (a, b))


def test_straight_through_draws_have_the_gradient_of_the_probabilities():
    logits = t([0.3, -1.0, 0.2], grad=True)
    weights = t([1.0, 2.0, 5.0])
    drawn = d.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(drawn.tolist()) == pytest.approx([0, 0, 1])
    (drawn * weights).sum().backward()
    expected = t([0.3, -1.0, 0.2], grad=True)
    (expected.softmax(-1) * weights).sum().backward()
    assert gl.allclose(logits.grad, expected.grad)


# -- known by the distribution: dz/da = -(dF/da) / p(z) ----------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize("a", [0.01, 0.3, 1.0, 4.0, 60.0, 3000.0])
def test_gamma_draws_move_with_the_quantile(a):
    """At a fixed probability the quantile function of SciPy is the draw."""
    p = np.array([0.003, 0.1, 0.5, 0.9, 0.999])
    h = 1e-4 * a
    z = stats.gamma(a).ppf(p)
    keep = z > 1e-250
    five = [stats.gamma(a + k * h).ppf(p) for k in (-2, -1, 1, 2)]
    slope = (five[0] - 8 * five[1] + 8 * five[2] - five[3]) / (12 * h)
    ours = gl._standard_gamma_grad(t(np.full(5, a)), t(z)).numpy()
    np.testing.assert_allclose(ours[keep], slope[keep], rtol=2e-6)


@pytest.mark.host
@pytest.mark.parametrize("a", [0.05, 0.7, 3.0, 200.0])
@pytest.mark.parametrize("b", [0.05, 1.0, 40.0])
def test_beta_draws_move_with_the_quantile(a, b):
    p = np.array([0.02, 0.3, 0.5, 0.8, 0.98])
    h = 1e-4 * a
    x = stats.beta(a, b).ppf(p)
    keep = (x > 1e-250) & (x < 1 - 1e-9)
    five = [stats.beta(a + k * h, b).ppf(p) for k in (-2, -1, 1, 2)]
    slope = (five[0] - 8 * five[1] + 8 * five[2] - five[3]) / (12 * h)
    ours = gl._dirichlet_grad(t(x), t(np.full(5, a)), t(np.full(5, a + b))).numpy() * (1 - x)
    np.testing.assert_allclose(ours[keep], slope[keep], rtol=1e-5, atol=1e-12)


def test_the_integrals_do_not_change_with_finer_steps(monkeypatch):
    """Over parameters from 1e-3 to 1e5 and draws from all of the distribution."""
    from gradlib.operators.random import implicit

    gl.manual_seed(2)
    a, b = (10 ** (gl.rand(2000, dtype=gl.float64) * 8 - 3) for _ in range(2))
    z, x = gl._standard_gamma(a), d.Beta(a, b).sample()
    inside = (z > 1e-290) & (x > 1e-290) & (x < 1 - 1e-12)
    a, b, z, x = a[inside], b[inside], z[inside], x[inside]
    coarse = gl._standard_gamma_grad(a, z), gl._dirichlet_grad(x, a, a + b)
    finer = implicit._rule(8.0, 1 / 40)
    monkeypatch.setattr(implicit, "_rule", lambda last: finer)
    fine = gl._standard_gamma_grad(a, z), gl._dirichlet_grad(x, a, a + b)
    for ours, exact in zip(coarse, fine, strict=True):
        assert ours.isfinite().all()
        assert gl.allclose(ours, exact, rtol=1e-10, atol=0)


# expectations with closed forms, as functions of the parameters
EXPECTATIONS = {
    "Gamma": (lambda a, b: d.Gamma(a, b), lambda x: x**2, lambda a, b: a * (a + 1) / b**2),
    "Chi2": (lambda a, b: d.Chi2(a * b), lambda x: x**2, lambda a, b: a * b * (a * b + 2)),
    "Beta": (lambda a, b: d.Beta(a, b), lambda x: x**2, lambda a, b: a * (a + 1) / ((a + b) * (a + b + 1))),
    "InverseGamma": (lambda a, b: d.InverseGamma(a + 4, b), lambda x: x, lambda a, b: b / (a + 3)),
    "StudentT": (lambda a, b: d.StudentT(a + 6, 0.0, b), lambda x: x**2, lambda a, b: b**2 * (a + 6) / (a + 4)),
    "FisherSnedecor": (lambda a, b: d.FisherSnedecor(a, b + 8), lambda x: x, lambda a, b: (b + 8) / (b + 6) + 0 * a),
    "Dirichlet": (
        lambda a, b: d.Dirichlet(gl.stack([a, b, a * b])),
        lambda x: x[..., 0] * x[..., 1],
        lambda a, b: a * b / ((a + b + a * b) * (a + b + a * b + 1)),
    ),
    "Wishart": (
        lambda a, b: d.Wishart(a + 3, b * t(COVARIANCE)),
        lambda x: x[..., 0, 1],
        lambda a, b: (a + 3) * b * 0.5,
    ),
}  # fmt: skip


@pytest.mark.host  # many draws, whose ops the tests above run on devices
@pytest.mark.parametrize("name", EXPECTATIONS)
def test_implicit_draws_have_the_gradient_of_the_expectation(name):
    make, of, expectation = EXPECTATIONS[name]
    n = 40_000
    a, b = t(1.7, grad=True), t(2.3, grad=True)
    wide_a, wide_b = (p.expand(n) for p in (a, b))
    each = [p.detach().clone().requires_grad_() for p in (wide_a, wide_b)]
    gl.manual_seed(1)
    if name in (
        "Dirichlet",
        "Wishart",
    ):  # parameters for each draw, so that its gradient can be seen alone
        stacked = [gl.stack([*each, each[0] * each[1]], -1)] if name == "Dirichlet" else []
        made = d.Dirichlet(*stacked) if stacked else d.Wishart(
            each[0] + 3, each[1][:, None, None] * t(COVARIANCE)
        )  # fmt: skip
    else:
        made = make(*each)
    of(made.rsample()).sum().backward()
    expectation(a, b).backward()
    for draws, exact in zip(each, (a, b), strict=True):
        error = draws.grad.std().item() / n**0.5
        assert abs(draws.grad.mean().item() - exact.grad.item()) < 4.5 * error + 1e-12


def test_vmap_draws_and_their_gradients():
    """A vmap over parameters draws for each entry, and the gradient inside reaches them."""
    from gradlib.func import grad, vmap

    a = t([0.5, 2.0, 30.0])

    def loss(a):
        return d.Gamma(a, 1.0, validate_args=False).rsample()

    slopes = vmap(grad(loss), randomness="different")(a.expand(100, 3).reshape(-1))
    np.testing.assert_allclose(
        slopes.reshape(100, 3).mean(0).cpu().numpy(), 1, atol=0.3
    )  # of the mean


@pytest.mark.parametrize("name", {**CONTINUOUS, **DISCRETE})
def test_log_prob_under_vmap_and_grad(name):
    from gradlib.func import grad, vmap

    parameters, ours, _ = {**CONTINUOUS, **DISCRETE}[name]
    made = ours(*map(t, parameters))
    x = made.sample((5,))
    whole = made.log_prob(x)
    assert gl.allclose(vmap(made.log_prob)(x), whole)
    batched = [t(p).expand(5, *t(p).shape) for p in parameters]
    assert gl.allclose(vmap(lambda x, *p: ours(*p).log_prob(x))(x, *batched), whole)
    slope = vmap(grad(lambda p, x: ours(p, *map(t, parameters[1:])).log_prob(x)), (None, 0))
    first = t(parameters[0], grad=True)
    ours(first, *map(t, parameters[1:])).log_prob(x).sum().backward()
    assert gl.allclose(slope(t(parameters[0]), x).sum(0), first.grad)


def test_validation_inside_vmap_sees_all_entries():
    from gradlib.func import vmap

    with pytest.raises(ValueError, match="Expected parameter scale"):
        vmap(lambda s: d.Normal(0.0, s).log_prob(gl.zeros(())))(gl.tensor([1.0, -1.0]))
