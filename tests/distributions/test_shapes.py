"""Batch and event shapes: parameters broadcast, batches expand, values broadcast, dtypes and classes stay."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradlib as gl
from gradlib import distributions as d

# of positive numbers, and for vectors and matrices the shape of one parameter
SCALAR = {
    "Bernoulli": lambda a, b: d.Bernoulli(logits=a),
    "Beta": d.Beta,
    "Binomial": lambda a, b: d.Binomial(3, logits=a),
    "Cauchy": d.Cauchy,
    "Chi2": lambda a, b: d.Chi2(a),
    "ContinuousBernoulli": lambda a, b: d.ContinuousBernoulli(logits=a),
    "Exponential": lambda a, b: d.Exponential(a),
    "FisherSnedecor": d.FisherSnedecor,
    "Gamma": d.Gamma,
    "GeneralizedPareto": lambda a, b: d.GeneralizedPareto(a, b, 0.1),
    "Geometric": lambda a, b: d.Geometric(logits=a),
    "Gumbel": d.Gumbel,
    "HalfCauchy": lambda a, b: d.HalfCauchy(a),
    "HalfNormal": lambda a, b: d.HalfNormal(a),
    "InverseGamma": d.InverseGamma,
    "Kumaraswamy": d.Kumaraswamy,
    "Laplace": d.Laplace,
    "LogNormal": d.LogNormal,
    "NegativeBinomial": lambda a, b: d.NegativeBinomial(a, logits=-b),
    "Normal": d.Normal,
    "Pareto": d.Pareto,
    "Poisson": lambda a, b: d.Poisson(a),
    "RelaxedBernoulli": lambda a, b: d.RelaxedBernoulli(gl.tensor(0.7), logits=a),
    "StudentT": d.StudentT,
    "Uniform": lambda a, b: d.Uniform(-a, b),
    "VonMises": d.VonMises,
    "Weibull": d.Weibull,
}
# of a batch shape alone
VECTOR = {
    "Categorical": lambda s: d.Categorical(gl.rand(*s, 3) + 0.1),
    "Dirichlet": lambda s: d.Dirichlet(gl.rand(*s, 3) + 0.5),
    "Independent": lambda s: d.Independent(d.Normal(gl.randn(*s, 2, 3), 1.0), 2),
    "LKJCholesky": lambda s: d.LKJCholesky(3, gl.rand(s) + 0.5),
    "LogisticNormal": lambda s: d.LogisticNormal(gl.randn(*s, 2), gl.rand(*s, 2) + 0.5),
    "LowRankMultivariateNormal": lambda s: d.LowRankMultivariateNormal(
        gl.randn(*s, 3), gl.randn(3, 1), gl.rand(3) + 0.5
    ),
    "MixtureSameFamily": lambda s: d.MixtureSameFamily(
        d.Categorical(gl.rand(*s, 2) + 0.1), d.Independent(d.Normal(gl.randn(*s, 2, 3), 1.0), 1)
    ),
    "Multinomial": lambda s: d.Multinomial(3, gl.rand(*s, 3) + 0.1),
    "MultivariateNormal": lambda s: d.MultivariateNormal(gl.randn(*s, 3), gl.eye(3)),
    "OneHotCategorical": lambda s: d.OneHotCategorical(gl.rand(*s, 3) + 0.1),
    "OneHotCategoricalStraightThrough": lambda s: d.OneHotCategoricalStraightThrough(
        gl.rand(*s, 3) + 0.1
    ),
    "RelaxedOneHotCategorical": lambda s: d.RelaxedOneHotCategorical(
        gl.tensor(0.7), gl.rand(*s, 3) + 0.1
    ),
    "TransformedDistribution": lambda s: d.TransformedDistribution(
        d.Normal(gl.randn(*s, 4), 1.0), [d.ReshapeTransform((4,), (2, 2)), d.ExpTransform()]
    ),
    "Wishart": lambda s: d.Wishart(gl.rand(s) + 4, gl.eye(2)),
}
BASES = {"Distribution", "ExponentialFamily"}

shapes = st.lists(st.integers(1, 3), max_size=2).map(tuple)


def test_all_distributions_are_here():
    public = {n for n in d.__all__ if isinstance(getattr(d, n), type)}
    distributions = {n for n in public if issubclass(getattr(d, n), d.Distribution)}
    assert {*SCALAR, *VECTOR, *BASES} == distributions


def check(made, batch: tuple, sample: tuple) -> None:
    assert made.batch_shape == batch
    event = tuple(made.event_shape)
    drawn = made.sample(sample)
    assert drawn.shape == sample + batch + event and not drawn.requires_grad
    assert made.log_prob(drawn).shape == sample + batch
    assert made.log_prob(made.sample()).shape == batch
    assert made.support.event_dim == len(event)
    if made.has_rsample:
        assert made.rsample(sample).shape == drawn.shape
    for name in ("mean", "variance", "mode", "stddev"):
        try:
            value = getattr(made, name)
        except NotImplementedError:
            continue
        assert value.shape == batch + event, name
    try:
        assert made.entropy().shape == batch
    except NotImplementedError:
        pass
    if made.has_enumerate_support:
        values = made.enumerate_support()
        assert values.shape[1:] == batch + event
        np.testing.assert_allclose(made.log_prob(values).exp().sum(0).numpy(), 1, rtol=1e-5)
        flat = made.enumerate_support(expand=False)
        assert flat.shape == (len(values), *[1] * len(batch), *event)


def check_expanded(made, batch: tuple, more: tuple) -> None:
    wide = made.expand(more + batch)
    assert type(wide) is type(made)
    check(wide, more + batch, (2,))
    x = made.sample()
    np.testing.assert_allclose(
        wide.log_prob(x).numpy(),
        np.broadcast_to(made.log_prob(x).numpy(), more + batch),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("name", SCALAR)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(first=shapes, dropped=st.integers(0, 2), sample=shapes, more=shapes)
def test_of_numbers(name, first, dropped, sample, more):
    """Parameters of shapes that broadcast."""
    second = tuple(1 if k % 2 else n for k, n in enumerate(first))[dropped:]
    a, b = gl.rand(first) + 0.5, gl.rand(second) + 0.5
    made = SCALAR[name](a, b)
    check(made, first, sample)
    check_expanded(made, first, more)


@pytest.mark.parametrize("name", VECTOR)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(batch=shapes, sample=shapes, more=shapes)
def test_of_vectors_and_matrices(name, batch, sample, more):
    made = VECTOR[name](batch)
    check(made, batch, sample)
    check_expanded(made, batch, more)


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("dtype", [gl.float32, gl.float64])
def test_dtypes(name, dtype):
    a, b = (gl.rand(2, dtype=dtype) + 0.5 for _ in range(2))
    made = SCALAR[name](a, b)
    drawn = made.sample()
    assert drawn.dtype is dtype and made.log_prob(drawn).dtype is dtype


def test_numbers_become_the_default_dtype_and_that_of_tensors():
    assert d.Normal(0, 1).loc.dtype is gl.float32
    assert d.Normal(gl.zeros(2, dtype=gl.float64), 1).scale.dtype is gl.float64


@pytest.mark.parametrize("name", {**SCALAR, **VECTOR})
def test_copies_and_pickles(name):
    made = (
        SCALAR[name](gl.tensor([0.7]), gl.tensor([1.3])) if name in SCALAR else VECTOR[name]((1,))
    )
    x = made.sample()
    made.log_prob(x)  # what is computed when it is asked for is kept, too
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert repr(other) == repr(made)
        assert gl.equal(other.log_prob(x), made.log_prob(x))


def test_parameters_of_an_expanded_batch_keep_their_gradient():
    loc = gl.tensor([1.0], requires_grad=True)
    d.Normal(loc, 1.0).expand((3,)).log_prob(gl.zeros(3)).sum().backward()
    assert loc.grad.tolist() == [-3.0]


def test_modules_of_pytorch_hold_their_classes():
    import importlib

    assert d.normal.Normal is d.Normal and d.Normal.__module__ == "gradlib.distributions.normal"
    for name, classes in d._MODULES.items():
        module = importlib.import_module(f"gradlib.distributions.{name}")
        assert [getattr(module, c.__name__) for c in classes] == list(classes)
        assert all(c.__module__ == module.__name__ for c in classes)


def test_a_distribution_of_ones_own():
    class Triangle(d.Distribution):
        """The sum of two uniform numbers."""

        arg_constraints = {"width": d.constraints.positive}
        support = d.constraints.nonnegative
        has_rsample = True

        def __init__(self, width, validate_args=None):
            (self.width,) = d.utils.broadcast_all(width)
            super().__init__(self.width.shape, validate_args=validate_args)

        def rsample(self, sample_shape=()):
            return self.width * gl.rand(2, *self._extended_shape(sample_shape)).sum(0)

    made = Triangle(gl.tensor([1.0, 2.0]))
    assert repr(made) == "Triangle(width: torch.Size([2]))"
    assert made.sample((3,)).shape == (3, 2)
    for missing in (
        made.entropy,
        lambda: made.mean,
        lambda: made.expand((3, 2)),
        lambda: made.log_prob(1),
    ):
        with pytest.raises(NotImplementedError):
            missing()
    with pytest.raises(ValueError, match="Expected parameter width"):
        Triangle(-1.0)


def test_a_subclass_with_parameters_of_its_own_must_expand_itself():
    class Standard(d.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    with pytest.raises(
        NotImplementedError, match="Subclass Standard of Normal that defines a custom __init__"
    ):
        Standard().expand((2,))

    class Renamed(d.Normal):
        pass

    assert type(Renamed(0.0, 1.0).expand((2,))) is Renamed
