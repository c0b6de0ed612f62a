"""Transforms: inverses, Jacobians against those that are computed by differentiation, caches, registries."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradlib as gl
from gradlib import distributions as d
from gradlib.autograd import gradcheck
from gradlib.distributions import constraints as c
from gradlib.distributions import transforms
from gradlib.func import jacrev, vmap


def t(values) -> gl.Tensor:
    return gl.tensor(values, dtype=gl.float64)


ELEMENTWISE = {
    "Affine": d.AffineTransform(0.5, -2.0),
    "Exp": d.ExpTransform(),
    "Inverse": d.ExpTransform().inv,
    "Power": d.PowerTransform(t(1.7)),
    "Sigmoid": d.SigmoidTransform(),
    "Softplus": d.SoftplusTransform(),
    "Tanh": d.TanhTransform(),
    "Compose": d.ComposeTransform([d.AffineTransform(0.0, 0.3), d.TanhTransform()]),
    "Distribution": d.CumulativeDistributionTransform(d.Normal(t(0.3), 2.0)),
}
VECTORS = {
    "StickBreaking": (d.StickBreakingTransform(), 4),
    "CorrCholesky": (d.CorrCholeskyTransform(), 6),
    "Independent": (d.IndependentTransform(d.ExpTransform(), 1), 3),
    "Affine": (d.AffineTransform(0.0, t([1.0, 2.0, -3.0]), event_dim=1), 3),
    "Compose": (d.ComposeTransform([d.ExpTransform(), d.StickBreakingTransform()]), 3),
    "Reshape": (d.ReshapeTransform((4,), (2, 2)), 4),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_of_numbers(name):
    f = ELEMENTWISE[name]
    x = t([0.2, 0.9, 1.6, 2.5])
    y = f(x)
    assert gl.allclose(f.inv(y), x) and f.inv.inv is f
    slope = vmap(gl.func.grad(f))(x)
    assert gl.allclose(f.log_abs_det_jacobian(x, y), slope.abs().log())
    assert gl.allclose(f.inv.log_abs_det_jacobian(y, x), -slope.abs().log())
    assert bool((slope.sign() == f.sign).all()) and f.bijective
    assert bool(f.codomain.check(y).all())
    assert gradcheck(lambda x: f.log_abs_det_jacobian(x, f(x)), x.requires_grad_())
    assert gradcheck(lambda y: f.inv(y), y.detach().requires_grad_())


@pytest.mark.parametrize("name", VECTORS)
def test_of_vectors(name):
    f, n = VECTORS[name]
    x = gl.randn(3, n, dtype=gl.float64)
    y = f(x)
    assert y.shape == f.forward_shape(x.shape) and f.inverse_shape(y.shape) == x.shape
    assert gl.allclose(f.inv(y), x)
    assert bool(f.codomain.check(y).all())

    def free(x):
        """As many elements of the image as the vector has."""
        y = f(x)
        if "StickBreaking" in repr(f):
            return y[:-1]
        return d.utils.tril_matrix_to_vec(y, -1) if name == "CorrCholesky" else y.reshape(-1)

    determinant = gl.linalg.slogdet(vmap(jacrev(free))(x)).logabsdet
    assert gl.allclose(f.log_abs_det_jacobian(x, y), determinant)
    assert f.log_abs_det_jacobian(x, y).shape == (3,)


def test_parts_by_different_transforms():
    x = t([[0.3, -1.0, 2.0], [0.7, 0.1, 0.5]])
    side = d.CatTransform([d.ExpTransform(), d.AffineTransform(0.0, 3.0)], dim=1, lengths=[2, 1])
    y = side(x)
    assert gl.allclose(y[:, :2], x[:, :2].exp()) and gl.allclose(y[:, 2], 3 * x[:, 2])
    assert gl.allclose(side.inv(y), x)
    jacobian = side.log_abs_det_jacobian(x, y)
    assert gl.allclose(jacobian[:, :2], x[:, :2]) and gl.allclose(jacobian[:, 2], t(3.0).log())
    stacked = d.StackTransform([d.ExpTransform(), d.AffineTransform(0.0, 3.0)], dim=0)
    z = stacked(x)
    assert gl.allclose(z[0], x[0].exp()) and gl.allclose(z[1], 3 * x[1])
    assert gl.allclose(stacked.inv(z), x)


def test_matrices():
    x = gl.randn(3, 4, 4, dtype=gl.float64)
    factor = d.LowerCholeskyTransform()
    assert bool(c.lower_cholesky.check(factor(x)).all())
    assert gl.allclose(factor.inv(factor(x)), x.tril())
    definite = d.PositiveDefiniteTransform()
    assert bool(c.positive_definite.check(definite(x)).all())
    assert gl.allclose(definite.inv(definite(x)), x.tril())


def test_a_cache_gives_the_argument_itself_back():
    cached = d.TanhTransform(cache_size=1)
    x = t([30.0])  # tanh is 1 there
    y = cached(x)
    assert cached.inv(y) is x and cached(x) is y
    assert cached.inv(y.clone()).isinf().all()
    assert d.TanhTransform().inv(d.TanhTransform()(x)).isinf().all()
    both = d.ComposeTransform([d.AffineTransform(0.0, 1.0), d.TanhTransform()], cache_size=1)
    assert both.inv(both(x)) is x
    made = d.TransformedDistribution(d.Normal(t([20.0]), 1.0), [cached])
    assert made.log_prob(made.rsample()).isfinite().all()


def test_copies():
    for f in (d.ExpTransform(), d.AffineTransform(1.0, 2.0), d.ExpTransform().inv):
        x = t([0.5])
        inverse = f.inv  # so that a weak reference exists
        for other in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
            assert gl.equal(other(x), f(x)) and gl.equal(other.inv(x), inverse(x))


def test_equality():
    assert d.ExpTransform() == d.ExpTransform() and d.ExpTransform() != d.TanhTransform()
    assert d.AffineTransform(t([1.0, 2.0]), 1.0) == d.AffineTransform(t([1.0, 2.0]), 1.0)
    assert d.AffineTransform(t([1.0, 2.0]), 1.0) != d.AffineTransform(t([1.0, 3.0]), 1.0)
    assert d.ComposeTransform([d.ExpTransform()]) == d.ComposeTransform([d.ExpTransform()])


CONSTRAINTS = [
    c.real, c.real_vector, c.positive, c.nonnegative, c.greater_than(2.0), c.greater_than_eq(-1.0), c.less_than(0.5),
    c.unit_interval, c.interval(-1.0, 3.0), c.half_open_interval(-1.0, 3.0), c.simplex, c.corr_cholesky,
    c.independent(c.positive, 1), c.cat([c.positive, c.unit_interval], -1, [2, 4]),
    c.stack([c.positive] * 3 + [c.unit_interval] * 3, -1),
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize(
    "registry", [d.biject_to, d.transform_to], ids=["biject_to", "transform_to"]
)
def test_registered_transforms_lead_to_the_constraint(constraint, registry):
    f = registry(constraint)
    x = gl.randn(5, 6, dtype=gl.float64)
    y = f(x)
    assert bool(constraint.check(y).all())
    assert gl.allclose(f(f.inv(y)), y)
    if registry is d.biject_to:
        assert f.bijective and gl.allclose(f.inv(y), x)
        f.log_abs_det_jacobian(x, y)


@pytest.mark.parametrize(
    "constraint", [c.lower_cholesky, c.positive_definite, c.positive_semidefinite]
)
def test_matrices_have_transforms_that_are_no_bijections(constraint):
    y = d.transform_to(constraint)(gl.randn(2, 3, 3))
    assert bool(constraint.check(y).all())
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        d.biject_to(constraint)


def test_a_function_registered_for_a_constraint_of_ones_own():
    class Even(c.Constraint):
        pass

    registry = transforms.__name__ and d.constraint_registry.ConstraintRegistry()
    registry.register(Even, lambda constraint: d.ExpTransform())
    assert registry(Even()) == d.ExpTransform()
    with pytest.raises(TypeError, match="Expected constraint"):
        registry.register(3, abs)


INSIDE = [
    (c.boolean, [0.0, 1.0], [0.5]),
    (c.integer_interval(1, 3), [1.0, 3.0], [0.0, 1.5, 4.0]),
    (c.nonnegative_integer, [0.0, 5.0], [-1.0, 0.5]),
    (c.positive_integer, [1.0], [0.0]),
    (c.real, [0.0, float("inf")], [float("nan")]),
    (c.half_open_interval(0.0, 1.0), [0.0, 0.5], [1.0]),
    (c.unit_interval, [0.0, 1.0], [-0.1, 1.1]),
    (c.greater_than(1.0), [1.1], [1.0]),
    (c.simplex, [[0.2, 0.8]], [[0.2, 0.7], [-0.1, 1.1]]),
    (c.one_hot, [[0.0, 1.0]], [[1.0, 1.0], [0.5, 0.5]]),
    (c.multinomial(3), [[1.0, 2.0]], [[3.0, 1.0], [-1.0, 2.0]]),
    (c.lower_triangular, [[[1.0, 0.0], [2.0, -3.0]]], [[[1.0, 1.0], [0.0, 1.0]]]),
    (c.lower_cholesky, [[[1.0, 0.0], [2.0, 3.0]]], [[[1.0, 0.0], [2.0, -3.0]]]),
    (c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]]], [[[1.0, 0.0], [0.6, 0.9]]]),
    (c.symmetric, [[[1.0, 2.0], [2.0, 1.0]]], [[[1.0, 2.0], [3.0, 1.0]]]),
    (c.positive_definite, [[[2.0, 1.0], [1.0, 2.0]]], [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]),
    (c.positive_semidefinite, [[[1.0, 0.0], [0.0, 0.0]]], [[[1.0, 2.0], [2.0, 1.0]]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("constraint", "inside", "outside"), INSIDE, ids=[repr(i[0]) for i in INSIDE]
)
def test_constraints(constraint, inside, outside):
    assert bool(constraint.check(t(inside)).all())
    assert not bool(constraint.check(t(outside)).any())


def test_the_checks_of_distributions_can_be_switched_off():
    assert d.Normal(0.0, -1.0, validate_args=False).scale == -1
    d.Distribution.set_default_validate_args(False)
    try:
        d.Normal(0.0, -1.0).log_prob(t(float("nan")))
    finally:
        d.Distribution.set_default_validate_args(True)
    with pytest.raises(
        ValueError,
        match=r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal",
    ):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="to be within the support"):
        d.Exponential(1.0).log_prob(t(-1.0))
    with pytest.raises(ValueError, match="must be a Tensor"):
        d.Exponential(1.0).log_prob(1.0)
