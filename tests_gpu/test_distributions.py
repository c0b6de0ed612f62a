"""Distributions on a device: what they say, their gradients, draws, divergences and transforms are those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as torch
from gradlib import distributions as d
from tests.distributions.family import FAMILY, errors_of_mean, facts, parameters
from tests.distributions.test_divergences import MAKERS, PAIRS

pytestmark = pytest.mark.filterwarnings("ignore:Low df values", "ignore:Singular sample detected")
BATCH = 3


def on_host(x: torch.Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()


def of(name: str, device: str) -> list[torch.Tensor]:
    return [p.to(device).requires_grad_() for p in parameters(name, (BATCH,))]


@pytest.mark.parametrize("name", FAMILY)
def test_what_it_says_of_itself(name):
    make, _ = FAMILY[name]
    x = make(*parameters(name, (BATCH,))).sample()
    found = []
    for device in ("cpu", "cuda"):
        given = of(name, device)
        p = torch.full((BATCH,), 0.3, dtype=torch.float64, device=device)
        said = dict(facts(make(*given), x.to(device), p))
        assert {value.device.type for value in said.values()} == {device}
        grads = torch.autograd.grad(said["log_prob"].sum(), given, allow_unused=True)
        numbers = {what: on_host(value) for what, value in said.items()}
        found.append((numbers, [on_host(g) for g in grads if g is not None]))
    (host, slopes), (there, slopes_there) = found
    assert host.keys() == there.keys() and len(slopes) == len(slopes_there)
    for what, value in host.items():
        np.testing.assert_allclose(there[what], value, 1e-8, 1e-10, err_msg=what)
    for a, b in zip(slopes_there, slopes, strict=True):
        np.testing.assert_allclose(a, b, 1e-8, 1e-10)


@pytest.mark.parametrize("name", FAMILY)
def test_draws(name):
    """On the device, inside the support, of the right mean; their gradients reach the parameters."""
    make, _ = FAMILY[name]
    given, n = of(name, "cuda"), 2000
    made = make(*given)
    drawn = made.rsample((n,)) if made.has_rsample else made.sample((n,))
    assert drawn.is_cuda and drawn.shape == (n, BATCH, *made.event_shape)
    assert bool(made.support.check(drawn.detach()).all())
    if made.has_rsample:
        grads = torch.autograd.grad(drawn.sum(), given, allow_unused=True)
        assert any(g is not None for g in grads)
        assert all(np.isfinite(on_host(g)).all() for g in grads if g is not None)
    assert (errors_of_mean(made, drawn) < 6).all()


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_divergences(p, q):
    found = []
    for device in ("cpu", "cuda"):
        with torch.device(device):
            value = d.kl_divergence(MAKERS[p][0](), MAKERS[q][1]())
        assert value.device.type == device
        found.append(on_host(value))
    np.testing.assert_allclose(found[1], found[0], 1e-8, 1e-10)


TRANSFORMS = {
    "Affine": lambda like: d.AffineTransform(like[0], 2.0),
    "Cat": lambda like: d.CatTransform([d.ExpTransform(), d.SigmoidTransform()], -1, [1, 2]),
    "CorrCholesky": lambda like: d.CorrCholeskyTransform(),
    "CumulativeDistribution": lambda like: d.CumulativeDistributionTransform(d.Normal(like[0], 1.0)),
    "Power": lambda like: d.ComposeTransform([d.ExpTransform(), d.PowerTransform(like.new_tensor(1.5))]),
    "Reshape": lambda like: d.ReshapeTransform((3,), (3, 1)),
    "Softplus": lambda like: d.SoftplusTransform(),
    "Stack": lambda like: d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.SigmoidTransform()], -1),
    "StickBreaking": lambda like: d.StickBreakingTransform(),
    "Tanh": lambda like: d.TanhTransform(cache_size=1),
    "interval": lambda like: d.biject_to(d.constraints.interval(-1.0, 2.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    x = torch.tensor([[0.3, -0.7, 1.1], [0.2, 0.5, -1.3]], dtype=torch.float64)
    found = []
    for device in ("cpu", "cuda"):
        here = x.to(device).requires_grad_()
        f = TRANSFORMS[name](here.detach())
        y = f(here)
        jacobian = f.log_abs_det_jacobian(here, y)
        (slope,) = torch.autograd.grad(y.sum() + jacobian.sum(), here)
        assert bool(f.codomain.check(y.detach()).all())
        found.append([on_host(v) for v in (y, f.inv(y), jacobian, slope)])
    for there, host in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(there, host, 1e-9, 1e-11)


MATRICES = [d.constraints.lower_cholesky, d.constraints.positive_definite]


@pytest.mark.parametrize("constraint", MATRICES, ids=repr)
def test_matrices_are_transformed_to_their_constraint(constraint):
    x = torch.arange(9.0, dtype=torch.float64).reshape(3, 3).sin()
    there = d.transform_to(constraint)(x.cuda())
    assert there.is_cuda and bool(constraint.check(there).all())
    np.testing.assert_allclose(on_host(there), on_host(d.transform_to(constraint)(x)), 1e-9)


def test_errors_name_values_of_the_device():
    scale = torch.tensor([1.0, -2.0]).cuda()
    with pytest.raises(ValueError, match=r"Expected parameter scale (.|\n)*-2\."):
        d.Normal(0.0, scale)
