"""A variational autoencoder, a normalizing flow and a Gaussian mixture train to the same losses as on PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

STEPS = 12
RNG = np.random.default_rng(0)
IMAGES = (RNG.random((STEPS, 16, 12)) < 0.3).astype(float)
NOISE = RNG.standard_normal((STEPS, 16, 2))
POINTS = np.concatenate([RNG.normal(-2, 0.5, (40, 2)), RNG.normal(1, 1.0, (60, 2))])


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape) * 0.3


def train(lib: Any, parameters: list[Any], loss: Callable[[int], Any]) -> list[float]:
    """The losses of some steps of Adam."""
    optimizer, losses = lib.optim.Adam(parameters, lr=0.05), []
    for step in range(STEPS):
        optimizer.zero_grad()
        value = loss(step)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def autoencoder(lib: Any) -> list[float]:
    d = lib.distributions
    encoder, decoder = lib.nn.Linear(12, 4).double(), lib.nn.Linear(2, 12).double()
    parameters = [*encoder.parameters(), *decoder.parameters()]
    with lib.no_grad():
        for seed, p in enumerate(parameters):
            p.copy_(lib.tensor(numbers(seed, *p.shape)))

    def loss(step: int) -> Any:
        x = lib.tensor(IMAGES[step])
        mean, raw = encoder(x).chunk(2, -1)
        posterior = d.Independent(d.Normal(mean, lib.nn.functional.softplus(raw)), 1)
        z = posterior.mean + posterior.stddev * lib.tensor(NOISE[step])
        prior = d.Independent(d.Normal(lib.zeros_like(mean), 1.0), 1)
        seen = d.Independent(d.Bernoulli(logits=decoder(z)), 1).log_prob(x)
        return (d.kl_divergence(posterior, prior) - seen).mean()

    return train(lib, parameters, loss)


def flow(lib: Any) -> list[float]:
    d, t = lib.distributions, lib.distributions.transforms
    loc, log_scale, bend = (lib.tensor(numbers(seed, 2), requires_grad=True) for seed in (1, 2, 3))
    weights = lib.tensor(numbers(4, 3), requires_grad=True)

    def loss(step: int) -> Any:
        made = d.TransformedDistribution(
            d.StudentT(weights.exp().sum() + 2, lib.zeros(2).double(), 1.0),
            [
                t.AffineTransform(loc, log_scale.exp()),
                t.ComposeTransform([t.AffineTransform(0.0, bend.exp()), t.SoftplusTransform()]),
                t.ExpTransform().inv,
            ],
        )
        return -d.Independent(made, 1).log_prob(lib.tensor(POINTS)).mean()

    return train(lib, [loc, log_scale, bend, weights], loss)


def mixture(lib: Any) -> list[float]:
    d = lib.distributions
    logits = lib.tensor(numbers(5, 3), requires_grad=True)
    means = lib.tensor(numbers(6, 3, 2), requires_grad=True)
    raw = lib.tensor(numbers(7, 3, 2, 2), requires_grad=True)

    def loss(step: int) -> Any:
        factors = d.transform_to(d.constraints.lower_cholesky)(raw)
        components = d.MultivariateNormal(means, scale_tril=factors)
        made = d.MixtureSameFamily(d.Categorical(logits=logits), components)
        return -made.log_prob(lib.tensor(POINTS)).mean()

    return train(lib, [logits, means, raw], loss)


@pytest.mark.parametrize("program", [autoencoder, flow, mixture])
def test_both_libraries_train_to_the_same_losses(program):
    ours, theirs = (program(importlib.import_module(name)) for name in ("gradlib", "torch"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    assert ours[-1] < ours[0]
