"""The whole family of distributions under vmap over its parameters: densities, moments, draws, divergences, errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib import distributions as d
from gradlib.distributions.kl import _KL_REGISTRY
from gradlib.func import grad, vmap

from .family import FAMILY, errors_of_mean, facts, parameters

pytestmark = pytest.mark.filterwarnings("ignore:Low df values")
BATCH = 4


def close(have: gl.Tensor, want: gl.Tensor) -> None:
    np.testing.assert_allclose(have.numpy(), want.numpy(), 1e-9, 1e-11)


def test_the_family_is_all():
    public = {n for n in d.__all__ if isinstance(getattr(d, n), type)}
    all_of_them = {n for n in public if issubclass(getattr(d, n), d.Distribution)}
    assert all_of_them - {"Distribution", "ExponentialFamily"} <= set(FAMILY)


@pytest.mark.parametrize("name", FAMILY)
def test_what_it_says_of_itself(name):
    make, _ = FAMILY[name]
    given = parameters(name, (BATCH,))
    whole = make(*given)
    x = whole.sample()
    p = gl.full((BATCH,), 0.3, dtype=gl.float64)
    want = dict(facts(whole, x, p))
    have = vmap(lambda x, p, *given: dict(facts(make(*given), x, p)))(x, p, *given)
    assert have.keys() == want.keys() and "log_prob" in have
    for what in want:
        close(have[what], want[what])


@pytest.mark.parametrize("name", FAMILY)
def test_gradients_of_densities_over_some_of_the_parameters(name):
    make, _ = FAMILY[name]
    first, *rest = parameters(name, (BATCH,))
    rest = [p[0] for p in rest]  # the same for all entries
    x = make(first[0], *rest).sample()
    slope = vmap(grad(lambda p: make(p, *rest).log_prob(x).sum()))(first)
    for i in range(BATCH):
        p = first[i].clone().requires_grad_()
        (want,) = gl.autograd.grad(make(p, *rest).log_prob(x).sum(), p)
        close(slope[i], want)


@pytest.mark.parametrize("name", FAMILY)
def test_draws(name):
    """The same draw for all entries is that of a loop; different draws have their own parameters' mean."""
    make, _ = FAMILY[name]
    given = parameters(name, (BATCH,))

    def draw(*given, shape=(2,)):
        made = make(*given)
        return made.rsample(shape) if made.has_rsample else made.sample(shape)

    with pytest.raises(RuntimeError, match="random"):
        vmap(draw)(*given)
    gl.manual_seed(3)
    same = vmap(draw, randomness="same")(*given)
    for i in range(BATCH):
        gl.manual_seed(3)
        close(same[i], draw(*[p[i] for p in given]))
    n = 2000
    drawn = vmap(lambda *given: draw(*given, shape=(n,)), randomness="different")(*given)
    whole = make(*given)
    assert drawn.shape == (BATCH, n, *whole.event_shape)
    assert bool(whole.support.check(drawn.transpose(0, 1)).all())
    assert (errors_of_mean(whole, drawn.transpose(0, 1)) < 6).all()


SAME = sorted(
    (p.__name__, q.__name__) for p, q in _KL_REGISTRY if {p.__name__, q.__name__} <= set(FAMILY)
)


@pytest.mark.parametrize(("p", "q"), SAME)
def test_divergences(p, q):
    if (p, q) == ("TransformedDistribution", "TransformedDistribution"):
        p = q = "LogNormal"  # of which the transforms are those of the other
    first, second = parameters(p, (BATCH,)), [x + 0.25 for x in parameters(q, (BATCH,))]
    n = len(first)

    def divergence(*given):
        return d.kl_divergence(FAMILY[p][0](*given[:n]), FAMILY[q][0](*given[n:]))

    close(vmap(divergence)(*first, *second), divergence(*first, *second))


def test_an_entry_outside_of_a_constraint_is_named():
    scale = gl.tensor([1.0, -2.0, 3.0])
    with pytest.raises(
        ValueError, match=r"Expected parameter scale .* of distribution Normal(.|\n)*-2\."
    ):
        vmap(lambda s: d.Normal(gl.zeros(()), s).log_prob(gl.zeros(())))(scale)
    with pytest.raises(ValueError, match="within the support"):
        vmap(lambda x: d.Exponential(1.0).log_prob(x))(scale)
    with pytest.raises(ValueError, match="expected to be greater than ndim - 1 = 1"):
        vmap(lambda df: d.Wishart(df, gl.eye(2)).mean)(gl.tensor([3.0, 0.5]))
    with pytest.raises(NotImplementedError, match="Inhomogeneous total count"):
        vmap(lambda n: d.Binomial(n, gl.tensor(0.5)).entropy())(gl.tensor([3.0, 2.0]))


@pytest.mark.parametrize(
    "make",
    [
        d.ExpTransform, d.SigmoidTransform, d.TanhTransform, d.SoftplusTransform, d.StickBreakingTransform,
        d.CorrCholeskyTransform, lambda: d.TanhTransform(cache_size=1),
        lambda: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.TanhTransform()]),
        lambda: d.ReshapeTransform((3,), (3, 1)),
        lambda: d.CatTransform([d.ExpTransform(), d.SigmoidTransform()], -1, [1, 2]),
        lambda: d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.SigmoidTransform()], -1),
        lambda: d.transform_to(d.constraints.interval(-1.0, 2.0)),
        lambda: d.biject_to(d.constraints.simplex),
    ],
)  # fmt: skip
def test_transforms(make):
    x = gl.randn(BATCH, 3, dtype=gl.float64) / 2

    def there_and_back(x):
        f = make()
        y = f(x)
        return y, f.inv(y), f.log_abs_det_jacobian(x, y)

    for have, want in zip(vmap(there_and_back)(x), there_and_back(x), strict=True):
        close(have, want)
