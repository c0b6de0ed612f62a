"""The whole family of distributions as functions of their parameters: for vmap and for devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gradlib as gl
from gradlib import distributions as d

from .test_shapes import SCALAR


def definite(root: gl.Tensor) -> gl.Tensor:
    """A positive definite matrix of any matrix."""
    return root @ root.mT + gl.eye(root.shape[-1], dtype=root.dtype, device=root.device)


def relaxed(kind: Any, logits: gl.Tensor) -> d.Distribution:
    return kind(logits.new_tensor(0.7), logits=logits)


def flow(loc: gl.Tensor, scale: gl.Tensor) -> d.Distribution:
    """One with a cached bijection, as programs of reinforcement learning have it."""
    squashed = [d.AffineTransform(loc, scale), d.TanhTransform(cache_size=1)]
    return d.TransformedDistribution(d.Normal(loc, scale), squashed)


MIXED = d.MixtureSameFamily
# of each: what makes it of parameters between 0.5 and 1.5, and the shapes of those for one entry of a batch
FAMILY: dict[str, tuple[Callable[..., d.Distribution], tuple[tuple[int, ...], ...]]] = {
    **{name: (make, ((), ())) for name, make in SCALAR.items() if name != "RelaxedBernoulli"},
    "RelaxedBernoulli": (lambda a: relaxed(d.RelaxedBernoulli, a), ((),)),
    "Bernoulli of probabilities": (lambda a: d.Bernoulli(a / 2), ((),)),
    "Categorical": (d.Categorical, ((3,),)),
    "Dirichlet": (d.Dirichlet, ((3,),)),
    "Independent": (lambda a, b: d.Independent(d.Normal(a, b), 1), ((3,), (3,))),
    "LKJCholesky": (lambda a: d.LKJCholesky(3, a), ((),)),
    "LogisticNormal": (d.LogisticNormal, ((2,), (2,))),
    "LowRankMultivariateNormal": (d.LowRankMultivariateNormal, ((3,), (3, 1), (3,))),
    "MixtureSameFamily": (lambda p, a, b: MIXED(d.Categorical(p), d.Normal(a, b)), ((2,), (2,), (2,))),
    "MixtureSameFamily of vectors": (
        lambda p, a, b: MIXED(d.Categorical(p), d.Independent(d.Normal(a, b), 1)), ((2,), (2, 3), (2, 3))
    ),
    "Multinomial": (lambda p: d.Multinomial(3, p), ((3,),)),
    "MultivariateNormal": (lambda m, r: d.MultivariateNormal(m, definite(r)), ((3,), (3, 3))),
    "MultivariateNormal of a precision": (
        lambda m, r: d.MultivariateNormal(m, precision_matrix=definite(r)), ((3,), (3, 3))
    ),
    "OneHotCategorical": (d.OneHotCategorical, ((3,),)),
    "OneHotCategoricalStraightThrough": (d.OneHotCategoricalStraightThrough, ((3,),)),
    "RelaxedOneHotCategorical": (lambda a: relaxed(d.RelaxedOneHotCategorical, a), ((3,),)),
    "TransformedDistribution": (flow, ((), ())),
    "Wishart": (lambda df, r: d.Wishart(df + 3, definite(r)), ((), (2, 2))),
}  # fmt: skip


def parameters(name: str, batch: tuple[int, ...], dtype=gl.float64) -> list[gl.Tensor]:
    """Parameters between 0.5 and 1.5, the same in each run."""
    draw = np.random.default_rng(len(name))
    shapes = FAMILY[name][1]
    return [gl.tensor(draw.random(batch + shape) + 0.5, dtype=dtype) for shape in shapes]


def facts(made: d.Distribution, x: gl.Tensor, p: gl.Tensor) -> Iterator[tuple[str, gl.Tensor]]:
    """What a distribution says of itself and of a value `x`, as far as it says it; `p` are probabilities."""
    asked: dict[str, Callable[[], Any]] = {
        "log_prob": lambda: made.log_prob(x),
        "cdf": lambda: made.cdf(x),
        "icdf": lambda: made.icdf(p),
        "entropy": made.entropy,
        "mean": lambda: made.mean,
        "variance": lambda: made.variance,
        "mode": lambda: made.mode,
    }
    for what, ask in asked.items():
        try:
            yield what, ask()
        except NotImplementedError:
            continue


def errors_of_mean(made: d.Distribution, drawn: gl.Tensor) -> np.ndarray:
    """How far the mean of draws (n, ...) is from that of the distribution, in standard errors, where it has one."""
    drawn = drawn.detach().cpu()
    if isinstance(made, d.VonMises):  # of an angle: what is left and right of the mean is as much
        return np.abs((drawn - made.loc.detach().cpu()).sin().mean(0).numpy()) * len(drawn) ** 0.5
    try:
        mean, spread = (x.detach().cpu().numpy() for x in (made.mean, made.stddev))
    except NotImplementedError:
        return np.zeros(1)
    known = np.isfinite(spread) & (spread > 0)
    return np.abs(drawn.double().numpy().mean(0) - mean)[known] / spread[known] * len(drawn) ** 0.5
