"""Draws with given probabilities: bernoulli, poisson, binomial, multinomial."""

from __future__ import annotations

import numpy as np

from ...op.expose import function, need_tensor, refuse_recording
from ...op.vmap import draws
from ...tape import dtypes, errors
from ...tape.device import beside
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor
from ..create.base import finish
from ..kinds import refuse
from .draw import draw_new, host_rng, host_values, on_device, require


def _are_chances(array):
    return (array >= 0) & (array <= 1)


def check_chances(chance) -> None:
    """RuntimeError unless all probabilities are in [0, 1]."""
    if isinstance(chance, Tensor) and chance.is_meta:
        return
    if isinstance(chance, Tensor):
        text = "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
        require("bernoulli", chance, _are_chances, text)
    elif not 0 <= chance <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={chance}")


def _bernoulli(rng, shape: tuple, below, dtype):
    return (rng.random(shape) < below).astype(dtype)


@function("bernoulli", method=True)
@draws
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with probability `p` (or the element of `input`), else 0; not differentiable.

    Raises RuntimeError: a probability outside of [0, 1].

    Example:
        >>> gradlib.bernoulli(gradlib.ones(2))
        tensor([1., 1.])
    """
    if not isinstance(input, Tensor):
        raise need_tensor("bernoulli", input)
    if p is None:
        refuse("bernoulli_tensor_cpu_p_", input, "biuc")
    chance = input if p is None else p
    check_chances(chance)
    below, array = raw_values(chance) if isinstance(chance, Tensor) else chance, input._array
    with beside(array):
        values = draw_new(generator, input.device, _bernoulli, array.shape, below, array.dtype)
    refuse_recording("bernoulli", out, input, p)
    return finish(values if out is None else values.astype(out._array.dtype), out=out)


@function("poisson")
@draws
def poisson(input, generator=None):
    """Poisson distributed numbers.

    Args:
        input: the rates, a floating tensor with elements of 0 or more.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        A tensor of the same shape and dtype; its gradient is 0.

    Raises:
        RuntimeError: a negative rate.

    Example:
        >>> gradlib.poisson(gradlib.zeros(2))
        tensor([0., 0.])
    """
    refuse("poisson_cpu", input, "biuc")
    values = draw_new(generator, input.device, _poisson, host_values("poisson", input))
    return finish(on_device(values, input.device))


def _poisson(rng, rates):
    if not (rates >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return np.asarray(host_rng(rng).poisson(rates.astype(np.float64))).astype(rates.dtype)


@function("binomial")
@draws
def binomial(count, prob, generator=None):
    """Numbers of successes in independent trials.

    Args:
        count: how many trials, a floating tensor.
        prob: the probability of success, a tensor of that dtype that broadcasts with `count`.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        A tensor of the shape that both broadcast to; its gradient is 0.

    Raises:
        RuntimeError: the shapes do not broadcast, or the dtypes differ.
        ValueError: integers, or a probability outside of [0, 1].

    Example:
        >>> gradlib.binomial(gradlib.tensor([3.0, 4.0]), gradlib.tensor([1.0, 0.0]))
        tensor([3., 0.])
    """
    kinds = []
    for i, (name, t) in enumerate((("count", count), ("prob", prob))):
        if not isinstance(t, Tensor):
            raise need_tensor("binomial", t, name, i + 1)
        kinds.append(t.dtype.scalar_type)
        if not t.is_floating_point():
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {kinds[-1]}"
            )
    errors.check_broadcast(count._array.shape, prob._array.shape)
    if kinds[0] != kinds[1]:
        raise RuntimeError(f"Found dtype {kinds[1]} but expected {kinds[0]}")
    given = [host_values("binomial", t) for t in (count, prob)]
    return finish(on_device(draw_new(generator, count.device, _binomial, *given), count.device))


def _binomial(rng, trials, chances):
    values = host_rng(rng).binomial(trials.astype(np.int64), chances.astype(np.float64))
    return np.asarray(values).astype(trials.dtype)


@function("multinomial", method=True)
@draws
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with the (unnormalised) probabilities in each row of `input`; int64, not differentiable.

    Raises RuntimeError: negative, infinite or nan weights, a row without weight, or more draws than entries.

    Example:
        >>> gradlib.multinomial(gradlib.tensor([0.0, 1.0]), 1)
        tensor([1])
    """
    if not input.is_floating_point():
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            + input.dtype.scalar_type
        )
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_type}")
    if input._array.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    given = host_values("multinomial", input), num_samples, bool(replacement)
    found = draw_new(generator, input.device, _multinomial, *given)
    return finish(on_device(found, input.device), out=out)


def _multinomial(rng, weights, num_samples: int, replacement: bool):
    weights = weights.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    rows = weights.reshape(-1, weights.shape[-1])
    if (rows.sum(1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    rng = host_rng(rng)
    if replacement:
        edges = np.cumsum(rows, 1)
        draws = rng.random((rows.shape[0], num_samples)) * edges[:, -1:]
        found = np.stack(
            [np.searchsorted(e, d, side="right") for e, d in zip(edges, draws, strict=True)]
        )
        found = np.minimum(found, weights.shape[-1] - 1)
    else:  # the smallest of independent exponential clocks with these rates come first
        clocks = rng.exponential(size=rows.shape) / np.where(rows > 0, rows, 1e-300)
        found = np.argsort(clocks, 1)[:, :num_samples]
    return found.reshape(*weights.shape[:-1], num_samples).astype(np.int64)
